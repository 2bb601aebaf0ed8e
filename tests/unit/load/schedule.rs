use std::time::Duration;

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Messages per second, so long after the start.
fn rate_at(schedule: &Schedule, offset: Duration) -> f64 {
    let curve = schedule.curve();
    let (_, piece, seconds) = curve.locate(nanoseconds(offset));
    piece.rate + piece.slope * seconds
}

fn times(schedule: &Schedule, producer_index: usize, producers: usize, messages: usize) -> Vec<u64> {
    let mut send_schedule = SendSchedule::new(schedule, producer_index, producers);
    let next = |_| {
        let time = send_schedule.peek();
        send_schedule.advance();
        time
    };
    (0..messages).map(next).collect()
}

fn rate() -> impl Strategy<Value = f64> {
    prop_oneof![1.0..1000.0, (1_u32..100).prop_map(f64::from), 1e5..5e6, Just(1.0 / 3.0)]
}

fn length() -> impl Strategy<Value = Duration> {
    prop_oneof![(1_u64..5).prop_map(Duration::from_secs), (1_u64..5_000_000_000).prop_map(Duration::from_nanos)]
}

/// A part of a schedule may send nothing.
fn rate_or_rest() -> impl Strategy<Value = f64> {
    prop_oneof![4 => rate(), 1 => Just(0.0)]
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let any =
        prop_oneof![
            rate().prop_map(|rate| Schedule::Constant { rate }),
            (rate_or_rest(), rate_or_rest(), length()).prop_map(|(from, to, over)| Schedule::Ramp { from, to, over }),
            prop::collection::vec((rate_or_rest(), length()), 1..5).prop_map(Schedule::Steps),
            (rate_or_rest(), rate_or_rest(), length(), length())
                .prop_map(|(base, burst, length, rest)| Schedule::Bursts { base, burst, every: length + rest, length }),
        ];
    any.prop_filter("something is sent", |schedule| schedule.rates().any(|rate| rate > 0.0))
}

proptest! {
    #[test]
    fn times_never_go_back(schedule in schedule(), from in 0..10_000_000_000_u64) {
        let curve = schedule.curve();
        for first in [0, from] {
            let times: Vec<u64> = (first..first + 300).map(|number| curve.intended_ns(number)).collect();
            prop_assert!(times.is_sorted(), "{times:?}");
        }
    }

    #[test]
    fn producers_share_out_the_global_timetable(schedule in schedule(), producers in 1..9_usize) {
        let all = times(&schedule, 0, 1, producers * 50);
        for producer_index in 0..producers {
            let own = times(&schedule, producer_index, producers, 50);
            prop_assert!(own.iter().eq(all.iter().skip(producer_index).step_by(producers)));
        }
    }

    #[test]
    fn counts_agree_with_the_times(schedule in schedule(), offset in 0..20_000_000_000_u64) {
        let curve = schedule.curve();
        let count = schedule.count_until(Duration::from_nanos(offset));
        prop_assert!(curve.intended_ns(count) >= offset);
        if count > 0 {
            prop_assert!(curve.intended_ns(count - 1) < offset);
        }
    }

    #[test]
    fn skipping_counts_what_advancing_would(schedule in schedule(), producer_index in 0..3_usize, until in 0..3_000_000_000_u64) {
        prop_assume!(schedule.count_until(Duration::from_nanos(until)) < 100_000);
        let (mut skipped, mut advanced) = (SendSchedule::new(&schedule, producer_index, 3), SendSchedule::new(&schedule, producer_index, 3));
        let mut count = 0;
        while advanced.peek() < until {
            advanced.advance();
            count += 1;
        }
        prop_assert_eq!(skipped.skip_until(until), count);
        prop_assert_eq!(skipped.peek(), advanced.peek());
    }

    #[test]
    fn a_number_of_messages_is_due_when_the_timetables_say_so(
        schedule in prop_oneof![schedule(), any::<u64>().prop_map(|seed| Schedule::Poisson { rate: 1e4, seed })],
        producers in 1..5_usize, from in 0..10_000_000_u64, messages in 1..2_000_u64,
    ) {
        let until = due_by(&schedule, producers, from, messages).unwrap();
        prop_assume!(until < u64::MAX);
        let due = |until| -> u64 {
            let own = (0..producers).map(|producer_index| SendSchedule::new(&schedule, producer_index, producers));
            own.map(|mut send_schedule| { send_schedule.skip_until(from); send_schedule.skip_until(until) }).sum()
        };
        // Several messages of one nanosecond are due together.
        prop_assert!(due(until) >= messages && due(until - 1) < messages, "{} {}", due(until), due(until - 1));
    }

    #[test]
    fn counts_are_the_integral_of_a_ramps_rate(from in rate(), to in rate(), over in length(), tenths in 1..100_u64) {
        let schedule = Schedule::Ramp { from, to, over };
        let until = Duration::from_millis(100 * tenths).as_secs_f64();
        let steps = 10_000;
        let step = until / f64::from(steps);
        let rate = |index| rate_at(&schedule, seconds((f64::from(index) + 0.5) * step));
        let integral: f64 = (0..steps).map(|index| rate(index) * step).sum();
        let count = schedule.count_until(seconds(until)) as f64;
        // The midpoint rule is exact for a linear rate, but not in the step that holds the ramp's end.
        let bend = (to - from).abs() * step;
        prop_assert!((count - integral).abs() <= 1.001 + bend, "{count} {integral}");
    }

    #[test]
    fn any_curve_answers_without_panic(from in 0.0..1e12_f64, to in 0.0..1e12_f64, over: u32, number: u64) {
        let schedule = Schedule::Ramp { from, to, over: Duration::from_nanos(u64::from(over)) };
        let mut send_schedule = SendSchedule::new(&schedule, 3, 7);
        send_schedule.advance();
        schedule.curve().intended_ns(number);
    }
}

#[test]
fn constant_rate_stays_exact_over_billions_of_messages() {
    for rate in [3_u64, 7, 999_983, 1_000_000] {
        let curve = Schedule::Constant { rate: rate as f64 }.curve();
        for number in [0, 1, rate, 1_000_000_000, 1_000_000_007, 10_000_000_000] {
            let exact = u128::from(number) * 1_000_000_000 / u128::from(rate);
            let error = u128::from(curve.intended_ns(number)).abs_diff(exact);
            assert!(error < 1_000, "rate {rate}, message {number}: off by {error} ns");
        }
    }
}

#[test]
fn a_ramp_sends_the_area_below_it_and_goes_on_at_its_last_rate() {
    let ramp = Schedule::Ramp { from: 1000.0, to: 3000.0, over: seconds(10.0) };
    assert_eq!(ramp.count_until(seconds(10.0)), 20_000);
    assert_eq!(ramp.count_until(seconds(5.0)), 7_500);
    assert_eq!(rate_at(&ramp, seconds(5.0)), 2000.0);
    let curve = ramp.curve();
    assert_eq!(curve.intended_ns(7_500), 5 * SECOND);
    assert_eq!(curve.intended_ns(20_000), 10 * SECOND);
    assert_eq!(curve.intended_ns(23_000), 11 * SECOND);

    let falling = Schedule::Ramp { from: 3000.0, to: 1000.0, over: seconds(10.0) };
    assert_eq!(falling.count_until(seconds(10.0)), 20_000);
    assert_eq!(falling.count_until(seconds(5.0)), 12_500);
    assert_eq!(falling.curve().intended_ns(12_500), 5 * SECOND);
}

#[test]
fn a_rate_that_comes_to_rest_leaves_messages_due_never() {
    let ramp = Schedule::Ramp { from: 10.0, to: 0.0, over: seconds(2.0) };
    assert_eq!(ramp.count_until(seconds(1000.0)), 11);
    assert_eq!(ramp.curve().intended_ns(9), 2 * SECOND - 632_455_532);
    assert_eq!(ramp.curve().intended_ns(11), u64::MAX);
}

#[test]
fn steps_follow_each_other_and_the_last_stays() {
    let steps = Schedule::Steps(vec![(10.0, seconds(1.0)), (100.0, seconds(2.0))]);
    let curve = steps.curve();
    assert_eq!(curve.intended_ns(9), 900_000_000);
    assert_eq!(curve.intended_ns(10), SECOND);
    assert_eq!(curve.intended_ns(11), SECOND + 10_000_000);
    assert_eq!(curve.intended_ns(310), 4 * SECOND);
    assert_eq!(rate_at(&steps, seconds(0.5)), 10.0);
    assert_eq!(rate_at(&steps, seconds(60.0)), 100.0);
}

#[test]
fn bursts_come_at_the_start_of_every_period() {
    let bursts =
        Schedule::Bursts { base: 10.0, burst: 1000.0, every: seconds(10.0), length: Duration::from_millis(500) };
    for period in 0..3_600 {
        let until = |rest| bursts.count_until(seconds(10.0 * period as f64 + rest)) - period * 595;
        assert_eq!(until(0.0), 0, "period {period}");
        assert_eq!(until(0.25), 250, "period {period}");
        assert_eq!(until(0.5), 500, "period {period}");
        assert_eq!(until(10.0), 595, "period {period}");
    }
    assert_eq!(rate_at(&bursts, seconds(36_000.1)), 1000.0);
    assert_eq!(rate_at(&bursts, seconds(36_000.9)), 10.0);
}

#[test]
fn poisson_arrivals_have_exponential_gaps_and_the_rate() {
    let schedule = Schedule::Poisson { rate: 1000.0, seed: 1 };
    let producers = 4;
    let mut all = Vec::new();
    for producer_index in 0..producers {
        let times = times(&schedule, producer_index, producers, 50_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Mean 4 ms with a standard error of 0.45 %; an exponential's deviation equals its mean.
        assert!((mean / 4e6 - 1.0).abs() < 0.015, "{mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "{variance}");
        all.extend(times);
    }
    let messages = all.len();
    all.sort_unstable();
    all.dedup();
    // 200,000 arrivals over 2 × 10^11 ns: 0.1 coincidences are to be expected.
    assert!(messages - all.len() <= 2, "{}", messages - all.len());
    assert_eq!(schedule.count_until(seconds(10.0)), 10_000);
}

#[test]
fn the_merged_streams_are_a_poisson_process() {
    let schedule = Schedule::Poisson { rate: 1000.0, seed: 2 };
    let mut counts = [0_u32; 10_000];
    for producer_index in 0..8 {
        for time in times(&schedule, producer_index, 8, 20_000) {
            if let Some(count) = counts.get_mut((time / 10_000_000) as usize) {
                *count += 1;
            }
        }
    }
    let mean = counts.iter().sum::<u32>() as f64 / counts.len() as f64;
    let variance = counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>() / 10_000.0;
    // Counts of a Poisson process have a variance equal to their mean: here 10, give or take 1.4 %.
    assert!((mean - 10.0).abs() < 0.15, "{mean}");
    assert!((variance / mean - 1.0).abs() < 0.06, "{variance}");
}

/// A load of days must not be drawn before it begins.
#[test]
fn poisson_arrivals_are_not_drawn_ahead_without_end() {
    let schedule = Schedule::Poisson { rate: 1e6, seed: 1 };
    assert_eq!(due_by(&schedule, 4, 0, 1_000_000_000_000), None);
    assert_eq!(due_by(&schedule, 4, 1_000_000 * SECOND, 1), None);
    assert!(due_by(&schedule, 4, 0, 1_000).is_some_and(|due_by_ns| due_by_ns < SECOND));
}

#[test]
fn poisson_arrivals_repeat_with_the_seed_only() {
    let draw = |seed, producer_index| times(&Schedule::Poisson { rate: 10.0, seed }, producer_index, 2, 10);
    assert_eq!(draw(1, 0), draw(1, 0));
    assert_ne!(draw(1, 0), draw(1, 1));
    assert_ne!(draw(1, 0), draw(2, 0));
}
