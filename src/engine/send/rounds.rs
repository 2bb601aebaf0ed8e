//! Rounds: every producer sends one batch, and the next round begins when all batches are acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

use super::quota::Quota;
use super::sender::{Sender, Sent};
use super::trial_window::TrialWindow;
use super::window_rule::WindowRule;
use crate::broker::Producer;

/// A barrier whose last arrival decides for all whether there is another round.
pub struct Rounds {
    producers: usize,
    messages_per_round: u64,
    arrived: AtomicUsize,
    round: watch::Sender<Round>,
    quota: Arc<Quota>,
    trial_window: Arc<TrialWindow>,
}

/// A round that has been decided on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    pub number: u64,
    /// Whether it takes place.
    pub go: bool,
    /// When it began, in nanoseconds since the trial's epoch: every message of the round counts as measured or not by it.
    pub begin_ns: u64,
}

impl Rounds {
    pub fn new(producers: usize, batch: usize, quota: Arc<Quota>, trial_window: Arc<TrialWindow>) -> Self {
        let none = Round { number: 0, go: true, begin_ns: 0 };
        Rounds {
            producers,
            messages_per_round: (producers * batch) as u64,
            arrived: AtomicUsize::new(0),
            round: watch::Sender::new(none),
            quota,
            trial_window,
        }
    }

    /// Waits for all producers to have finished round `finished` (0 before the first) and returns the next.
    pub async fn next(&self, finished: u64) -> Round {
        let mut receiver = self.round.subscribe();
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.producers {
            self.arrived.store(0, Ordering::Release);
            let begin_ns = self.trial_window.clock().now_ns();
            let goes_on = self.trial_window.is_open(begin_ns)
                && (!self.trial_window.is_measured(begin_ns)
                    || self.quota.take(self.messages_per_round) == self.messages_per_round);
            self.round.send_replace(Round { number: finished + 1, go: goes_on, begin_ns });
        }
        tokio::select! {
            biased;
            round = receiver.wait_for(|round| round.number > finished) => match round {
                Ok(round) => *round,
                // The sender lives in `self`.
                Err(_) => Round { number: finished + 1, go: false, begin_ns: 0 },
            },
            () = self.trial_window.stopped() => Round { number: finished + 1, go: false, begin_ns: 0 },
        }
    }
}

/// Sends a batch in every round, then waits for its acknowledgements and for everybody else.
pub async fn run<P: Producer>(mut sender: Sender<P>, rule: WindowRule, rounds: Arc<Rounds>) -> Sent {
    let shared = sender.shared().clone();
    let window = shared.acks.window(sender.producer_index());
    let mut finished = 0;
    shared.trial_window.begun().await;
    loop {
        let round = rounds.next(finished).await;
        if !round.go {
            break;
        }
        finished = round.number;
        let now_ns = shared.trial_window.clock().now_ns();
        let measured = shared.trial_window.is_measured(round.begin_ns);
        if sender.send_now(rule.batch as usize, now_ns, measured).await.is_err() {
            break;
        }
        if !window.resolved_reaches(window.submitted(), shared.acks.stopped()).await {
            break;
        }
        tokio::task::coop::consume_budget().await;
    }
    sender.end(None)
}
