//! The loop of a producer task.
//!
//! - Open loop: a producer sends what its schedule has due, whatever the broker answers.
//! - Closed loop: a producer sends as fast as its window allows.
//! - Rounds: every producer sends one batch, and the next round begins when all batches are acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

use super::pacer::{Pacer, WakeUpDelay};
use super::sender::{Sender, SenderShared, Sent};
use super::window::{Quota, TrialWindow, WindowRule};
use crate::broker::Producer;
use crate::load::SendSchedule;

/// Sends each message when it is due. Messages that are late go out at once, each with its own intended time.
pub async fn run_open<P: Producer>(
    mut sender: Sender<P>,
    rule: WindowRule,
    send_schedule: SendSchedule,
    pacer: Arc<Pacer>,
) -> Sent {
    let shared = sender.shared().clone();
    let trial_window: &TrialWindow = &shared.trial_window;
    let window = shared.acks.window(sender.producer_index());
    let mut due = Due::new(send_schedule, rule.batch as usize);
    loop {
        let mut now_ns = trial_window.clock().now_ns();
        let next_ns = due.next_ns(trial_window);
        if !trial_window.is_open(next_ns) {
            break;
        }
        if next_ns > now_ns {
            let earliest_ns = due.woken_ns + pacer.wake_interval_ns();
            due.alarm_ns = next_ns.max(earliest_ns).min(trial_window.load_end_ns);
            due.woken_ns = pacer.sleep_until(sender.producer_index(), due.alarm_ns, shared.acks.stopped()).await;
            continue;
        }
        due.gather(&shared, now_ns);
        if due.messages.is_empty() {
            // The quota is used up: later messages of the schedule are not due.
            return sender.end(Some(due.measured));
        }
        pacer.record_delays(&due.delays);
        let needed = rule.needed(window.submitted(), due.messages.len() as u64);
        if window.resolved() < needed {
            if !window.resolved_reaches(needed, shared.acks.stopped()).await {
                break;
            }
            now_ns = trial_window.clock().now_ns();
        }
        if sender.send_due(&due.messages, now_ns).await.is_err() {
            break;
        }
        tokio::task::coop::consume_budget().await;
    }
    due.count_rest(trial_window);
    sender.end(Some(due.measured))
}

/// What a producer's schedule has due.
struct Due {
    send_schedule: SendSchedule,
    most: usize,
    /// The batch to be sent: intended times since the trial's epoch, and whether the messages are measured.
    messages: Vec<(u64, bool)>,
    /// How late the last wake-up made measured messages of this batch.
    delays: Vec<WakeUpDelay>,
    /// Measured messages that were due, sent or not.
    measured: u64,
    /// The time of the last wake-up: as it was set, and as it was.
    alarm_ns: u64,
    woken_ns: u64,
}

impl Due {
    fn new(send_schedule: SendSchedule, most: usize) -> Self {
        let (messages, delays) = (Vec::with_capacity(most), Vec::with_capacity(most));
        Due { send_schedule, most, messages, delays, measured: 0, alarm_ns: 0, woken_ns: 0 }
    }

    /// Intended time of the next message.
    fn next_ns(&self, trial_window: &TrialWindow) -> u64 {
        trial_window.load_start_ns.saturating_add(self.send_schedule.peek())
    }

    /// Makes a batch of messages that are due by `now_ns`; an empty one when the quota is used up.
    fn gather(&mut self, shared: &SenderShared, now_ns: u64) {
        let trial_window: &TrialWindow = &shared.trial_window;
        self.messages.clear();
        self.delays.clear();
        while self.messages.len() < self.most {
            let intended_ns = self.next_ns(trial_window);
            if intended_ns > now_ns || intended_ns >= trial_window.load_end_ns {
                break;
            }
            let measured = trial_window.is_measured(intended_ns);
            if measured && shared.quota.take(1) == 0 {
                break;
            }
            self.messages.push((intended_ns, measured));
            if measured && intended_ns <= self.woken_ns {
                self.delays.push(WakeUpDelay {
                    timer_ns: self.woken_ns.saturating_sub(intended_ns.max(self.alarm_ns)),
                    all_ns: self.woken_ns - intended_ns,
                });
            }
            self.measured += u64::from(measured);
            self.send_schedule.advance();
        }
    }

    /// Counts what was due before the load ended, or was stopped, and was not sent.
    fn count_rest(&mut self, trial_window: &TrialWindow) {
        let ended_ns = trial_window.load_end_ns.min(trial_window.clock().now_ns());
        let since_load_start = |at_ns: u64| at_ns.saturating_sub(trial_window.load_start_ns);
        self.send_schedule.skip_until(since_load_start(trial_window.measure_start_ns.min(ended_ns)));
        self.measured += self.send_schedule.skip_until(since_load_start(ended_ns));
    }
}

/// Sends as fast as the window allows.
pub async fn run_closed<P: Producer>(mut sender: Sender<P>, rule: WindowRule) -> Sent {
    let shared = sender.shared().clone();
    let trial_window: &TrialWindow = &shared.trial_window;
    let window = shared.acks.window(sender.producer_index());
    trial_window.begun().await;
    loop {
        let needed = rule.needed(window.submitted(), rule.batch);
        if !window.resolved_reaches(needed, shared.acks.stopped()).await {
            break;
        }
        let now_ns = trial_window.clock().now_ns();
        if !trial_window.is_open(now_ns) {
            break;
        }
        let measured = trial_window.is_measured(now_ns);
        let count = if measured { shared.quota.take(rule.batch) } else { rule.batch };
        if count == 0 || sender.send_now(count as usize, now_ns, measured).await.is_err() {
            break;
        }
        // Where nothing ever waits (a broker in this process), other tasks must still get their turn.
        tokio::task::coop::consume_budget().await;
    }
    sender.end(None)
}

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
pub async fn run_rounds<P: Producer>(mut sender: Sender<P>, rule: WindowRule, rounds: Arc<Rounds>) -> Sent {
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
