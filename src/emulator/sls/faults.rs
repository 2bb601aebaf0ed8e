//! Errors on purpose: an exact share of the requests that write, or those of given numbers.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;

/// What is done to a request instead of, or after, accepting its logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// 403 `WriteQuotaExceed`.
    Quota,
    /// 403 `ShardWriteQuotaExceed`.
    ShardQuota,
    /// 503 `ServerBusy`.
    Busy,
    /// 500 `InternalServerError`.
    Internal,
    /// 401 `Unauthorized`.
    Unauthorized,
    /// 502 with a page instead of the service's error.
    Garbage,
    /// 200 without a request id: nothing was accepted.
    NoRequestId,
    /// No response.
    Timeout,
    /// The connection ends without a response.
    Reset,
    /// The logs are accepted, then the connection ends: another attempt writes them twice.
    AcceptedReset,
    /// 400 `PostBodyInvalid`, which no retry would help.
    Invalid,
}

impl FaultKind {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Quota => "quota",
            FaultKind::ShardQuota => "shard-quota",
            FaultKind::Busy => "busy",
            FaultKind::Internal => "internal",
            FaultKind::Unauthorized => "unauthorized",
            FaultKind::Garbage => "garbage",
            FaultKind::NoRequestId => "no-request-id",
            FaultKind::Timeout => "timeout",
            FaultKind::Reset => "reset",
            FaultKind::AcceptedReset => "accepted-reset",
            FaultKind::Invalid => "invalid",
        }
    }
}

/// Which requests it is done to.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    pub kind: FaultKind,
    /// From 0 to 1; of any number of requests exactly this share, evenly spread.
    #[serde(default)]
    pub share: f64,
    /// Requests by their number, from 1.
    #[serde(default)]
    pub at: Vec<u64>,
}

/// `quota=0.05`, or `reset@3,7`.
impl FromStr for FaultRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("\"{text}\" is not a fault: write `quota=0.05` for a share, or `reset@3,7` for requests by number")
        };
        let kind = |name: &str| <FaultKind as clap::ValueEnum>::from_str(name, false).map_err(|_| wrong());
        if let Some((name, share)) = text.split_once('=') {
            let share: f64 = share.parse().map_err(|_| wrong())?;
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("{share} is not a share: it must lie between 0 and 1"));
            }
            return Ok(FaultRule { kind: kind(name)?, share, at: Vec::new() });
        }
        let (name, numbers) = text.split_once('@').ok_or_else(wrong)?;
        let at = numbers.split(',').map(|number| number.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        Ok(FaultRule { kind: kind(name)?, share: 0.0, at })
    }
}

/// The rules at work.
pub struct Faults {
    rules: Vec<(FaultRule, AtomicU64)>,
    requests: AtomicU64,
}

impl Faults {
    pub fn new(rules: &[FaultRule]) -> Self {
        Faults {
            rules: rules.iter().map(|rule| (rule.clone(), AtomicU64::new(0))).collect(),
            requests: AtomicU64::new(0),
        }
    }

    /// What is to be done to the next request.
    pub fn deal(&self) -> Option<FaultKind> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        self.rules.iter().find_map(|(rule, asked)| {
            if rule.at.contains(&number) {
                return Some(rule.kind);
            }
            if rule.share <= 0.0 {
                return None;
            }
            let before = asked.fetch_add(1, Ordering::Relaxed);
            let picks = ((before + 1) as f64 * rule.share).floor() > (before as f64 * rule.share).floor();
            picks.then_some(rule.kind)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_numbers_are_exact() {
        let rules: Vec<FaultRule> = ["quota=0.05", "reset@3,7"].iter().map(|text| text.parse().unwrap()).collect();
        let faults = Faults::new(&rules);
        let dealt: Vec<Option<FaultKind>> = (0..1000).map(|_| faults.deal()).collect();
        assert_eq!(dealt.iter().filter(|fault| **fault == Some(FaultKind::Quota)).count(), 50);
        assert_eq!((dealt[2], dealt[6]), (Some(FaultKind::Reset), Some(FaultKind::Reset)));
        for wrong in ["quota", "quota=2", "nonsense=0.1", "reset@x"] {
            assert!(wrong.parse::<FaultRule>().is_err(), "{wrong}");
        }
    }
}
