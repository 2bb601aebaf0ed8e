//! `brokermark new`: writes a commented scenario for a kind of broker.

use std::io::{self, Write};

use super::Exit;
use crate::engine;
use crate::notices::notice;
use crate::scenario::Descriptor;

/// A part of the scenario, and whether a kind of broker can have it.
type Part = (fn(&Descriptor) -> bool, &'static str);

fn always(_: &Descriptor) -> bool {
    true
}

/// What follows the broker's own part.
const PARTS: &[Part] = &[
    (
        |descriptor| descriptor.capabilities.partitions,
        r#"
[topology]
topics = 1
partitions = 4
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
pub fn new(kind: &str, out: &mut dyn Write) -> Exit {
    let kinds = engine::kinds();
    match kinds.broker(kind) {
        Some(descriptor) => Exit::from_result(write(descriptor, out)),
        None => {
            notice!("error: unknown kind of broker `{kind}`\n   = {}", kinds.hint(kind));
            Exit::Usage
        }
    }
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
#[path = "../../tests/unit/cli/new.rs"]
mod tests;
