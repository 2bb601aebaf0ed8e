use std::collections::BTreeSet;
use std::thread;

use parking_lot::Mutex;
use tokio::task::yield_now;

use super::*;

/// Of the task at this place alone: others run in the tests' process.
fn busy_since(begin: &TaskTimes, place: TaskPlace, elapsed: Duration) -> Option<BusiestTask> {
    let only = |times: &TaskTimes| TaskTimes(times.0.get(&place).map(|times| (place, *times)).into_iter().collect());
    only(&TaskTimes::now()).busiest_since(&only(begin), elapsed)
}

fn spin(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {}
}

/// Works in so many polls of this length, and returns for how long, by its own readings, and on which threads.
async fn work(polls: usize, length: Duration) -> (Duration, usize) {
    let (mut worked, mut threads) = (Duration::ZERO, BTreeSet::new());
    for _ in 0..polls {
        let begin = Instant::now();
        spin(length);
        worked += begin.elapsed();
        threads.insert(format!("{:?}", thread::current().id()));
        yield_now().await;
    }
    (worked, threads.len())
}

#[test]
fn a_task_that_moves_between_threads_is_busy() {
    let begin = TaskTimes::now();
    let task = Mutex::new(Box::pin(watched("moving", 0, work(400, Duration::from_micros(50)))));
    let (turn, done) = (AtomicU64::new(0), Mutex::new(None));
    // Each of four threads polls it in turn.
    thread::scope(|scope| {
        for own in 0..4 {
            let (task, turn, done) = (&task, &turn, &done);
            scope.spawn(move || {
                while done.lock().is_none() {
                    if turn.load(Ordering::Acquire) % 4 != own {
                        thread::yield_now();
                        continue;
                    }
                    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                    if let std::task::Poll::Ready(worked) = task.lock().as_mut().poll(&mut context) {
                        *done.lock() = Some(worked);
                    }
                    turn.fetch_add(1, Ordering::Release);
                }
            });
        }
    });
    let (worked, threads) = done.lock().unwrap();
    assert_eq!(threads, 4);
    let busiest = busy_since(&begin, ("moving", 0), worked).unwrap();
    assert_eq!(busiest.name, "moving 0");
    assert!(busiest.cores >= 0.95, "{busiest:?}: its polls contain its work");
    let idle = busy_since(&begin, ("moving", 0), worked * 4).unwrap();
    assert!((0.24..0.5).contains(&idle.cores), "{idle:?}");
}

#[tokio::test]
async fn a_task_with_few_timed_polls_is_not_judged() {
    let begin = TaskTimes::now();
    let long = Duration::from_micros(20);
    watched("seldom", 0, work(MIN_TIMED as usize - 2, long)).await;
    assert_eq!(busy_since(&begin, ("seldom", 0), Duration::from_millis(1)), None);
    watched("seldom", 0, work(MIN_TIMED as usize, long)).await;
    assert!(busy_since(&begin, ("seldom", 0), Duration::from_millis(1)).is_some());
}

#[tokio::test]
async fn polling_is_not_work_of_a_task() {
    let begin = TaskTimes::now();
    let polls = async {
        for _ in 0..MIN_TIMED {
            polling::during(|| spin(Duration::from_millis(1)));
            yield_now().await;
            spin(LONG);
        }
    };
    let started = Instant::now();
    watched("polling", 0, polls).await;
    let busy = busy_since(&begin, ("polling", 0), started.elapsed()).map_or(0.0, |busiest| busiest.cores);
    assert!(busy < 0.5, "{busy}");
}

#[test]
fn a_number_in_use_is_passed_over_and_a_free_one_used_again() {
    let names = || TaskTimes::now().0.into_keys().filter(|(kind, _)| *kind == "named").collect::<Vec<_>>();
    let first = watched("named", 3, async {});
    let second = watched("named", 3, async {});
    assert_eq!(names(), [("named", 3), ("named", 4)]);
    drop(first);
    let _third = watched("named", 3, async {});
    assert_eq!(names(), [("named", 3), ("named", 4)]);
    drop(second);
}

/// The estimate of a pattern of polls, and its true sum, both in nanoseconds.
fn estimate(seed: u64, pattern: impl Iterator<Item = u64>) -> (f64, f64) {
    let mut choice = Choice { state: seed, was_long: true };
    let (mut estimated, mut sum) = (0, 0);
    for took_ns in pattern {
        sum += took_ns;
        if let Some(weight) = choice.weight() {
            estimated += took_ns * weight;
            choice.was_long = u128::from(took_ns) >= LONG.as_nanos();
        }
    }
    (estimated as f64, sum as f64)
}

/// Each pattern lasts for a second and keeps its task busy all the time.
#[test]
fn no_pattern_of_polls_is_in_step_with_the_choice() {
    let patterns: [(&str, &[u64], f64); 6] = [
        ("all 2 µs", &[2_000], 0.012),
        ("all 50 µs", &[50_000], 0.001),
        ("a long one, then 31 short ones", &[&[8_000], [500; 31].as_slice()].concat(), 0.012),
        ("two long ones, then 62 short ones", &[&[40_000; 2], [1_000; 62].as_slice()].concat(), 0.04),
        ("long and short in turn", &[20_000, 300], 0.035),
        ("1 ms, then 999 short ones", &[&[1_000_000], [1_000; 999].as_slice()].concat(), 0.17),
    ];
    for (name, pattern, most_error) in patterns {
        let polls = 1_000_000_000 / pattern.iter().sum::<u64>() as usize * pattern.len();
        let errors: Vec<f64> = (0..100)
            .map(|seed| estimate(seed * 7_919, pattern.iter().copied().cycle().take(polls)))
            .map(|(estimated, sum)| estimated / sum - 1.0)
            .collect();
        let mean = errors.iter().sum::<f64>() / 100.0;
        let spread = (errors.iter().map(|error| error * error).sum::<f64>() / 100.0).sqrt();
        assert!(spread < most_error, "{name}: {spread}");
        assert!(mean.abs() < 0.4 * most_error, "{name}: {mean}");
    }
}
