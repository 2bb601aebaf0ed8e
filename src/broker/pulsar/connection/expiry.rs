//! The task that fails messages for which no receipt came in time. A broker that answers pings may still never answer them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Shared;
use super::state::Expired;
use crate::broker::pulsar::error::RequestError;

/// The longest time between looks, and so the most by which a failure is late.
const MAX_TICK: Duration = Duration::from_secs(1);
const MIN_TICK: Duration = Duration::from_millis(10);

/// Runs until the connection breaks.
pub async fn expire(shared: Arc<Shared>, send_timeout: Duration) {
    let mut ticks = interval((send_timeout / 8).clamp(MIN_TICK, MAX_TICK));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let late = RequestError::late(format!(
        "the broker did not answer within {send_timeout:?} (`broker.pulsar.send_timeout`), though the connection is up"
    ));
    let closed = RequestError::lost("the broker closed the producer before its receipt");
    loop {
        let now: Instant = ticks.tick().await;
        let expired = {
            let mut state = shared.lock();
            if state.lost.is_some() {
                return;
            }
            state.expire(now.into_std(), send_timeout)
        };
        let Expired { late: unanswered, closed: abandoned } = expired;
        shared.fail(unanswered, &late);
        shared.fail(abandoned, &closed);
    }
}
