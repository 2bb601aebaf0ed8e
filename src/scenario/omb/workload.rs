//! A workload: topics, payloads, producers, consumers, rate and duration.

use toml_edit::{DocumentMut, InlineTable, Item, Table, value};

use super::{Keys, Refusals, is_true, number, text};

/// Everything that has a counterpart, or changes nothing: a pool's size, and hints to a search for the highest rate.
const KNOWN: [&str; 21] = [
    "name",
    "topics",
    "partitionsPerTopic",
    "keyDistributor",
    "messageSize",
    "useRandomizedPayloads",
    "randomBytesRatio",
    "randomizedPayloadPoolSize",
    "payloadFile",
    "subscriptionsPerTopic",
    "producersPerTopic",
    "consumerPerSubscription",
    "producerRate",
    "producerStartRate",
    "acceptableBacklog",
    "consumerBacklogSizeGB",
    "backlogDrainRatio",
    "testDurationMinutes",
    "warmupDurationMinutes",
    "producerIncrementRate",
    "producerIncrementSeconds",
];

/// Distinct keys where their number is not given: `KeyDistributor.UNIQUE_COUNT`.
const DISTINCT_KEYS: i64 = 10_000;

pub(super) fn convert(keys: &Keys, has_rate: bool, document: &mut DocumentMut, refusals: &mut Refusals) {
    refusals.unknown(keys, &KNOWN);
    if let Some(name) = text(keys, "name") {
        document["name"] = value(safe_name(name));
    }
    for table in ["topology", "producers", "payload", "run"] {
        document[table] = Item::Table(Table::new());
    }
    let topics = number(keys, "topics", 1, refusals);
    document["topology"]["topics"] = value(topics as i64);
    document["topology"]["partitions"] = value(number(keys, "partitionsPerTopic", 1, refusals) as i64);
    document["producers"]["count"] = value((topics * number(keys, "producersPerTopic", 1, refusals)) as i64);
    key_distributor(keys, document, refusals);
    payload(keys, document, refusals);
    rate(keys, has_rate, document, refusals);
    consumers(keys, document, refusals);
    let minutes = |count: u64| value(format!("{count}min"));
    document["run"]["warm_up"] = minutes(number(keys, "warmupDurationMinutes", 1, refusals));
    match number(keys, "testDurationMinutes", 0, refusals) {
        0 => refusals.add("testDurationMinutes", "a run needs an end: write its minutes"),
        count => document["run"]["duration"] = minutes(count + backlog_minutes(keys, refusals)),
    }
}

/// Its minutes begin when the backlog is drained (`buildAndDrainBacklog`): to build it takes as long as the rate says, and to drain
/// it is given as long again.
fn backlog_minutes(keys: &Keys, refusals: &mut Refusals) -> u64 {
    let bytes = backlog_bytes(keys, refusals);
    let per_second = number(keys, "producerRate", 0, refusals) * number(keys, "messageSize", 0, refusals);
    if per_second == 0 { 0 } else { 2 * bytes.div_ceil(per_second).div_ceil(60) }
}

/// Of each subscription. Its GB are 2^30 bytes, all subscriptions together.
fn backlog_bytes(keys: &Keys, refusals: &mut Refusals) -> u64 {
    let groups = number(keys, "subscriptionsPerTopic", 0, refusals).max(1);
    (number(keys, "consumerBacklogSizeGB", 0, refusals) << 30) / groups
}

/// Names of directories have only letters, digits and `._-`.
fn safe_name(name: &str) -> String {
    let is_safe = |character: char| character.is_ascii_alphanumeric() || "._".contains(character);
    let parts = name.split(|character| !is_safe(character)).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

fn key_distributor(keys: &Keys, document: &mut DocumentMut, refusals: &mut Refusals) {
    let kind = match text(keys, "keyDistributor") {
        None | Some("NO_KEY") => return,
        Some("KEY_ROUND_ROBIN") => "round-robin",
        Some("RANDOM_NANO") => "random",
        Some(other) => return refusals.add("keyDistributor", &format!("`{other}` is unknown")),
    };
    let mut distinct = InlineTable::new();
    distinct.insert("kind", kind.into());
    distinct.insert("distinct", DISTINCT_KEYS.into());
    document["producers"]["keys"] = value(distinct);
}

fn payload(keys: &Keys, document: &mut DocumentMut, refusals: &mut Refusals) {
    let payload = &mut document["payload"];
    payload["kind"] = value("random");
    payload["size"] = value(format!("{}B", number(keys, "messageSize", 0, refusals)));
    // The files that ship with it hold random text, which random bytes stand for.
    if !is_true(keys, "useRandomizedPayloads") {
        return;
    }
    match text(keys, "randomBytesRatio").unwrap_or("0").parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => payload["compressibility"] = value(1.0 - ratio),
        _ => refusals.add("randomBytesRatio", "it is not a share from 0 to 1"),
    }
}

fn rate(keys: &Keys, has_rate: bool, document: &mut DocumentMut, refusals: &mut Refusals) {
    if number(keys, "producerIncrementRate", 0, refusals) > 0 {
        refusals.add("producerIncrementRate", "a rate in steps is `load.schedule` of a scenario: write it in TOML");
    }
    match number(keys, "producerRate", 0, refusals) {
        0 if has_rate => {}
        0 => refusals.add(
            "producerRate",
            "0 asks for the highest rate that can be sustained: use `brokermark search --omb`, or set a --rate",
        ),
        rate => {
            document["load"] = Item::Table(Table::new());
            document["load"]["rate"] = value(format!("{rate}/s"));
        }
    }
}

fn consumers(keys: &Keys, document: &mut DocumentMut, refusals: &mut Refusals) {
    let groups = number(keys, "subscriptionsPerTopic", 0, refusals);
    let members = number(keys, "consumerPerSubscription", 0, refusals);
    let backlog = number(keys, "consumerBacklogSizeGB", 0, refusals);
    if groups == 0 || members == 0 {
        if backlog > 0 {
            refusals.add("consumerBacklogSizeGB", "a backlog needs consumers: set `consumerPerSubscription`");
        }
        return;
    }
    document["consumers"] = Item::Table(Table::new());
    let consumers = &mut document["consumers"];
    consumers["groups"] = value(groups as i64);
    consumers["members"] = value(members as i64);
    consumers["end_to_end"] = value(true);
    if backlog > 0 && number(keys, "producerRate", 0, refusals) == 0 {
        refusals.add("consumerBacklogSizeGB", "a backlog is built at a rate: set `producerRate`");
    } else if backlog > 0 {
        consumers["from"] = value("earliest");
        consumers["backlog"] = Item::Table(Table::new());
        consumers["backlog"]["payload_bytes"] = value(format!("{}B", backlog_bytes(keys, refusals)));
    }
}
