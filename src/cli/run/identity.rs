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

/// Whether an id is one that a run, a share or a trial has made for itself: a name, then the time in milliseconds since 1970 in hexadecimal
/// digits, and of a trial the process, the trial's number and a time besides.
pub fn is_made_run_id(text: &str) -> bool {
    let is_name = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    let is_number = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    // From 2004 to 2527.
    let is_time = |part: &str| part.len() == 11 && is_number(&part) && part.starts_with(|first| first != '0');
    let parts: Vec<&str> = text.split('-').collect();
    let of_share = matches!(parts.as_slice(), [_, .., time] if is_time(time));
    let of_run = matches!(parts.as_slice(), [_, .., time, process] if is_time(time) && is_number(process));
    let of_trial = matches!(parts.as_slice(), [_, .., time, process, position, ns]
        if is_time(time) && [process, position, ns].into_iter().all(is_number));
    text.chars().all(is_name) && (of_share || of_run || of_trial)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_runs_make_are_told_from_other_names() {
        let run = new_run_id("orders");
        let trial = identity(&run, 3).run_id;
        for made in [run.as_str(), trial.as_str(), "brokermark-orders-19ca8fb2a00", "mine-19ca8fb2a00"] {
            assert!(is_made_run_id(made), "{made}");
        }
        for other in
            ["demo", "neverwas", "brokermark-null-1", "orders-2026", "orders-09ca8fb2a00", "a b-19ca8fb2a00", ""]
        {
            assert!(!is_made_run_id(other), "{other}");
        }
    }
}
