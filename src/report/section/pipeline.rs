//! A pipeline: where time went, rows over time, and how far behind it was.

use super::timeline::{self, Timeline};
use super::{Part, Section, texts};
use crate::record::readable::{count, duration, percent, rate};
use crate::record::{Pipeline, Record, SeriesRow};
use crate::report::figure::{Figure, PHONE, Table, WIDE};
use crate::report::svg::bars::{Bar, Bars};
use crate::report::svg::escape;
use crate::report::svg::lines::Line;
use crate::report::svg::unit::{Unit, moment};

pub fn section(record: &Record, series: &[SeriesRow]) -> Option<Section> {
    let pipeline = record.pipeline.as_ref()?;
    let mut parts = vec![Part::Html(format!("<p>{}</p>", escape(&balance(pipeline))))];
    if !pipeline.stages.is_empty() {
        parts.push(Part::figure(stages(pipeline)));
    }
    if let Some(timeline) = Timeline::of(record, series) {
        parts.extend(rows(&timeline).map(Part::figure));
        parts.extend(lag(&timeline).map(Part::figure));
    }
    let sinks = sinks(pipeline);
    if !sinks.rows.is_empty() {
        parts.push(Part::Html(format!("<h3>Databases</h3>{}", sinks.html())));
    }
    Section::of("pipeline", "The pipeline", parts)
}

/// What was produced, consumed and written.
fn balance(pipeline: &Pipeline) -> String {
    let found = &pipeline.reconciliation;
    let produced = found.produced.map(|produced| format!("{} produced, ", count(produced))).unwrap_or_default();
    let end = match found.balanced {
        Some(true) => "Everything is where it belongs.",
        Some(false) => "Not everything is where it belongs.",
        None => "Others may send or receive as well, so this does not tell whether all is where it belongs.",
    };
    let written: Vec<String> =
        pipeline.sinks.iter().map(|sink| format!("{} written to {}", count(sink.written), sink.name)).collect();
    let written = if written.is_empty() { String::new() } else { format!(", {}", written.join(", ")) };
    format!("{produced}{} consumed{written}. {end}", count(found.consumed))
}

fn stages(pipeline: &Pipeline) -> Figure {
    let slowest = pipeline.bottleneck.stage.as_deref();
    let bar = |stage: &crate::record::StageTime| Bar {
        name: stage.stage.clone(),
        value: Some(stage.share),
        text: match stage.per_batch.as_ref().and_then(|latency| latency.p99_ns) {
            Some(p99) => format!("{}, p99 {}", percent(stage.share), duration(p99 as f64)),
            None => percent(stage.share),
        },
        interval: None,
        trials: Vec::new(),
        style: if Some(stage.stage.as_str()) == slowest { 1 } else { 6 },
    };
    let bars = Bars {
        name: "share of the time".to_owned(),
        unit: Unit::Share,
        bars: pipeline.stages.iter().map(bar).collect(),
    };
    let limit = match slowest {
        Some(stage) => format!("The pipeline was limited by {stage}. "),
        None => "The evidence does not show what limited the pipeline. ".to_owned(),
    };
    let sentence = format!("{limit}{}", pipeline.bottleneck.evidence);
    let shapes = (bars.shape(WIDE.width), bars.shape(PHONE.width));
    let mut figure = Figure::draw("stages", "Time by stage", sentence, shapes, |shape| bars.draw(shape));
    let row = |stage: &crate::record::StageTime| {
        let p50 = stage.per_batch.as_ref().map_or("–".to_owned(), |latency| duration(latency.p50_ns as f64));
        let p99 = stage.per_batch.as_ref().and_then(|latency| latency.p99_ns);
        let p99 = p99.map_or("–".to_owned(), |ns| duration(ns as f64));
        vec![stage.stage.clone(), duration(stage.total_ns as f64), percent(stage.share), p50, p99]
    };
    figure.table = Table {
        note: String::new(),
        heads: texts(&["stage", "all together", "share", "p50 of a batch", "p99"]),
        rows: pipeline.stages.iter().map(row).collect(),
    };
    figure
}

fn line(timeline: &Timeline<'_>, name: &str, style: usize, value: impl Fn(&SeriesRow) -> Option<f64>) -> Line {
    let points = timeline.rows.iter().map(|(begin, row)| (begin + row.seconds() / 2.0, value(row))).collect();
    Line { name: name.to_owned(), style, points }
}

fn rows(timeline: &Timeline<'_>) -> Option<Figure> {
    timeline.rows.iter().find_map(|(_, row)| row.finished)?;
    let per_second = |number: u64, row: &SeriesRow| number as f64 / row.seconds();
    let lines = vec![
        line(timeline, "produced", 6, |row| Some(row.acknowledged_per_second())),
        line(timeline, "done", 1, |row| row.finished.map(|finished| per_second(finished, row))),
    ];
    let sentence = match timeline.record.pipeline.as_ref().and_then(|pipeline| pipeline.consumer_kept_up) {
        Some(kept) if kept.held => format!(
            "The pipeline kept up: {} of what had been produced was done when the load ended.",
            percent(kept.share)
        ),
        Some(kept) => format!(
            "The pipeline fell behind: only {} of what had been produced was done when the load ended.",
            percent(kept.share)
        ),
        None => {
            let fastest =
                timeline.rows.iter().filter_map(|(_, row)| row.finished.map(|finished| per_second(finished, row)));
            format!("In its fastest second, the pipeline was done with {} messages.", rate(fastest.fold(0.0, f64::max)))
        }
    };
    Some(timeline::figure(
        "rows",
        "Messages that the pipeline was done with",
        sentence,
        timeline,
        "messages/s",
        Unit::PerSecond,
        lines,
    ))
}

fn lag(timeline: &Timeline<'_>) -> Option<Figure> {
    let lags: Vec<(f64, u64)> =
        timeline.rows.iter().filter_map(|(begin, row)| Some((*begin, row.consumer_lag?))).collect();
    let (at, most) = lags.iter().max_by_key(|lag| lag.1)?;
    let last = lags.last()?.1;
    let end = if last == 0 { "at the end, none".to_owned() } else { format!("at the end still {}", count(last)) };
    let sentence = format!("The pipeline was {} messages behind at most (at {}); {end}.", count(*most), moment(*at));
    let lines = vec![line(timeline, "behind", 4, |row| row.consumer_lag.map(|lag| lag as f64))];
    Some(timeline::figure("lag", "How far behind", sentence, timeline, "messages behind", Unit::Count, lines))
}

fn sinks(pipeline: &Pipeline) -> Table {
    let row = |sink: &crate::record::SinkRecord| {
        let p99 =
            sink.latency.as_ref().and_then(|latency| latency.p99_ns).map_or("–".to_owned(), |ns| duration(ns as f64));
        let numbers = [sink.duplicates, sink.refused, sink.not_written, sink.retries].map(count);
        [sink.name.clone(), count(sink.written), rate(sink.written_per_second)]
            .into_iter()
            .chain(numbers)
            .chain([p99, sink.row_count.delta.map_or("–".to_owned(), count)])
            .collect()
    };
    let heads = texts(&[
        "database",
        "written",
        "rows/s",
        "there already",
        "refused",
        "not written",
        "tried again",
        "p99 until written",
        "its own count",
    ]);
    Table { heads, rows: pipeline.sinks.iter().map(row).collect(), ..Table::default() }
}
