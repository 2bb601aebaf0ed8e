//! The producer task: one per producer, in one of three loops.

use std::sync::Arc;

use super::pacer::Pacer;
use super::rounds::Rounds;
use super::sender::{Sender, Sent};
use super::trial_window::TrialWindow;
use crate::broker::Producer;
use crate::load::SendSchedule;
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
    fn needed(self, submitted: u64, count: u64) -> u64 {
        let needed = (submitted + count).saturating_sub(self.in_flight);
        match self.confirm {
            Confirm::Message => needed,
            // Credits come back in whole batches; the last one may be a short one.
            Confirm::Batch => needed.next_multiple_of(self.batch).min(submitted),
        }
    }
}

/// Sends as fast as the window allows.
pub async fn closed_loop<P: Producer>(mut sender: Sender<P>, rule: WindowRule) -> Sent {
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

/// Sends a batch in every round, then waits for its acknowledgements and for everybody else.
pub async fn in_rounds<P: Producer>(mut sender: Sender<P>, rule: WindowRule, rounds: Arc<Rounds>) -> Sent {
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

/// Sends by a send schedule that waits for nothing: what is due late goes out at once, with its own intended time.
pub async fn open_loop<P: Producer>(
    mut sender: Sender<P>,
    rule: WindowRule,
    mut send_schedule: SendSchedule,
    pacer: Arc<Pacer>,
) -> Sent {
    let shared = sender.shared().clone();
    let trial_window: &TrialWindow = &shared.trial_window;
    let window = shared.acks.window(sender.producer_index());
    let mut due = Vec::with_capacity(rule.batch as usize);
    // Measured messages that were due, whether they could be sent or not.
    let mut measured_due = 0;
    // The last wake-up: when it was asked for, when it came, and how late it made the measured messages of a batch.
    let (mut alarm_ns, mut woken_ns) = (0, 0);
    let mut lateness = Vec::with_capacity(rule.batch as usize);
    loop {
        let mut now_ns = trial_window.clock().now_ns();
        let next_ns = trial_window.load_start_ns.saturating_add(send_schedule.peek());
        if !trial_window.is_open(next_ns) {
            break;
        }
        if next_ns > now_ns {
            alarm_ns = next_ns.max(woken_ns + pacer.wake_interval_ns()).min(trial_window.load_end_ns);
            woken_ns = pacer.sleep_until(sender.producer_index(), alarm_ns, shared.acks.stopped()).await;
            continue;
        }
        due.clear();
        lateness.clear();
        while (due.len() as u64) < rule.batch {
            let intended_ns = trial_window.load_start_ns.saturating_add(send_schedule.peek());
            if intended_ns > now_ns || intended_ns >= trial_window.load_end_ns {
                break;
            }
            let measured = trial_window.is_measured(intended_ns);
            if measured && shared.quota.take(1) == 0 {
                break;
            }
            due.push((intended_ns, measured));
            if measured && intended_ns <= woken_ns {
                lateness.push(woken_ns.saturating_sub(intended_ns.max(alarm_ns)));
            }
            measured_due += u64::from(measured);
            send_schedule.advance();
        }
        if due.is_empty() {
            // The quota is used up: what comes later is not due any more.
            return sender.end(Some(measured_due));
        }
        pacer.record_lateness(&lateness);
        let needed = rule.needed(window.submitted(), due.len() as u64);
        if window.resolved() < needed {
            if !window.resolved_reaches(needed, shared.acks.stopped()).await {
                break;
            }
            now_ns = trial_window.clock().now_ns();
        }
        if sender.send_due(&due, now_ns).await.is_err() {
            break;
        }
        tokio::task::coop::consume_budget().await;
    }
    // What the send schedule still had due before the load ended, or before it was stopped.
    let ended_ns = trial_window.load_end_ns.min(trial_window.clock().now_ns());
    send_schedule.skip_until(trial_window.measure_start_ns.min(ended_ns).saturating_sub(trial_window.load_start_ns));
    measured_due += send_schedule.skip_until(ended_ns.saturating_sub(trial_window.load_start_ns));
    sender.end(Some(measured_due))
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
