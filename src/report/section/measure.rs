//! The figures that a sweep's charts and tables show.

use crate::record::Record;
use crate::report::svg::unit::Unit;

/// A figure of a record, and how it is written.
pub(super) struct Measure {
    pub(super) id: &'static str,
    pub(super) title: String,
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) of: fn(&Record) -> Option<f64>,
}

/// Throughput, and the 99th percentile of the latency that leads.
pub(super) fn measures(records: &[&Record]) -> [Measure; 2] {
    let headline = records.first().map_or_else(String::new, |record| record.headline.to_string());
    [
        Measure {
            id: "throughput",
            title: "Throughput".to_owned(),
            name: "messages/s".to_owned(),
            unit: Unit::PerSecond,
            of: |record| Some(record.throughput.messages_per_second),
        },
        Measure {
            id: "latency",
            title: format!("{} time, p99", super::capital(&headline)),
            name: format!("{headline} time, p99"),
            unit: Unit::Nanoseconds,
            of: |record| record.headline_latency()?.p99_ns.map(|ns| ns as f64),
        },
    ]
}
