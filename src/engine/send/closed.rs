//! A closed loop: a producer sends as fast as its window allows.

use super::sender::{Sender, Sent};
use super::trial_window::TrialWindow;
use super::window_rule::WindowRule;
use crate::broker::Producer;

/// Sends as fast as the window allows.
pub async fn run<P: Producer>(mut sender: Sender<P>, rule: WindowRule) -> Sent {
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
