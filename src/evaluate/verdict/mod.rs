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

use crate::record::{
    BrokerUsage, Client, Condition, Counts, ErrorCount, HostLoad, Latencies, Latency, LoadModel, Outage, Phase,
    Pipeline, Reason, ReasonKind, Record, SeriesRow, Share, Start, Status, Throughput, Verdict, Verification, Wire,
};

/// All that a verdict is made from.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    pub status: Status,
    /// Why it failed, if it did.
    pub error: Option<&'a str>,
    pub load_model: LoadModel,
    /// After how long the schedule repeats itself, in nanoseconds; `None` unless it has bursts.
    pub period_ns: Option<u64>,
    /// Messages that all producers together may have in flight.
    pub window: u64,
    /// Producers of the trial.
    pub producers: usize,
    pub embedded: bool,
    pub debug_build: bool,
    pub counts: &'a Counts,
    pub throughput: &'a Throughput,
    pub latency: &'a Latencies,
    pub outages: &'a [Outage],
    /// What held messages up, as the client saw it.
    pub conditions: &'a [Condition],
    pub verification: Option<&'a Verification>,
    /// Which part of a scenario it is; `None`: all of it.
    pub share: Option<&'a Share>,
    /// When the load began, where a time was set.
    pub start: Option<&'a Start>,
    /// Messages of aborted transactions, as [`Record::aborted_on_purpose`].
    pub aborted_on_purpose: u64,
    pub receive_errors: &'a [ErrorCount],
    /// Messages before the trial, as in [`Record::messages_before`].
    pub messages_before: Option<u64>,
    pub wire: Option<&'a Wire>,
    pub pipeline: Option<&'a Pipeline>,
    pub client: &'a Client,
    pub host_load: Option<&'a HostLoad>,
    /// Cores of the machine, of which the client may be allowed a part only.
    pub machine_cores: usize,
    /// Cores as in [`Environment::physical_cores`](crate::record::Environment::physical_cores).
    pub physical_cores: Option<usize>,
    pub broker_usage: Option<&'a BrokerUsage>,
    /// The rows of the trial's series, in order.
    pub series: &'a [SeriesRow],
}

/// What the record does not say of its scenario in a typed form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadShape {
    /// The period, as in [`Evidence::period_ns`].
    pub period_ns: Option<u64>,
    /// The window, as in [`Evidence::window`].
    pub window: u64,
    /// Producers, as in [`Evidence::producers`].
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
    /// The evidence in a record that is complete but for its verdict.
    pub fn from_record(record: &'a Record, series: &'a [SeriesRow], shape: LoadShape) -> Self {
        Evidence {
            status: record.status,
            error: record.error.as_deref(),
            load_model: record.load_model,
            period_ns: shape.period_ns,
            window: shape.window,
            producers: shape.producers,
            embedded: record.environment.embedded,
            debug_build: record.environment.debug_build,
            counts: &record.counts,
            throughput: &record.throughput,
            latency: &record.latency,
            outages: &record.outages,
            conditions: &record.conditions,
            // Only all shares together show what became of single messages.
            verification: record.verification.as_ref().filter(|_| record.share.is_none()),
            share: record.share.as_ref(),
            start: record.start.as_ref(),
            aborted_on_purpose: record.aborted_on_purpose(),
            receive_errors: &record.receive_errors,
            messages_before: record.messages_before,
            wire: record.wire.as_ref(),
            pipeline: record.pipeline.as_ref(),
            client: &record.client,
            host_load: record.host_load.as_ref(),
            machine_cores: record.environment.cores,
            physical_cores: record.environment.physical_cores,
            broker_usage: record.broker_usage.as_ref(),
            series,
        }
    }

    /// The latency that the trial is about, with its name.
    fn headline(&self) -> Option<&'a Latency> {
        match self.load_model {
            LoadModel::Open => self.latency.response.as_ref(),
            LoadModel::Closed => self.latency.service.as_ref(),
        }
    }

    fn measured_rows(&self) -> impl Iterator<Item = &'a SeriesRow> {
        self.series.iter().filter(|row| row.phase == Phase::Measure && row.full)
    }
}

/// The verdict on a trial.
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    let mut findings = account::findings(evidence);
    // Of a trial that failed, nothing but the account is worth a word.
    if evidence.status != Status::Failed {
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

/// A trial without a flaw, for the tests of each finding to spoil.
#[cfg(test)]
mod sound {
    use super::*;
    use crate::record::{ReasonKind, sample};

    /// The second of three.
    pub(super) fn share() -> Share {
        Share {
            number: 2,
            count: 3,
            first_producer: 4,
            producers: 4,
            consumers: 0,
            window_begin_unix_ns: 0,
            first_sent_unix_ns: None,
            first_due_unix_ns: None,
            clock_shift_ns: None,
            clock_error_ns: None,
            boot_id: None,
            before_intended: 0,
            most_before_intended_ns: 0,
        }
    }

    pub(super) fn judged(spoil: impl FnOnce(&mut Record, &mut Vec<SeriesRow>, &mut LoadShape)) -> Verdict {
        let (mut record, mut series) = (sample::record(), sample::series());
        record.counts.acknowledged += record.counts.failed;
        record.counts.failed = 0;
        record.broker_usage = None;
        let mut shape = LoadShape { period_ns: None, window: 4000, producers: 4 };
        spoil(&mut record, &mut series, &mut shape);
        judge(&Evidence::from_record(&record, &series, shape))
    }

    pub(super) fn reasons(spoil: impl FnOnce(&mut Record, &mut Vec<SeriesRow>, &mut LoadShape)) -> Vec<ReasonKind> {
        judged(spoil).reasons.iter().map(|reason| reason.kind).collect()
    }

    pub(super) fn notes(spoil: impl FnOnce(&mut Record, &mut Vec<SeriesRow>, &mut LoadShape)) -> Vec<ReasonKind> {
        judged(spoil).notes.iter().map(|note| note.kind).collect()
    }
}

/// A reason, and whether it speaks against the figures or is only worth knowing.
struct Finding {
    reason: Reason,
    against: bool,
}

/// Speaks against trusting the figures.
fn against(kind: ReasonKind, evidence: String, advice: &str, figures: &[(&str, f64)]) -> Finding {
    Finding { reason: reason(kind, evidence, advice, figures), against: true }
}

/// Is worth knowing.
fn note(kind: ReasonKind, evidence: String, advice: &str, figures: &[(&str, f64)]) -> Finding {
    Finding { reason: reason(kind, evidence, advice, figures), against: false }
}

fn reason(kind: ReasonKind, evidence: String, advice: &str, figures: &[(&str, f64)]) -> Reason {
    let figures = figures.iter().filter(|(_, value)| value.is_finite());
    Reason {
        kind,
        evidence,
        advice: advice.to_owned(),
        figures: figures.map(|(name, value)| ((*name).to_owned(), *value)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sound_trial_is_valid_without_a_note() {
        let verdict = sound::judged(|_, _, _| {});
        assert!(verdict.valid && verdict.reasons.is_empty() && verdict.notes.is_empty(), "{verdict:#?}");
    }

    #[test]
    fn reasons_are_sorted_by_gravity_with_words_and_figures() {
        let verdict = sound::judged(|record, _, _| {
            record.throughput.window_ns = 1_000_000_000;
            record.environment.embedded = true;
            record.counts.attempted += 1;
        });
        let kinds: Vec<ReasonKind> = verdict.reasons.iter().map(|reason| reason.kind).collect();
        assert_eq!(kinds, [ReasonKind::LedgerMismatch, ReasonKind::Embedded, ReasonKind::TooShort]);
        for reason in &verdict.reasons {
            assert!(reason.evidence.ends_with('.') && reason.advice.ends_with('.'), "{reason:?}");
        }
    }

    #[test]
    fn a_failed_trial_is_not_also_too_short() {
        let kinds = sound::reasons(|record, series, _| {
            record.status = Status::Failed;
            record.counts = Counts::default();
            record.throughput = Throughput::default();
            series.clear();
        });
        assert_eq!(kinds, [ReasonKind::Failed]);
    }
}
