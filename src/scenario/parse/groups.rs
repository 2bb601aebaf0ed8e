//! `[[consumers.group]]` and `[consumers.backlog]`: groups with settings of their own, and the backlog that they are to find.

use std::time::Duration;

use super::payload::Sizes;
use super::{Context, properties};
use crate::scenario::fields::{Field, Fields};
use crate::scenario::units::Rate;
use crate::scenario::{Backlog, ConsumerGroup, Work, WorkLaw};

const KEYS: &[&str] = &["work", "rate", "start_after", "properties"];
const BACKLOG_KEYS: &[&str] = &["messages", "payload_bytes", "caught_up_within"];

/// One message in each nanosecond.
const FASTEST: f64 = 1e9;

/// Times of work whose mean is longer say more about a timer than about consumers; brokers also take a consumer for dead that is silent
/// for a minute.
const MAX_WORK: Duration = Duration::from_secs(10);

const MAX_GROUPS: usize = 1_000;

/// Twice the time in which any broker's consumers receive what was just sent.
const CAUGHT_UP_WITHIN: Duration = Duration::from_millis(100);

const WORK: &str = "write a time, as in \"2ms\", or { kind = \"exponential\", mean = \"2ms\" }";

#[derive(Clone, Copy)]
enum Kind {
    Fixed,
    Exponential,
    Lognormal,
    Pareto,
}

const KINDS: [(&str, Kind); 4] = [
    ("fixed", Kind::Fixed),
    ("exponential", Kind::Exponential),
    ("lognormal", Kind::Lognormal),
    ("pareto", Kind::Pareto),
];

/// The groups of `[[consumers.group]]`; `common`: the properties that all of them have.
pub(super) fn read(field: &Field<'_>, common: &[(String, String)], context: &Context<'_>) -> Vec<ConsumerGroup> {
    let groups = field.elements("write a table `[[consumers.group]]` for each group").unwrap_or_default();
    if groups.len() > MAX_GROUPS {
        field.refuse(format!("`{}` has {} groups", field.path, groups.len()), format!("at most {MAX_GROUPS} fit"));
    }
    groups.iter().filter_map(|field| group(field, common, context)).collect()
}

fn group(field: &Field<'_>, common: &[(String, String)], context: &Context<'_>) -> Option<ConsumerGroup> {
    let fields = field.fields(KEYS)?;
    let own = fields.get("properties").map(|field| properties::read(&field, context)).unwrap_or_default();
    let is_overridden = |key: &str| own.iter().any(|(name, _)| name == key);
    let common = common.iter().filter(|(key, _)| !is_overridden(key)).cloned();
    Some(ConsumerGroup {
        work: fields.get("work").and_then(|field| work(&field)),
        rate: fields.get("rate").and_then(|field| rate(&field)),
        start_after: fields.get("start_after").and_then(|field| field.duration()).unwrap_or_default(),
        properties: common.chain(own.clone()).collect(),
    })
}

/// Messages per second.
fn rate(field: &Field<'_>) -> Option<f64> {
    match field.rate()? {
        Rate::MessagesPerSecond(rate) if rate <= FASTEST => Some(rate),
        Rate::MessagesPerSecond(_) => {
            field.refuse(format!("`{}` is more than a message in each nanosecond", field.path), "write less than 1G/s");
            None
        }
        Rate::BytesPerSecond(_) => {
            field.refuse(format!("`{}` limits messages, not bytes", field.path), "write it as in \"10k/s\"");
            None
        }
    }
}

fn work(field: &Field<'_>) -> Option<Work> {
    if !field.value.is_table() {
        let mean = mean(field)?;
        return Some(Work { mean, law: WorkLaw::Fixed, seed: 1 });
    }
    let every_key = field.fields(&["kind", "mean", "sigma", "shape", "seed"])?;
    let kind = every_key.require("kind", WORK)?.one_of(&KINDS)?;
    let known: &[&str] = match kind {
        Kind::Fixed => &["kind", "mean"],
        Kind::Exponential => &["kind", "mean", "seed"],
        Kind::Lognormal => &["kind", "mean", "sigma", "seed"],
        Kind::Pareto => &["kind", "mean", "shape", "seed"],
    };
    let fields = field.fields(known)?;
    let mean = fields.require("mean", WORK).and_then(|field| mean(&field));
    let seed = fields.get("seed").map_or(Some(1), |field| field.seed());
    let law = match kind {
        Kind::Fixed => WorkLaw::Fixed,
        Kind::Exponential => WorkLaw::Exponential,
        Kind::Lognormal => WorkLaw::Lognormal { sigma: sigma(&fields)? },
        Kind::Pareto => WorkLaw::Pareto { shape: shape(&fields)? },
    };
    Some(Work { mean: mean?, law, seed: seed? })
}

fn mean(field: &Field<'_>) -> Option<Duration> {
    let mean = field.duration_above_zero()?;
    if mean > MAX_WORK {
        let advice = "write at most \"10s\": a broker takes consumers for dead that are silent for much longer";
        field.refuse(format!("`{}` is too long", field.path), advice);
        return None;
    }
    Some(mean)
}

fn sigma(fields: &Fields<'_>) -> Option<f64> {
    let advice = "it is the standard deviation of the logarithm, above 0 and at most 5";
    fields.get("sigma").map_or(Some(1.0), |field| field.number(|sigma| sigma > 0.0 && sigma <= 5.0, advice))
}

fn shape(fields: &Fields<'_>) -> Option<f64> {
    let advice = "it is above 1, for there would be no mean, and at most 100";
    fields.get("shape").map_or(Some(2.5), |field| field.number(|shape| shape > 1.0 && shape <= 100.0, advice))
}

/// `[consumers.backlog]`. A size in bytes is divided by the payloads' mean size.
pub(super) fn backlog(field: &Field<'_>, sizes: Sizes) -> Option<Backlog> {
    let fields = field.fields(BACKLOG_KEYS)?;
    fields.exclusive("messages", "payload_bytes", "keep one of them");
    let messages = match (fields.get("messages"), fields.get("payload_bytes")) {
        (Some(field), _) => field.count(1, u64::MAX),
        (None, Some(field)) => in_messages(&field, sizes),
        (None, None) => {
            let advice =
                "say how much is sent before the consumers begin: `messages = \"1M\"` or `payload_bytes = \"1GiB\"`";
            fields.require("messages", advice);
            None
        }
    };
    let within = fields.get("caught_up_within").map_or(Some(CAUGHT_UP_WITHIN), |field| field.duration_above_zero());
    Some(Backlog { messages: messages?, caught_up_within: within? })
}

fn in_messages(field: &Field<'_>, sizes: Sizes) -> Option<u64> {
    let bytes = field.size(u64::MAX)?;
    let Some(mean) = sizes.mean else {
        let message = "a backlog in bytes needs payloads whose size is known beforehand";
        field.refuse(message, "write `messages` instead");
        return None;
    };
    Some(((bytes as f64 / mean).ceil() as u64).max(1))
}
