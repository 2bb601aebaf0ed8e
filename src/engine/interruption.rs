//! The user's wish to end: how many signals have come, and what each of them ends.
//!
//! A signal ends the phase that it comes in: the load, the wait for outcomes, the verification, a pipeline's backlog. From
//! the second one on every phase ends at once, and what is left to do, up to removing topics, has a moment and no more.

use std::future::{Future, pending};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// The signal from which on nothing is waited for any more.
const URGENT: u32 = 2;

/// How many signals asked the program to end.
#[derive(Debug, Clone)]
pub struct Interruption {
    signals: watch::Receiver<u32>,
}

impl Interruption {
    /// By a count of signals, which only grows.
    pub fn new(signals: watch::Receiver<u32>) -> Self {
        Interruption { signals }
    }

    /// Without signals.
    pub fn none() -> Self {
        Interruption::new(watch::channel(0).1)
    }

    /// Whether a signal has come.
    pub fn is_requested(&self) -> bool {
        self.count() > 0
    }

    /// Whether nothing is to be waited for any more.
    pub fn is_urgent(&self) -> bool {
        self.count() >= URGENT
    }

    /// The first phase, which the first signal ends.
    pub fn phase(&self) -> InterruptiblePhase {
        InterruptiblePhase { before: 0, interruption: self.clone() }
    }

    /// Does `work`; once nothing is to be waited for any more, for `grace` longer. `None`: it was given up.
    pub async fn finish<T>(&self, work: impl Future<Output = T>, grace: Duration) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.given_up(grace) => None,
        }
    }

    /// Resolves `grace` after nothing is to be waited for any more.
    pub async fn given_up(&self, grace: Duration) {
        self.reaches(URGENT).await;
        sleep(grace).await;
    }

    fn count(&self) -> u32 {
        *self.signals.borrow()
    }

    async fn reaches(&self, count: u32) {
        if self.signals.clone().wait_for(|signals| *signals >= count).await.is_err() {
            // Without a sender, no signal will ever come.
            pending::<()>().await;
        }
    }
}

/// A phase that a signal ends.
#[derive(Debug)]
pub struct InterruptiblePhase {
    /// Signals that have ended phases before it.
    before: u32,
    interruption: Interruption,
}

impl InterruptiblePhase {
    /// Whether a signal has ended the phase.
    pub fn is_over(&self) -> bool {
        self.interruption.count() >= self.last()
    }

    /// Resolves when a signal ends the phase.
    pub async fn over(&self) {
        self.interruption.reaches(self.last()).await;
    }

    /// Does `work`; `None` if a signal ends the phase before.
    pub async fn unless_over<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.over() => None,
        }
    }

    /// The phase after this one, where a signal has ended this one. Another signal ends that.
    pub fn next(&self) -> InterruptiblePhase {
        let before = if self.is_over() { self.last() } else { self.before };
        InterruptiblePhase { before, interruption: self.interruption.clone() }
    }

    fn last(&self) -> u32 {
        URGENT.min(self.before + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_ends_one_phase_and_the_second_one_all() {
        let (sender, signals) = watch::channel(0);
        let interruption = Interruption::new(signals);
        let load = interruption.phase();
        let drain = load.next();
        assert!(!load.is_over() && !drain.is_over());
        sender.send_replace(1);
        drain.over().await;
        let verification = drain.next();
        assert!(drain.is_over() && !verification.is_over() && interruption.is_requested());
        sender.send_replace(2);
        assert!(verification.is_over() && verification.next().is_over());
    }

    #[tokio::test]
    async fn remaining_work_has_a_moment_after_the_second_signal() {
        let (sender, signals) = watch::channel(1);
        let interruption = Interruption::new(signals);
        let grace = Duration::from_millis(1);
        assert_eq!(interruption.finish(sleep(2 * grace), grace).await, Some(()), "one signal gives nothing up");
        sender.send_replace(2);
        assert_eq!(interruption.finish(async { 7 }, grace).await, Some(7));
        assert_eq!(interruption.finish(pending::<()>(), grace).await, None);
        drop(sender);
        assert!(interruption.is_urgent());
    }
}
