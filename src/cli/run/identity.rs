//! What tells one run, and one trial, from all others.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Session;
use crate::engine::TrialIdentity;

impl Session<'_> {
    /// Of a share, the same for all shares.
    pub(super) fn identity(&mut self, position: usize) -> TrialIdentity {
        // The trials after the first one begin when those before them have ended.
        let load_start_unix_ns = self.start_unix_ns.take();
        match self.arguments.share.share {
            None => TrialIdentity { load_start_unix_ns, ..identity(&self.run_id, position) },
            Some(_) => {
                let run_id = self.run_id.clone();
                let tag = crc32fast::hash(run_id.as_bytes());
                TrialIdentity { load_start_unix_ns, ..TrialIdentity::alone(run_id, tag) }
            }
        }
    }
}

/// Unique to the run, and short enough for the names of topics.
pub fn new_run_id(name: &str) -> String {
    let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    format!("brokermark-{}-{unix_ms:x}-{:x}", name.chars().take(60).collect::<String>(), std::process::id())
}

/// Unique to the trial; a resumed run's trials get new ones, so that they never meet what an earlier attempt left.
pub fn identity(run_id: &str, position: usize) -> TrialIdentity {
    let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let run_id = format!("{run_id}-{position}-{:x}", unix_ns as u32);
    let tag = crc32fast::hash(run_id.as_bytes());
    TrialIdentity::alone(run_id, tag)
}
