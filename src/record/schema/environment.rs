//! What is needed to repeat a trial, besides its scenario.

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
