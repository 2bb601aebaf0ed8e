//! What tells one run, and one trial, from all others.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Session;
use crate::engine::TrialIdentity;

/// The begin of 2020 and ten years, in milliseconds.
const YEAR_2020_MS: u64 = 1_577_836_800_000;
const TEN_YEARS_MS: u64 = 315_576_000_000;

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
/// digits, and of a trial the process, the trial's number and a time besides. The time must be plausible: a date in digits is not.
pub fn is_made_run_id(text: &str) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    is_made_run_id_at(text, now.as_millis() as u64)
}

/// The same, `now_ms` after the begin of 1970.
fn is_made_run_id_at(text: &str, now_ms: u64) -> bool {
    let plausible = YEAR_2020_MS..=now_ms.saturating_add(TEN_YEARS_MS);
    let is_name = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
    let is_number = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let is_time = |part: &str| {
        part.len() == 11 && is_number(&part) && u64::from_str_radix(part, 16).is_ok_and(|ms| plausible.contains(&ms))
    };
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

    #[test]
    fn an_id_holds_a_time_that_a_run_may_have_begun_at() {
        // November 2026.
        let now_ms = 1_795_000_000_000;
        let is_made = |ms: u64| is_made_run_id_at(&format!("orders-{ms:x}"), now_ms);
        let latest_ms = now_ms + TEN_YEARS_MS;
        assert_eq!([YEAR_2020_MS, now_ms, latest_ms].map(is_made), [true; 3]);
        assert_eq!([YEAR_2020_MS - 1, latest_ms + 1].map(is_made), [false; 2]);
        assert!(!is_made_run_id_at("backup-20261125001", now_ms), "a date and a number");
    }
}
