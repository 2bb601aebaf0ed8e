//! An open loop: a producer sends what its schedule has due, whatever the broker answers.

use std::sync::Arc;

use super::pacer::{Pacer, WakeUpDelay};
use super::sender::{Sender, Sent, Shared};
use super::trial_window::TrialWindow;
use super::window_rule::WindowRule;
use crate::broker::Producer;
use crate::load::SendSchedule;

/// Sends each message when it is due. Messages that are late go out at once, each with its own intended time.
pub async fn run<P: Producer>(
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
    fn gather(&mut self, shared: &Shared, now_ns: u64) {
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
