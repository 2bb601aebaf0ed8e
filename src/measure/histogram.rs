//! The histograms that latencies are counted in: nanoseconds, three significant digits.

use hdrhistogram::Histogram;

use crate::limits::MAX_LATENCY_NS;

/// The resolution below this value is 64 ns, finer than a send tag's tick.
const MIN_NS: u64 = 100;

/// One latency's distribution, with what did not fit into it.
#[derive(Debug, Clone)]
pub struct Distribution {
    histogram: Histogram<u64>,
    beyond_range: u64,
}

impl Distribution {
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(MIN_NS, MAX_LATENCY_NS, 3);
        // The bounds are constants that hdrhistogram documents as valid: low ≥ 1, high ≥ 2 × low, digits ≤ 5.
        Distribution { histogram: histogram.expect("valid constant bounds"), beyond_range: 0 }
    }

    /// Counts one value in nanoseconds.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        if self.histogram.record(value_ns).is_err() {
            self.beyond_range += 1;
        }
    }

    /// Counts `count` messages that share one value in nanoseconds.
    #[inline]
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        // A constant count is a shorter way through the histogram, which is taken where messages have latencies of their own.
        if count == 1 {
            self.record(value_ns);
        } else if self.histogram.record_n(value_ns, count).is_err() {
            self.beyond_range += count;
        }
    }

    /// Adds all of `other`; nothing is averaged.
    pub fn merge(&mut self, other: &Distribution) {
        if other.histogram.is_empty() && other.beyond_range == 0 {
            return;
        }
        // Both were made with the same bounds, so every value of the one fits the other.
        self.histogram.add(&other.histogram).expect("equal bounds");
        self.beyond_range += other.beyond_range;
    }

    /// Forgets every value, keeping the memory.
    pub fn clear(&mut self) {
        if !self.histogram.is_empty() {
            self.histogram.reset();
        }
        self.beyond_range = 0;
    }

    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Values above [`MAX_LATENCY_NS`]: in no percentile, so they are reported beside them.
    pub fn beyond_range(&self) -> u64 {
        self.beyond_range
    }

    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty() && self.beyond_range == 0
    }
}

impl Default for Distribution {
    fn default() -> Self {
        Distribution::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_percentiles_are_those_of_all_values_and_nothing_beyond_is_lost() {
        let (mut fast, mut slow) = (Distribution::new(), Distribution::new());
        fast.record_n(1_000, 99);
        slow.record(1_000_000_000);
        slow.record(MAX_LATENCY_NS * 3);
        fast.merge(&slow);
        assert_eq!(fast.histogram().len(), 100);
        assert!(fast.histogram().value_at_quantile(0.5).abs_diff(1_000) < 64);
        assert!(fast.histogram().max() >= 1_000_000_000);
        assert_eq!(fast.beyond_range(), 1);
        fast.clear();
        assert!(fast.is_empty());
    }

    #[test]
    fn three_digits_from_a_microsecond_on() {
        for value in [1_000u64, 12_345, 9_876_543, 400_000_000_000] {
            let mut one = Distribution::new();
            one.record(value);
            let told = one.histogram().value_at_quantile(0.5);
            assert!(told.abs_diff(value) <= (value / 1000).max(64), "{told} for {value}");
        }
    }
}
