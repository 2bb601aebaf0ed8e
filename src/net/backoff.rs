//! Pauses between attempts, which double up to a longest one. Each is shortened at random, so that clients which failed
//! together do not come back together.

use std::time::Duration;

use tokio::time::sleep;

/// The pause before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    shortest: Duration,
    longest: Duration,
    /// Zero while no attempt has failed since the last success.
    pause: Duration,
}

impl Backoff {
    /// For connections that were lost.
    pub const RECONNECT: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

    /// Between attempts to receive.
    pub const RECEIVE: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(250));

    /// Between batches of which the client refuses everything.
    pub const REFUSED: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(100));

    /// Pauses from `shortest` to `longest`.
    pub const fn new(shortest: Duration, longest: Duration) -> Self {
        Backoff { shortest, longest, pause: Duration::ZERO }
    }

    /// The next pause is the shortest again.
    pub fn succeeded(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// What an attempt began has ended after that time. If that was more than the longest pause, the next one is the shortest again, and `true` is
    /// returned: a server that ends each connection sooner has not recovered.
    pub fn lasted(&mut self, time: Duration) -> bool {
        let has_lasted = time > self.longest;
        if has_lasted {
            self.succeeded();
        }
        has_lasted
    }

    /// Notes a failure: the pause that follows it.
    pub fn failed(&mut self) -> Duration {
        let doubled = self.pause.saturating_mul(2);
        self.pause = if doubled.is_zero() { self.shortest } else { doubled }.min(self.longest);
        self.pause
    }

    /// Waits for the pause after the failures so far; returns at once if there were none.
    pub async fn wait(self) {
        // The timer would turn a pause of zero into one of up to a millisecond.
        if !self.pause.is_zero() {
            sleep(jittered(self.pause)).await;
        }
    }

    /// Notes a failure and waits for the pause that follows it.
    pub async fn pause(&mut self) {
        sleep(jittered(self.failed())).await;
    }
}

/// Between four fifths of `pause` and all of it.
fn jittered(pause: Duration) -> Duration {
    pause - pause.mul_f64(rand::random::<f64>() / 5.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(50));
        let pauses: Vec<u128> = (0..11).map(|_| backoff.failed().as_millis()).collect();
        assert_eq!(pauses[..4], [100, 200, 400, 800]);
        assert_eq!(pauses[8..], [25_600, 50_000, 50_000]);
        assert!(!backoff.lasted(Duration::from_secs(50)));
        assert_eq!(backoff.failed().as_millis(), 50_000);
        assert!(backoff.lasted(Duration::from_secs(51)));
        assert_eq!(backoff.failed().as_millis(), 100);
        backoff.succeeded();
        assert_eq!(backoff.failed().as_millis(), 100);
    }

    #[test]
    fn clients_that_fail_together_pause_for_different_times() {
        let pauses: BTreeSet<Duration> = (0..50).map(|_| jittered(Duration::from_secs(1))).collect();
        assert!(pauses.len() > 25, "{pauses:?}");
        assert!(pauses.iter().all(|pause| (Duration::from_millis(800)..=Duration::from_secs(1)).contains(pause)));
    }
}
