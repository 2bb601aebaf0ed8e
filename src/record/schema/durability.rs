//! What an acknowledgement meant.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
