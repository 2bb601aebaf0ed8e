//! A workload: topics, payloads, producers, consumers, rate and duration.

use toml_edit::{DocumentMut, InlineTable, Item, Table, value};

use super::{Keys, Untranslated, is_true, number, number_if_set, text};

/// Every key that is not refused by its name alone.
pub(super) const KNOWN: [&str; 21] = [
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

/// Keys that the load does not need.
const LEFT_OUT: [(&str, &str); 5] = [
    ("acceptableBacklog", SEARCH_HINT),
    (
        "backlogDrainRatio",
        "the trial ends when its time is over, and consumers are awaited until they have read everything",
    ),
    (
        "payloadFile",
        "random bytes of `messageSize` stand for it, which do not compress: set `payload.compressibility`, or `payload.file`",
    ),
    ("producerIncrementSeconds", SEARCH_HINT),
    ("producerStartRate", SEARCH_HINT),
];

const SEARCH_HINT: &str = "it guides its search for the highest rate: `brokermark search` finds its own way";

/// Distinct keys where their number is not given: `KeyDistributor.UNIQUE_COUNT`.
const DISTINCT_KEYS: i64 = 10_000;

pub(super) fn convert(keys: &Keys, has_rate: bool, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    untranslated.refuse_unknown(keys, &KNOWN);
    untranslated.leave_out_each(keys, &LEFT_OUT);
    if let Some(name) = text(keys, "name") {
        document["name"] = value(safe_name(name));
    }
    for table in ["topology", "producers", "payload", "run"] {
        document[table] = Item::Table(Table::new());
    }
    let topics = number(keys, "topics", 1, untranslated);
    document["topology"]["topics"] = value(topics as i64);
    document["topology"]["partitions"] = value(number(keys, "partitionsPerTopic", 1, untranslated) as i64);
    let of_each = number(keys, "producersPerTopic", 1, untranslated);
    document["producers"]["count"] = value(i64::try_from(topics * of_each).unwrap_or(i64::MAX));
    key_distributor(keys, document, untranslated);
    payload(keys, document, untranslated);
    rate(keys, has_rate, document, untranslated);
    consumers(keys, document, untranslated);
    let minutes = |count: u64| value(format!("{count}min"));
    document["run"]["warm_up"] = minutes(number(keys, "warmupDurationMinutes", 1, untranslated));
    match number(keys, "testDurationMinutes", 0, untranslated) {
        0 => untranslated.refuse("testDurationMinutes", "a run needs an end: write its minutes"),
        count => {
            let backlog = backlog_minutes(keys, untranslated);
            if backlog > 0 {
                let reason = format!("{backlog} min are added in which the backlog is built and read");
                untranslated.leave_out("testDurationMinutes", &reason);
            }
            document["run"]["duration"] = minutes(count.saturating_add(backlog));
        }
    }
}

/// Its minutes begin when the backlog is drained (`buildAndDrainBacklog`): to build it takes as long as the rate says, and to drain
/// it is given as long again.
fn backlog_minutes(keys: &Keys, untranslated: &mut Untranslated) -> u64 {
    let bytes = backlog_bytes(keys, untranslated);
    let per_second = number(keys, "producerRate", 0, untranslated) * number(keys, "messageSize", 0, untranslated);
    if per_second == 0 { 0 } else { 2 * bytes.div_ceil(per_second).div_ceil(60) }
}

/// Of each subscription. Its GB are 2^30 bytes, all subscriptions together.
fn backlog_bytes(keys: &Keys, untranslated: &mut Untranslated) -> u64 {
    let groups = number(keys, "subscriptionsPerTopic", 0, untranslated).max(1);
    (number(keys, "consumerBacklogSizeGB", 0, untranslated) << 30) / groups
}

/// Names of directories have only letters, digits and `._-`.
fn safe_name(name: &str) -> String {
    let is_safe = |character: char| character.is_ascii_alphanumeric() || "._".contains(character);
    let parts = name.split(|character| !is_safe(character)).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-")
}

fn key_distributor(keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    let kind = match text(keys, "keyDistributor") {
        None | Some("NO_KEY") => return,
        Some("KEY_ROUND_ROBIN") => "round-robin",
        Some("RANDOM_NANO") => "random",
        Some(other) => return untranslated.refuse("keyDistributor", &format!("`{other}` is unknown")),
    };
    let mut distinct = InlineTable::new();
    distinct.insert("kind", kind.into());
    distinct.insert("distinct", DISTINCT_KEYS.into());
    document["producers"]["keys"] = value(distinct);
}

fn payload(keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    let payload = &mut document["payload"];
    payload["kind"] = value("random");
    payload["size"] = value(format!("{}B", number(keys, "messageSize", 0, untranslated)));
    // Without it, a payload file is sent, for which random bytes stand.
    if !is_true(keys, "useRandomizedPayloads", false, untranslated) {
        let reason = "payloads are not randomized: `useRandomizedPayloads` is not true";
        untranslated.leave_out_each(keys, &[("randomBytesRatio", reason), ("randomizedPayloadPoolSize", reason)]);
        return;
    }
    match text(keys, "randomBytesRatio").unwrap_or("0").parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => payload["compressibility"] = value(1.0 - ratio),
        _ => untranslated.refuse("randomBytesRatio", "it is not a share from 0 to 1"),
    }
    match number_if_set(keys, "randomizedPayloadPoolSize", untranslated) {
        Some(0) => untranslated.refuse("randomizedPayloadPoolSize", "a pool of 0 payloads is empty"),
        Some(size) => payload["pool"] = value(size as i64),
        None => {}
    }
}

fn rate(keys: &Keys, has_rate: bool, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    if number(keys, "producerIncrementRate", 0, untranslated) > 0 {
        untranslated
            .refuse("producerIncrementRate", "a rate in steps is `load.schedule` of a scenario: write it in TOML");
    }
    match number(keys, "producerRate", 0, untranslated) {
        0 if has_rate => {}
        0 => untranslated.refuse(
            "producerRate",
            "0 asks for the highest rate that can be sustained: use `brokermark search --omb`, or set a --rate",
        ),
        rate => {
            document["load"] = Item::Table(Table::new());
            document["load"]["rate"] = value(format!("{rate}/s"));
        }
    }
}

fn consumers(keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    let groups = number(keys, "subscriptionsPerTopic", 0, untranslated);
    let members = number(keys, "consumerPerSubscription", 0, untranslated);
    let backlog = number(keys, "consumerBacklogSizeGB", 0, untranslated);
    if groups == 0 || members == 0 {
        if backlog > 0 {
            untranslated.refuse("consumerBacklogSizeGB", "a backlog needs consumers: set `consumerPerSubscription`");
        }
        return;
    }
    document["consumers"] = Item::Table(Table::new());
    let consumers = &mut document["consumers"];
    consumers["groups"] = value(groups as i64);
    consumers["members"] = value(members as i64);
    consumers["end_to_end"] = value(true);
    if backlog > 0 && number(keys, "producerRate", 0, untranslated) == 0 {
        untranslated.refuse("consumerBacklogSizeGB", "a backlog is built at a rate: set `producerRate`");
    } else if backlog > 0 {
        consumers["from"] = value("earliest");
        consumers["backlog"] = Item::Table(Table::new());
        consumers["backlog"]["payload_bytes"] = value(format!("{}B", backlog_bytes(keys, untranslated)));
    }
}
