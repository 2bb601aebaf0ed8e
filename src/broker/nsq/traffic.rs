//! What a publishing connection has sent, and how long nsqd took to respond.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::broker::Wire;

/// Most round trips that are kept from one look to the next.
const MAX_ROUND_TRIPS: usize = 8192;

/// Counts since the last look. One command at a time has its round trip timed, so that most commands cost no look at the clock.
#[derive(Default)]
pub struct Traffic {
    wire: Wire,
    /// Commands so far: published, and with a response.
    published: u64,
    answered: u64,
    /// The number of the command that is timed, and when it was handed over.
    timed: Option<(u64, Instant)>,
    round_trips: Vec<u64>,
    /// What a compressed connection has sent; without compression, commands are sent as they are.
    compressed: Option<Arc<AtomicU64>>,
}

impl Traffic {
    /// The connection is now this one.
    pub fn begin(&mut self, compressed: Option<Arc<AtomicU64>>) {
        self.wire.sent_bytes += self.compressed.take().map_or(0, |before| before.swap(0, Ordering::Relaxed));
        self.compressed = compressed;
    }

    /// So many commands of `bytes` together were handed over.
    #[inline]
    pub fn publish(&mut self, commands: usize, bytes: usize) {
        self.published += commands as u64;
        self.wire.requests += commands as u64;
        self.wire.body_bytes += bytes as u64;
        if self.compressed.is_none() {
            self.wire.sent_bytes += bytes as u64;
        }
        if self.timed.is_none() {
            self.timed = Some((self.published, Instant::now()));
        }
    }

    /// So many commands were responded to. `taken`: the payload bytes of those that nsqd took.
    pub fn answer(&mut self, commands: usize, taken: u64) {
        self.answered += commands as u64;
        self.wire.raw_bytes += taken;
        if let Some((_, since)) = self.timed.filter(|(number, _)| *number <= self.answered) {
            self.timed = None;
            if self.round_trips.len() < MAX_ROUND_TRIPS {
                self.round_trips.push(since.elapsed().as_nanos() as u64);
            }
        }
    }

    /// No response will come to what was published so far.
    pub fn lose(&mut self) {
        self.answered = self.published;
        self.timed = None;
    }

    /// What was counted since the last call, and the round trips in nanoseconds.
    pub fn take(&mut self) -> (Wire, Vec<u64>) {
        self.wire.sent_bytes += self.compressed.as_ref().map_or(0, |sent| sent.swap(0, Ordering::Relaxed));
        (std::mem::take(&mut self.wire), std::mem::take(&mut self.round_trips))
    }
}

/// The value that this share of the sorted values does not exceed.
pub fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_at_a_time_is_timed_until_its_response() {
        let mut traffic = Traffic::default();
        traffic.publish(2, 100);
        traffic.publish(1, 50);
        traffic.answer(1, 40);
        assert_eq!(traffic.take().1.len(), 0, "the second command is timed");
        traffic.answer(1, 40);
        let (wire, round_trips) = traffic.take();
        assert_eq!((wire.raw_bytes, round_trips.len()), (40, 1));
        traffic.publish(1, 50);
        traffic.lose();
        traffic.publish(1, 50);
        traffic.answer(1, 10);
        assert_eq!(traffic.take().1.len(), 1, "a response that is lost is not waited for");
    }

    #[test]
    fn a_compressed_connection_counts_what_it_sends() {
        let (mut traffic, sent) = (Traffic::default(), Arc::new(AtomicU64::new(0)));
        traffic.publish(1, 100);
        traffic.begin(Some(sent.clone()));
        traffic.publish(1, 100);
        sent.store(30, Ordering::Relaxed);
        traffic.begin(None);
        let (wire, _) = traffic.take();
        assert_eq!((wire.requests, wire.body_bytes, wire.sent_bytes), (2, 200, 130));
    }

    #[test]
    fn quantiles_are_values() {
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!((quantile(&sorted, 0.5), quantile(&sorted, 0.99), quantile(&[], 0.5)), (Some(50), Some(99), None));
    }
}
