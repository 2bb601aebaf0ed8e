//! What an acknowledgement of a broker means.

use std::collections::BTreeMap;

/// What had happened to a message when the broker acknowledged it, as far as the broker tells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Durability {
    pub level: DurabilityLevel,
    /// Fewest nodes that had the message.
    pub copies: Option<u32>,
    /// The settings that decide it, as they were read.
    pub settings: BTreeMap<String, String>,
    /// Where the settings come from.
    pub source: Option<&'static str>,
}

/// Where a message was when it was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DurabilityLevel {
    #[default]
    Unknown,
    /// The broker was not asked to acknowledge, or keeps nothing.
    Nowhere,
    /// Lost with the broker's process.
    Memory,
    /// Lost with the machine's power.
    PageCache,
    /// Synchronised.
    Disk,
}

impl Durability {
    /// With these settings.
    pub fn new<'a>(
        level: DurabilityLevel,
        copies: Option<u32>,
        settings: impl IntoIterator<Item = (&'a str, String)>,
        source: &'static str,
    ) -> Self {
        let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Durability { level, copies, settings, source: Some(source) }
    }
}
