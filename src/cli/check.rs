//! `brokermark check`: validates a scenario and prints its plan. It connects to nothing.

use std::fmt::{self, Write as _};
use std::io::Write;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::Exit;
use super::scenario_source::ScenarioSource;
use crate::printable::printable;
use crate::record::point_values;
use crate::record::readable::{bytes, rate, settings};
use crate::scenario::{
    ConsumerGroup, Consumers, Load, Pipeline, Plan, ProducerMode, Scenario, Schedule, SinksRun, StartFrom,
};

/// The rate by which it is told what a closed loop writes, of which the rate is not known, in messages per second.
const EXAMPLE_RATE: f64 = 100e3;

#[derive(Debug, Args)]
pub struct CheckArguments {
    #[command(flatten)]
    pub source: ScenarioSource,
    /// Print the plan as JSON
    #[arg(long)]
    pub json: bool,
}

/// Validates the scenario and prints its plan.
pub fn check(arguments: &CheckArguments, out: &mut dyn Write) -> Result<Exit, Exit> {
    let plan = arguments.source.load_with_notes(false).map_err(Exit::usage)?;
    if arguments.json {
        return Ok(Exit::print(&as_json(&plan), out));
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = as_text(&plan, &mut text);
    // Values of the file are among it.
    Ok(Exit::print(&printable(&text), out))
}

fn as_json(plan: &Plan) -> String {
    let trials: Vec<_> = plan
        .trials
        .iter()
        .map(|trial| {
            json!({
                "point_index": trial.point_index,
                "point": point_values(&trial.point),
                "trial": trial.trial,
                "scenario": trial.document,
            })
        })
        .collect();
    format!("{}\n", json!({ "name": plan.name, "trials": trials }))
}

fn as_text(plan: &Plan, out: &mut String) -> fmt::Result {
    let points = plan.trials.iter().map(|trial| trial.point_index).max().map_or(0, |last| last + 1);
    writeln!(out, "{}: {} trial(s) of {points} point(s)", plan.name, plan.trials.len())?;
    if let Some(first) = plan.trials.first() {
        if points > 1 {
            writeln!(out, "  point      {}; the other points have the values below", settings(&first.point))?;
        }
        describe(&first.scenario, out)?;
        let told = warnings(&first.scenario);
        for other in plan.trials.iter().filter(|trial| trial.trial == 1) {
            let untold = warnings(&other.scenario).into_iter().filter(|warning| !told.contains(warning));
            for warning in untold {
                writeln!(out, "           ! with {}: {warning}", settings(&other.point))?;
            }
        }
    }
    if let Some(reason) = plan.trials.iter().find_map(|trial| trial.scenario.check_alone().err()) {
        writeln!(out, "  processes  {reason}")?;
    }
    if points > 1 || plan.trials.len() > 1 {
        writeln!(out)?;
        for (position, trial) in plan.trials.iter().enumerate() {
            writeln!(out, "{:>5}  trial {}  {}", position + 1, trial.trial, settings(&trial.point))?;
        }
    }
    Ok(())
}

fn describe(scenario: &Scenario, out: &mut String) -> fmt::Result {
    let Scenario { broker, producers, run, .. } = scenario;
    let place = match broker.addresses.as_slice() {
        [] => "in this process".to_owned(),
        addresses => format!("at {}", addresses.join(", ")),
    };
    writeln!(out, "  broker     {} {place}, {} connection(s)", broker.kind, broker.connections)?;
    describe_topology(scenario, out)?;
    writeln!(
        out,
        "  producers  {}, batches of {}, up to {} in flight each",
        producers.count, producers.batch, producers.in_flight
    )?;
    writeln!(out, "  load       {}", load(&scenario.load, run.warm_up))?;
    if let Some(written) = written(scenario) {
        writeln!(out, "  writes     {written}")?;
    }
    if let Some(consumers) = &scenario.consumers {
        let verify = if consumers.verify { ", verified" } else { "" };
        let has_own = |group: &ConsumerGroup| group.name.is_some() || group.members.is_some();
        let groups = match consumers.groups.iter().any(has_own) {
            false => format!("{} group(s) of {}", consumers.groups.len(), consumers.members),
            true => {
                let group = |number| format!("{} of {}", consumers.name_of(number), consumers.members_of(number));
                (0..consumers.groups.len()).map(group).collect::<Vec<_>>().join(", ")
            }
        };
        writeln!(out, "  consumers  {groups} per topic{verify}")?;
        too_slow(scenario, consumers).try_for_each(|group| writeln!(out, "           ! {group}"))?;
    }
    if let Some(backlog) = scenario.consumers.as_ref().and_then(|consumers| consumers.backlog) {
        writeln!(out, "  backlog    {} messages before the consumers begin", backlog.messages)?;
    }
    if let Some(pipeline) = &scenario.pipeline {
        writeln!(out, "  pipeline   {}", self::pipeline(pipeline))?;
    }
    let limits = [
        run.stop.messages.map(|messages| format!("{messages} messages")),
        run.stop.payload_bytes.map(|bytes| format!("{bytes} payload bytes")),
        run.stop.duration.map(|duration| format!("{duration:?}")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    writeln!(
        out,
        "  stop       {}, after {:?} of warm-up; outcomes awaited for {:?}, consumers for {:?} at most",
        limits.join(" or "),
        run.warm_up,
        run.drain_deadline,
        run.catch_up_deadline
    )?;
    for fault in &scenario.faults {
        writeln!(out, "  fault      {fault}; `check` runs no command")?;
    }
    for threshold in &scenario.thresholds {
        writeln!(out, "  require    {}", threshold.text)?;
    }
    Ok(())
}

fn describe_topology(scenario: &Scenario, out: &mut String) -> fmt::Result {
    let topology = &scenario.topology;
    let shape = match topology.existing {
        true => "taken as they are".to_owned(),
        false => format!("of {} partition(s), replication {}", topology.partitions, topology.replication),
    };
    writeln!(out, "  topology   {} topic(s) {shape}", topology.topics)?;
    match warning(scenario) {
        Some(warning) => writeln!(out, "           ! {warning}"),
        None => Ok(()),
    }
}

/// All warnings of a point.
fn warnings(scenario: &Scenario) -> Vec<String> {
    let groups = scenario.consumers.iter().flat_map(|consumers| too_slow(scenario, consumers));
    warning(scenario).into_iter().chain(groups).collect()
}

/// What a run does to topics that are not its own.
fn warning(scenario: &Scenario) -> Option<String> {
    let topology = &scenario.topology;
    let name = topology.name.as_ref()?;
    let writes = scenario.pipeline.as_ref().is_none_or(|pipeline| pipeline.producer_mode != ProducerMode::None);
    let done = match (writes, topology.existing) {
        (false, _) => format!("the run reads `{name}`"),
        (true, true) => format!("the run writes into `{name}`, and leaves its messages there"),
        (true, false) => format!("where `{name}` exists, the run writes into it, and leaves its messages there"),
    };
    let reads = writes && scenario.consumers.as_ref().is_some_and(|consumers| consumers.from == StartFrom::Earliest);
    Some(done + if reads { "; consumers read first what it holds already" } else { "" })
}

/// What the broker stores in an hour, as far as it is known beforehand.
fn written(scenario: &Scenario) -> Option<String> {
    let sends = scenario.pipeline.as_ref().is_none_or(|pipeline| pipeline.producer_mode != ProducerMode::None);
    let payload_bytes = scenario.payload.content.mean_bytes().filter(|_| sends && scenario.is_stored())?;
    let in_an_hour = |per_second: f64| bytes(scenario.stored_bytes(payload_bytes) * per_second * 3600.0);
    Some(match &scenario.load {
        Load::Open(schedule) => {
            let per_second = schedule.highest_lasting_rate();
            format!("{} an hour at {} messages/s, before compression", in_an_hour(per_second), rate(per_second))
        }
        Load::Closed => format!(
            "{} an hour for each {} messages/s that the broker takes, before compression",
            in_an_hour(EXAMPLE_RATE),
            rate(EXAMPLE_RATE)
        ),
    })
}

/// Groups that cannot follow the load, by the time that their consumers work on a message, or by their rate.
fn too_slow<'a>(scenario: &'a Scenario, consumers: &'a Consumers) -> impl Iterator<Item = String> + use<'a> {
    let wanted = match &scenario.load {
        Load::Open(schedule) => schedule.highest_lasting_rate(),
        Load::Closed => 0.0,
    };
    consumers.groups.iter().enumerate().filter_map(move |(number, group)| {
        let members = consumers.members_of(number) * scenario.topology.topics;
        let by_work = group.work.map(|work| {
            (
                members as f64 / work.mean.as_secs_f64(),
                format!("{members} consumer(s) with {:?} of work each", work.mean),
            )
        });
        let limits = by_work.into_iter().chain(group.rate.map(|limit| (limit, "its `rate`".to_owned())));
        let (most, why) = limits.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        (most < wanted).then(|| {
            format!(
                "group {} will fall behind: by {why}, it takes {} messages/s at most, and {}/s are sent",
                consumers.name_of(number),
                rate(most),
                rate(wanted)
            )
        })
    })
}

fn pipeline(pipeline: &Pipeline) -> String {
    let Pipeline { instances, batch, linger, writers, .. } = pipeline;
    let kinds: Vec<&str> = pipeline.sinks.iter().map(|sink| sink.kind.as_str()).collect();
    let sinks = match pipeline.sinks_run {
        _ if kinds.is_empty() => "to no database".to_owned(),
        SinksRun::InOrder => format!("by {writers} writer(s) each to {}", kinds.join(", then ")),
        SinksRun::InParallel => format!("by {writers} writer(s) each to {}", kinds.join(" and ")),
    };
    let fed = match pipeline.producer_mode {
        ProducerMode::Concurrent => "while the producers send",
        ProducerMode::Backlog => "after the producers have sent",
        ProducerMode::None => "without producers",
    };
    format!("{instances} instance(s), batches of {batch} or of {linger:?}, {sinks}, {fed}")
}

/// A schedule begins with the warm-up, of which nothing is measured.
fn load(load: &Load, warm_up: Duration) -> String {
    let unmeasured =
        if warm_up.is_zero() { String::new() } else { format!("; the first {warm_up:?} of it are warm-up") };
    match load {
        Load::Closed => "closed loop: as fast as the windows allow".to_owned(),
        Load::Open(Schedule::Constant { rate }) => format!("open loop: {rate} messages/s"),
        Load::Open(Schedule::Ramp { from, to, over }) => {
            format!("open loop: from {from} to {to} messages/s over {over:?}{unmeasured}")
        }
        Load::Open(Schedule::Steps(steps)) => {
            let steps: Vec<String> = steps.iter().map(|(rate, length)| format!("{rate}/s for {length:?}")).collect();
            format!("open loop: {}{unmeasured}", steps.join(", then "))
        }
        Load::Open(Schedule::Bursts { base, burst, every, length }) => {
            format!("open loop: {base} messages/s, and {burst}/s for {length:?} of every {every:?}")
        }
        Load::Open(Schedule::Poisson { rate, .. }) => format!("open loop: Poisson arrivals, {rate} messages/s"),
    }
}
