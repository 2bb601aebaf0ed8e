//! What single groups of consumers are told to do, and the backlog that all of them are to find.

use std::fmt;
use std::time::Duration;

/// One group of consumers.
#[derive(Clone, PartialEq, Default)]
pub struct ConsumerGroup {
    /// How long each of its consumers pretends to work on a message before it takes the next one.
    pub work: Option<Work>,
    /// Most messages per second that its consumers take together (> 0, finite).
    pub rate: Option<f64>,
    /// When it begins, after the load; zero: before the load.
    pub start_after: Duration,
    /// `consumers.properties`, with those of the group in their place.
    pub properties: Vec<(String, String)>,
}

impl ConsumerGroup {
    /// Whether its consumers take messages as fast as they can.
    pub fn is_unpaced(&self) -> bool {
        self.work.is_none() && self.rate.is_none()
    }
}

/// Without the values of properties, which may be secrets.
impl fmt::Debug for ConsumerGroup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&str> = self.properties.iter().map(|(key, _)| key.as_str()).collect();
        formatter
            .debug_struct("ConsumerGroup")
            .field("work", &self.work)
            .field("rate", &self.rate)
            .field("start_after", &self.start_after)
            .field("properties", &keys)
            .finish()
    }
}

/// How long consumers work on a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Longer than zero.
    pub mean: Duration,
    pub law: WorkLaw,
    pub seed: u64,
}

/// How the times of work are distributed around their mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WorkLaw {
    Fixed,
    Exponential,
    /// The logarithm of a time is normal with this standard deviation (> 0).
    Lognormal {
        sigma: f64,
    },
    /// The share of times beyond `t` falls with `t` to the power of `-shape` (> 1, else there would be no mean).
    Pareto {
        shape: f64,
    },
}

/// The backlog that is built before the consumers begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Messages that are acknowledged before the consumers begin; at least 1.
    pub messages: u64,
    /// A group has caught up when it misses no more than the schedule has due in this time (> 0).
    pub caught_up_within: Duration,
}
