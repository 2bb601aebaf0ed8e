//! The verdict on a merged record: that on the whole's figures, what each share's own record says of its process and machine, and what
//! only the shares together show.

use std::collections::BTreeMap;

use super::client::SharedMachine;
use super::{KeptShare, together};
use crate::record::ReasonKind::{self, *};
use crate::record::readable::{duration, percent};
use crate::record::{LimitedBy, Limiter, Reason, Record, Together, Verdict};

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
    let verdict = std::mem::replace(&mut record.verdict, Verdict::pending());
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
    let together = together::findings(record, shares);
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
    let of_shares = shares
        .iter()
        .filter(|share| !is_told_together(share))
        .map(|share| (FindingScope::from_share(share), &share.record.verdict.limited_by));
    let of_machines =
        machines.iter().filter_map(|machine| Some((FindingScope::from_machine(machine), machine.limited_by()?)));
    match of_shares.chain(of_machines).min_by_key(|(_, limit)| gravity(limit.limiter)) {
        Some((speaker, LimitedBy { limiter, evidence })) => {
            LimitedBy { limiter: *limiter, evidence: format!("{}: {evidence}", speaker.subject) }
        }
        None => Verdict::pending().limited_by,
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

#[cfg(test)]
#[path = "../../tests/unit/distributed/verdict.rs"]
mod tests;
