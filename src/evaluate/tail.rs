//! How many events made the tail of a latency, and whether the load generator itself did.

use std::collections::BTreeMap;

use crate::measure::host::{LongPause, paused_ns};
use crate::measure::{Bin, Distribution, Slowest};
use crate::record::{Latency, SlowestMessages, Tail};

/// Bins in a second.
const BINS_PER_SECOND: u64 = 10;

/// Completes a latency: `bins` have the slowest message of each tenth of a second, of which `slowest_ns` chooses this latency.
pub(super) fn with_tails(
    latency: Option<Latency>,
    bins: &[Bin],
    pauses: &[LongPause],
    slowest_ns: impl Fn(&Slowest) -> f32,
) -> Option<Latency> {
    let latency = latency?;
    let (mut of_tenths, mut of_seconds) = (Distribution::new(), Distribution::new());
    let mut seconds: BTreeMap<u64, u64> = BTreeMap::new();
    let moments: Vec<(&Bin, u64)> =
        bins.iter().map(|bin| (bin, slowest_ns(&bin.slowest) as u64)).filter(|(_, value_ns)| *value_ns > 0).collect();
    for (bin, value_ns) in &moments {
        of_tenths.record(*value_ns);
        let second = seconds.entry(bin.number() / BINS_PER_SECOND).or_default();
        *second = (*second).max(*value_ns);
    }
    seconds.values().for_each(|value_ns| of_seconds.record(*value_ns));
    let tail = |(quantile, value_ns): (f64, u64)| {
        let least_ns = of_tenths.histogram().lowest_equivalent(value_ns);
        let beyond = || moments.iter().filter(|(_, value_ns)| *value_ns >= least_ns);
        // A message that took so long was on its way, or due, while the client stood still.
        let is_paused = |(bin, value_ns): &&(&Bin, u64)| {
            2 * paused_ns(pauses, bin.first_ns.saturating_sub(*value_ns), bin.last_ns) >= *value_ns
        };
        Tail {
            percentile: quantile * 100.0,
            tenths: beyond().count() as u64,
            seconds: seconds.values().filter(|value_ns| **value_ns >= least_ns).count() as u64,
            client_paused_tenths: Some(beyond().filter(is_paused).count() as u64),
        }
    };
    let tails = latency.high_percentiles().map(tail).collect();
    let slowest = SlowestMessages::new(of_tenths.histogram(), of_seconds.histogram());
    Some(Latency { tails, slowest: Some(slowest), ..latency })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Timeline;

    const MILLISECOND: u64 = 1_000_000;

    /// 30 s at 10,000/s, answered in 1 ms, except for what was due in the stalls, each with its begin and length in milliseconds. Each
    /// millisecond is one moment of `connections`.
    fn response(stalls: &[(u64, u64)], connections: u64, pauses: &[LongPause]) -> Latency {
        let (mut timeline, mut response, mut moments) = (Timeline::default(), Distribution::new(), 0);
        for due_ms in 0..30_000 {
            let stall = stalls.iter().find(|(begin_ms, for_ms)| (*begin_ms..begin_ms + for_ms).contains(&due_ms));
            let answered_ms = stall.map_or(due_ms + 1, |(begin_ms, for_ms)| begin_ms + for_ms);
            let response_ns = (answered_ms - due_ms) * MILLISECOND;
            let slowest = Slowest { response_ns: response_ns as f32, ..Slowest::default() };
            timeline.add(answered_ms * MILLISECOND, 10, slowest);
            response.record_n(response_ns, 10);
            moments += connections;
        }
        let latency = crate::evaluate::sections::independent(&response, moments);
        with_tails(latency, timeline.bins(), pauses, |slowest| slowest.response_ns).unwrap()
    }

    #[test]
    fn a_stall_is_one_event_however_many_connections_saw_it() {
        for connections in [1, 100] {
            let latency = response(&[(15_000, 90)], connections, &[]);
            assert!(latency.p99_9_ns.unwrap() > 50 * MILLISECOND, "{latency:?}");
            let tail = latency.tail(0.999).unwrap();
            assert_eq!((tail.tenths, tail.seconds, tail.client_paused_tenths), (1, 1, Some(0)));
            assert!(latency.is_of_few_events(0.999) && !latency.is_of_few_events(0.99), "{:?}", latency.tails);
        }
    }

    #[test]
    fn many_stalls_are_a_tail_of_their_own() {
        let stalls: Vec<(u64, u64)> = (0..30).map(|second| (second * 1_000 + 450, 10)).collect();
        let latency = response(&stalls, 1, &[]);
        assert!(latency.p99_9_ns.unwrap() > 5 * MILLISECOND);
        assert!(!latency.is_of_few_events(0.999), "{:?}", latency.tails);
    }

    #[test]
    fn a_tail_that_lies_in_a_pause_of_the_client_is_its_own() {
        let pause =
            |begin_ms: u64, end_ms: u64| LongPause { begin_ns: begin_ms * MILLISECOND, end_ns: end_ms * MILLISECOND };
        let is_the_clients = |pause| response(&[(15_000, 90)], 1, &[pause]).tail(0.999).unwrap().is_the_clients();
        assert!(is_the_clients(pause(15_001, 15_090)));
        assert!(!is_the_clients(pause(15_070, 15_090)), "a pause of 20 ms does not make a stall of 90 ms");
        assert!(!is_the_clients(pause(14_000, 14_500)), "it was over");
    }
}
