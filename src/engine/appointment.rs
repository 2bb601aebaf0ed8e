//! A load that begins at a set time, by the wall clock: so that several processes begin together.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::interruption::InterruptiblePhase;
use super::{EngineError, TrialIdentity};
use crate::measure::Clock;

/// How long before the load its tasks are started.
const LEAD: Duration = Duration::from_millis(100);

/// The wall clock is read again so often, as it may be set meanwhile.
const LOOK: Duration = Duration::from_secs(1);

/// Waits until shortly before the load is to begin.
///
/// # Errors
/// When a signal comes before.
pub(super) async fn wait(identity: &TrialIdentity, signals: &InterruptiblePhase) -> Result<(), EngineError> {
    let Some(start_ns) = identity.load_start_unix_ns else { return Ok(()) };
    let waiting = async {
        while let Some(left) = Duration::from_nanos(start_ns.saturating_sub(unix_ns())).checked_sub(LEAD)
            && !left.is_zero()
        {
            tokio::time::sleep(left.min(LOOK)).await;
        }
    };
    signals.unless_over(waiting).await.ok_or(EngineError::Interrupted)
}

/// When the load begins, in nanoseconds since the trial's epoch: at the set time, or, where that has passed or is not set,
/// `run_up` from now.
pub(super) fn load_start_ns(identity: &TrialIdentity, clock: Clock, run_up: Duration) -> u64 {
    let soonest_ns = clock.now_ns() + run_up.as_nanos() as u64;
    let set_ns = identity.load_start_unix_ns.map(|unix_ns| unix_ns.saturating_sub(clock.epoch_unix_ns()));
    set_ns.map_or(soonest_ns, |set_ns| set_ns.max(soonest_ns))
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_begins_at_its_time_and_a_late_one_as_soon_as_it_can() {
        let clock = Clock::start();
        let start = |load_start_unix_ns| {
            let identity = TrialIdentity { run_id: String::new(), tag: 0, load_start_unix_ns };
            load_start_ns(&identity, clock, Duration::from_millis(20))
        };
        let in_an_hour_ns = 3_600_000_000_000;
        assert_eq!(start(Some(clock.epoch_unix_ns() + in_an_hour_ns)), in_an_hour_ns);
        for late in [None, Some(0), Some(clock.epoch_unix_ns())] {
            assert!((20_000_000..in_an_hour_ns).contains(&start(late)), "{late:?}");
        }
    }
}
