//! What is needed to repeat a trial, besides its scenario; what an acknowledgement meant, and topics that were there before the trial.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Versions and machine.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Environment {
    /// Version of brokermark.
    pub brokermark_version: String,
    /// Commit that brokermark was built from; `null` when the build did not know it.
    pub brokermark_commit: Option<String>,
    /// Compiler that brokermark was built with; `null` when the build did not know it.
    pub rust_compiler: Option<String>,
    /// Whether brokermark was built without optimisation: figures of such a build mean nothing.
    pub debug_build: bool,
    /// The client library and its version; `null` when the trial failed before there was a client.
    pub client_library: Option<String>,
    /// Name and version as the broker reports them; `null` when it reports none.
    pub broker: Option<String>,
    /// Whether the broker ran inside this process. No throughput is ever claimed from such a run.
    pub embedded: bool,
    /// Operating system and its release, as it names itself.
    pub operating_system: String,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Model of the processor.
    pub cpu_model: Option<String>,
    /// Logical cores of the machine.
    pub cores: usize,
    /// Physical cores of the machine: fewer than `cores` where hardware threads share them; `null` where the system does not tell, and in
    /// records of older builds.
    #[serde(default)]
    pub physical_cores: Option<usize>,
    /// Memory of the machine, in bytes.
    pub memory_bytes: Option<u64>,
    /// Name of the machine.
    pub hostname: Option<String>,
    /// The command line, one item an argument, secrets masked.
    pub command_line: Vec<String>,
}

impl Environment {
    /// The build of brokermark in words: two of the same words are the same program.
    pub fn build(&self) -> String {
        let of = |what: &Option<String>, unknown: &str| what.clone().unwrap_or_else(|| unknown.to_owned());
        format!(
            "brokermark {} ({}, {}{})",
            self.brokermark_version,
            of(&self.brokermark_commit, "unknown commit"),
            of(&self.rust_compiler, "unknown compiler"),
            if self.debug_build { ", without optimisation" } else { "" }
        )
    }
}

/// What had happened to a message when the broker acknowledged it, and how that is known. Figures of unequal durability
/// cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Durability {
    /// Where the message was.
    pub level: DurabilityLevel,
    /// Fewest nodes on which it was there; `null` where that is not known.
    pub copies: Option<u32>,
    /// The settings that decide it, as they were read.
    pub settings: BTreeMap<String, String>,
    /// Where the settings come from; `null` where they are unknown.
    pub source: Option<String>,
}

/// Where a message was when it was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DurabilityLevel {
    /// Not known.
    #[default]
    Unknown,
    /// Nowhere: the broker was not asked to acknowledge, or keeps nothing.
    Nowhere,
    /// In the memory of the broker's process: lost with the process.
    Memory,
    /// In the page cache: lost with the machine's power, not with the process.
    PageCache,
    /// On a disk, synchronised.
    Disk,
}

/// In words: "page-cache, 2 copies (acks = all, min.insync.replicas = 2)".
impl fmt::Display for Durability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.level.serialize(&mut *formatter)?;
        match self.copies {
            None => {}
            Some(1) => formatter.write_str(", 1 copy")?,
            Some(copies) => write!(formatter, ", {copies} copies")?,
        }
        let settings: Vec<String> = self.settings.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        if settings.is_empty() { Ok(()) } else { write!(formatter, " ({})", settings.join(", ")) }
    }
}

/// A topic as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FoundTopic {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: u32,
    /// Copies of its first partition.
    pub replication: u32,
}
