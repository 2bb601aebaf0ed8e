//! A load that begins at a set time, or at one that several processes agree on when all are ready: so that they begin together.

use std::time::Duration;

use tokio::sync::watch;

use super::interruption::InterruptiblePhase;
use super::{EngineError, TrialIdentity};
use crate::measure::Clock;

/// How long before the load its tasks are started.
const LEAD: Duration = Duration::from_millis(100);

/// The wall clock is read again so often, as it may be set meanwhile.
const LOOK: Duration = Duration::from_secs(1);

/// How far a process has come before its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Preparation {
    /// Nothing is there yet.
    #[default]
    Begun,
    /// The trial's topics exist.
    Topics,
    /// The load could begin.
    Ready,
}

/// Where several processes agree when their load begins: each says how far it has come, and learns the time.
#[derive(Debug, Clone)]
pub struct StartBarrier {
    preparation: watch::Sender<Preparation>,
    start_unix_ns: watch::Receiver<Option<u64>>,
}

impl StartBarrier {
    /// `preparation` has how far this process has come; `start_unix_ns` has the time, in nanoseconds since 1970, once all agree.
    pub fn new(preparation: watch::Sender<Preparation>, start_unix_ns: watch::Receiver<Option<u64>>) -> Self {
        StartBarrier { preparation, start_unix_ns }
    }

    /// The time, once all agree.
    pub fn start_unix_ns(&self) -> Option<u64> {
        *self.start_unix_ns.borrow()
    }

    /// Topics exist, and stay when the trial ends.
    pub(super) fn topics_exist(&self) {
        self.preparation.send_replace(Preparation::Topics);
    }

    async fn agree(&self) {
        self.preparation.send_replace(Preparation::Ready);
        if self.start_unix_ns.clone().wait_for(Option::is_some).await.is_err() {
            // The others are lost: a signal ends the wait.
            std::future::pending::<()>().await;
        }
    }
}

/// Waits until shortly before the load is to begin.
///
/// # Errors
/// When a signal comes before.
pub(super) async fn wait(identity: &TrialIdentity, signals: &InterruptiblePhase) -> Result<(), EngineError> {
    if let Some(start_barrier) = &identity.start_barrier {
        signals.unless_over(start_barrier.agree()).await.ok_or(EngineError::Interrupted)?;
    }
    let Some(start_ns) = identity.begins_at_unix_ns() else { return Ok(()) };
    let waiting = async {
        while let Some(left) = Duration::from_nanos(start_ns.saturating_sub(identity.now_unix_ns())).checked_sub(LEAD)
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
    let set_ns = identity.begins_at_unix_ns().map(|unix_ns| unix_ns.saturating_sub(clock.epoch_unix_ns()));
    set_ns.map_or(soonest_ns, |set_ns| set_ns.max(soonest_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_begins_at_its_time_and_a_late_one_as_soon_as_it_can() {
        let clock = Clock::start();
        let start = |load_start_unix_ns| {
            let identity = TrialIdentity { load_start_unix_ns, ..TrialIdentity::alone(String::new(), 0) };
            load_start_ns(&identity, clock, Duration::from_millis(20))
        };
        let in_an_hour_ns = 3_600_000_000_000;
        assert_eq!(start(Some(clock.epoch_unix_ns() + in_an_hour_ns)), in_an_hour_ns);
        for late in [None, Some(0), Some(clock.epoch_unix_ns())] {
            assert!((20_000_000..in_an_hour_ns).contains(&start(late)), "{late:?}");
        }
    }

    #[test]
    fn a_machine_whose_clock_is_wrong_goes_by_that_of_the_others() {
        let alone = TrialIdentity::alone(String::new(), 0);
        let corrected = TrialIdentity { clock_shift_ns: -3_600_000_000_000, ..alone.clone() };
        let before_ns = alone.now_unix_ns() - corrected.now_unix_ns();
        assert!(before_ns.abs_diff(3_600_000_000_000) < 60_000_000_000, "{before_ns}");
    }

    #[tokio::test]
    async fn start_barrier_waits_for_the_agreed_time_or_a_signal() {
        let (preparation, mut prepared) = watch::channel(Preparation::default());
        let (tell, start) = watch::channel(None);
        let start_barrier = Some(StartBarrier::new(preparation, start));
        let identity = TrialIdentity { start_barrier, ..TrialIdentity::alone(String::new(), 0) };
        let (signal, signals) = watch::channel(0);
        let interruption = crate::engine::Interruption::new(signals);
        let phase = interruption.phase();
        let agreed = async {
            prepared.wait_for(|prepared| *prepared == Preparation::Ready).await.unwrap();
            tell.send_replace(Some(1));
        };
        let (waited, ()) = tokio::join!(wait(&identity, &phase), agreed);
        assert!(waited.is_ok() && identity.begins_at_unix_ns() == Some(1));
        tell.send_replace(None);
        drop(tell);
        signal.send_replace(1);
        assert!(matches!(wait(&identity, &phase).await, Err(EngineError::Interrupted)));
    }
}
