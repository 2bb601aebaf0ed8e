use super::*;

fn wait_for(mut condition: impl FnMut() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

#[test]
fn every_millisecond_is_one_value() {
    let (begin, probe) = (Instant::now(), PauseProbe::begin(HostShare::ALONE, Clock::start()));
    wait_for(|| probe.noted().lateness.histogram().len() >= 50);
    // A millisecond that the probe began before, and one that it has noted meanwhile.
    assert!(begin.elapsed() >= 48 * INTERVAL, "{:?}", begin.elapsed());
}

#[test]
fn processes_on_one_host_have_its_milliseconds_in_turn() {
    let now = UNIX_EPOCH + Duration::from_nanos(1_700_000_000_000_300_000);
    let wake_ups = |count: usize| {
        let of = |number| now + HostShare { number, count }.first_after(now);
        let since = |at: SystemTime| at.duration_since(now).unwrap().as_micros();
        let mut all: Vec<u128> = (0..count).map(of).map(since).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(wake_ups(1), [700]);
    assert_eq!(wake_ups(4), [700, 1_700, 2_700, 3_700]);
    assert_eq!(HostShare { number: 3, count: 4 }.interval(), 4 * INTERVAL);
    let many = wake_ups(25);
    assert_eq!(many[0], 700);
    assert_eq!(many[24], 9_700);
    assert_eq!(HostShare { number: 0, count: 25 }.interval(), 10 * INTERVAL);
    assert!(many.windows(2).all(|pair| pair[1] - pair[0] <= 1_000), "none without a wake-up: {many:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn cpu_time_of_the_pause_probe_is_known() {
    let probe = PauseProbe::begin(HostShare { number: 1, count: 2 }, Clock::start());
    // Nothing is known before its first wake-up.
    let waits = || probe.noted().own.voluntary_context_switches.unwrap_or(0);
    wait_for(|| waits() >= u64::from(OWN_EVERY) || probe.noted().lateness.histogram().len() >= 5_000);
    assert!(waits() >= u64::from(OWN_EVERY), "it waits for each wake-up");
}

#[test]
fn a_pause_counts_for_each_millisecond_that_it_lasts() {
    let probe = PauseProbe::begin(HostShare::ALONE, Clock::start());
    wait_for(|| !probe.noted().lateness.is_empty());
    let held = probe.shared.state.lock();
    let begin = Instant::now();
    wait_for(|| begin.elapsed() >= 100 * INTERVAL);
    drop(held);
    let before = begin.elapsed().as_millis() as u64;
    wait_for(|| probe.noted().lateness.histogram().len() >= before);
    let lateness = probe.noted().lateness;
    assert!(lateness.histogram().max() >= 95_000_000, "{}", lateness.histogram().max());
    let long = lateness.histogram().count_between(45_000_000, u64::MAX);
    assert!(long >= 50, "half of the pause was left for half of its milliseconds: {long}");
}

/// A probe that is to wake at `due_ms`, and did at each of `woken_ms`, in milliseconds since the trial's epoch.
fn noted(counts_from_ms: u64, due_ms: u64, woken_ms: &[u64]) -> Noted {
    let clock = Clock::start();
    let at = |ms: u64| clock.instant(ms * 1_000_000);
    let noted = Noted::default();
    let mut probed = Probed { noted, due: at(due_ms), counts_from: at(counts_from_ms), own_before: None };
    woken_ms.iter().for_each(|woken_ms| probed.note_until(at(*woken_ms), INTERVAL, clock));
    probed.noted
}

#[test]
fn a_pause_of_20_ms_keeps_its_begin_and_end() {
    let pause = |begin_ms: u64, end_ms: u64| LongPause { begin_ns: begin_ms * 1_000_000, end_ns: end_ms * 1_000_000 };
    assert_eq!(noted(0, 5, &[24]).long, []);
    assert_eq!(noted(0, 5, &[25, 26, 27, 500, 501]).long, [pause(5, 25), pause(28, 500)]);
    let across_the_begin = noted(100, 5, &[105]);
    assert_eq!(across_the_begin.long, [pause(5, 105)], "seen whole");
    assert_eq!(across_the_begin.lateness.histogram().len(), 6, "and counted from 100 ms on");
}

#[test]
fn of_too_many_pauses_the_longest_are_kept() {
    let mut noted = Noted::default();
    for number in 0..2 * MAX_LONG as u64 {
        noted.keep(LongPause { begin_ns: number * 1_000, end_ns: number * 1_000 + number % 100 });
    }
    assert_eq!(noted.long.len(), MAX_LONG);
    assert!(noted.long.iter().all(|pause| pause.end_ns - pause.begin_ns >= 50), "{:?}", noted.long);
    assert!(noted.long.is_sorted_by_key(|pause| pause.begin_ns));
}

#[test]
fn paused_time_is_what_lies_between_two_moments() {
    let pauses = [LongPause { begin_ns: 10, end_ns: 20 }, LongPause { begin_ns: 30, end_ns: 60 }];
    assert_eq!(
        [(0, 100), (15, 40), (20, 30), (40, 50)].map(|(from, until)| paused_ns(&pauses, from, until)),
        [40, 15, 0, 10]
    );
}
