use std::time::Duration;

use super::*;
use crate::engine::receive::Pace;
use crate::load::WorkTimes;
use crate::scenario::{Work, WorkLaw};

const SECOND: u64 = 1_000_000_000;

#[test]
fn group_has_caught_up_when_it_misses_only_the_latest() {
    let backlog = Backlog { messages: 5_000, caught_up_within: Duration::from_millis(100) };
    let schedule = Schedule::Constant { rate: 1_000.0 };
    let caught_up_at = tail(&schedule, 6 * SECOND, &backlog);
    assert_eq!(caught_up_at, 100);
    let mut group = GroupDrain::default();
    let received = |first| GroupProgress { first, ..GroupProgress::default() };
    group.look(received(0), 6_000, caught_up_at, 6 * SECOND);
    assert_eq!(group, GroupDrain::default(), "its consumers have not begun");
    group.look(received(4_000), 6_000, caught_up_at, 6 * SECOND);
    group.look(received(5_999), 6_100, caught_up_at, 6 * SECOND + 1);
    assert_eq!((group.drained_ns, group.behind), (None, 101));
    group.look(received(6_100), 6_200, caught_up_at, 6 * SECOND + 2);
    group.look(received(6_150), 6_400, caught_up_at, 6 * SECOND + 3);
    let expected = GroupDrain {
        first_arrival_ns: Some(6 * SECOND),
        drained_ns: Some(6 * SECOND + 2),
        received: 6_100,
        behind: 100,
    };
    assert_eq!(group, expected, "what comes later is no part of the backlog");
}

/// Messages that come at `rate` while a consumer works `work_us` on each, from a backlog on: simulated, looked at as a trial looks.
fn drained(rate: f64, work_us: u64, messages: u64) -> GroupDrain {
    let schedule = Schedule::Constant { rate };
    let backlog = Backlog { messages, caught_up_within: Duration::from_millis(100) };
    let work = Work { mean: Duration::from_micros(work_us), law: WorkLaw::Fixed, seed: 1 };
    let mut pace = Pace::new(Some(WorkTimes::new(&work, 0)), None);
    let mut now_ns = (messages as f64 / rate * 1e9) as u64;
    let (mut group, mut progress) = (GroupDrain::default(), GroupProgress::default());
    pace.found_at(now_ns);
    while group.drained_ns.is_none() {
        let acknowledged = schedule.count_until(Duration::from_nanos(now_ns));
        while pace.next_ns() <= now_ns && progress.first < acknowledged {
            pace.begin().next_message();
            progress.first += 1;
        }
        group.look(progress, acknowledged, tail(&schedule, now_ns, &backlog), now_ns);
        now_ns += POLL.as_nanos() as u64;
    }
    group
}

#[test]
fn a_backlog_drains_in_the_time_that_arithmetic_says() {
    for (rate, work_us, messages) in [(1_000.0, 500, 2_000), (10_000.0, 20, 50_000), (300.0, 3_000, 5_000)] {
        let group = drained(rate, work_us, messages);
        let took = (group.drained_ns.unwrap() - group.first_arrival_ns.unwrap()) as f64 / 1e9;
        let expected = (messages - group.behind) as f64 / (1e6 / work_us as f64 - rate);
        assert!((took / expected - 1.0).abs() < 0.02, "{took} s instead of {expected} s: {group:?}");
    }
}
