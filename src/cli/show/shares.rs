//! The shares that a record was merged from, or the one that it is about.

use std::collections::BTreeSet;

use super::page::Page;
use crate::record::readable::{duration, rate};
use crate::record::{MergedShare, Record};

/// Shares whose figures are shown one by one.
const SHOWN: usize = 8;

pub(super) fn shares(page: &mut Page, record: &Record) {
    if let Some(share) = &record.share {
        page.labelled("share", &format!("{} of {}", share.number, share.count));
    }
    let Some(first) = record.shares.first() else { return };
    let machine =
        |of: &MergedShare| (of.share.boot_id.clone(), of.hostname.clone().filter(|_| of.share.boot_id.is_none()));
    let machines = record.shares.iter().map(machine).collect::<BTreeSet<_>>().len();
    let plural = if machines == 1 { "machine" } else { "machines" };
    let begun =
        apart_ns(record).map(|apart| format!(", first messages due within {}", duration(apart))).unwrap_or_default();
    let counted = format!("{} of {}, on {machines} {plural}{begun}", record.shares.len(), first.share.count);
    page.labelled("shares", &counted);
    for of in record.shares.iter().take(SHOWN) {
        let host = of.hostname.as_deref().unwrap_or("unknown host");
        let doubt = if of.valid { "" } else { ", not valid" };
        let figures = format!("{} messages/s, {:.2} cores", rate(of.messages_per_second), of.cores_used);
        page.labelled("", &format!("{}: {figures}, {host}{doubt}", of.share.number));
    }
    if record.shares.len() > SHOWN {
        page.labelled("", &format!("and {} more", record.shares.len() - SHOWN));
    }
}

/// Nanoseconds from the earliest time at which a share's first message was due to the latest; `None` where no time was set.
fn apart_ns(record: &Record) -> Option<f64> {
    let begins = record.shares.iter().map(|of| of.start.as_ref().map(|start| start.began_at.as_nanosecond()));
    let begins = begins.collect::<Option<Vec<i128>>>()?;
    Some((begins.iter().max()? - begins.iter().min()?) as f64)
}
