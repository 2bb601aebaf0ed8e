//! The brokers of this build: `brokermark brokers` lists them with their capabilities, and `brokermark new` writes a commented scenario for one.

use std::io::{self, Write};

use serde_json::json;

use super::Exit;
use crate::broker::registry::{ABSENT, descriptors};
use crate::engine;
use crate::scenario::{Capabilities, Descriptor};

/// Prints the brokers of this build, as a list for people or as JSON.
///
/// # Errors
/// When `out` cannot be written.
pub fn brokers(json: bool, out: &mut dyn Write) -> io::Result<()> {
    if json {
        let list: Vec<_> = descriptors().iter().map(as_json).collect();
        return writeln!(out, "{}", json!({ "brokers": list }));
    }
    for descriptor in descriptors() {
        let abilities: Vec<&str> =
            named(&descriptor.capabilities).into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect();
        let title = title(descriptor.kind, descriptor.client);
        writeln!(out, "{title}\n    {}\n    {}", descriptor.summary, abilities.join(" · "))?;
    }
    for absent in ABSENT {
        let part = if absent.security { "TLS and most logins are " } else { "" };
        writeln!(out, "{}\n    {part}not in this build: {}", title(absent.kind, absent.client), absent.remedy())?;
    }
    Ok(())
}

/// The kind, with the client where it has several.
fn title(kind: &str, client: Option<&str>) -> String {
    client.map_or_else(|| kind.to_owned(), |client| format!("{kind}, client = \"{client}\""))
}

fn as_json(descriptor: &Descriptor) -> serde_json::Value {
    let capabilities: serde_json::Map<_, _> =
        named(&descriptor.capabilities).into_iter().map(|(name, has)| (name.replace(' ', "_"), json!(has))).collect();
    json!({ "kind": descriptor.kind, "client": descriptor.client, "summary": descriptor.summary, "capabilities": capabilities })
}

fn named(capabilities: &Capabilities) -> [(&'static str, bool); 15] {
    [
        ("addresses", capabilities.addresses),
        ("embedded", capabilities.embedded),
        ("partitions", capabilities.partitions),
        ("replication", capabilities.replication),
        ("keys", capabilities.keys),
        ("headers", capabilities.headers),
        ("consumers", capabilities.consumers),
        ("groups", capabilities.groups),
        ("order", capabilities.ordered),
        ("tls", capabilities.tls),
        ("sasl", !capabilities.sasl.is_empty()),
        ("client properties", capabilities.properties),
        ("topic config", capabilities.topic_config),
        ("existing topics", capabilities.existing_topics),
        ("idle connections", capabilities.idle_connections),
    ]
}

/// A part of the scenario, and whether a kind of broker can have it.
type Part = (fn(&Descriptor) -> bool, &'static str);

fn always(_: &Descriptor) -> bool {
    true
}

/// What follows the broker's own part.
const PARTS: &[Part] = &[
    (
        |Descriptor { capabilities: can, .. }| can.partitions || can.replication || can.existing_topics,
        r#"
[topology]
topics = 1
"#,
    ),
    (
        |descriptor| descriptor.capabilities.partitions,
        r#"partitions = 4
"#,
    ),
    (
        |descriptor| descriptor.capabilities.replication,
        r#"# replication = 3                    # copies of each partition
"#,
    ),
    (
        |descriptor| descriptor.capabilities.existing_topics,
        r#"# name = "orders"                    # default: a name of the run's own
# existing = true                    # with `name`: take that topic as it is, and keep it; remove `partitions`
"#,
    ),
    (
        always,
        r#"
[producers]
count = 4
batch = 20                           # messages that a producer hands over at once
"#,
    ),
    (
        |descriptor| descriptor.capabilities.keys,
        r#"# keys = { kind = "random", distinct = 10_000 }
"#,
    ),
    (
        always,
        r#"
[load]
rate = "10k/s"                       # messages are due at this rate whatever the broker does; without it, as fast as answers come

[payload]
kind = "random"                      # "zeros", "random", "template", "lines", …
size = "1KiB"
"#,
    ),
    (
        |descriptor| descriptor.capabilities.consumers,
        r#"
[consumers]                          # without this table, messages are only produced
verify = true                        # every message must arrive, once, in order and unchanged
"#,
    ),
    (
        always,
        r#"
[run]
warm_up = "5s"
duration = "30s"

# [sweep]                            # one file, many points, each measured several times
# trials = 3
# over = { "producers.count" = [1, 4, 16] }

# [thresholds]                       # the run ends with exit code 3 if one does not hold
# require = ["p99 < 50ms", "failed = 0"]
"#,
    ),
];

/// Writes a scenario for the kind of broker of that name or alias.
pub fn new(kind: &str, out: &mut dyn Write) -> Result<Exit, Exit> {
    let kinds = engine::kinds();
    let unknown = || Exit::usage(format!("error: unknown kind of broker `{kind}`\n   = {}", kinds.hint(kind)));
    Ok(Exit::from_result(write(kinds.broker(kind).ok_or_else(unknown)?, out)))
}

fn write(descriptor: &Descriptor, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "#:schema ./scenario.schema.json\n# {}.\n#\n#   brokermark run THIS-FILE\n#\n# docs/SCENARIO.md explains every key. With the schema of the \
         first line, editors complete and check them:\n#\n#   brokermark schema --scenario > scenario.schema.json\n",
        descriptor.summary
    )?;
    out.write_all(descriptor.example.as_bytes())?;
    PARTS.iter().filter(|(applies, _)| applies(descriptor)).try_for_each(|(_, text)| out.write_all(text.as_bytes()))
}

#[cfg(test)]
#[path = "../../tests/unit/cli/brokers.rs"]
mod tests;
