//! One set's trials of a point, the figures that are compared, where a record has them, and the centre of a figure over the trials.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::KeptTrial;
use crate::evaluate::threshold::measured;
use crate::record::ReasonKind::{self, *};
use crate::record::{Headline, Latency, Phase, Record, SeriesRow, Status};
use crate::scenario::{LatencyKind, LatencyStatistic, Metric};
use crate::statistics::{Interval, Quartiles, centre, quantile_ranks, quartiles, series_mean};

/// Reasons that say something of the machine or the client while the trial ran. They explain a rate that was missed, or a load that was
/// not steady, so such a trial says nothing against what was measured.
const DISTURBED: [ReasonKind; 4] = [ClientBound, HostContended, OwnDelay, TimeWithheld];

/// Reasons that say something of how was measured.
const INSTRUMENT: [ReasonKind; 12] = [
    BrokerUnwatched,
    ClocksDiffer,
    ColdStart,
    DebugBuild,
    Embedded,
    Interrupted,
    LedgerMismatch,
    ShareMissing,
    SharesApart,
    TooShort,
    TopicNotEmpty,
    WarmUpTooShort,
];

/// The trials of a point that a comparison is made from.
#[derive(Debug, Clone)]
pub struct Side<'a> {
    /// In the order in which they ran: the valid ones; without any, all completed ones; there may be none. Of trials that ran in
    /// turn, only those that are compared with a neighbour.
    pub(super) trials: Vec<&'a KeptTrial>,
    /// All that were completed, in the same order.
    pub(super) completed: Vec<&'a KeptTrial>,
    /// These and all that failed or stalled, in the same order; at least one.
    pub(super) ended: Vec<&'a KeptTrial>,
    pub(super) valid: usize,
    /// Trials that were stopped from outside. They are in none of the others.
    interrupted: usize,
}

/// How the trials of one side ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SideTrials {
    /// Trials that ran to their end, failed or stalled; those that were stopped from outside are not among them.
    pub trials: usize,
    /// Runs that these are of.
    pub runs: usize,
    pub completed: usize,
    /// Completed, and their figures can be trusted. With valid ones, figures are only of these.
    pub valid: usize,
    pub failed: usize,
    pub stalled: usize,
    /// Completed and not valid for a reason that the machine, the client or the measurement explains.
    pub disturbed: usize,
    /// Stopped by a signal, or not over when the run was: they do not count.
    pub interrupted: usize,
}

impl SideTrials {
    /// Trials of which only their number and that of their runs is known.
    pub(super) fn untold(trials: usize, runs: usize) -> Self {
        let (completed, valid, failed, stalled, disturbed, interrupted) = (0, 0, 0, 0, 0, 0);
        SideTrials { trials, runs, completed, valid, failed, stalled, disturbed, interrupted }
    }
}

/// A figure over the trials of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Centre {
    /// Trials that have the figure.
    pub trials: usize,
    pub median: f64,
    pub lower_quartile: f64,
    pub upper_quartile: f64,
    /// The 95 % interval of the centre: between trials, or of a single trial within it; `null` where neither can be made.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// How many independent seconds the seconds of a single trial are worth.
    pub effective_seconds: Option<f64>,
    /// The correlation of neighbouring seconds of a single trial.
    pub autocorrelation: Option<f64>,
}

/// `6`, or `10 (1 failed, 2 not valid)`.
impl fmt::Display for SideTrials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let not_valid = self.completed - self.valid;
        let of_those = [
            (self.failed, "failed"),
            (self.stalled, "stalled"),
            (not_valid, "not valid"),
            (self.interrupted, "more interrupted"),
        ];
        let told: Vec<String> = of_those
            .iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| format!("{number} {what}"))
            .collect();
        let told = if told.is_empty() { String::new() } else { format!(" ({})", told.join(", ")) };
        write!(formatter, "{}{told}", self.trials)
    }
}

/// How a trial speaks against what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It failed or stalled, or messages are missing or broken.
    Failed,
    /// Its rate was missed or its load was not steady. Of sound trials, a few are so by chance.
    Unsteady,
}

/// The trial's fault, unless the machine, the client or the measurement explains it.
pub(super) fn fault(record: &Record) -> Option<Fault> {
    let reasons = || record.verdict.reasons.iter().map(|reason| reason.kind);
    let is_disturbed = reasons().any(|kind| DISTURBED.contains(&kind));
    let is_explained = |kind: ReasonKind| {
        DISTURBED.contains(&kind) || INSTRUMENT.contains(&kind) || (is_disturbed && kind.is_about_speed())
    };
    if record.status != Status::Completed {
        return Some(Fault::Failed);
    }
    let unexplained = || reasons().filter(|kind| !record.verdict.valid && !is_explained(*kind));
    if unexplained().all(ReasonKind::is_about_speed) {
        unexplained().next().map(|_| Fault::Unsteady)
    } else {
        Some(Fault::Failed)
    }
}

impl<'a> Side<'a> {
    /// Of all trials of the point; `None` where all were stopped from outside.
    pub(super) fn new(mut all: Vec<&'a KeptTrial>) -> Option<Self> {
        all.sort_by_key(|trial| trial.record.started_at);
        let number = all.len();
        all.retain(|trial| !matches!(trial.record.status, Status::Interrupted | Status::Running));
        let of_those = |is_meant: fn(&Record) -> bool| -> Vec<&KeptTrial> {
            all.iter().copied().filter(|trial| is_meant(&trial.record)).collect()
        };
        let completed = of_those(|record| record.status == Status::Completed);
        let trials = of_those(|record| record.status == Status::Completed && record.verdict.valid);
        let valid = trials.len();
        (!all.is_empty()).then(|| Side {
            trials: if valid == 0 { completed.clone() } else { trials },
            completed,
            interrupted: number - all.len(),
            ended: all,
            valid,
        })
    }

    pub(super) fn first(&self) -> &'a Record {
        &self.ended[0].record
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &'a Record> {
        self.trials.iter().map(|trial| &trial.record)
    }

    pub(super) fn ended(&self) -> impl Iterator<Item = &'a Record> {
        self.ended.iter().map(|trial| &trial.record)
    }

    pub(super) fn account(&self) -> SideTrials {
        let number = |is_meant: &dyn Fn(&Record) -> bool| self.ended().filter(|record| is_meant(record)).count();
        SideTrials {
            trials: self.ended.len(),
            runs: self.runs(),
            completed: self.completed.len(),
            valid: self.valid,
            failed: number(&|record| record.status == Status::Failed),
            stalled: number(&|record| record.status == Status::Stalled),
            disturbed: number(&|record| !record.verdict.valid && fault(record).is_none()),
            interrupted: self.interrupted,
        }
    }

    /// Runs that the trials are of which figures are compared.
    pub(super) fn runs(&self) -> usize {
        by_run(self.trials.iter().map(|trial| (&trial.record, ()))).len()
    }

    /// The figure of each trial, or why it cannot be compared.
    pub(super) fn figures(&self, kind: &FigureKind) -> Result<Vec<f64>, String> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for record in self.records() {
            match kind.value(record) {
                Ok(figure) => found.push(figure),
                Err(reason) => missing.push(reason),
            }
        }
        match missing.first() {
            _ if self.trials.is_empty() => Err("no trial was completed".to_owned()),
            None => Ok(found),
            Some(reason) => Err(format!("in {} of {} trials, {reason}", missing.len(), self.trials.len())),
        }
    }

    /// The logarithms of the figures, by run.
    pub(super) fn logarithms_by_run(&self, figures: &[f64]) -> Vec<Vec<f64>> {
        by_run(self.records().zip(figures.iter().map(|figure| figure.ln())))
    }

    /// What is known of the figures of [`Side::figures`].
    pub(super) fn centre(&self, kind: &FigureKind, figures: &[f64]) -> Option<Centre> {
        let Quartiles { lower, median, upper } = quartiles(figures)?;
        let within = if let [trial] = self.trials.as_slice() { within(trial, kind) } else { None };
        let interval = centre(figures).or(within.as_ref().map(|within| within.interval));
        Some(Centre {
            trials: figures.len(),
            median,
            lower_quartile: lower,
            upper_quartile: upper,
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
            effective_seconds: within.as_ref().map(|within| within.effective_seconds),
            autocorrelation: within.as_ref().map(|within| within.autocorrelation),
        })
    }
}

/// What belongs to the trials of each run.
pub(super) fn by_run<'a, T>(trials: impl Iterator<Item = (&'a Record, T)>) -> Vec<Vec<T>> {
    let mut runs: BTreeMap<&str, Vec<T>> = BTreeMap::new();
    trials.for_each(|(record, value)| runs.entry(&record.run_id).or_default().push(value));
    runs.into_values().collect()
}

struct Within {
    interval: Interval,
    effective_seconds: f64,
    autocorrelation: f64,
}

/// The interval of a figure from the seconds of a single trial. It knows nothing of what differs between trials.
fn within(trial: &KeptTrial, kind: &FigureKind) -> Option<Within> {
    let rows = trial.series.iter().filter(|row| row.phase == Phase::Measure && row.full);
    let seconds: Vec<f64> = match kind.quantile() {
        None => rows.map(SeriesRow::acknowledged_per_second).collect(),
        Some(0.5) => rows.filter_map(|row| row.p50_ns).map(|value| value as f64).collect(),
        Some(_) => rows.filter_map(|row| row.p99_ns).map(|value| value as f64).collect(),
    };
    let known = series_mean(&seconds)?;
    let interval = match kind.quantile() {
        None => known.interval,
        Some(quantile) => {
            // Seconds that are alike make the values of neighbouring seconds tell less, as much as they do for the mean.
            // Of one event, the number of messages tells nothing of how far the value would vary.
            let latency = kind.latency(&trial.record).filter(|latency| !latency.is_of_few_events(quantile))?;
            let worth = known.effective_size / seconds.len() as f64;
            let ranks = quantile_ranks(quantile, latency.independent_values() as f64 * worth)?;
            let at = |quantile| kind.at(quantile, &trial.record).ok();
            Interval { estimate: at(quantile)?, low: at(ranks.low)?, high: at(ranks.high)? }
        }
    };
    Some(Within { interval, effective_seconds: known.effective_size, autocorrelation: known.autocorrelation })
}

/// What may be said of a figure or a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Better,
    Worse,
    NoDifferent,
    CannotTell,
}

/// A figure that is compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FigureKind {
    MessagesPerSecond,
    ResponseP50,
    ResponseP99,
    ResponseP999,
    ServiceP50,
    ServiceP99,
    ServiceP999,
    EndToEndP99,
    /// Of one of several groups of consumers, by its name.
    EndToEndP99OfGroup(String),
}

impl FigureKind {
    pub(super) const ALL: [FigureKind; 8] = [
        FigureKind::MessagesPerSecond,
        FigureKind::ResponseP50,
        FigureKind::ResponseP99,
        FigureKind::ResponseP999,
        FigureKind::ServiceP50,
        FigureKind::ServiceP99,
        FigureKind::ServiceP999,
        FigureKind::EndToEndP99,
    ];

    /// The latency with the quantile (0 to 1), `None` of a rate; and the name.
    fn parts(&self) -> (Option<(LatencyKind, f64)>, &'static str) {
        match self {
            FigureKind::MessagesPerSecond => (None, "messages/s"),
            FigureKind::ResponseP50 => (Some((LatencyKind::Response, 0.5)), "response p50"),
            FigureKind::ResponseP99 => (Some((LatencyKind::Response, 0.99)), "response p99"),
            FigureKind::ResponseP999 => (Some((LatencyKind::Response, 0.999)), "response p99.9"),
            FigureKind::ServiceP50 => (Some((LatencyKind::Service, 0.5)), "service p50"),
            FigureKind::ServiceP99 => (Some((LatencyKind::Service, 0.99)), "service p99"),
            FigureKind::ServiceP999 => (Some((LatencyKind::Service, 0.999)), "service p99.9"),
            FigureKind::EndToEndP99 | FigureKind::EndToEndP99OfGroup(_) => {
                (Some((LatencyKind::EndToEnd, 0.99)), "end-to-end p99")
            }
        }
    }

    /// The figures that a trial of one of these records was to have. Of several groups of consumers, each has its own.
    pub(super) fn wanted_of<'a>(records: impl Iterator<Item = &'a Record> + Clone) -> Vec<FigureKind> {
        let is_wanted = |kind: &FigureKind| records.clone().any(|record| kind.is_wanted_of(record));
        let mut kinds: Vec<FigureKind> = FigureKind::ALL.into_iter().filter(is_wanted).collect();
        for of in records.flat_map(|record| &record.latency.end_to_end_by_group) {
            let kind = FigureKind::EndToEndP99OfGroup(of.group.clone());
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        kinds
    }

    /// The group of consumers that it is about; `None`: all.
    fn group(&self) -> Option<&str> {
        if let FigureKind::EndToEndP99OfGroup(name) = self { Some(name) } else { None }
    }

    pub(super) fn quantile(&self) -> Option<f64> {
        self.parts().0.map(|(_, quantile)| quantile)
    }

    fn latency_kind(&self) -> Option<LatencyKind> {
        self.parts().0.map(|(kind, _)| kind)
    }

    /// Whether the record is of a trial that was to have the figure: only the headline's latency, and what consumers saw.
    fn is_wanted_of(&self, record: &Record) -> bool {
        match self.latency_kind() {
            None => true,
            Some(LatencyKind::EndToEnd) => {
                record.latency.end_to_end.is_some() && record.latency.end_to_end_by_group.is_empty()
            }
            Some(LatencyKind::Response) => record.headline == Headline::Response,
            Some(_) => record.headline == Headline::Service,
        }
    }

    /// The figure of a record, or why it has none. A percentile is that of all messages that were wanted, those that never arrived
    /// included, as in a threshold; one with too few values beyond it is not known.
    pub(super) fn value(&self, record: &Record) -> Result<f64, String> {
        match self.quantile() {
            Some(quantile) => self.at(quantile, record),
            None if record.counts.acknowledged == 0 => Err("no message was acknowledged".to_owned()),
            None => Ok(record.throughput.messages_per_second),
        }
    }

    /// Another quantile of the figure's latency.
    pub(super) fn at(&self, quantile: f64, record: &Record) -> Result<f64, String> {
        let Some(kind) = self.latency_kind() else { return Err("a rate has no quantile".to_owned()) };
        let groups = consumer_groups(record);
        if kind == LatencyKind::EndToEnd && groups > 0 && record.counts.consumed == Some(0) {
            return Err("no message was received".to_owned());
        }
        if kind == LatencyKind::EndToEnd
            && let Some(reason) = self.of_other_groups(record, groups)
        {
            return Err(reason.to_owned());
        }
        measured(Metric::Latency(kind, LatencyStatistic::Quantile(quantile)), self.group(), record, groups)
    }

    /// Why the end-to-end latency of a record with so many groups is of other groups than the figure; `None`: it is of the same.
    fn of_other_groups(&self, record: &Record, groups: u64) -> Option<&'static str> {
        let apart = &record.latency.end_to_end_by_group;
        match self.group() {
            None => (!apart.is_empty()).then_some("each group of consumers has its own"),
            Some(_) if apart.is_empty() && groups > 1 => Some("the groups of consumers were not kept apart"),
            Some(name) => {
                let is_alone = apart.is_empty() && record.group_name(0) == name;
                let is_there = is_alone || apart.iter().any(|of| of.group == name);
                (!is_there).then_some("there is no such group of consumers")
            }
        }
    }

    /// The latency that the figure is a quantile of.
    pub(super) fn latency<'a>(&self, record: &'a Record) -> Option<&'a Latency> {
        match self.latency_kind()? {
            LatencyKind::EndToEnd => match self.group() {
                Some(group) => record.latency.of_group(group),
                None => record.latency.end_to_end.as_ref(),
            },
            _ => record.headline_latency(),
        }
    }

    /// Whether a larger figure is a better one.
    pub fn larger_is_better(&self) -> bool {
        *self == FigureKind::MessagesPerSecond
    }
}

/// How many groups of consumers were owed each message, as the scenario of the record says.
pub(super) fn consumer_groups(record: &Record) -> u64 {
    let Some(consumers) = record.tables().consumers else { return 0 };
    match (consumers.group, consumers.groups) {
        (Some(groups), _) => groups.len() as u64,
        (None, groups) => groups.unwrap_or(1) as u64,
    }
}

impl fmt::Display for FigureKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.parts().1)?;
        self.group().map_or(Ok(()), |group| write!(formatter, ", {group}"))
    }
}
