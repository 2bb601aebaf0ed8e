use tokio::sync::oneshot;

use super::*;
use crate::measure::Acks;

const MILLISECOND: u64 = 1_000_000;

fn pacing(slice: Option<Duration>, spin: bool) -> Pacing {
    Pacing { slice, spin, ..Pacing::default() }
}

/// A load that has begun, and the pace of its only thread.
fn begun(pacing: Pacing) -> (Arc<TrialWindow>, Arc<Pace>) {
    let clock = Clock::start();
    let trial_window = TrialWindow::new(Acks::new(clock, 3, true), 0, Duration::ZERO, None, None);
    (Arc::new(trial_window), Arc::new(Pace::new(clock, pacing)))
}

/// When producers woke that slept so many milliseconds, and when they were due.
async fn woken_after(milliseconds: [u64; 3], pacing: Pacing) -> Vec<(u64, WakeUp)> {
    let (trial_window, pace) = begun(pacing);
    let begin_ns = pace.clock.now_ns();
    let sleep = |length: u64| {
        let (trial_window, pace) = (trial_window.clone(), pace.clone());
        let due_ns = begin_ns + length * MILLISECOND;
        async move { (due_ns, pace.sleep_until(due_ns, &trial_window).await) }
    };
    run(&pace, milliseconds.into_iter().map(sleep).collect(), &trial_window).await
}

#[tokio::test]
async fn producers_wake_in_the_order_of_their_times_and_never_early() {
    for spin in [false, true] {
        let woken = woken_after([30, 10, 20], pacing(None, spin)).await;
        assert!(woken.is_sorted_by_key(|(due_ns, _)| *due_ns), "{woken:?}");
        assert!(woken.iter().all(|(due_ns, wake_up)| wake_up.woken_ns >= *due_ns), "{woken:?}");
    }
}

#[tokio::test]
async fn what_falls_due_within_a_slice_runs_at_its_end() {
    let woken = woken_after([1, 100, 200], pacing(Some(Duration::from_millis(500)), false)).await;
    let alarms: Vec<u64> = woken.iter().map(|(_, wake_up)| wake_up.alarm_ns).collect();
    assert_eq!(alarms[0], woken[0].0, "nothing ran before it");
    assert!(alarms[1] == alarms[2] && alarms[1] > woken[2].0, "{woken:?}");
}

#[test]
fn adaptive_slice_grows_with_the_work_up_to_the_wake_interval() {
    let slice_ns = |pacing, work_ns| Pace::new(Clock::start(), pacing).slice_ns(work_ns);
    let adaptive = [0, 5_000, MILLISECOND].map(|work_ns| slice_ns(pacing(None, false), work_ns));
    assert_eq!(adaptive, [25_000, 50_000, 200_000]);
    assert_eq!(slice_ns(pacing(Some(Duration::from_micros(7)), false), MILLISECOND), 7_000);
    assert_eq!(slice_ns(pacing(None, true), MILLISECOND), 0, "waking costs nothing");
}

#[tokio::test]
async fn a_stop_wakes_a_sleeper_before_its_time() {
    let (trial_window, pace) = begun(Pacing::default());
    let (sleeper, window) = (pace.clone(), trial_window.clone());
    let sleeping = async move { sleeper.sleep_until(u64::MAX / 4, &window).await };
    let (woken, ()) = tokio::join!(run(&pace, vec![sleeping], &trial_window), async { trial_window.stop() });
    assert!(woken[0].woken_ns < u64::MAX / 4);
}

#[tokio::test]
async fn a_producer_that_waits_for_something_else_runs_when_it_comes() {
    let (trial_window, pace) = begun(Pacing::default());
    let (answer, answered) = oneshot::channel();
    let (got, ()) = tokio::join!(run(&pace, vec![answered], &trial_window), async { answer.send(7).unwrap() });
    assert_eq!(got, [Ok(7)]);
}
