//! The table of the parts of a schedule that changes its rate.

use super::latency::stated;
use super::page::{LABEL_WIDTH, Page};
use super::table::{self, Align, Column};
use crate::record::readable::{duration, rate};
use crate::record::{Latency, Record, SchedulePart};

/// A row a part; nothing where the rate does not change.
pub(super) fn table(page: &mut Page, record: &Record) {
    if record.parts.is_empty() {
        return;
    }
    let each = |text: fn(&SchedulePart) -> String| record.parts.iter().map(text).collect::<Vec<_>>().into_iter();
    let latency = |part: &SchedulePart, figure: fn(&Latency) -> String| {
        part.response.as_ref().map_or_else(|| "–".to_owned(), figure)
    };
    let names = record.parts.iter().map(|part| format!("{:<width$}", part.kind, width = LABEL_WIDTH + 2));
    let columns = vec![
        Column::new("schedule", Align::Left, Column::KEEP, names),
        Column::new("begins at", Align::Right, 5, each(|part| duration(part.begin_ns as f64))),
        Column::new("lasts", Align::Right, 4, each(|part| duration(part.duration_ns as f64))),
        Column::new("wanted/s", Align::Right, 8, each(|part| rate(part.target_per_second))),
        Column::new("sent/s", Align::Right, 3, each(|part| rate(part.sent_per_second))),
        Column::new("acknowledged/s", Align::Right, Column::KEEP, each(|part| rate(part.messages_per_second))),
        Column::new(
            "p50",
            Align::Right,
            6,
            record.parts.iter().map(|part| latency(part, |latency| stated(latency, 0.5, latency.p50_ns))),
        ),
        Column::new(
            "p99",
            Align::Right,
            7,
            record.parts.iter().map(|part| latency(part, |latency| stated(latency, 0.99, latency.p99_ns))),
        ),
    ];
    page.blank();
    table::print(page, columns);
}
