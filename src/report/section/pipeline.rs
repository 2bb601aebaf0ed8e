//! A pipeline: where time went, rows over time, and how far behind it was.

use super::timeline::{self, Timeline};
use super::{Block, Section};
use crate::present::pipeline::facts;
use crate::present::{Table, duration_or_dash};
use crate::record::readable::{count, duration, percent, rate};
use crate::record::{Pipeline, Record, SeriesRow, StageTime};
use crate::report::figure::{Figure, PHONE, WIDE};
use crate::report::html;
use crate::report::svg::bars::{Bar, Bars};
use crate::report::svg::unit::{Unit, moment};

pub fn section(record: &Record, series: &[SeriesRow]) -> Option<Section> {
    let pipeline = record.pipeline.as_ref()?;
    let mut blocks = vec![Block::Html(html::facts(&facts(pipeline)))];
    if !pipeline.stages.is_empty() {
        blocks.push(Block::figure(stages(pipeline)));
    }
    if let Some(timeline) = Timeline::new(record, series) {
        blocks.extend(rows(&timeline).map(Block::figure));
        blocks.extend(lag(&timeline).map(Block::figure));
    }
    Section::new("pipeline", "The pipeline", blocks)
}

fn stages(pipeline: &Pipeline) -> Figure {
    let slowest = pipeline.bottleneck.stage.as_deref();
    let bar = |stage: &StageTime| Bar {
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
    let row = |stage: &StageTime| {
        let p50 = duration_or_dash(stage.per_batch.as_ref().map(|latency| latency.p50_ns));
        let p99 = duration_or_dash(stage.per_batch.as_ref().and_then(|latency| latency.p99_ns));
        vec![stage.stage.clone(), duration(stage.total_ns as f64), percent(stage.share), p50, p99]
    };
    let rows = pipeline.stages.iter().map(row).collect();
    figure.table = Table::from_rows(["stage", "all together", "share", "p50 of a batch", "p99"], rows);
    figure
}

fn rows(timeline: &Timeline<'_>) -> Option<Figure> {
    timeline.rows.iter().find_map(|(_, row)| row.finished)?;
    let per_second = |number: u64, row: &SeriesRow| number as f64 / row.seconds();
    let lines = vec![
        timeline.line("produced", 6, |row| Some(row.acknowledged_per_second())),
        timeline.line("done", 1, |row| row.finished.map(|finished| per_second(finished, row))),
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
    let lines = vec![timeline.line("behind", 4, |row| row.consumer_lag.map(|lag| lag as f64))];
    Some(timeline::figure("lag", "How far behind", sentence, timeline, "messages behind", Unit::Count, lines))
}
