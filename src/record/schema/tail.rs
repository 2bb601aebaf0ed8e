//! How many events made a tail: when the messages beyond a percentile were answered.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::histogram::{HistogramError, decode_histogram, encode_histogram};

/// Fewest independent values beyond a percentile for it to be stated: the number of values beyond it varies by its square
/// root, so with ten the percentile's rank is certain to about a third.
pub const MIN_EXCEEDANCES: u64 = 10;

/// Fewest seconds from which the messages beyond a percentile must come for it not to be the figure of one event. A stall that ends at the
/// turn of a second is in two.
pub const MIN_TAIL_SECONDS: u64 = 3;

/// The slowest message of each tenth of a second and of each second in which measured messages were answered. However many messages,
/// connections or batches one stall of the broker holds up, their answers come in one tenth of a second or a few.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SlowestMessages {
    /// Histogram of nanoseconds with one value for each tenth of a second: that of its slowest message. Encoded as the latency's.
    pub of_tenths: String,
    /// The same with one value for each second.
    pub of_seconds: String,
}

/// Where the messages of a percentile and beyond come from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Tail {
    /// The percentile: 99, 99.9 or 99.99.
    pub percentile: f64,
    /// Tenths of a second in which messages as slow as this or slower were answered.
    pub tenths: u64,
    /// Seconds in which they were.
    pub seconds: u64,
    /// Of the tenths, those whose slowest message waited while a thread of the load generator was not woken, for half of its latency or longer.
    /// `null` in merged records: see those of the shares.
    pub client_paused_tenths: Option<u64>,
}

/// In how many tenths of a second, and seconds, messages were as slow as a value or slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceedances {
    pub tenths: u64,
    pub seconds: u64,
}

impl Exceedances {
    /// Whether they are enough events for a percentile to be more than the figure of one of them.
    pub fn are_enough(self) -> bool {
        self.tenths >= MIN_EXCEEDANCES && self.seconds >= MIN_TAIL_SECONDS
    }
}

impl Tail {
    /// The tenths and seconds.
    pub fn exceedances(&self) -> Exceedances {
        Exceedances { tenths: self.tenths, seconds: self.seconds }
    }

    /// Whether most of it counts as the load generator's: a thread of it was not woken meanwhile.
    pub fn is_the_clients(&self) -> bool {
        self.client_paused_tenths.is_some_and(|paused| paused.saturating_mul(2) > self.tenths)
    }
}

impl SlowestMessages {
    /// From a histogram of the slowest messages of tenths of a second, and one of those of seconds.
    pub fn new(of_tenths: &Histogram<u64>, of_seconds: &Histogram<u64>) -> Self {
        SlowestMessages { of_tenths: encode_histogram(of_tenths), of_seconds: encode_histogram(of_seconds) }
    }

    /// In how many of both messages took `value_ns` or longer, to the histogram's precision.
    ///
    /// # Errors
    /// When a histogram is damaged.
    pub fn exceedances(&self, value_ns: u64) -> Result<Exceedances, HistogramError> {
        let count = |text: &str| decode_histogram(text).map(|histogram| count_from(&histogram, value_ns));
        Ok(Exceedances { tenths: count(&self.of_tenths)?, seconds: count(&self.of_seconds)? })
    }

    /// What several load generators saw of one broker. An event that all of them saw is one event, so that of each value, the one counts
    /// that saw it in the most tenths of a second, or seconds; nothing is added.
    ///
    /// # Errors
    /// When a histogram is damaged.
    pub fn of_all(all: &[&SlowestMessages]) -> Result<Option<Self>, HistogramError> {
        let most = |text: fn(&SlowestMessages) -> &str| -> Result<Option<Histogram<u64>>, HistogramError> {
            let decoded = all.iter().map(|slowest| decode_histogram(text(slowest))).collect::<Result<Vec<_>, _>>()?;
            Ok(most_from_each_value(&decoded))
        };
        let (tenths, seconds) = (most(|slowest| &slowest.of_tenths)?, most(|slowest| &slowest.of_seconds)?);
        Ok(tenths.zip(seconds).map(|(tenths, seconds)| SlowestMessages::new(&tenths, &seconds)))
    }
}

fn count_from(histogram: &Histogram<u64>, value_ns: u64) -> u64 {
    histogram.count_between(histogram.lowest_equivalent(value_ns), u64::MAX)
}

/// A histogram that has, from each value on, as many as the one of `all` that has the most.
fn most_from_each_value(all: &[Histogram<u64>]) -> Option<Histogram<u64>> {
    let mut most = Histogram::new_from(all.first()?);
    let mut values: Vec<u64> =
        all.iter().flat_map(|one| one.iter_recorded().map(|value| value.value_iterated_to())).collect();
    values.sort_unstable();
    values.dedup();
    let mut counted = 0;
    for value in values.into_iter().rev() {
        let from_here = all.iter().map(|one| count_from(one, value)).max().unwrap_or(0);
        // The values are those of a histogram with the same bounds.
        most.saturating_record_n(value, from_here - counted);
        counted = from_here;
    }
    Some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: &[u64]) -> Histogram<u64> {
        let mut histogram = crate::measure::Distribution::new();
        values.iter().for_each(|value| histogram.record(*value));
        histogram.histogram().clone()
    }

    fn slowest(tenths: &[u64], seconds: &[u64]) -> SlowestMessages {
        SlowestMessages::new(&histogram(tenths), &histogram(seconds))
    }

    #[test]
    fn values_in_the_bucket_of_a_percentile_count_as_beyond_it() {
        let slowest = slowest(&[1_000_000, 5_000_000, 90_000_000], &[5_000_000, 90_000_000]);
        // A percentile is the upper end of its bucket.
        let p99 = histogram(&[5_000_000]).value_at_quantile(0.99);
        assert!(p99 > 5_000_000);
        assert_eq!(slowest.exceedances(p99), Ok(Exceedances { tenths: 2, seconds: 2 }));
        assert_eq!(slowest.exceedances(100_000_000), Ok(Exceedances { tenths: 0, seconds: 0 }));
    }

    #[test]
    fn ten_tenths_in_three_seconds_are_enough() {
        let enough = |tenths, seconds| Exceedances { tenths, seconds }.are_enough();
        assert!(enough(10, 3) && !enough(9, 3) && !enough(10, 2));
    }

    #[test]
    fn an_event_that_many_shares_saw_is_one() {
        let stall = 90_000_000;
        let shares: Vec<SlowestMessages> =
            (0..100).map(|share| slowest(&[stall, 1_000_000 + share, 1_000_000], &[stall])).collect();
        let all = SlowestMessages::of_all(&shares.iter().collect::<Vec<_>>()).unwrap().unwrap();
        assert_eq!(all.exceedances(stall), Ok(Exceedances { tenths: 1, seconds: 1 }));
        assert_eq!(all.exceedances(1_000_000), Ok(Exceedances { tenths: 3, seconds: 1 }));
        let other = slowest(&[stall, stall, 50], &[stall, stall]);
        let all = SlowestMessages::of_all(&[&shares[0], &other]).unwrap().unwrap();
        assert_eq!(all.exceedances(stall), Ok(Exceedances { tenths: 2, seconds: 2 }), "the share that saw the most");
        assert_eq!(SlowestMessages::of_all(&[]), Ok(None));
    }
}
