//! Whether a trial's figures can be trusted: a pure function from [`Evidence`] to [`Verdict`].
//!
//! Every finding carries the figures that led to it and a piece of advice. [`limits`] has the constants with the reason
//! for each; `docs/RESULT.md` repeats them for readers of records.

mod account;
mod delay;
mod lag;
mod limiter;
pub mod limits;
mod pace;
mod resources;
mod steadiness;
pub(super) mod trend;
mod verification;
mod warm_up;

pub use self::lag::groups_that_fell_behind;
use crate::record::{Phase, Reason, ReasonKind, Record, SeriesRow, Status, Verdict, Verification};

/// All that a verdict is made from.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The record, complete but for its verdict.
    pub record: &'a Record,
    /// The rows of the trial's series, in order.
    pub series: &'a [SeriesRow],
    pub shape: LoadShape,
}

/// What the record does not say of its scenario in a typed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadShape {
    /// Time after which the schedule repeats itself, in nanoseconds; `None` unless it has bursts.
    pub period_ns: Option<u64>,
    /// Messages that all producers together may have in flight.
    pub window: u64,
    /// Producers of the trial.
    pub producers: usize,
}

impl LoadShape {
    /// The shape that a scenario describes.
    pub fn from_scenario(scenario: &crate::scenario::Scenario) -> Self {
        use crate::scenario::{Load, Schedule};
        LoadShape {
            period_ns: match &scenario.load {
                Load::Open(Schedule::Bursts { every, .. }) => u64::try_from(every.as_nanos()).ok(),
                _ => None,
            },
            window: (scenario.producers.count as u64).saturating_mul(scenario.producers.in_flight as u64),
            producers: scenario.producers.count,
        }
    }
}

impl<'a> Evidence<'a> {
    /// What the consumers verified. Only all shares together show what became of single messages.
    fn verification(&self) -> Option<&'a Verification> {
        self.record.verification.as_ref().filter(|_| self.record.share.is_none())
    }

    fn measured_rows(&self) -> impl Iterator<Item = &'a SeriesRow> {
        self.series.iter().filter(|row| row.phase == Phase::Measure && row.full)
    }
}

/// The verdict on a trial.
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    let mut findings = account::findings(evidence);
    // Of a trial that failed, only the account is judged.
    if evidence.record.status != Status::Failed {
        findings.extend(resources::findings(evidence));
        findings.extend(delay::findings(evidence));
        findings.extend(pace::findings(evidence));
        findings.extend(lag::findings(evidence));
        findings.extend(verification::pipeline_findings(evidence));
        findings.extend(account::share_findings(evidence));
    }
    let (mut reasons, mut notes) = (Vec::new(), Vec::new());
    for Finding { reason, against } in findings {
        if against { reasons.push(reason) } else { notes.push(reason) }
    }
    reasons.sort_by_key(|reason| reason.kind);
    notes.sort_by_key(|note| note.kind);
    let limited_by = limiter::limited_by(evidence);
    pace::without_a_limit(&mut reasons, &limited_by);
    Verdict { valid: reasons.is_empty(), reasons, notes, limited_by }
}

/// A reason, and whether it speaks against the figures or is only worth knowing.
struct Finding {
    reason: Reason,
    against: bool,
}

/// Speaks against trusting the figures.
fn against(kind: ReasonKind, evidence: String, advice: &str, figures: &[(&str, f64)]) -> Finding {
    Finding { reason: Reason::new(kind, evidence, advice, figures), against: true }
}

/// Should be known.
fn note(kind: ReasonKind, evidence: String, advice: &str, figures: &[(&str, f64)]) -> Finding {
    Finding { reason: Reason::new(kind, evidence, advice, figures), against: false }
}

#[cfg(test)]
#[path = "../../../tests/unit/evaluate/verdict/remedies.rs"]
mod remedies;
#[cfg(test)]
#[path = "../../../tests/unit/evaluate/verdict/sound.rs"]
mod sound;
#[cfg(test)]
#[path = "../../../tests/unit/evaluate/verdict/mod.rs"]
mod tests;
