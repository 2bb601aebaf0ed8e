//! What went wrong on both sides: trials that failed, and messages that failed, were lost or came twice.
//!
//! Counts are facts of all trials that ended, valid or not. Failures come in bursts, so messages are not independent observations: where
//! chance is asked about, the unit is the trial.

use std::fmt;

use serde::Serialize;

use super::settings::Design;
use super::side::{Fault, Outcome, Side, by_run, consumer_groups, fault};
use crate::record::readable::{count, percent};
use crate::record::{Record, Verification};
use crate::statistics::{mean, permutation_p};

/// More of one side than of the other only if chance makes it less often than this.
const LEVEL: f64 = 0.05;

/// With odds of at most so many times those of the other side, a share is similar: failures vary by more than latencies do.
const SIMILAR_ODDS: f64 = 2.0;

/// A share of the messages that counts without a test, however few the trials: the highest percentile that is compared, the 99.9th, then
/// lies among messages that never arrived.
const SHARE_THAT_COUNTS: f64 = 0.001;

/// A share of the trials that counts without a test, where the other side has none.
const TRIALS_THAT_COUNT: f64 = 0.25;

/// Fewest trials that do, where chance may make one or two: if one sound trial of ten is not steady by chance, equal sides differ so in
/// less than 2 % of comparisons with 3 to 12 trials a side, and in 5 % if it is one of five.
const MIN_CHANCE_TRIALS: u64 = 3;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CountKind {
    /// Trials that failed, stalled, or lack messages, for a reason that the machine, the client and the measurement do not explain.
    UnsoundTrials,
    /// Trials that missed their rate or were not steady, likewise.
    UnsteadyTrials,
    /// Trials in which consumers fell further and further behind, so that they have no end-to-end percentiles.
    TrialsWithGrowingLag,
    /// Messages that were wanted and failed, had no outcome, or were never sent.
    NotAcknowledged,
    /// Messages that were acknowledged and are lost: of what the groups of consumers were owed.
    Lost,
    /// Messages that were acknowledged and not received, and may still be there.
    Unread,
    /// Messages that were acknowledged, and removed by the broker's own rules before they were received.
    Removed,
    /// Deliveries beyond the first.
    Duplicated,
    /// Deliveries after a later message.
    Reordered,
    /// Messages whose payload is not what was sent.
    Corrupt,
}

impl CountKind {
    pub(super) const ALL: [CountKind; 10] = [
        CountKind::UnsoundTrials,
        CountKind::UnsteadyTrials,
        CountKind::TrialsWithGrowingLag,
        CountKind::NotAcknowledged,
        CountKind::Lost,
        CountKind::Unread,
        CountKind::Removed,
        CountKind::Duplicated,
        CountKind::Reordered,
        CountKind::Corrupt,
    ];

    /// Whether one message says that data is not safe: chance does not lose what was acknowledged.
    fn is_about_safety(self) -> bool {
        matches!(self, CountKind::Lost | CountKind::Corrupt)
    }

    /// Of a record: how many, and of how many; or why it does not tell.
    fn count_in(self, record: &Record) -> Result<(u64, u64), String> {
        let counts = &record.counts;
        let owed = |groups: u64| counts.acknowledged.saturating_add(counts.warm_up.acknowledged).saturating_mul(groups);
        let verified = |number: fn(&Verification) -> u64| {
            let found = record.verification.as_ref();
            let found = found.ok_or("nothing was verified: set `consumers.verify = true`".to_owned())?;
            Ok((number(found), owed((found.groups.len() as u64).max(1))))
        };
        match (self, counts.consumed) {
            (CountKind::UnsoundTrials, _) => Ok((u64::from(fault(record) == Some(Fault::Failed)), 1)),
            (CountKind::UnsteadyTrials, _) => match fault(record) {
                // Whether it was steady says nothing then.
                Some(Fault::Failed) => Err("the trials are unsound".to_owned()),
                fault => Ok((u64::from(fault == Some(Fault::Unsteady)), 1)),
            },
            (CountKind::TrialsWithGrowingLag, _) => {
                Ok(record.latency.end_to_end.as_ref().map_or((0, 0), |latency| (u64::from(latency.lag_grew), 1)))
            }
            (CountKind::NotAcknowledged, _) => {
                let aborted = record.aborted_on_purpose();
                let wanted = counts.attempted.saturating_add(counts.unsent).saturating_sub(aborted);
                Ok((counts.without_acknowledgement().saturating_sub(aborted), wanted))
            }
            (CountKind::Lost, _) => verified(|found| found.lost),
            (CountKind::Unread, _) if record.verification.is_some() => {
                verified(|found| found.unread.saturating_add(found.undecided))
            }
            (CountKind::Unread, Some(consumed)) if record.share.is_none() && consumer_groups(record) > 0 => {
                let owed = counts.acknowledged.saturating_mul(consumer_groups(record));
                Ok((owed.saturating_sub(consumed), owed))
            }
            (CountKind::Unread, _) => Err("what consumers received was not counted".to_owned()),
            (CountKind::Removed, _) => verified(|found| found.removed),
            (CountKind::Duplicated, _) => verified(|found| found.duplicated),
            (CountKind::Reordered, _) => verified(|found| found.reordered),
            (CountKind::Corrupt, _) => verified(|found| found.corrupt),
        }
    }
}

impl fmt::Display for CountKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            CountKind::UnsoundTrials => "unsound trials",
            CountKind::UnsteadyTrials => "unsteady trials",
            CountKind::TrialsWithGrowingLag => "trials with growing lag",
            CountKind::NotAcknowledged => "not acknowledged",
            CountKind::Lost => "lost",
            CountKind::Unread => "unread",
            CountKind::Removed => "removed",
            CountKind::Duplicated => "duplicated",
            CountKind::Reordered => "reordered",
            CountKind::Corrupt => "corrupt",
        })
    }
}

/// A count over the trials of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Count {
    pub number: u64,
    /// The whole that they are of: messages that were wanted or owed, or trials.
    pub of: u64,
    pub share: f64,
    /// Trials in which it is not zero, and trials in which it was counted.
    pub trials_with: usize,
    pub trials: usize,
}

/// A count of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountComparison {
    pub count: CountKind,
    /// `null` where no trial of the side tells.
    pub a: Option<Count>,
    pub b: Option<Count>,
    /// Why a side has no count; `null` where both have one.
    pub missing: Option<String>,
    /// By permutation of the trials, or of the runs where they are the unit: how often chance makes so large a difference of their shares. 1
    /// of single runs, whose trials are not independent.
    pub p: f64,
    /// The same, adjusted for all points that were compared (Holm).
    pub adjusted_p: f64,
    pub outcome: Outcome,
    /// B has more, and that is neither chance nor similar.
    pub regression: bool,
}

/// The counts that at least one side has.
pub(super) fn compare(a: &Side<'_>, b: &Side<'_>, design: Design) -> Vec<CountComparison> {
    CountKind::ALL.into_iter().filter_map(|kind| compare_kind(kind, a, b, design)).collect()
}

fn compare_kind(kind: CountKind, a: &Side<'_>, b: &Side<'_>, design: Design) -> Option<CountComparison> {
    let (of_a, of_b) = (Counted::new(kind, a), Counted::new(kind, b));
    let missing = [("A", &of_a), ("B", &of_b)].into_iter().find(|(_, counted)| counted.sum().is_none());
    let missing = missing.map(|(side, counted)| {
        let reason = counted.reason.clone().unwrap_or_else(|| "no trial wanted a message".to_owned());
        format!("of {side}: {reason}")
    });
    let p = match design {
        Design::InTurn => permutation_p(&of_a.shares(), &of_b.shares()),
        Design::SeveralRuns => permutation_p(&of_a.shares_of_runs(), &of_b.shares_of_runs()),
        Design::SingleRuns => 1.0,
    };
    (of_a.sum().is_some() || of_b.sum().is_some()).then(|| CountComparison {
        count: kind,
        a: of_a.sum(),
        b: of_b.sum(),
        p: if missing.is_some() { 1.0 } else { p },
        adjusted_p: 1.0,
        missing,
        outcome: Outcome::CannotTell,
        regression: false,
    })
}

/// A count in the trials of one side that tell it.
#[derive(Default)]
struct Counted<'a> {
    number: u64,
    of: u64,
    trials: Vec<(&'a Record, f64)>,
    /// Why a trial does not tell.
    reason: Option<String>,
}

impl<'a> Counted<'a> {
    fn new(kind: CountKind, side: &Side<'a>) -> Self {
        let mut counted = Counted::default();
        for record in side.ended() {
            match kind.count_in(record) {
                Ok((_, 0)) => {}
                Ok((number, of)) => {
                    counted.number = counted.number.saturating_add(number);
                    counted.of = counted.of.saturating_add(of);
                    counted.trials.push((record, number as f64 / of as f64));
                }
                Err(reason) => counted.reason = Some(reason),
            }
        }
        counted
    }

    fn shares(&self) -> Vec<f64> {
        self.trials.iter().map(|(_, share)| *share).collect()
    }

    /// The mean share of each run.
    fn shares_of_runs(&self) -> Vec<f64> {
        let runs = by_run(self.trials.iter().copied());
        runs.iter().map(|shares| mean(shares)).collect()
    }

    fn sum(&self) -> Option<Count> {
        (self.of > 0).then(|| Count {
            number: self.number,
            of: self.of,
            share: self.number as f64 / self.of as f64,
            trials_with: self.trials.iter().filter(|(_, share)| *share > 0.0).count(),
            trials: self.trials.len(),
        })
    }
}

impl CountComparison {
    /// Draws the conclusion from the p that was adjusted for all points.
    pub(super) fn conclude(&mut self, adjusted_p: f64) {
        self.adjusted_p = adjusted_p;
        let (Some(a), Some(b)) = (self.a, self.b) else { return };
        self.outcome = match (more(self.count, &b, &a, adjusted_p), more(self.count, &a, &b, adjusted_p)) {
            (More::Surely, _) => Outcome::Worse,
            (_, More::Surely) => Outcome::Better,
            (More::No, More::No) => Outcome::NoDifferent,
            _ => Outcome::CannotTell,
        };
        self.regression = self.outcome == Outcome::Worse;
    }

    /// Whether there is anything to tell: neither side has any where it is zero on both.
    pub fn is_telling(&self) -> bool {
        self.missing.is_some() || [self.a, self.b].into_iter().flatten().any(|count| count.number > 0)
    }

    /// The outcome in words.
    pub fn conclusion(&self) -> String {
        match (&self.missing, self.outcome) {
            (Some(reason), _) => format!("not compared: {reason}"),
            (None, Outcome::Worse) => "worse: more in B".to_owned(),
            (None, Outcome::Better) => "better: less in B".to_owned(),
            (None, Outcome::NoDifferent) => "similar".to_owned(),
            (None, Outcome::CannotTell) => "cannot tell: chance may make the difference".to_owned(),
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            0 => formatter.write_str("0"),
            number => write!(formatter, "{} ({} of {})", percent(self.share), count(number), count(self.of)),
        }
    }
}

#[derive(PartialEq)]
enum More {
    Surely,
    Perhaps,
    No,
}

/// Whether `one` has more than `other`.
fn more(kind: CountKind, one: &Count, other: &Count, p: f64) -> More {
    if one.share <= other.share {
        return More::No;
    }
    let is_first = other.number == 0;
    let is_sure = match kind {
        _ if is_first && kind.is_about_safety() => true,
        CountKind::UnsoundTrials => (is_first && one.share > TRIALS_THAT_COUNT) || p < LEVEL,
        CountKind::UnsteadyTrials | CountKind::TrialsWithGrowingLag => {
            (is_first && one.share > TRIALS_THAT_COUNT && one.number >= MIN_CHANCE_TRIALS) || p < LEVEL
        }
        _ if is_similar(one.share, other.share) => return More::No,
        _ => one.share - other.share >= SHARE_THAT_COUNTS || p < LEVEL,
    };
    if is_sure { More::Surely } else { More::Perhaps }
}

/// Whether the larger share `one` is similar to `other`. With several duplicates for each message, it is above 1 and has no odds.
fn is_similar(one: f64, other: f64) -> bool {
    // Infinite of a share of 1.
    let odds = |share: f64| share / (1.0 - share);
    if one > 1.0 { one <= SIMILAR_ODDS * other } else { odds(one) <= SIMILAR_ODDS * odds(other) }
}
