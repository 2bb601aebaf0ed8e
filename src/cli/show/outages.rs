//! Where acknowledgements stopped, a line each.

use super::page::Page;
use crate::record::readable::{SLEEPER, count, duration, rate};
use crate::record::{Outage, Record};

/// More than these are in the record alone.
const SHOWN: usize = 5;

pub(super) fn outages(page: &mut Page, record: &Record) {
    for (index, outage) in record.outages.iter().take(SHOWN).enumerate() {
        page.labelled(if index == 0 { "outages" } else { "" }, &sentence(outage));
    }
    let more = record.outages.len().saturating_sub(SHOWN);
    if more > 0 {
        page.labelled("", &format!("and {} more", count(more as u64)));
    }
}

fn sentence(outage: &Outage) -> String {
    let after = |ns: u64| duration(ns as f64);
    let first = match outage.first_acknowledgement_ns {
        Some(first_ns) => format!("the next acknowledgement after {}", after(first_ns)),
        None => "no acknowledgement followed".to_owned(),
    };
    let expected = rate(outage.expected_per_second);
    let recovered = match outage.recovered_ns {
        Some(recovered_ns) => format!("95 % of {expected}/s held again after {}", after(recovered_ns)),
        None => format!("95 % of {expected}/s not held again"),
    };
    let paused = match (outage.client_paused_ns, outage.caused_by_client) {
        (0, _) => String::new(),
        (paused_ns, false) => format!("; {SLEEPER} for {} of the gap", after(paused_ns)),
        (paused_ns, true) => format!("; {SLEEPER} for {} of the gap: it may not be the broker's", after(paused_ns)),
    };
    format!("at {}: {first}, longest gap {}, {recovered}{paused}", after(outage.begin_ns), after(outage.longest_gap_ns))
}
