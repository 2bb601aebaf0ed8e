//! Failures: why messages failed, and how many by class.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a message failed, in classes that mean the same for every broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// No answer within the client's time limit.
    Timeout,
    /// The client's own queue had no room.
    QueueFull,
    /// Larger than the client or the broker takes.
    TooLarge,
    /// The broker does not allow it to these credentials.
    Authorisation,
    /// The topic or partition is not, or no longer, there.
    UnknownTopic,
    /// The connection broke before the answer.
    ConnectionLost,
    /// The broker answered with a refusal of another kind.
    Refused,
    /// Another producer has taken this one's place.
    Fenced,
    /// Its transaction was aborted, as the scenario asks for.
    Aborted,
    /// The server has no room left.
    Full,
    /// The server answers, and serves no such request for now: it loads its data, is busy, or is a replica.
    Unavailable,
    /// Failed on purpose, by the null broker's script.
    Injected,
    /// A consumer crashed and received nothing more.
    Crashed,
    /// Anything else; the message of the error is in the record.
    Other,
}

impl FailureClass {
    pub const ALL: [FailureClass; 14] = [
        FailureClass::Timeout,
        FailureClass::QueueFull,
        FailureClass::TooLarge,
        FailureClass::Authorisation,
        FailureClass::UnknownTopic,
        FailureClass::ConnectionLost,
        FailureClass::Refused,
        FailureClass::Fenced,
        FailureClass::Aborted,
        FailureClass::Full,
        FailureClass::Unavailable,
        FailureClass::Injected,
        FailureClass::Crashed,
        FailureClass::Other,
    ];
}

/// As in a record.
impl fmt::Display for FailureClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

/// Failures of one class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorTally {
    pub count: u64,
    /// The first one's message and when it came, in nanoseconds since the trial's epoch.
    pub first: Option<(u64, String)>,
}

/// Failures by class, in the order of [`FailureClass::ALL`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Errors([ErrorTally; FailureClass::ALL.len()]);

impl Errors {
    pub fn record(&mut self, class: FailureClass, at_ns: u64, message: impl FnOnce() -> String) {
        let tally = &mut self.0[class as usize];
        tally.count += 1;
        if tally.first.is_none() {
            tally.first = Some((at_ns, message()));
        }
    }

    /// Failures of all classes.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|tally| tally.count).sum()
    }

    pub fn merge(&mut self, other: &Errors) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.count += theirs.count;
            if let Some((at_ns, message)) = &theirs.first
                && mine.first.as_ref().is_none_or(|(first, _)| at_ns < first)
            {
                mine.first = Some((*at_ns, message.clone()));
            }
        }
    }

    /// The classes that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (FailureClass, &ErrorTally)> {
        FailureClass::ALL.into_iter().zip(&self.0).filter(|(_, tally)| tally.count > 0)
    }
}
