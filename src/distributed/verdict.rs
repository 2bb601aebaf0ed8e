//! The verdict on a merged record: that on the whole's figures, what each share's own record says of its process and machine, and what only the
//! shares together show: shares that are missing or apart, clocks that differ, machines that are not alike.

use std::collections::{BTreeMap, BTreeSet};

use super::client::{self, SharedMachine};
use super::{KeptShare, sections};
use crate::record::ReasonKind::{self, *};
use crate::record::readable::{duration, percent};
use crate::record::{LimitedBy, Limiter, LostRank, Reason, Record, Together, Verdict, saturating_sum};

/// Share of the median end-to-end latency up to which the clocks of machines may differ.
const MAX_CLOCK_SHARE: f64 = 0.1;

/// Missing shares that are named one by one.
const MAX_NAMED: usize = 32;

/// What a share's own record says of its process or machine, and the figures of the whole do not show better than those of the
/// shares: a rate over windows that begin a little apart is lower than the target, though every share kept its own.
const NOT_OF_THE_WHOLE: [ReasonKind; 11] = [
    Failed,
    Interrupted,
    Stalled,
    Unfinished,
    ConsumerCrashed,
    Embedded,
    DebugBuild,
    RateMissed,
    ClientBound,
    TimeWithheld,
    HostContended,
];

/// Completes the verdict on `record`, whose figures were judged by themselves. `machines`: those that have several of the shares.
pub(super) fn complete(record: &mut Record, shares: &[KeptShare], machines: &[SharedMachine]) {
    let verdict = std::mem::take(&mut record.verdict);
    let has_grown = verdict.notes.iter().any(|note| note.kind == LagGrew);
    let mut reasons = share_reasons(shares, machines, has_grown, |verdict| &verdict.reasons);
    let mut notes = share_reasons(shares, machines, has_grown, |verdict| &verdict.notes);
    let found = |list: &[Reason], kind| list.iter().any(|reason| reason.kind == kind);
    for reason in verdict.reasons {
        if !NOT_OF_THE_WHOLE.contains(&reason.kind) && !found(&reasons, reason.kind) {
            reasons.push(reason);
        }
    }
    for note in verdict.notes {
        if !NOT_OF_THE_WHOLE.contains(&note.kind) && !found(&notes, note.kind) && !found(&reasons, note.kind) {
            notes.push(note);
        }
    }
    if let (Some(together), Some(late)) = (&record.together, notes.iter_mut().find(|note| note.kind == LateStart)) {
        say_overlap(late, together);
    }
    let together = findings_together(record, shares);
    reasons.extend(together.reasons);
    notes.extend(together.notes);
    reasons.sort_by_key(|reason| reason.kind);
    notes.sort_by_key(|note| note.kind);
    let limited_by = limited_by(shares, machines);
    record.verdict = Verdict { valid: reasons.is_empty(), reasons, notes, limited_by };
}

/// What the shares' own records say, and those of a machine together, each kind once. `has_grown`: whether lag of the whole grew.
fn share_reasons<'a>(
    shares: &'a [KeptShare],
    machines: &'a [SharedMachine],
    has_grown: bool,
    list: fn(&Verdict) -> &Vec<Reason>,
) -> Vec<Reason> {
    let mut by_kind: BTreeMap<ReasonKind, Vec<(FindingScope, &Reason)>> = BTreeMap::new();
    let mut add =
        |speaker: FindingScope, reason: &'a Reason| by_kind.entry(reason.kind).or_default().push((speaker, reason));
    for share in shares {
        let of_share = list(&share.record.verdict).iter().filter(|reason| match reason.kind {
            HostContended => !machines.iter().any(|machine| machine.has(share)),
            LedgerMismatch | OwnDelay | LateStart => true,
            // The whole's own finding has the lag.
            LagGrew => !has_grown,
            kind => NOT_OF_THE_WHOLE.contains(&kind),
        });
        of_share.for_each(|reason| add(FindingScope::from_share(share), reason));
    }
    for machine in machines {
        machine.findings(shares, list).for_each(|reason| add(FindingScope::from_machine(machine), reason));
    }
    let one = |(kind, found): (ReasonKind, Vec<(FindingScope, &Reason)>)| {
        let (first, reason) = &found[0];
        let evidence = format!("{}: {}{}", first.subject, reason.evidence, also(&found[1..]));
        let mut figures = reason.figures.clone();
        figures.insert("shares".to_owned(), found.iter().map(|(speaker, _)| speaker.shares).sum::<usize>() as f64);
        Reason { kind, evidence, advice: reason.advice.clone(), figures }
    };
    by_kind.into_iter().map(one).collect()
}

/// For whom else a finding holds.
fn also(others: &[(FindingScope, &Reason)]) -> String {
    const NAMED: usize = 7;
    let names: Vec<&str> = others.iter().map(|(speaker, _)| speaker.name.as_str()).collect();
    match others.len() {
        0 => String::new(),
        1..=NAMED => format!(" The same holds, with figures of their own, for: {}.", names.join(", ")),
        _ => {
            let shares: usize = others.iter().map(|(speaker, _)| speaker.shares).sum();
            format!(" The same holds, with figures of their own, for {shares} more shares.")
        }
    }
}

/// Whose finding it is: that of a share, or of several on one machine.
struct FindingScope {
    /// Its name at the begin of a sentence: "Share 2", "Shares 1 to 4 together".
    subject: String,
    /// Its name in a list: "2", "(1 to 4 together)".
    name: String,
    shares: usize,
}

impl FindingScope {
    fn from_share(share: &KeptShare) -> Self {
        let number = share.number();
        FindingScope { subject: format!("Share {number}"), name: number.to_string(), shares: 1 }
    }

    fn from_machine(machine: &SharedMachine) -> Self {
        let numbers = machine.numbers();
        FindingScope {
            subject: format!("Shares {numbers} together"),
            name: format!("({numbers} together)"),
            shares: machine.shares(),
        }
    }
}

/// What it means for all that a share began late.
fn say_overlap(late: &mut Reason, together: &Together) {
    let Together { window_overlap, start_skew_ns } = *together;
    let overlap = percent(window_overlap);
    late.evidence +=
        &format!(" The measured windows of all shares overlap by {overlap} of the stretch that they cover");
    late.figures.insert("window_overlap".to_owned(), window_overlap);
    if let Some(skew_ns) = start_skew_ns {
        late.evidence += &format!(", and their loads began within {} of each other", duration(skew_ns as f64));
        late.figures.insert("start_skew_ns".to_owned(), skew_ns as f64);
    }
    late.evidence.push('.');
}

/// What limited the share that was limited the most: one that its own client limited limits the whole. The sums over all shares would look
/// idle where one share is busy. Those of one machine say together what filled it.
fn limited_by(shares: &[KeptShare], machines: &[SharedMachine]) -> LimitedBy {
    let is_told_together = |share: &KeptShare| {
        share.record.verdict.limited_by.limiter == Limiter::Machine
            && machines.iter().any(|machine| machine.has(share) && machine.limited_by().is_some())
    };
    // A share that only consumes cannot tell what limited the shares that send.
    let any_sends = shares.iter().any(sections::sends);
    let says_nothing = |share: &KeptShare| {
        any_sends && !sections::sends(share) && share.record.verdict.limited_by.limiter == Limiter::Unknown
    };
    let of_shares = shares
        .iter()
        .filter(|share| !is_told_together(share) && !says_nothing(share))
        .map(|share| (FindingScope::from_share(share), &share.record.verdict.limited_by));
    let of_machines =
        machines.iter().filter_map(|machine| Some((FindingScope::from_machine(machine), machine.limited_by()?)));
    match of_shares.chain(of_machines).min_by_key(|(_, limit)| gravity(limit.limiter)) {
        Some((speaker, LimitedBy { limiter, evidence })) => {
            LimitedBy { limiter: *limiter, evidence: format!("{}: {evidence}", speaker.subject) }
        }
        None => LimitedBy::default(),
    }
}

/// Which limiter of a share says the most about the whole: the smallest.
fn gravity(limiter: Limiter) -> u8 {
    match limiter {
        Limiter::Client => 0,
        Limiter::Machine => 1,
        Limiter::Broker => 2,
        Limiter::Window => 3,
        Limiter::Pipeline => 4,
        Limiter::Unknown => 5,
        Limiter::Schedule => 6,
    }
}

/// What only the shares together show.
struct Findings {
    /// They make the record invalid.
    reasons: Vec<Reason>,
    notes: Vec<Reason>,
}

/// `record`: the merged one.
fn findings_together(record: &Record, shares: &[KeptShare]) -> Findings {
    let mut reasons: Vec<Reason> = missing(shares, &record.lost_ranks).into_iter().chain(apart(shares)).collect();
    let mut notes: Vec<Reason> = unequal_machines(shares).into_iter().collect();
    match clocks(record, shares) {
        Some((true, reason)) => reasons.push(reason),
        Some((false, note)) => notes.push(note),
        None => {}
    }
    Findings { reasons, notes }
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
        Reason::new(
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
        Reason::new(
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
    if has_one_clock(shares) || record.times_own_messages() {
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
        Reason::new(
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

/// Whether it is known where a share ran.
fn is_located(share: &KeptShare) -> bool {
    client::machine(share) != (None, None)
}

/// Whether all shares are known to read one clock.
fn has_one_clock(shares: &[KeptShare]) -> bool {
    shares.len() < 2 || client::machines(shares) < 2 && is_located(&shares[0])
}

/// Most that two of the machines' clocks may differ; `None`: not known.
fn clock_uncertainty_ns(shares: &[KeptShare]) -> Option<u64> {
    if has_one_clock(shares) {
        return Some(0);
    }
    let mut errors: Vec<u64> = Vec::new();
    for of_machine in client::by_machine(shares) {
        let of_shares = of_machine.iter().filter_map(|share| share.record.share.as_ref());
        let known = of_shares.map(|share| share.clock_error_ns).collect::<Option<Vec<u64>>>()?;
        if is_located(of_machine[0]) {
            errors.extend(known.into_iter().max());
        } else {
            // Each of them may have a clock of its own.
            errors.extend(known);
        }
    }
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
    Some(Reason::new(
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
#[path = "../../tests/unit/distributed/verdict.rs"]
mod tests;
#[cfg(test)]
#[path = "../../tests/unit/distributed/together.rs"]
mod together_tests;
