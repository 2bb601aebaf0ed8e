//! A share of messages that something is done with, as a scenario gives it: evenly spread, and the same in every run.

use serde::{Deserialize, Deserializer};

/// Chooses messages.
#[derive(Debug, Clone, Default)]
pub struct Share {
    share: f64,
    /// What is due of the next one.
    due: f64,
}

impl Share {
    /// `share`: from 0 to 1.
    pub fn new(share: f64) -> Self {
        Share { share, due: 0.0 }
    }

    /// Whether the next message is among them.
    #[inline]
    pub fn takes_next(&mut self) -> bool {
        self.due += self.share;
        let taken = self.due >= 1.0;
        if taken {
            self.due -= 1.0;
        }
        taken
    }
}

/// A number from 0 to 1, for `deserialize_with`.
///
/// # Errors
/// When it is another one.
pub fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(deserializer)?;
    match (0.0..=1.0).contains(&share) {
        true => Ok(share),
        false => Err(serde::de::Error::custom(format!("a share is from 0.0 to 1.0, not {share}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_met_and_evenly_spread() {
        for (share, of_1000) in [(0.0, 0), (0.25, 250), (0.1, 100), (1.0, 1000)] {
            let mut chosen = Share::new(share);
            let taken = (0..1000).filter(|_| chosen.takes_next()).count();
            assert!(taken.abs_diff(of_1000) <= 1, "{share}: {taken}");
        }
        let mut quarter = Share::new(0.25);
        assert_eq!((0..8).filter(|_| quarter.takes_next()).count(), 2);
    }
}
