//! `[load]`: the load model, its schedule and its pacing.

use std::time::Duration;

use super::payload::Sizes;
use crate::scenario::fields::{Field, Fields};
use crate::scenario::units::Rate;
use crate::scenario::{Load, Pacing, Schedule};

pub(super) const KEYS: &[&str] = &["model", "rate", "schedule", "pacing"];
const PACING_KEYS: &[&str] = &["wake_interval", "spin"];

/// One message in each nanosecond: beyond it, no clock could tell two intended times apart.
const FASTEST: f64 = 1e9;

const SCHEDULE: &str = "write it as in { kind = \"ramp\", from = \"1k/s\", to = \"100k/s\", over = \"30s\" }";

#[derive(Clone, Copy, PartialEq)]
enum Model {
    Closed,
    Open,
}

#[derive(Clone, Copy)]
enum Kind {
    Constant,
    Ramp,
    Steps,
    Bursts,
    Poisson,
}

const KINDS: [(&str, Kind); 5] = [
    ("constant", Kind::Constant),
    ("ramp", Kind::Ramp),
    ("steps", Kind::Steps),
    ("bursts", Kind::Bursts),
    ("poisson", Kind::Poisson),
];

pub(super) fn read(root: &Fields<'_>, sizes: Sizes) -> (Load, Pacing) {
    match root.get("load").and_then(|field| field.fields(KEYS)) {
        Some(fields) => (load(&fields, sizes), pacing(&fields)),
        None => (Load::Closed, Pacing::default()),
    }
}

fn pacing(fields: &Fields<'_>) -> Pacing {
    let mut pacing = Pacing::default();
    let Some(field) = fields.get("pacing") else { return pacing };
    if !fields.has("rate") && !fields.has("schedule") {
        let message = format!("a closed loop has no intended times, so it has no `{}`", field.path);
        field.refuse(message, "remove it, or write a `rate`");
    }
    let Some(keys) = field.fields(PACING_KEYS) else { return pacing };
    if let Some(interval) = keys.get("wake_interval").and_then(|field| field.duration_above_zero()) {
        pacing.wake_interval = interval;
    }
    if let Some(spin) = keys.get("spin").and_then(|field| field.boolean()) {
        pacing.spin = spin;
    }
    pacing
}

fn load(fields: &Fields<'_>, sizes: Sizes) -> Load {
    let model = fields.get("model").and_then(|field| field.one_of(&[("closed", Model::Closed), ("open", Model::Open)]));
    fields.exclusive("rate", "schedule", "keep one of them: `rate` is short for a constant schedule");
    if model == Some(Model::Closed) {
        for key in ["rate", "schedule"] {
            let reason = format!("a closed loop sends as fast as its windows allow, so it has no `{key}`");
            fields.forbid(key, &reason, "remove it, or write `model = \"open\"`");
        }
        return Load::Closed;
    }
    let schedule = match (fields.get("rate"), fields.get("schedule")) {
        (Some(field), _) => rate(&field, sizes).map(|rate| Schedule::Constant { rate }),
        (None, Some(field)) => schedule(&field, sizes),
        (None, None) => {
            if model == Some(Model::Open) {
                fields.require("rate", "an open loop needs `rate = \"100k/s\"` or a `schedule`");
            }
            None
        }
    };
    schedule.map_or(Load::Closed, Load::Open)
}

/// Messages per second.
fn rate(field: &Field<'_>, sizes: Sizes) -> Option<f64> {
    messages_per_second(field, field.rate()?, sizes)
}

/// The same of a part of a schedule, which may send nothing.
fn rate_or_rest(field: &Field<'_>, sizes: Sizes) -> Option<f64> {
    messages_per_second(field, field.rate_or_rest()?, sizes)
}

fn messages_per_second(field: &Field<'_>, rate: Rate, sizes: Sizes) -> Option<f64> {
    let rate = match rate {
        Rate::MessagesPerSecond(rate) => rate,
        Rate::BytesPerSecond(bytes) => match sizes.mean {
            Some(mean) => bytes / mean,
            None => {
                let message = "bytes per second need payloads whose size is known beforehand";
                field.refuse(message, "write messages per second, as in \"10k/s\"");
                return None;
            }
        },
    };
    if rate > FASTEST {
        field.refuse(format!("`{}` is more than a message in each nanosecond", field.path), "write less than 1G/s");
        return None;
    }
    Some(rate)
}

fn schedule(field: &Field<'_>, sizes: Sizes) -> Option<Schedule> {
    if !field.value.is_table() {
        field.refuse(format!("`{}` should be a table", field.path), SCHEDULE);
        return None;
    }
    let every_key =
        field.fields(&["kind", "rate", "from", "to", "over", "steps", "base", "burst", "every", "for", "seed"])?;
    let kind = every_key.require("kind", SCHEDULE)?.one_of(&KINDS)?;
    let known: &[&str] = match kind {
        Kind::Constant => &["kind", "rate"],
        Kind::Ramp => &["kind", "from", "to", "over"],
        Kind::Steps => &["kind", "steps"],
        Kind::Bursts => &["kind", "base", "burst", "every", "for"],
        Kind::Poisson => &["kind", "rate", "seed"],
    };
    let fields = field.fields(known)?;
    let required = |key: &str| fields.require(key, SCHEDULE_KEYS).and_then(|field| rate(&field, sizes));
    let part = |key: &str| fields.require(key, SCHEDULE_KEYS).and_then(|field| rate_or_rest(&field, sizes));
    let lasting = |key: &str| fields.require(key, SCHEDULE_KEYS).and_then(|field| field.duration_above_zero());
    let schedule = match kind {
        Kind::Constant => Schedule::Constant { rate: required("rate")? },
        Kind::Ramp => {
            let (from, to, over) = (part("from"), part("to"), lasting("over"));
            Schedule::Ramp { from: from?, to: to?, over: over? }
        }
        Kind::Steps => Schedule::Steps(steps(&fields, sizes)?),
        Kind::Bursts => {
            let (base, burst) = (part("base"), part("burst"));
            let (every, length) = (lasting("every"), lasting("for"));
            let (every, length) = (every?, length?);
            if length >= every {
                let advice = "make `for` shorter than `every`";
                fields.get("for")?.refuse("a burst would never end: `for` is not below `every`", advice);
            }
            Schedule::Bursts { base: base?, burst: burst?, every, length }
        }
        Kind::Poisson => {
            let seed = fields.get("seed").map_or(Some(1), |field| field.seed());
            Schedule::Poisson { rate: required("rate")?, seed: seed? }
        }
    };
    if schedule.rates().all(|rate| rate == 0.0) {
        field.refuse("every rate of the schedule is zero, so nothing would ever be sent", SCHEDULE);
        return None;
    }
    Some(schedule)
}

fn steps(fields: &Fields<'_>, sizes: Sizes) -> Option<Vec<(f64, Duration)>> {
    let advice = "write it as in [{ rate = \"1k/s\", for = \"10s\" }, { rate = \"2k/s\", for = \"10s\" }]";
    let steps = fields.require("steps", advice)?.elements(advice)?;
    let steps = steps.iter().map(|step| {
        let fields = step.fields(&["rate", "for"])?;
        let rate = fields.require("rate", advice).and_then(|field| rate_or_rest(&field, sizes));
        let length = fields.require("for", advice).and_then(|field| field.duration_above_zero());
        Some((rate?, length?))
    });
    // Every step is read, so that one reading finds the problems of all.
    steps.collect::<Vec<_>>().into_iter().collect()
}

const SCHEDULE_KEYS: &str = "constant: `rate`; ramp: `from`, `to`, `over`; steps: `steps`; \
    bursts: `base`, `burst`, `every`, `for`; poisson: `rate`, `seed`";
