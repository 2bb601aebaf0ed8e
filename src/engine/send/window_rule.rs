//! How many messages one producer may have in flight.

use crate::scenario::Confirm;

/// What bounds one producer's messages in flight.
#[derive(Debug, Clone, Copy)]
pub struct WindowRule {
    /// Most messages in flight; at least `batch`.
    pub in_flight: u64,
    /// Messages per batch.
    pub batch: u64,
    pub confirm: Confirm,
}

impl WindowRule {
    /// How many messages must be resolved before `count` more may be submitted to `submitted`.
    pub fn needed(self, submitted: u64, count: u64) -> u64 {
        let needed = (submitted + count).saturating_sub(self.in_flight);
        match self.confirm {
            Confirm::Message => needed,
            // Credits come back in whole batches; the last one may be a short one.
            Confirm::Batch => needed.next_multiple_of(self.batch).min(submitted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_opens_by_messages_or_by_batches() {
        let by_message = WindowRule { in_flight: 100, batch: 10, confirm: Confirm::Message };
        assert_eq!(by_message.needed(0, 10), 0);
        assert_eq!(by_message.needed(100, 10), 10);
        assert_eq!(by_message.needed(105, 10), 15);
        let by_batch = WindowRule { in_flight: 15, batch: 10, confirm: Confirm::Batch };
        assert_eq!(by_batch.needed(0, 10), 0);
        assert_eq!(by_batch.needed(10, 10), 10, "5 would do by messages, the batch is only done with 10");
        assert_eq!(by_batch.needed(13, 10), 10);
    }
}
