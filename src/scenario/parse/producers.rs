//! `[producers]`: their number, placement, windows, keys and headers.

use toml::Value;

use super::properties;
use crate::limits::MAX_PRODUCERS_OF_ALL;
use crate::limits::TRACE_HEADER_NAME;
use crate::scenario::fields::{Field, Fields};
use crate::scenario::{Confirm, Keys, Partitioning, Placement, Producers};

pub(super) const KEYS: &[&str] =
    &["count", "placement", "partitioning", "in_flight", "batch", "confirm", "round_barrier", "keys", "headers"];

const MAX_IN_FLIGHT: usize = 100_000_000;

/// Different lists of headers. Each is prepared before the load.
const MAX_HEADER_SETS: usize = 1000;

/// The producers, and their window where the scenario gives one: its default depends on other tables.
pub(super) fn read(root: &Fields<'_>) -> (Producers, Option<usize>) {
    let mut producers = Producers {
        count: 1,
        placement: Placement::RoundRobin,
        partitioning: Partitioning::Client,
        in_flight: 1,
        batch: 1,
        confirm: Confirm::Message,
        round_barrier: false,
        keys: Keys::None,
        header_sets: vec![Vec::new()],
    };
    let Some(fields) = root.get("producers").and_then(|field| field.fields(KEYS)) else {
        return (producers, None);
    };
    if let Some(count) = fields.get("count").and_then(|field| field.amount(1, MAX_PRODUCERS_OF_ALL)) {
        producers.count = count;
    }
    let placements = [("blocks", Placement::Blocks), ("round-robin", Placement::RoundRobin)];
    if let Some(placement) = fields.get("placement").and_then(|field| field.one_of(&placements)) {
        producers.placement = placement;
    }
    let partitionings =
        [("client", Partitioning::Client), ("own", Partitioning::Own), ("round-robin", Partitioning::RoundRobin)];
    if let Some(partitioning) = fields.get("partitioning").and_then(|field| field.one_of(&partitionings)) {
        producers.partitioning = partitioning;
    }
    if let Some(batch) = fields.get("batch").and_then(|field| field.amount(1, MAX_IN_FLIGHT)) {
        producers.batch = batch;
    }
    let confirms = [("message", Confirm::Message), ("batch", Confirm::Batch)];
    if let Some(confirm) = fields.get("confirm").and_then(|field| field.one_of(&confirms)) {
        producers.confirm = confirm;
    }
    if let Some(barrier) = fields.get("round_barrier").and_then(|field| field.boolean()) {
        producers.round_barrier = barrier;
    }
    if let Some(keys) = fields.get("keys").and_then(|field| message_keys(&field)) {
        producers.keys = keys;
    }
    if let Some(field) = fields.get("headers") {
        producers.header_sets = header_sets(&field, headers(&field));
    }
    (producers, fields.get("in_flight").and_then(|field| field.amount(1, MAX_IN_FLIGHT)))
}

#[derive(Clone, Copy, PartialEq)]
enum KeyKind {
    None,
    RoundRobin,
    Random,
    Zipf,
}

const KEY_KINDS: [(&str, KeyKind); 4] = [
    ("none", KeyKind::None),
    ("round-robin", KeyKind::RoundRobin),
    ("random", KeyKind::Random),
    ("zipf", KeyKind::Zipf),
];

fn message_keys(field: &Field<'_>) -> Option<Keys> {
    const ADVICE: &str = "write it as in { kind = \"zipf\", distinct = 1000, exponent = 1.1 }";
    if field.value.is_str() {
        let kind = field.one_of(&KEY_KINDS)?;
        if kind != KeyKind::None {
            field.refuse("these keys need a number of `distinct` ones", ADVICE);
        }
        return Some(Keys::None);
    }
    let fields = field.fields(&["kind", "distinct", "exponent"])?;
    let kind = fields.require("kind", ADVICE)?.one_of(&KEY_KINDS)?;
    if kind != KeyKind::Zipf {
        fields.forbid("exponent", "only `zipf` keys have an `exponent`", "remove it, or write `kind = \"zipf\"`");
    }
    if kind == KeyKind::None {
        fields.forbid("distinct", "`none` has no distinct keys", "write `keys = \"none\"`");
        return Some(Keys::None);
    }
    let distinct = fields.require("distinct", ADVICE)?.count(1, u64::from(u32::MAX))?;
    Some(match kind {
        KeyKind::None => Keys::None,
        KeyKind::RoundRobin => Keys::RoundRobin { distinct },
        KeyKind::Random => Keys::Random { distinct },
        KeyKind::Zipf => {
            let exponent = fields
                .get("exponent")
                .map(|field| field.number(|e| e > 0.0 && e <= 10.0, "it is above 0 and at most 10"));
            Keys::Zipf { distinct, exponent: exponent.unwrap_or(Some(1.0))? }
        }
    })
}

/// Each header with its values, of which there is at least one.
fn headers(field: &Field<'_>) -> Vec<(String, Vec<String>)> {
    let Value::Table(table) = field.value else {
        field.refuse(format!("`{}` should be a table", field.path), "write it as in { trace = \"abc\" }");
        return Vec::new();
    };
    let each = table.iter().filter_map(|(name, value)| {
        let path = field.path.key(name);
        if name == TRACE_HEADER_NAME {
            let message = format!("the header `{TRACE_HEADER_NAME}` is brokermark's own");
            field.problems.key(path, message, "give yours another name");
            return None;
        }
        let values = match value {
            Value::Array(values) => &values[..],
            value => std::slice::from_ref(value),
        };
        if values.is_empty() || values.iter().any(|value| value.is_array() || value.is_table()) {
            let message = format!("`{path}` should be one value, or a list of values");
            field.problems.value(path, message, "headers are strings, numbers or booleans");
            return None;
        }
        Some((name.clone(), values.iter().map(properties::plain).collect()))
    });
    each.collect()
}

/// What the messages have in turn, until all headers are at their first values again.
fn header_sets(field: &Field<'_>, headers: Vec<(String, Vec<String>)>) -> Vec<Vec<(String, String)>> {
    let length = headers.iter().try_fold(1, |length, (_, values)| {
        let common = least_common_multiple(length, values.len());
        (common <= MAX_HEADER_SETS).then_some(common)
    });
    let Some(length) = length else {
        let message = format!("the lists in `{}` combine to more than {MAX_HEADER_SETS} sets of headers", field.path);
        field.refuse(message, "give lists the same length, or lengths that divide each other");
        return vec![Vec::new()];
    };
    let set = |index: usize| {
        headers.iter().map(move |(name, values)| (name.clone(), values[index % values.len()].clone())).collect()
    };
    (0..length).map(set).collect()
}

fn least_common_multiple(one: usize, other: usize) -> usize {
    let (mut divisor, mut rest) = (one, other);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    one / divisor * other
}
