//! One second of all ranks together: counts are added, and histograms bucket by bucket.

use hdrhistogram::Histogram;

use super::message::Counters;
use crate::engine::Second;
use crate::record::decode_histogram;

/// What the ranks have told of the second so far.
#[derive(Debug, Default)]
pub struct JointSecond {
    counters: Counters,
    latencies: Option<Histogram<u64>>,
}

impl JointSecond {
    /// Adds a rank's second, with its headline latencies as [`FromRank::Second`](super::FromRank::Second) has them.
    pub fn add(&mut self, counters: Counters, latencies: &str) {
        self.counters.add(&counters);
        self.counters.phase = counters.phase;
        let Ok(told) = decode_histogram(latencies) else { return };
        match &mut self.latencies {
            // All ranks are one build, so their histograms have one range.
            Some(sum) => drop(sum.add(told)),
            None => self.latencies = Some(told),
        }
    }

    /// As progress shows it.
    pub fn second(&self) -> Second {
        let counters = &self.counters;
        let at = |quantile| Some(self.latencies.as_ref()?.value_at_quantile(quantile));
        Second {
            phase: counters.phase(),
            begin_ns: 0,
            end_ns: counters.length_ns.max(1),
            intended_length_ns: counters.length_ns,
            due: None,
            attempted: counters.attempted,
            acknowledged: counters.acknowledged,
            failed: counters.failed,
            payload_bytes: counters.payload_bytes,
            consumed: counters.consumed,
            groups: Vec::new(),
            finished: None,
            consumer_lag: None,
            in_flight: counters.in_flight,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            queue_messages: None,
            cpu_cores: counters.cpu_cores,
            memory_bytes: None,
            broker_cores: None,
            broker_memory_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Interval;
    use crate::ranks::message::headline;
    use crate::record::encode_histogram;

    #[test]
    fn the_quantiles_of_a_second_are_those_of_all_ranks_values() {
        let ranks: [&[u64]; 3] = [&[1_000_000, 2_000_000, 3_000_000], &[], &[900_000_000, 4_000_000]];
        let mut joint = JointSecond::default();
        assert_eq!((joint.second().p50_ns, joint.second().p99_ns), (None, None));
        let mut all = Interval::default();
        for values in ranks {
            let mut interval = Interval::default();
            for value in values {
                interval.response.record(*value);
                all.response.record(*value);
                // Not the headline of a load with a schedule.
                interval.service.record(1);
            }
            let (acknowledged, consumed) = (values.len() as u64, 2);
            let counters = Counters { acknowledged, consumed, phase: 2, ..Counters::default() };
            assert_eq!(headline(&interval), if values.is_empty() { "service" } else { "response" });
            let latencies = interval.response.histogram();
            joint.add(counters, &if values.is_empty() { String::new() } else { encode_histogram(latencies) });
        }
        let second = joint.second();
        let at = |quantile| Some(all.response.histogram().value_at_quantile(quantile));
        assert_eq!((second.acknowledged, second.p50_ns, second.p99_ns), (5, at(0.5), at(0.99)));
        assert_eq!((second.consumed, second.phase), (6, crate::engine::Phase::Measure));
    }
}
