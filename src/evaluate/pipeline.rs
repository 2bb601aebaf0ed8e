//! The record's section on a pipeline, and the record of each of its sinks.

use std::collections::BTreeMap;
use std::time::Duration;

use super::sections::{errors_by_class, independent, latency, per_second};
use crate::engine::Outcome;
use crate::measure::Errors;
use crate::measure::host::ProcessUsage;
use crate::pipeline::sink::ReadBack;
use crate::pipeline::{self, Counted, Figures, SinkFigures, Stage, Unparsable};
use crate::record::readable::{count, duration, percent};
use crate::record::{
    self, Bottleneck, ErrorCount, KeptUp, Pipeline, PublishedFigures, Reconciliation, RowCount, SinkRecord, StageTime,
    UnparsableCount,
};
use crate::scenario::{self, ProducerMode, SinksRun, Trial};

/// Share of what was acknowledged that must be done when the load ends: messages in hand then are not a backlog.
const KEPT_UP_SHARE: f64 = 0.99;

/// What may be in hand when a short load ends: messages that wait for a batch to fill, and those being written.
const IN_HAND: Duration = Duration::from_millis(250);

/// Share of the instances' time in which every writer was busy, or of all time in which only writers worked, from which the
/// writers count as the limit.
const BLOCKED_SHARE: f64 = 0.1;

/// Share of the instances' time in one stage from which that is taken to be the limit.
const BUSY_SHARE: f64 = 0.5;

pub(super) fn pipeline(trial: &Trial, outcome: &Outcome) -> Option<Pipeline> {
    let config = trial.scenario.pipeline.as_ref()?;
    let measured = outcome.pipeline.as_ref()?;
    let figures = &measured.figures;
    let names = names(config);
    let begin_ns = figures.first_received_ns;
    let last_tried = figures.sinks.iter().map(|sink| sink.last_tried_ns).max().unwrap_or(0);
    let consuming_ns = figures.last_received_ns.saturating_sub(begin_ns);
    let working_ns = figures.last_received_ns.max(last_tried).saturating_sub(begin_ns);
    let load_ns = outcome.times.load_ended_ns.saturating_sub(outcome.times.load_start_ns);
    let stages = stages(config, figures, &names, working_ns);
    let sinks = sinks(&names, measured, outcome);
    Some(Pipeline {
        instances: config.instances,
        consumed: figures.consumed,
        consuming_ns,
        consumed_per_second: per_second(figures.consumed, consuming_ns),
        working_ns,
        batches: figures.batches,
        cpu_ns_per_message: cpu(&measured.usage, figures.consumed),
        receipt: independent(&figures.receipt, outcome.totals.arrivals.moments),
        unparsable: unparsable(figures),
        bottleneck: bottleneck(config, figures, &stages, &names, trailing(consuming_ns, working_ns)),
        stages,
        consumer_kept_up: measured.at_load_end.map(|(acknowledged, finished)| kept_up(acknowledged, finished, load_ns)),
        consumer_lag_at_end: measured.consumer_lag,
        commit_errors: by_class(&figures.commit_errors, outcome),
        reconciliation: reconciliation(config, outcome, figures, &sinks),
        sinks,
        as_published: as_published(measured),
    })
}

/// Kinds, numbered where there are several of one.
fn names(config: &scenario::Pipeline) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for sink in &config.sinks {
        let before = names.iter().filter(|name| name.split('-').next() == Some(&sink.kind)).count();
        names.push(if before == 0 { sink.kind.clone() } else { format!("{}-{}", sink.kind, before + 1) });
    }
    names
}

fn cpu(usage: &ProcessUsage, messages: u64) -> Option<f64> {
    (messages > 0).then(|| usage.cpu().as_nanos() as f64 / messages as f64)
}

fn by_class(errors: &Errors, outcome: &Outcome) -> Vec<ErrorCount> {
    errors_by_class(errors, outcome.times.measure_start_ns)
}

fn unparsable(figures: &Figures) -> Vec<UnparsableCount> {
    let tallies = Unparsable::ALL.into_iter().zip(&figures.unparsable).filter(|(_, tally)| tally.count > 0);
    tallies
        .map(|(class, tally)| UnparsableCount {
            class: class.name().to_owned(),
            count: tally.count,
            first: tally.first.as_ref().map(|(_, place)| place.clone()).unwrap_or_default(),
        })
        .collect()
}

fn stages(config: &scenario::Pipeline, figures: &Figures, names: &[String], working_ns: u64) -> Vec<StageTime> {
    let time = |name: &str, stage: &Stage, all_ns: f64| StageTime {
        stage: name.to_owned(),
        total_ns: stage.total_ns,
        // Instances may stay blocked until the deadline, which is longer than the working time.
        share: if all_ns > 0.0 { (stage.total_ns as f64 / all_ns).min(1.0) } else { 0.0 },
        per_batch: latency(&stage.per_batch),
    };
    let instances_ns = working_ns as f64 * config.instances as f64;
    let writers_ns = instances_ns * config.writers as f64;
    let in_sinks_ns = record::saturating_sum(figures.sinks.iter().map(|sink| sink.time.total_ns));
    let mut stages = vec![
        time("fetch", &figures.fetch, instances_ns),
        time("parse", &figures.parse, instances_ns),
        time("blocked", &figures.blocked, instances_ns),
        time("wait", &figures.wait, (figures.wait.total_ns + in_sinks_ns) as f64),
    ];
    stages.extend(names.iter().zip(&figures.sinks).map(|(name, sink)| time(name, &sink.time, writers_ns)));
    stages.push(time("commit", &figures.commit, instances_ns));
    stages
}

/// The share of the work in which nothing came any more, and writers were still at it.
fn trailing(consuming_ns: u64, working_ns: u64) -> f64 {
    if working_ns == 0 { 0.0 } else { (working_ns - consuming_ns) as f64 / working_ns as f64 }
}

/// Writers are the limit where instances could not take because of them, or where they had much left to write when all had
/// been taken; then the sink in which they spent most of their time is. Otherwise it is what the instances themselves did
/// most of the time.
fn bottleneck(
    config: &scenario::Pipeline,
    figures: &Figures,
    stages: &[StageTime],
    names: &[String],
    trailing: f64,
) -> Bottleneck {
    let find = |name: &str| stages.iter().find(|stage| stage.stage == name);
    let share = |name: &str| find(name).map_or(0.0, |stage| stage.share);
    let slowest = stages
        .iter()
        .filter(|stage| names.contains(&stage.stage))
        .max_by(|one, other| one.total_ns.cmp(&other.total_ns));
    if let Some(sink) = slowest
        && share("blocked").max(trailing) >= BLOCKED_SHARE
    {
        let order = match config.sinks_run {
            SinksRun::InOrder => "one sink after the other",
            SinksRun::InParallel => "all sinks at once",
        };
        let each = match &sink.per_batch {
            Some(latency) => format!("half of the batches took {} or longer", duration(latency.p50_ns as f64)),
            None => "no batch had an outcome".to_owned(),
        };
        let blocked = (share("blocked") >= BLOCKED_SHARE).then(|| {
            let blocked = percent(share("blocked"));
            format!("Instances were blocked for {blocked} of their time because every writer was busy. ")
        });
        let trailing = (trailing >= BLOCKED_SHARE)
            .then(|| format!("Only writers worked during the last {} of the time. ", percent(trailing)));
        return Bottleneck {
            stage: Some(sink.stage.clone()),
            evidence: format!(
                "{}{}{} ({order}) spent {} of the time in {}, where {each}.",
                blocked.unwrap_or_default(),
                trailing.unwrap_or_default(),
                match config.instances * config.writers {
                    1 => "The writer".to_owned(),
                    writers => format!("The {} writers", count(writers as u64)),
                },
                percent(sink.share),
                sink.stage,
            ),
        };
    }
    let own = ["fetch", "parse", "commit"].into_iter().max_by(|one, other| share(one).total_cmp(&share(other)));
    match own.filter(|name| figures.consumed > 0 && share(name) >= BUSY_SHARE) {
        Some(name) => Bottleneck {
            stage: Some(name.to_owned()),
            evidence: format!(
                "Instances spent {} of their time in {name}, and {} with full batches that no writer could take.",
                percent(share(name)),
                percent(share("blocked"))
            ),
        },
        None => Bottleneck { stage: None, evidence: "No stage took most of the time.".to_owned() },
    }
}

fn kept_up(acknowledged: u64, finished: u64, load_ns: u64) -> KeptUp {
    let share = if acknowledged == 0 { 1.0 } else { finished as f64 / acknowledged as f64 };
    let in_hand = IN_HAND.as_nanos() as f64 / load_ns.max(1) as f64;
    KeptUp { held: share >= KEPT_UP_SHARE.min(1.0 - in_hand), acknowledged, finished, share }
}

fn reconciliation(
    config: &scenario::Pipeline,
    outcome: &Outcome,
    figures: &Figures,
    sinks: &[SinkRecord],
) -> Reconciliation {
    let (measured, warm_up) = (outcome.ledger.measured, outcome.ledger.warm_up);
    let produced = (config.producer_mode != ProducerMode::None)
        .then_some(measured.acknowledged.saturating_add(warm_up.acknowledged));
    let alone = config.producer_mode != ProducerMode::None && config.group.is_none();
    let consumed = figures.consumed.saturating_sub(figures.abandoned);
    let rows = consumed.saturating_sub(figures.unparsable_messages());
    let in_sinks = sinks.iter().all(|sink| is_complete(sink, rows));
    Reconciliation {
        produced,
        consumed: figures.consumed,
        foreign: figures.foreign,
        unparsable: figures.unparsable_messages(),
        abandoned: figures.abandoned,
        balanced: alone.then(|| produced == Some(consumed.saturating_sub(figures.foreign)) && in_sinks),
    }
}

fn as_published(measured: &pipeline::Outcome) -> PublishedFigures {
    let active = || measured.instances.iter().filter(|(consumed, ..)| *consumed > 0);
    let windows: Vec<(f64, f64)> = active().filter_map(|(_, _, latest)| latest.mean_and_p99()).collect();
    let mean = |values: fn(&(f64, f64)) -> f64| {
        (!windows.is_empty()).then(|| windows.iter().map(values).sum::<f64>() / windows.len() as f64)
    };
    PublishedFigures {
        messages_per_second: active().map(|(consumed, last_ns, _)| per_second(*consumed, *last_ns)).sum(),
        mean_ns: mean(|(mean, _)| *mean),
        mean_of_p99s_ns: mean(|(_, p99)| *p99),
    }
}

pub(super) fn sinks(names: &[String], measured: &pipeline::Outcome, outcome: &Outcome) -> Vec<SinkRecord> {
    let asked = measured.row_counts.iter().zip(&measured.read_back).zip(&measured.durability);
    let sinks = names.iter().zip(&measured.figures.sinks).zip(asked);
    sinks
        .map(|((name, sink), ((row_counts, read_back), durability))| SinkRecord {
            durability: durability.clone(),
            row_count: row_count(row_counts),
            read_back: read_back.as_ref().ok().copied().flatten().map(sample),
            ..sink_record(name, sink, &measured.figures, outcome)
        })
        .collect()
}

fn sample(ReadBack { keys, found }: ReadBack) -> record::ReadBack {
    record::ReadBack { keys, found }
}

/// Without what the database itself tells.
fn sink_record(name: &str, sink: &SinkFigures, figures: &Figures, outcome: &Outcome) -> SinkRecord {
    let refused = sink.refused();
    let rows = figures.consumed.saturating_sub(figures.unparsable_messages() + figures.abandoned);
    let not_written = (rows + sink.repeated).saturating_sub(sink.written + sink.duplicates + refused);
    // What is not written was tried until the end.
    let ended_ns = if not_written > 0 { sink.last_tried_ns } else { sink.last_written_ns };
    let working_ns = ended_ns.saturating_sub(figures.first_received_ns);
    SinkRecord {
        name: name.to_owned(),
        written: sink.written,
        written_per_second: per_second(sink.written, working_ns),
        duplicates: sink.duplicates,
        refused,
        refused_by_class: errors_by_class(&sink.refused, outcome.times.measure_start_ns),
        repeated: sink.repeated,
        not_written,
        errors: errors_by_class(&sink.errors, outcome.times.measure_start_ns),
        retries: sink.retries,
        latency: independent(&sink.latency, sink.moments),
        row_count: RowCount::default(),
        durability: BTreeMap::new(),
        read_back: None,
    }
}

fn row_count((before, after): &(Counted, Counted)) -> RowCount {
    let error = match (before, after) {
        (Err(error), _) => Some(format!("before: {error}")),
        (_, Err(error)) => Some(format!("after: {error}")),
        (Ok(Some(before)), Ok(Some(after))) if before.life != after.life => {
            Some("the database was restarted meanwhile".to_owned())
        }
        _ => None,
    };
    let (before, after) = (before.as_ref().ok().and_then(Option::as_ref), after.as_ref().ok().and_then(Option::as_ref));
    let delta = match (before, after) {
        (Some(before), Some(after)) if before.life == after.life => after.count.checked_sub(before.count),
        _ => None,
    };
    RowCount {
        of: after.or(before).map(|held| held.of.clone()).unwrap_or_default(),
        before: before.map(|held| held.count),
        after: after.map(|held| held.count),
        delta,
        error,
    }
}

/// A row that was there already may be one whose first answer was lost, or another's: the count of the database decides. A row
/// that was read again has two outcomes, and is there once or twice.
pub(super) fn is_complete(sink: &SinkRecord, rows: u64) -> bool {
    sink.written + sink.duplicates == rows + sink.repeated
        && sink.read_back.is_none_or(|sample| sample.found == sample.keys)
        && match sink.row_count.delta {
            Some(delta) => (rows..=rows + sink.repeated).contains(&delta),
            None => sink.duplicates == 0,
        }
}

#[cfg(test)]
#[path = "../../tests/unit/evaluate/pipeline.rs"]
mod tests;
