//! The load as a process has it that only consumes: others send, and it goes on for as long as they do.

use std::time::Duration;

use tokio::time::Instant;

use super::context::TrialContext;

/// What a process without producers waits for, instead of for its producers.
#[derive(Debug)]
pub(super) struct Listening {
    /// How long nothing may arrive before the others are taken to have ended, where no time ends the load.
    silence: Duration,
    received: u64,
    since: Instant,
}

impl Listening {
    /// Of a part that only consumes; `None`: this process has producers to wait for.
    pub fn of(context: &TrialContext<'_>) -> Option<Self> {
        let silence = context.scenario.run.drain_deadline;
        context.scenario.only_consumes().then(|| Listening { silence, received: 0, since: Instant::now() })
    }

    /// Whether more may come; `received` only grows.
    pub fn goes_on(&mut self, received: u64, now: Instant) -> bool {
        if received > self.received {
            (self.received, self.since) = (received, now);
        }
        now < self.since + self.silence
    }

    /// The load begins only now: nothing can have come before.
    pub fn begin(&mut self, now: Instant) {
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_listened_to_until_they_are_silent() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut listening = Listening { silence: Duration::from_secs(10), received: 0, since: start };
        listening.begin(after(100));
        assert!(listening.goes_on(0, after(109)));
        assert!(listening.goes_on(5, after(109)));
        assert!(listening.goes_on(5, after(118)));
        assert!(!listening.goes_on(5, after(119)));
    }
}
