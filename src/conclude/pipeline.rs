//! The record's section on a pipeline.

use super::assemble::{errors_by_class, latency};
use crate::engine::Outcome;
use crate::measure::Errors;
use crate::measure::host::HostUsage;
use crate::pipeline::{self, Figures, Poison, SinkFigures, Stage};
use crate::record::readable::{count, duration, percent};
use crate::record::{BoundBy, Held, KeptUp, Pipeline, Poisoned, Reconciliation, SeedFigures, SinkRecord, StageTime};
use crate::scenario::{self, Feed, SinksRun, Trial};

/// Share of what was acknowledged that must be done when the load ends: what is in hand then is no backlog.
const KEPT_UP_SHARE: f64 = 0.99;

/// Share of the instances' time without room at their writers from which the writers are taken to be the limit.
const HELD_UP_SHARE: f64 = 0.1;

/// Share of the instances' time in one stage from which that is taken to be the limit.
const BUSY_SHARE: f64 = 0.5;

pub(super) fn pipeline(trial: &Trial, outcome: &Outcome) -> Option<Pipeline> {
    let config = trial.scenario.pipeline.as_ref()?;
    let measured = outcome.pipeline.as_ref()?;
    let figures = &measured.figures;
    let names = names(config);
    let begin_ns = figures.first_received_ns;
    let last_written = figures.sinks.iter().map(|sink| sink.last_written_ns).max().unwrap_or(0);
    let consuming_ns = figures.last_received_ns.saturating_sub(begin_ns);
    let working_ns = figures.last_received_ns.max(last_written).saturating_sub(begin_ns);
    let stages = stages(config, figures, &names, working_ns);
    let sinks = names.iter().zip(&figures.sinks).zip(&measured.held);
    let sinks: Vec<SinkRecord> =
        sinks.map(|((name, sink), held)| self::sink(name, sink, held, figures, outcome)).collect();
    Some(Pipeline {
        instances: config.instances,
        consumed: figures.consumed,
        consuming_ns,
        consumed_per_second: per_second(figures.consumed, consuming_ns),
        working_ns,
        batches: figures.batches,
        cpu_ns_per_message: cpu(&measured.usage, figures.consumed),
        receipt: latency(&figures.receipt),
        poison: poison(figures),
        bound_by: bound_by(config, figures, &stages, &names),
        stages,
        consumer_kept_up: measured.at_load_end.map(|(acknowledged, finished)| kept_up(acknowledged, finished)),
        lag_at_end: measured.lag,
        commit_errors: by_class(&figures.commit_errors, outcome),
        reconciliation: reconciliation(config, outcome, figures, &sinks),
        sinks,
        as_the_seed_computes: as_the_seed_computes(measured),
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

fn per_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}

fn cpu(usage: &HostUsage, messages: u64) -> Option<f64> {
    (messages > 0).then(|| usage.process.cpu().as_nanos() as f64 / messages as f64)
}

fn by_class(errors: &Errors, outcome: &Outcome) -> Vec<crate::record::ErrorCount> {
    errors_by_class(errors, outcome.times.measure_start_ns)
}

fn poison(figures: &Figures) -> Vec<Poisoned> {
    let tallies = Poison::ALL.into_iter().zip(&figures.poison).filter(|(_, tally)| tally.count > 0);
    tallies
        .map(|(class, tally)| Poisoned {
            class: class.name().to_owned(),
            count: tally.count,
            first: tally.first.as_ref().map(|(_, place)| place.clone()).unwrap_or_default(),
        })
        .collect()
}

fn stages(config: &scenario::Pipeline, figures: &Figures, names: &[String], working_ns: u64) -> Vec<StageTime> {
    let time = |name: &str, stage: &Stage, tasks: usize| {
        let all = working_ns as f64 * tasks as f64;
        StageTime {
            stage: name.to_owned(),
            total_ns: stage.total_ns,
            share: if all > 0.0 { stage.total_ns as f64 / all } else { 0.0 },
            per_batch: latency(&stage.per_batch),
        }
    };
    let writers = config.instances * config.writers;
    let mut stages = vec![
        time("fetch", &figures.fetch, config.instances),
        time("parse", &figures.parse, config.instances),
        time("held_up", &figures.held_up, config.instances),
        time("wait", &figures.wait, writers),
    ];
    stages.extend(names.iter().zip(&figures.sinks).map(|(name, sink)| time(name, &sink.time, writers)));
    stages.push(time("commit", &figures.commit, config.instances));
    stages
}

/// Writers are the limit where instances could not take because of them; then the sink in which they spent most of their
/// time is. Otherwise it is what the instances themselves did most of the time.
fn bound_by(config: &scenario::Pipeline, figures: &Figures, stages: &[StageTime], names: &[String]) -> BoundBy {
    let find = |name: &str| stages.iter().find(|stage| stage.stage == name);
    let share = |name: &str| find(name).map_or(0.0, |stage| stage.share);
    let slowest = stages
        .iter()
        .filter(|stage| names.contains(&stage.stage))
        .max_by(|one, other| one.total_ns.cmp(&other.total_ns));
    if let Some(sink) = slowest
        && share("held_up") >= HELD_UP_SHARE
    {
        let order = match config.sinks_run {
            SinksRun::InOrder => "one sink after the other",
            SinksRun::InParallel => "all sinks at once",
        };
        let each = sink.per_batch.as_ref().map_or(0, |latency| latency.p50_ns);
        return BoundBy {
            stage: Some(sink.stage.clone()),
            evidence: format!(
                "Instances could take nothing for {} of their time, because no writer was free; the {} writers ({order}) spent {} of theirs in {}, where half of the batches took {} or longer.",
                percent(share("held_up")),
                count((config.instances * config.writers) as u64),
                percent(sink.share.min(1.0)),
                sink.stage,
                duration(each as f64)
            ),
        };
    }
    let own = ["fetch", "parse", "commit"].into_iter().max_by(|one, other| share(one).total_cmp(&share(other)));
    match own.filter(|name| figures.consumed > 0 && share(name) >= BUSY_SHARE) {
        Some(name) => BoundBy {
            stage: Some(name.to_owned()),
            evidence: format!(
                "Instances spent {} of their time in {name}, and {} with full batches that no writer could take.",
                percent(share(name).min(1.0)),
                percent(share("held_up"))
            ),
        },
        None => BoundBy { stage: None, evidence: "No stage took most of the time.".to_owned() },
    }
}

fn kept_up(acknowledged: u64, finished: u64) -> KeptUp {
    let share = if acknowledged == 0 { 1.0 } else { finished as f64 / acknowledged as f64 };
    KeptUp { held: share >= KEPT_UP_SHARE, acknowledged, finished, share }
}

fn sink(
    name: &str,
    sink: &SinkFigures,
    held: &(Result<pipeline::sink::Held, String>, Result<pipeline::sink::Held, String>),
    figures: &Figures,
    outcome: &Outcome,
) -> SinkRecord {
    let refused = sink.refused();
    let rows = figures.consumed - figures.poisoned();
    let working_ns = sink.last_written_ns.saturating_sub(figures.first_received_ns);
    SinkRecord {
        name: name.to_owned(),
        written: sink.written,
        written_per_second: per_second(sink.written, working_ns),
        duplicates: sink.duplicates,
        refused,
        refused_by_class: by_class(&sink.refused, outcome),
        not_written: rows.saturating_sub(sink.written + sink.duplicates + refused),
        errors: by_class(&sink.errors, outcome),
        retries: sink.retries,
        latency: latency(&sink.latency),
        held: self::held(held),
    }
}

fn held((before, after): &(Result<pipeline::sink::Held, String>, Result<pipeline::sink::Held, String>)) -> Held {
    let known = after.as_ref().or(before.as_ref()).ok();
    let gained = match (before, after) {
        (Ok(before), Ok(after)) if before.life == after.life => after.count.checked_sub(before.count),
        _ => None,
    };
    let error = match (before, after) {
        (Err(error), _) => Some(format!("before: {error}")),
        (_, Err(error)) => Some(format!("after: {error}")),
        (Ok(before), Ok(after)) if before.life != after.life => Some("it was started anew meanwhile".to_owned()),
        _ => None,
    };
    Held {
        of: known.map(|held| held.of.clone()).unwrap_or_default(),
        before: before.as_ref().ok().map(|held| held.count),
        after: after.as_ref().ok().map(|held| held.count),
        gained,
        error,
    }
}

fn reconciliation(
    config: &scenario::Pipeline,
    outcome: &Outcome,
    figures: &Figures,
    sinks: &[SinkRecord],
) -> Reconciliation {
    let (measured, warm_up) = (outcome.ledger.measured, outcome.ledger.warm_up);
    let produced = (config.feed != Feed::None).then_some(measured.acknowledged + warm_up.acknowledged);
    let alone = config.feed != Feed::None && config.group.is_none();
    let rows = figures.consumed - figures.poisoned();
    let in_sinks =
        sinks.iter().all(|sink| sink.written == rows && sink.held.gained.is_none_or(|gained| gained == rows));
    Reconciliation {
        produced,
        consumed: figures.consumed,
        poison: figures.poisoned(),
        given_back: figures.given_back,
        balanced: alone.then(|| produced == Some(figures.consumed) && in_sinks),
    }
}

fn as_the_seed_computes(measured: &pipeline::Outcome) -> SeedFigures {
    let active = || measured.instances.iter().filter(|(consumed, ..)| *consumed > 0);
    let windows: Vec<(f64, f64)> = active().filter_map(|(_, _, latest)| latest.mean_and_p99()).collect();
    let mean = |values: fn(&(f64, f64)) -> f64| {
        (!windows.is_empty()).then(|| windows.iter().map(values).sum::<f64>() / windows.len() as f64)
    };
    SeedFigures {
        messages_per_second: active().map(|(consumed, last_ns, _)| per_second(*consumed, *last_ns)).sum(),
        mean_ns: mean(|(mean, _)| *mean),
        mean_of_p99s_ns: mean(|(_, p99)| *p99),
    }
}
