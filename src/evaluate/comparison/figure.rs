//! The figures that are compared, and where a record has them.

use std::fmt;

use serde::Serialize;

use crate::evaluate::threshold::measured;
use crate::record::{Headline, Latency, Record};
use crate::scenario::{LatencyKind, LatencyStatistic, Metric};

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

    /// The quantile, 0 to 1; `None` of a rate.
    pub(super) fn quantile(self) -> Option<f64> {
        match self {
            FigureKind::MessagesPerSecond => None,
            FigureKind::ResponseP50 | FigureKind::ServiceP50 => Some(0.5),
            FigureKind::ResponseP99 | FigureKind::ServiceP99 | FigureKind::EndToEndP99 => Some(0.99),
            FigureKind::ResponseP999 | FigureKind::ServiceP999 => Some(0.999),
        }
    }

    /// Whether the record is of a trial that was to have the figure: only the headline's latency, and what consumers saw.
    pub(super) fn is_wanted_of(self, record: &Record) -> bool {
        match self.latency_kind() {
            None => true,
            Some(LatencyKind::EndToEnd) => record.latency.end_to_end.is_some(),
            Some(LatencyKind::Response) => record.headline == Headline::Response,
            Some(_) => record.headline == Headline::Service,
        }
    }

    /// The figure of a record, or why it has none. A percentile is that of all messages that were wanted, those that never arrived
    /// included, as in a threshold; one with too few values beyond it is not known.
    pub(super) fn of(self, record: &Record) -> Result<f64, String> {
        match self.quantile() {
            Some(quantile) => self.at(quantile, record),
            None if record.counts.acknowledged == 0 => Err("no message was acknowledged".to_owned()),
            None => Ok(record.throughput.messages_per_second),
        }
    }

    /// Another quantile of the figure's latency.
    pub(super) fn at(self, quantile: f64, record: &Record) -> Result<f64, String> {
        let Some(kind) = self.latency_kind() else { return Err("a rate has no quantile".to_owned()) };
        let groups = consumer_groups(record);
        if kind == LatencyKind::EndToEnd && groups > 0 && record.counts.consumed == Some(0) {
            return Err("no message was received".to_owned());
        }
        measured(Metric::Latency(kind, LatencyStatistic::Quantile(quantile)), record, groups)
    }

    /// The latency that the figure is a quantile of.
    pub(super) fn latency(self, record: &Record) -> Option<&Latency> {
        match self.latency_kind()? {
            LatencyKind::EndToEnd => record.latency.end_to_end.as_ref(),
            _ => record.headline_latency(),
        }
    }

    fn latency_kind(self) -> Option<LatencyKind> {
        match self {
            FigureKind::MessagesPerSecond => None,
            FigureKind::EndToEndP99 => Some(LatencyKind::EndToEnd),
            FigureKind::ResponseP50 | FigureKind::ResponseP99 | FigureKind::ResponseP999 => Some(LatencyKind::Response),
            FigureKind::ServiceP50 | FigureKind::ServiceP99 | FigureKind::ServiceP999 => Some(LatencyKind::Service),
        }
    }

    /// Whether a larger figure is a better one.
    pub fn larger_is_better(self) -> bool {
        self == FigureKind::MessagesPerSecond
    }
}

/// How many groups of consumers were owed each message, as the scenario of the record says.
pub(super) fn consumer_groups(record: &Record) -> u64 {
    let Some(consumers) = record.tables().consumers else { return 0 };
    match (consumers.group, consumers.groups) {
        (Some(groups), _) => groups.len() as u64,
        (None, groups) => groups.map_or(1, |groups| groups.0),
    }
}

impl fmt::Display for FigureKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            FigureKind::MessagesPerSecond => "messages/s",
            FigureKind::ResponseP50 => "response p50",
            FigureKind::ResponseP99 => "response p99",
            FigureKind::ResponseP999 => "response p99.9",
            FigureKind::ServiceP50 => "service p50",
            FigureKind::ServiceP99 => "service p99",
            FigureKind::ServiceP999 => "service p99.9",
            FigureKind::EndToEndP99 => "end-to-end p99",
        })
    }
}
