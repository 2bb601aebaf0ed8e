//! The `[broker.kafka.transactions]` table, which both clients of Kafka have.

use std::time::Duration;

use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::Setup;
use crate::scenario::tables::{DurationText, duration};

/// The broker aborts a transaction that is open for a minute (`transaction.timeout.ms`), so it is ended well before.
const MAX_INTERVAL: Duration = Duration::from_secs(30);

/// When a producer's transaction ends, and how.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TransactionOptions {
    /// It is ended when it has so many messages, …
    #[serde(deserialize_with = "messages")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub messages: usize,
    /// … or so long after its first one.
    #[serde(deserialize_with = "interval")]
    #[schemars(with = "DurationText")]
    pub interval: Duration,
    /// The share (0 to 1) of each producer's transactions that are aborted, evenly spread.
    #[serde(deserialize_with = "share")]
    #[schemars(range(min = 0, max = 1))]
    pub abort_share: f64,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        TransactionOptions { messages: 1000, interval: Duration::from_secs(1), abort_share: 0.0 }
    }
}

impl TransactionOptions {
    /// Whether to abort a producer's transaction of this number, from 0. Of `n` transactions, exactly `floor(n × share)` are.
    pub fn aborts(&self, number: u64) -> bool {
        ((number + 1) as f64 * self.abort_share).floor() > (number as f64 * self.abort_share).floor()
    }

    /// Refuses what the rest of the scenario does not go with.
    ///
    /// # Errors
    /// A sentence that names the key to change.
    pub fn check(&self, setup: &Setup) -> Result<(), String> {
        let (connections, producers) = (setup.config.connections, setup.producers);
        if connections < producers {
            return Err(format!(
                "a transaction belongs to one client, so {producers} producers need as many connections, not {connections}: \
                 set `broker.connections = {producers}`"
            ));
        }
        let in_flight = setup.in_flight / producers.max(1);
        if producers > 0 && in_flight < self.messages {
            return Err(format!(
                "a transaction of {} messages is more than the {in_flight} that a producer may have in flight: \
                 raise `producers.in_flight`, or lower `broker.kafka.transactions.messages`",
                self.messages
            ));
        }
        if setup.config.is_embedded() && self.abort_share > 0.0 {
            let reason = "the embedded cluster delivers aborted messages, too: remove `abort_share`, or name a server";
            return Err(reason.to_owned());
        }
        Ok(())
    }
}

fn messages<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let messages = i64::deserialize(deserializer)?;
    match usize::try_from(messages) {
        Ok(messages @ 1..=10_000_000) => Ok(messages),
        _ => Err(D::Error::custom(format!("a transaction has 1 to 10,000,000 messages, not {messages}"))),
    }
}

fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let interval: Duration = duration(deserializer)?;
    if interval.is_zero() || interval > MAX_INTERVAL {
        return Err(D::Error::custom(format!("a transaction ends after 1ms to 30s, not {interval:?}")));
    }
    Ok(interval)
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let share = f64::deserialize(deserializer)?;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err(D::Error::custom(format!("{share} is not a share: it must lie between 0 and 1")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TransactionOptions, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn what_a_transaction_cannot_be_is_refused() {
        for (text, words) in [
            ("messages = 0", "1 to 10,000,000"),
            ("interval = \"0s\"", "1ms to 30s"),
            ("interval = \"1min\"", "1ms to 30s"),
            ("abort_share = 1.1", "between 0 and 1"),
            ("abort_shares = 0.1", "unknown field"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert_eq!(read(""), Ok(TransactionOptions::default()));
    }

    #[test]
    fn the_share_of_aborted_transactions_is_exact_and_evenly_spread() {
        let aborted = |share: &str| {
            let options = read(&format!("abort_share = {share}")).unwrap();
            (0..20).filter(|number| options.aborts(*number)).collect::<Vec<_>>()
        };
        assert_eq!(aborted("0.1"), [9, 19]);
        assert!(aborted("0.0").is_empty());
        assert_eq!(aborted("1.0").len(), 20);
    }
}
