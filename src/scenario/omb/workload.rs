//! A workload: topics, payloads, producers, consumers, rate and duration.

use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, value};

use super::{Keys, Untranslated, Value, has_value, is_true, number, number_if_set, text};

/// Every key that is not refused by its name alone. The last eight are those of forks.
pub(super) const KNOWN: [&str; 29] = [
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
    "messageSizeDistribution",
    "producerRateList",
    "drainProducerRate",
    "partitionsPerTopicList",
    "producersPerTopicList",
    "logIntervalMillis",
    "sampleRateMillis",
    "randomTopicNames",
];

const EACH_SECOND: &str = "a run keeps every second, and a latency of every message";

const UNLIKE: &str = "the topics of a scenario are alike: remove it, and run the workload once for each kind of topic";

/// Keys that the load does not need.
const LEFT_OUT: [(&str, &str); 7] = [
    ("logIntervalMillis", EACH_SECOND),
    ("sampleRateMillis", EACH_SECOND),
    ("randomTopicNames", "topics are called after the run, and did not exist before it"),
    ("acceptableBacklog", SEARCH_HINT),
    (
        "backlogDrainRatio",
        "the trial ends when its time is over, and consumers are awaited until they have read everything",
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
    for key in ["partitionsPerTopicList", "producersPerTopicList"].into_iter().filter(|key| has_value(keys, key)) {
        untranslated.refuse(key, UNLIKE);
    }
    if text(keys, "drainProducerRate").is_some_and(|rate| rate != "-1") {
        untranslated.refuse(
            "drainProducerRate",
            "producers keep their rate while a backlog is drained: write -1, or write `load.schedule` of a scenario in TOML",
        );
    }
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
    let per_second = number(keys, "producerRate", 0, untranslated) * mean_size(keys, untranslated);
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
        Some(other) => {
            let reason = format!("`{other}` is unknown: write NO_KEY, KEY_ROUND_ROBIN or RANDOM_NANO");
            return untranslated.refuse("keyDistributor", &reason);
        }
    };
    let mut distinct = InlineTable::new();
    distinct.insert("kind", kind.into());
    distinct.insert("distinct", DISTINCT_KEYS.into());
    document["producers"]["keys"] = value(distinct);
}

fn payload(keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    let payload = &mut document["payload"];
    payload["kind"] = value("random");
    let sizes = distribution(keys, untranslated);
    if sizes.is_empty() {
        payload["size"] = value(format!("{}B", number(keys, "messageSize", 0, untranslated)));
    } else {
        let reason = "`messageSizeDistribution` stands instead of it";
        untranslated.leave_out_each(keys, &[("messageSize", reason), ("randomizedPayloadPoolSize", reason)]);
        let choice = |(bytes, weight): &(u64, u64)| {
            let mut choice = Array::new();
            choice.push(format!("{bytes}B"));
            choice.push(*weight as i64);
            choice
        };
        let mut table = InlineTable::new();
        table.insert("choices", sizes.iter().map(choice).collect::<Array>().into());
        payload["size"] = value(table);
    }
    // Without it, a payload file is sent, or zeros of the sizes of a distribution.
    if !is_true(keys, "useRandomizedPayloads", false, untranslated) {
        let reason = "payloads are not randomized: `useRandomizedPayloads` is not true";
        untranslated.leave_out_each(keys, &[("randomBytesRatio", reason), ("randomizedPayloadPoolSize", reason)]);
        if !sizes.is_empty() {
            untranslated.leave_out_each(keys, &[("payloadFile", "`messageSizeDistribution` stands instead of it")]);
            payload["kind"] = value("zeros");
        } else if let Some(file) = payload_file(keys, untranslated) {
            payload["kind"] = value("files");
            payload["file"] = value(file.display().to_string());
            payload.as_table_like_mut().map(|table| table.remove("size"));
        }
        return;
    }
    untranslated.leave_out_each(keys, &[("payloadFile", "payloads are randomized: `useRandomizedPayloads` is true")]);
    match text(keys, "randomBytesRatio").unwrap_or("0").parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => payload["compressibility"] = value(1.0 - ratio),
        _ => untranslated.refuse("randomBytesRatio", "it is not a share from 0 to 1"),
    }
    match number_if_set(keys, "randomizedPayloadPoolSize", untranslated).filter(|_| sizes.is_empty()) {
        Some(0) => untranslated.refuse("randomizedPayloadPoolSize", "a pool of 0 payloads is empty"),
        Some(size) => payload["pool"] = value(size as i64),
        None => {}
    }
}

/// The payload file, or a fork's folder of them: from the current directory, as `FilePayloadReader.java` reads it, or beside the workload or its
/// folder, as the benchmark's own lie. It has `messageSize` bytes, which `FilePayloadReader.java` demands as well.
fn payload_file(keys: &Keys, untranslated: &mut Untranslated) -> Option<PathBuf> {
    const KEY: &str = "payloadFile";
    let name = text(keys, KEY).filter(|name| !name.is_empty())?;
    let folders = Path::new(&untranslated.file).ancestors().skip(1).take(2);
    let mut paths = std::iter::once(Path::new("")).chain(folders).map(|folder| folder.join(name));
    let Some(path) = paths.find(|path| path.exists()) else {
        let reason = format!(
            "{name} does not exist: run this in the benchmark's directory, which has it, or write `useRandomizedPayloads: true`"
        );
        untranslated.refuse(KEY, &reason);
        return None;
    };
    let (size, found) = (number(keys, "messageSize", 0, untranslated), path.metadata().ok()?);
    if found.is_file() && found.len() != size {
        untranslated.refuse(KEY, &format!("{name} has {} bytes, not {size}: correct `messageSize`", found.len()));
    }
    Some(path)
}

/// Sizes in bytes with their weights. A range such as `1KB-4KB` stands for its middle, as `MessageSizeDistribution.getRepresentativeSize` of the
/// fork has it, with KB and MB of 1024.
fn distribution(keys: &Keys, untranslated: &mut Untranslated) -> Vec<(u64, u64)> {
    const KEY: &str = "messageSizeDistribution";
    let Some(Value::Table(ranges)) = keys.get(KEY) else {
        if has_value(keys, KEY) {
            untranslated.refuse(KEY, "write ranges of bytes with their weights, as in \"256-1024\": 10");
        }
        return Vec::new();
    };
    let size = |text: &str| {
        let text = text.trim().to_ascii_uppercase();
        let units = [("KB", 1 << 10), ("MB", 1 << 20), ("B", 1)];
        let found =
            units.into_iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?.trim().to_owned(), bytes)));
        let (digits, bytes) = found.unwrap_or((text, 1));
        Some(u64::from(digits.parse::<u32>().ok()?) * bytes).filter(|size| *size <= u32::MAX.into())
    };
    let mut sizes = Vec::new();
    for range in ranges.keys() {
        let middle = range.split_once('-').and_then(|(low, high)| Some((size(low)? + size(high)?) / 2));
        match (middle, number(ranges, range, 0, untranslated)) {
            (_, 0) => {}
            (Some(bytes @ 1..), weight) => sizes.push((bytes, weight)),
            _ => untranslated.refuse(range, "it is not a range of bytes as in 256-1024 or 1KB-4KB"),
        }
    }
    if sizes.is_empty() {
        untranslated.refuse(KEY, "no size of it has a weight above 0");
    }
    sizes.sort_unstable();
    sizes
}

/// The mean size of messages in bytes.
fn mean_size(keys: &Keys, untranslated: &mut Untranslated) -> u64 {
    let sizes = distribution(keys, untranslated);
    let weights: u128 = sizes.iter().map(|(_, weight)| u128::from(*weight)).sum();
    let bytes: u128 = sizes.iter().map(|(bytes, weight)| u128::from(bytes * weight)).sum();
    // No size has more than 32 bits.
    let mean = bytes.checked_div(weights).map(|mean| mean as u64);
    mean.unwrap_or_else(|| number(keys, "messageSize", 0, untranslated))
}

/// `producerRateList` of pairs: a minute of the test and the rate from then on. The warm-up has the first rate.
fn rate_list(keys: &Keys, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    const KEY: &str = "producerRateList";
    untranslated.leave_out_each(keys, &[("producerRate", "`producerRateList` stands instead of it")]);
    if number(keys, "consumerBacklogSizeGB", 0, untranslated) > 0 {
        untranslated.refuse(KEY, "a backlog is built at one rate: remove it, or `consumerBacklogSizeGB`");
    }
    let number_of =
        |value: &Value| if let Value::Text(text) = value { text.parse::<u32>().ok().map(u64::from) } else { None };
    let row = |value: &Value| if let Value::List(row) = value { row.iter().map(number_of).collect() } else { None };
    let rows: Option<Vec<Vec<u64>>> =
        if let Some(Value::List(rows)) = keys.get(KEY) { rows.iter().map(row).collect() } else { None };
    let rows = rows.unwrap_or_default();
    if rows.iter().any(|row| row.len() == 3) {
        let reason = "a schedule has no times of day: write pairs of a minute of the test and a rate, as in [[0, 1000], [10, 2000]]";
        return untranslated.refuse(KEY, reason);
    }
    let begins: Vec<u64> = rows.iter().filter_map(|row| row.first().copied()).collect();
    if rows.is_empty() || rows.iter().any(|row| row.len() != 2) || begins[0] != 0 || !begins.is_sorted_by(|a, b| a < b)
    {
        let reason = "write pairs of a minute of the test and a rate, from minute 0 on, as in [[0, 1000], [10, 2000]]";
        return untranslated.refuse(KEY, reason);
    }
    let warm_up = number(keys, "warmupDurationMinutes", 1, untranslated);
    let end = number(keys, "testDurationMinutes", 0, untranslated);
    let mut steps = Array::new();
    for (index, row) in rows.iter().enumerate() {
        let until = begins.get(index + 1).copied().unwrap_or_else(|| end.max(row[0] + 1));
        let minutes = until - row[0] + if index == 0 { warm_up } else { 0 };
        let mut step = InlineTable::new();
        step.insert("rate", format!("{}/s", row[1]).into());
        step.insert("for", format!("{minutes}min").into());
        steps.push(step);
    }
    document["load"] = Item::Table(Table::new());
    document["load"]["schedule"] = Item::Table(Table::new());
    document["load"]["schedule"]["kind"] = value("steps");
    document["load"]["schedule"]["steps"] = value(steps);
}

fn rate(keys: &Keys, has_rate: bool, document: &mut DocumentMut, untranslated: &mut Untranslated) {
    if number(keys, "producerIncrementRate", 0, untranslated) > 0 {
        untranslated
            .refuse("producerIncrementRate", "a rate in steps is `load.schedule` of a scenario: write it in TOML");
    }
    if has_value(keys, "producerRateList") {
        return rate_list(keys, document, untranslated);
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
