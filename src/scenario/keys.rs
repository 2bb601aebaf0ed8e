//! Every key of the language, by table: what is not here is refused.

pub(super) const SCENARIO: [&str; 12] = [
    "name",
    "broker",
    "topology",
    "producers",
    "load",
    "payload",
    "consumers",
    "pipeline",
    "run",
    "sweep",
    "thresholds",
    "output",
];
/// Without the broker's own table, which is named as its kind.
pub(super) const BROKER: [&str; 6] = ["kind", "address", "addresses", "connections", "properties", "security"];
pub(super) const SECURITY: [&str; 2] = ["tls", "sasl"];
pub(super) const TLS: [&str; 4] = ["ca", "certificate", "key", "verify_host"];
pub(super) const SASL: [&str; 3] = ["mechanism", "username", "password"];
pub(super) const TOPOLOGY: [&str; 5] = ["topics", "partitions", "replication", "name", "keep"];
pub(super) const PRODUCERS: [&str; 8] =
    ["count", "placement", "in_flight", "batch", "confirm", "round_barrier", "keys", "headers"];
pub(super) const LOAD: [&str; 4] = ["model", "rate", "schedule", "pacing"];
pub(super) const PACING: [&str; 2] = ["wake_interval", "spin"];
pub(super) const PAYLOAD: [&str; 9] =
    ["kind", "size", "compressibility", "file", "text", "dimension", "range", "pool", "seed"];
pub(super) const CONSUMERS: [&str; 6] = ["groups", "members", "from", "end_to_end", "verify", "properties"];
/// Without the keys of each sink, which are its kind's own.
pub(super) const PIPELINE: [&str; 11] = [
    "parse",
    "timestamp",
    "batch",
    "linger",
    "writers",
    "instances",
    "group",
    "sinks_run",
    "commit",
    "producer_mode",
    "sinks",
];
pub(super) const RUN: [&str; 7] =
    ["warm_up", "messages", "payload_bytes", "duration", "drain_deadline", "catch_up_deadline", "stall_deadline"];
pub(super) const SWEEP: [&str; 6] = ["over", "trials", "order", "seed", "combine", "pause"];
pub(super) const THRESHOLDS: [&str; 2] = ["require", "when_invalid"];
pub(super) const OUTPUT: [&str; 2] = ["directory", "formats"];

const HOMES: [(&str, &[&str]); 14] = [
    ("broker", &BROKER),
    ("broker.security", &SECURITY),
    ("broker.security.tls", &TLS),
    ("broker.security.sasl", &SASL),
    ("topology", &TOPOLOGY),
    ("producers", &PRODUCERS),
    ("load", &LOAD),
    ("payload", &PAYLOAD),
    ("consumers", &CONSUMERS),
    ("pipeline", &PIPELINE),
    ("run", &RUN),
    ("sweep", &SWEEP),
    ("thresholds", &THRESHOLDS),
    ("output", &OUTPUT),
];

/// The table that knows `key`, if exactly one does.
pub(super) fn home(key: &str) -> Option<&'static str> {
    let mut homes = HOMES.iter().filter(|(_, keys)| keys.contains(&key)).map(|(table, _)| *table);
    homes.next().filter(|_| homes.next().is_none())
}
