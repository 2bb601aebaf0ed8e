//! The shares that a record was merged from, or the one that it is about.

use std::collections::BTreeSet;

use super::page::Page;
use crate::record::readable::rate;
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
    page.labelled("shares", &format!("{} of {}, on {machines} {plural}", record.shares.len(), first.share.count));
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
