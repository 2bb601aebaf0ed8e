//! The account of messages.

use super::{Part, Section, texts};
use crate::record::Record;
use crate::record::readable::{bytes, count, percent};
use crate::report::figure::Table;
use crate::report::svg::escape;

/// Of all trials together.
pub fn section(records: &[&Record]) -> Option<Section> {
    let sum = |of: fn(&Record) -> u64| records.iter().map(|record| of(record)).sum::<u64>();
    let attempted = sum(|record| record.counts.attempted);
    let outcomes = [
        ("acknowledged", sum(|record| record.counts.acknowledged)),
        ("failed", sum(|record| record.counts.failed)),
        ("without an answer", sum(|record| record.counts.unresolved)),
    ];
    let mut rows = vec![vec!["attempted".to_owned(), count(attempted), "100 %".to_owned()]];
    let share = |number: u64| percent(number as f64 / attempted.max(1) as f64);
    rows.extend(outcomes.map(|(name, number)| vec![name.to_owned(), count(number), share(number)]));
    let unsent = sum(|record| record.counts.unsent);
    if unsent > 0 {
        rows.push(vec!["due, and never sent".to_owned(), count(unsent), share(unsent)]);
    }
    let table =
        Table { heads: texts(&["measured messages", "number", "share of attempted"]), rows, ..Table::default() };
    let balanced = records.iter().filter(|record| record.counts.balances()).count();
    let adds_up = if balanced == records.len() {
        "The account adds up: every message that was attempted has exactly one outcome."
    } else {
        "The account does not add up: this is a bug of brokermark."
    };
    let payload = bytes(records.iter().map(|record| record.counts.payload_bytes_acknowledged as f64).sum());
    let mut parts =
        vec![Part::Html(format!("<p>{adds_up} {payload} of payload were acknowledged.</p>{}", table.html()))];
    let arrived = arrived(records);
    if !arrived.rows.is_empty() {
        parts.push(Part::Html(format!("<h3>What arrived</h3>{}", arrived.html())));
    } else {
        parts.push(Part::Html(format!(
            "<p>{}</p>",
            escape("Arrival was not verified, so nothing is known of losses after the acknowledgement.")
        )));
    }
    Section::of("ledger", "The account of messages", parts)
}

fn arrived(records: &[&Record]) -> Table {
    let found: Vec<_> = records.iter().filter_map(|record| record.verification.as_ref()).collect();
    if found.is_empty() {
        return Table::default();
    }
    let sum = |of: fn(&crate::record::Verification) -> u64| found.iter().map(|found| of(found)).sum::<u64>();
    let all = [
        ("received", sum(|found| found.received)),
        ("lost", sum(|found| found.lost)),
        ("acknowledged and not read in time", sum(|found| found.unread)),
        ("not known whether received", sum(|found| found.undecided)),
        ("delivered twice", sum(|found| found.duplicated)),
        ("delivered again, as announced", sum(|found| found.redelivered)),
        ("out of order", sum(|found| found.reordered)),
        ("damaged", sum(|found| found.corrupt)),
        ("not acknowledged, but stored", sum(|found| found.not_acknowledged_but_stored)),
        ("of others", sum(|found| found.foreign)),
    ];
    // What never happened is worth a row only where it would be a loss.
    let shown =
        all.into_iter().enumerate().filter(|(index, (_, number))| *number > 0 || matches!(index, 0 | 1 | 4 | 7));
    let mut note = "The warm-up's messages are among them.".to_owned();
    if found.iter().any(|found| found.saturated) {
        note += " The verifier's memory was exceeded, so these are lower bounds.";
    }
    let rows = shown.map(|(_, (name, number))| vec![name.to_owned(), count(number)]).collect();
    Table { note, heads: texts(&["messages", "number"]), rows }
}
