//! Keys of a scenario that a command decides itself. What a scenario says of them does not apply, so the command says that.

use toml::{Table, Value};

/// A command with the keys that it decides.
pub struct ReplacedKeys {
    command: &'static str,
    /// Why it does.
    reason: &'static str,
    /// A table stands for all of its keys.
    keys: &'static [&'static str],
}

pub const SEARCH: ReplacedKeys = ReplacedKeys {
    command: "search",
    reason: "decides how long a probe lasts and how often it is repeated",
    keys: &[
        "run.messages",
        "run.payload_bytes",
        "sweep.trials",
        "sweep.trials_at_most",
        "sweep.until",
        "sweep.order",
        "sweep.combine",
        "sweep.seed",
    ],
};

pub const CEILING: ReplacedKeys = ReplacedKeys {
    command: "ceiling",
    reason: "measures the load generator alone: without the broker and without a rate, once for each shape",
    keys: &[
        "topology.replication",
        "topology.name",
        "topology.existing",
        "topology.config",
        "run.warm_up",
        "run.messages",
        "run.payload_bytes",
        "run.scheduling_policy",
        "pipeline",
        "sweep.trials",
        "sweep.trials_at_most",
        "sweep.until",
        "sweep.order",
        "sweep.seed",
        "sweep.pause",
        "thresholds",
        "distribution",
    ],
};

impl ReplacedKeys {
    /// Says which keys of this scenario do not apply; `None` where it has none of them. `text` is the scenario as TOML.
    pub fn note(&self, text: &str) -> Option<String> {
        let scenario: Table = text.parse().ok()?;
        let found: Vec<String> =
            self.keys.iter().filter(|key| has(&scenario, key)).map(|key| format!("`{key}`")).collect();
        (!found.is_empty()).then(|| {
            format!(
                "note: `{}` {}, so these keys of the scenario do not apply: {}",
                self.command,
                self.reason,
                found.join(", ")
            )
        })
    }
}

fn has(scenario: &Table, key: &str) -> bool {
    let mut steps = key.split('.');
    let first = steps.next().and_then(|step| scenario.get(step));
    steps.fold(first, |value, step| value.and_then(Value::as_table).and_then(|table| table.get(step))).is_some()
}

#[cfg(test)]
#[path = "../../tests/unit/cli/replaced_keys.rs"]
mod tests;
