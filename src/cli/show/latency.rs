//! The table of latencies.

use super::page::{LABEL_WIDTH, Page, Tone};
use super::table::{self, Align, Column};
use crate::record::readable::{count, duration};
use crate::record::{Headline, Latency, Record};

/// A figure of a latency, in words.
type Statistic = fn(&Latency) -> String;

/// A percentile in words; a dash where too few independent values lie beyond it to state it, an asterisk where few events made it.
pub(super) fn stated(latency: &Latency, quantile: f64, value_ns: impl Into<Option<u64>>) -> String {
    let value_ns = value_ns.into().filter(|_| latency.supports(quantile));
    let mark = if latency.is_of_few_events(quantile) { "*" } else { "" };
    value_ns.map_or("–".to_owned(), |value_ns| duration(value_ns as f64) + mark)
}

/// Rows are latencies, columns percentiles; nothing where nothing was recorded.
pub(super) fn table(page: &mut Page, record: &Record) {
    let all = [
        ("response", record.latency.response.as_ref(), record.headline == Headline::Response),
        ("service", record.latency.service.as_ref(), record.headline == Headline::Service),
        ("schedule delay", record.latency.schedule_delay.as_ref(), false),
        ("end to end", record.latency.end_to_end.as_ref(), false),
        ("commit", record.transactions.as_ref().and_then(|transactions| transactions.commit.as_ref()), false),
    ];
    let rows: Vec<(&str, &Latency, bool)> = all
        .into_iter()
        .filter_map(|(name, latency, headline)| latency.map(|latency| (name, latency, headline)))
        .collect();
    if rows.is_empty() {
        page.labelled("latency", "none recorded");
        return;
    }
    let names = rows.iter().map(|(name, _, headline)| {
        (if *headline { Tone::Strong } else { Tone::Plain }, format!("{name:<width$}", width = LABEL_WIDTH + 2))
    });
    let mut columns =
        vec![Column { title: "latency".to_owned(), cells: names.collect(), align: Align::Left, rank: Column::KEEP }];
    let statistics: [(&str, u8, Statistic); 7] = [
        ("p50", 9, |latency| stated(latency, 0.5, latency.p50_ns)),
        ("p90", 3, |latency| stated(latency, 0.9, latency.p90_ns)),
        ("p99", 9, |latency| stated(latency, 0.99, latency.p99_ns)),
        ("p99.9", 8, |latency| stated(latency, 0.999, latency.p99_9_ns)),
        ("p99.99", 2, |latency| stated(latency, 0.9999, latency.p99_99_ns)),
        ("max", 7, |latency| duration(latency.max_ns as f64)),
        ("mean", 1, |latency| duration(latency.mean_ns)),
    ];
    for (title, rank, statistic) in statistics {
        let cells = rows
            .iter()
            .map(|(_, latency, headline)| (if *headline { Tone::Strong } else { Tone::Plain }, statistic(latency)));
        columns.push(Column { title: format!("{title:>8}"), cells: cells.collect(), align: Align::Right, rank });
    }
    if rows.iter().any(|(_, latency, _)| latency.beyond_range > 0) {
        let cells = rows.iter().map(|(_, latency, _)| (Tone::Bad, count(latency.beyond_range)));
        columns.push(Column {
            title: "beyond range".to_owned(),
            cells: cells.collect(),
            align: Align::Right,
            rank: Column::KEEP,
        });
    }
    table::print(page, columns);
    let of_few = |latency: &Latency| latency.high_percentiles().any(|(quantile, _)| latency.is_of_few_events(quantile));
    if rows.iter().any(|(_, latency, _)| of_few(latency)) {
        page.labelled("", "* few events made it: another run may not have it");
    }
}
