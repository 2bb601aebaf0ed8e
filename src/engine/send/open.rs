//! An open loop: a producer sends what its schedule has due, whatever the broker answers.

use std::sync::Arc;

use super::pacer::Pacer;
use super::sender::{Sender, Sent};
use super::trial_window::TrialWindow;
use super::window_rule::WindowRule;
use crate::broker::Producer;
use crate::load::SendSchedule;

/// Sends by a send schedule that waits for nothing: what is due late goes out at once, with its own intended time.
pub async fn run<P: Producer>(
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
