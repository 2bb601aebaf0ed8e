//! How much of the measured load is left: producers take from it batch by batch, so that together they send exactly
//! what the scenario asks for.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::scenario::Stop;

/// The measured messages and bytes that may still be sent; without a limit, as many as you like.
#[derive(Debug)]
pub struct Quota {
    messages: AtomicU64,
    payload_bytes: AtomicI64,
}

impl Quota {
    /// `payload_size`: the size that all payloads share, if they do. It turns a limit in bytes into one in messages (the
    /// last message may go beyond it by less than its size); where sizes differ, each producer's last batch may.
    pub fn new(stop: &Stop, payload_size: Option<usize>) -> Self {
        let mut messages = stop.messages.unwrap_or(u64::MAX);
        let mut payload_bytes = i64::MAX;
        match (stop.payload_bytes, payload_size) {
            (Some(bytes), Some(size)) => messages = messages.min(bytes.div_ceil(size.max(1) as u64)),
            (Some(bytes), None) => payload_bytes = i64::try_from(bytes).unwrap_or(i64::MAX),
            (None, _) => {}
        }
        Quota { messages: AtomicU64::new(messages), payload_bytes: AtomicI64::new(payload_bytes) }
    }

    /// Rounds the messages up to whole rounds of `round` messages.
    pub fn in_rounds_of(self, round: u64) -> Self {
        let messages = self.messages.into_inner();
        let rounded = messages.checked_next_multiple_of(round).unwrap_or(u64::MAX);
        Quota { messages: AtomicU64::new(rounded), ..self }
    }

    /// The part of it that one share may send: `messages` of the messages, and this share of the bytes.
    pub fn of_part(self, messages: Option<u64>, bytes: impl Fn(u64) -> u64) -> Self {
        let of_bytes = |limit: i64| if limit == i64::MAX { limit } else { bytes(limit.max(0) as u64) as i64 };
        Quota {
            messages: AtomicU64::new(messages.unwrap_or(u64::MAX)),
            payload_bytes: AtomicI64::new(of_bytes(self.payload_bytes.into_inner())),
        }
    }

    /// The messages that may still be sent; `None`: without a limit in messages.
    pub fn messages(&self) -> Option<u64> {
        Some(self.messages.load(Ordering::Relaxed)).filter(|messages| *messages != u64::MAX)
    }

    /// Takes up to `wanted` messages: 0 means that the load has ended.
    #[inline]
    pub fn take(&self, wanted: u64) -> u64 {
        if self.payload_bytes.load(Ordering::Relaxed) <= 0 {
            return 0;
        }
        let mut left = self.messages.load(Ordering::Relaxed);
        loop {
            if left == u64::MAX {
                return wanted;
            }
            let taken = wanted.min(left);
            match self.messages.compare_exchange_weak(left, left - taken, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return taken,
                Err(now) => left = now,
            }
        }
    }

    /// Counts payload bytes that were sent.
    #[inline]
    pub fn spend(&self, payload_bytes: u64) {
        if self.payload_bytes.load(Ordering::Relaxed) != i64::MAX {
            self.payload_bytes.fetch_sub(payload_bytes as i64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takers_get_exactly_the_limit() {
        let quota = Quota::new(&Stop { messages: Some(25), ..Stop::default() }, None);
        let taken: Vec<u64> = (0..4).map(|_| quota.take(10)).collect();
        assert_eq!(taken, [10, 10, 5, 0]);
    }

    #[test]
    fn bytes_of_equal_payloads_are_messages_rounded_up_to_rounds() {
        let stop = Stop { payload_bytes: Some(1001), ..Stop::default() };
        assert_eq!(Quota::new(&stop, Some(100)).take(100), 11);
        assert_eq!(Quota::new(&stop, Some(100)).in_rounds_of(8).take(100), 16);
    }

    #[test]
    fn bytes_of_unequal_payloads_end_the_load_once_spent() {
        let quota = Quota::new(&Stop { payload_bytes: Some(1000), ..Stop::default() }, None);
        assert_eq!(quota.take(10), 10);
        quota.spend(999);
        assert_eq!(quota.take(10), 10);
        quota.spend(1);
        assert_eq!(quota.take(10), 0);
    }

    #[test]
    fn no_limit_is_no_limit() {
        let quota = Quota::new(&Stop::default(), Some(1)).in_rounds_of(7);
        assert_eq!(quota.take(u64::MAX - 1), u64::MAX - 1);
        assert_eq!(quota.take(5), 5);
    }
}
