//! What speaks against a merged record and only its shares together show: shares that are missing or apart, clocks that differ, machines
//! that are not alike.

use std::collections::{BTreeMap, BTreeSet};

use super::{KeptShare, client, saturating_sum, sections};
use crate::record::ReasonKind::*;
use crate::record::readable::{duration, percent};
use crate::record::{LostRank, Reason, ReasonKind, Record};

/// Share of the median end-to-end latency up to which the clocks of machines may differ.
const MAX_CLOCK_SHARE: f64 = 0.1;

/// Missing shares that are named one by one.
const MAX_NAMED: usize = 32;

/// What was found.
pub(super) struct Findings {
    /// They make the record invalid.
    pub reasons: Vec<Reason>,
    pub notes: Vec<Reason>,
}

/// `record`: the merged one.
pub(super) fn findings(record: &Record, shares: &[KeptShare]) -> Findings {
    let mut reasons: Vec<Reason> = missing(shares, &record.lost_ranks).into_iter().chain(apart(shares)).collect();
    let mut notes: Vec<Reason> = unequal_machines(shares).into_iter().collect();
    match clocks(record, shares) {
        Some((true, reason)) => reasons.push(reason),
        Some((false, note)) => notes.push(note),
        None => {}
    }
    Findings { reasons, notes }
}

/// A finding. `figures`: those that it was made from.
pub(super) fn reason(kind: ReasonKind, evidence: String, advice: &str, figures: &[(&str, f64)]) -> Reason {
    let figures = figures.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Reason { kind, evidence, advice: advice.to_owned(), figures }
}

fn missing(shares: &[KeptShare], lost: &[LostRank]) -> Option<Reason> {
    let count = shares.first()?.record.share.as_ref()?.count;
    let present: BTreeSet<_> =
        shares.iter().map(KeptShare::number).filter(|number| (1..=count).contains(number)).collect();
    let missing = count - present.len();
    // The count is what a file says: it may be any number.
    let named = (1..=count).filter(|number| !present.contains(number)).take(MAX_NAMED);
    let mut named: Vec<String> = named.map(|number| number.to_string()).collect();
    if missing > MAX_NAMED {
        named.push(format!("and {} more", missing - MAX_NAMED));
    }
    (missing > 0).then(|| {
        reason(
            ShareMissing,
            format!(
                "{} of {count} shares are here; missing: {}.{}",
                shares.len(),
                named.join(", "),
                lost.iter().map(what_is_missing).collect::<String>()
            ),
            "If a process died, run the scenario again: its messages are in no figure. If `brokermark merge` was not given the directories of all shares, give it those.",
            &[("shares", shares.len() as f64), ("missing", missing as f64)],
        )
    })
}

fn what_is_missing(lost: &LostRank) -> String {
    let what = if lost.failed { "has failed" } else { "was lost" };
    format!(
        " Rank {} on {} {what} ({}, phase: {}): {} messages that it had handed over until then and {} acknowledgements are in no figure.",
        lost.number - 1,
        lost.hostname.as_deref().unwrap_or("an unknown host"),
        lost.reason,
        lost.phase,
        lost.attempted,
        lost.acknowledged
    )
}

fn apart(shares: &[KeptShare]) -> Option<Reason> {
    let (overlap, (begin_ns, end_ns)) = (sections::overlap(shares), sections::window(shares));
    (overlap < sections::MIN_OVERLAP).then(|| {
        reason(
            SharesApart,
            format!(
                "The measured windows of all shares overlap by {} of the {} that they cover.",
                percent(overlap),
                duration((end_ns - begin_ns) as f64)
            ),
            "End the load by `run.duration`, so that all windows end together. Shares that MPI did not start begin together by `--start-at`, late enough for every one to be ready.",
            &[("overlap", overlap), ("covered_ns", (end_ns - begin_ns) as f64)],
        )
    })
}

/// How far the clocks may be apart between which end-to-end latency was measured, and whether that is too much.
fn clocks(record: &Record, shares: &[KeptShare]) -> Option<(bool, Reason)> {
    let latency = record.latency.end_to_end.as_ref()?;
    if client::machines(shares) < 2 || record.times_own_messages() {
        return None;
    }
    let of_shares = || shares.iter().filter_map(|share| share.record.share.as_ref());
    let early = saturating_sum(of_shares().map(|share| share.before_intended));
    let earliest_ns = of_shares().map(|share| share.most_before_intended_ns).max().unwrap_or(0) as f64;
    let bound = clock_uncertainty_ns(shares);
    let is_too_much = bound.is_none_or(|bound| bound as f64 > MAX_CLOCK_SHARE * latency.p50_ns as f64) || early > 0;
    let known = match bound {
        Some(bound) => format!("The clocks of the machines may differ by up to {}", duration(bound as f64)),
        None => "It is not known how far the clocks of the machines differ: one is not synchronised, or its system does not tell".to_owned(),
    };
    let seen = match early {
        0 => String::new(),
        early => {
            format!(
                "; {early} messages arrived before they were intended, by up to {}, and count as 0",
                duration(earliest_ns)
            )
        }
    };
    let mut figures = vec![
        ("before_intended", early as f64),
        ("most_before_intended_ns", earliest_ns),
        ("end_to_end_p50_ns", latency.p50_ns as f64),
    ];
    figures.extend(bound.map(|bound| ("clock_uncertainty_ns", bound as f64)));
    Some((
        is_too_much,
        reason(
            ClocksDiffer,
            format!(
                "{known}, and end-to-end latency is measured between them (median {}){seen}.",
                duration(latency.p50_ns as f64)
            ),
            "Synchronise the clocks (chrony, PTP), or record only messages whose two ends have one clock: `consumers.timing = \"own\"`.",
            &figures,
        ),
    ))
}

/// Most that two of the machines' clocks may differ; `None`: not known.
fn clock_uncertainty_ns(shares: &[KeptShare]) -> Option<u64> {
    let mut of_machines: BTreeMap<Option<&str>, Option<u64>> = BTreeMap::new();
    for share in shares.iter().filter_map(|share| share.record.share.as_ref()) {
        let known = of_machines.entry(share.boot_id.as_deref()).or_insert(share.clock_error_ns);
        *known = known.zip(share.clock_error_ns).map(|(one, other)| one.max(other));
    }
    if of_machines.len() == 1 && !of_machines.contains_key(&None) {
        return Some(0);
    }
    let mut errors = of_machines.into_values().collect::<Option<Vec<u64>>>()?;
    errors.sort_unstable_by(|one, other| other.cmp(one));
    Some(saturating_sum(errors.iter().take(2).copied()))
}

fn unequal_machines(shares: &[KeptShare]) -> Option<Reason> {
    let machine = |share: &KeptShare| {
        let of = &share.record.environment;
        (of.cpu_model.clone(), of.cores, of.operating_system.clone())
    };
    let first = machine(shares.first()?);
    let other = shares.iter().find(|share| machine(share) != first)?;
    let describe = |(cpu, cores, system): (Option<String>, usize, String)| {
        format!("{cores} cores of {}, {system}", cpu.as_deref().unwrap_or("an unknown processor"))
    };
    Some(reason(
        UnequalMachines,
        format!(
            "The machines are not alike: share {} has {}, and share {} has {}.",
            shares[0].number(),
            describe(first),
            other.number(),
            describe(machine(other))
        ),
        "Use equal machines, or look at each share's own record: the slowest machine may limit all.",
        &[],
    ))
}

#[cfg(test)]
#[path = "../../tests/unit/distributed/together.rs"]
mod tests;
