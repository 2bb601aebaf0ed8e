//! The transactions of producers: how many ended in which way, and how long commits took.

use super::histogram::Distribution;

/// Transactions of measured messages that ended in a stretch of time.
#[derive(Debug, Clone, Default)]
pub struct Transactions {
    pub committed: u64,
    pub aborted: u64,
    /// From the call that commits, when all messages are written, to the broker's confirmation.
    pub commit: Distribution,
}

impl Transactions {
    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Transactions) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.commit.merge(&other.commit);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        (self.committed, self.aborted) = (0, 0);
        self.commit.clear();
    }
}
