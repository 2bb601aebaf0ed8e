//! The figures that are compared, and where a record has them.

use std::fmt;

use serde::Serialize;

use crate::record::{Headline, Latency, Record};

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

    /// The distribution that the quantile is of: only the headline's, and what consumers saw.
    pub(super) fn latency(self, record: &Record) -> Option<&Latency> {
        match self {
            FigureKind::MessagesPerSecond => None,
            FigureKind::EndToEndP99 => record.latency.end_to_end.as_ref(),
            FigureKind::ResponseP50 | FigureKind::ResponseP99 | FigureKind::ResponseP999 => {
                record.headline_latency().filter(|_| record.headline == Headline::Response)
            }
            FigureKind::ServiceP50 | FigureKind::ServiceP99 | FigureKind::ServiceP999 => {
                record.headline_latency().filter(|_| record.headline == Headline::Service)
            }
        }
    }

    /// The figure of a record; a percentile with too few values beyond it is not one.
    pub(super) fn of(self, record: &Record) -> Option<f64> {
        let Some(quantile) = self.quantile() else { return Some(record.throughput.messages_per_second) };
        let latency = self.latency(record).filter(|latency| latency.supports(quantile))?;
        let value_ns = match quantile {
            0.5 => Some(latency.p50_ns),
            0.99 => latency.p99_ns,
            _ => latency.p99_9_ns,
        };
        value_ns.map(|value_ns| value_ns as f64)
    }

    /// Whether a larger figure is a better one.
    pub fn larger_is_better(self) -> bool {
        self == FigureKind::MessagesPerSecond
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
