//! How long messages took, as merged histograms and their percentiles; how many events made a tail: when the messages beyond a percentile were
//! answered; and histograms as text: HdrHistogram's encoding, in base64.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The latencies of measured, acknowledged (for `end_to_end`: received) messages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Latencies {
    /// Intended → acknowledged: what a user of a system under this load would wait. `null` in a closed loop, which has no
    /// intended times.
    pub response: Option<Latency>,
    /// Sent → acknowledged.
    pub service: Option<Latency>,
    /// Intended → sent: how far the load generator or a full window held messages back. `null` in a closed loop.
    pub schedule_delay: Option<Latency>,
    /// Intended (in a closed loop: sent) → received by a consumer. `null` when the scenario does not ask for it.
    pub end_to_end: Option<Latency>,
    /// The same of each group of consumers, in their order; left out with one group, with more than 16, and in records of older builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub end_to_end_by_group: Vec<GroupLatency>,
}

/// End-to-end latency of one group of consumers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct GroupLatency {
    /// Name of the group; its number, from 0, where the scenario gives it none.
    pub group: String,
    /// Latency of the messages that its consumers received; `null` if they received none.
    pub end_to_end: Option<Latency>,
}

impl Latencies {
    /// End-to-end latency of the group of this name. A list is left out where there is one group only.
    pub fn of_group(&self, name: &str) -> Option<&Latency> {
        match self.end_to_end_by_group.as_slice() {
            [] => self.end_to_end.as_ref(),
            groups => groups.iter().find(|of| of.group == name)?.end_to_end.as_ref(),
        }
    }

    /// One of them, by its name here.
    pub fn named(&self, name: &str) -> Option<&Latency> {
        match name {
            "response" => self.response.as_ref(),
            "service" => self.service.as_ref(),
            "schedule_delay" => self.schedule_delay.as_ref(),
            "end_to_end" => self.end_to_end.as_ref(),
            _ => None,
        }
    }

    /// The latencies of this name: end to end, where groups are kept apart, that of each with the group's name.
    pub fn apart(&self, name: &str) -> Vec<(Option<&str>, Option<&Latency>)> {
        match self.end_to_end_by_group.as_slice() {
            groups @ [_, ..] if name == "end_to_end" => {
                groups.iter().map(|of| (Some(of.group.as_str()), of.end_to_end.as_ref())).collect()
            }
            _ => vec![(None, self.named(name))],
        }
    }
}

/// One latency: all values lie in `histogram`, the other fields are read from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Latency {
    /// Values in the histogram.
    pub count: u64,
    /// Moments at which they became known: messages that were acknowledged (or received) together share a fate, so this
    /// is how many values are independent of each other. `null` where it was not counted; `count` stands for it then. Of merged shares, that
    /// of the share with the most: a moment of the broker is one, however many shares saw it.
    #[serde(default)]
    pub independent: Option<u64>,
    /// Smallest value, in nanoseconds.
    pub min_ns: u64,
    /// Arithmetic mean, in nanoseconds.
    pub mean_ns: f64,
    /// Standard deviation, in nanoseconds.
    pub stddev_ns: f64,
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// 75th percentile, in nanoseconds.
    pub p75_ns: u64,
    /// 90th percentile, in nanoseconds.
    pub p90_ns: u64,
    /// 95th percentile, in nanoseconds.
    pub p95_ns: u64,
    /// 99th percentile, in nanoseconds; `null` with fewer than ten independent values beyond it.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile, in nanoseconds; `null` with fewer than ten independent values beyond it.
    pub p99_9_ns: Option<u64>,
    /// 99.99th percentile, in nanoseconds; `null` with fewer than ten independent values beyond it.
    pub p99_99_ns: Option<u64>,
    /// Largest value, in nanoseconds, to the histogram's precision.
    pub max_ns: u64,
    /// Values too large for the histogram. They are in none of the other fields, so when there are any, every upper
    /// percentile is too low.
    pub beyond_range: u64,
    /// Mark of consumers that fell further and further behind (`verdict.notes` has `lag-grew`): the values tell how long the trial lasted, p99 and higher
    /// are `null`. Only of `end_to_end`; left out where it is false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lag_grew: bool,
    /// The whole histogram of nanoseconds, as HdrHistogram V2 compressed (DEFLATE), in base64: what the HdrHistogram
    /// ports of other languages decode.
    pub histogram: String,
    /// Tails of p99, p99.9 and p99.99, as far as they are stated: when the messages as slow as that were answered. Where one event made a percentile,
    /// another run may not have it. Left out where that was not recorded, as in records of older builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tails: Vec<Tail>,
    /// Histograms that `tails` are counted from, for any other percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<SlowestMessages>,
}

impl Latency {
    /// The latency that `histogram` (of nanoseconds, already merged) holds; `None` when there is not one value.
    ///
    /// `beyond_range` counts the values that did not fit into the histogram. `independent` is as in
    /// [`Latency::independent`].
    pub fn from_histogram(histogram: &Histogram<u64>, beyond_range: u64, independent: Option<u64>) -> Option<Self> {
        if histogram.is_empty() && beyond_range == 0 {
            return None;
        }
        let at = |quantile| histogram.value_at_quantile(quantile);
        let values = independent.unwrap_or(histogram.len().saturating_add(beyond_range));
        let known = |quantile| (values >= independent_values_needed(quantile)).then(|| at(quantile));
        Some(Latency {
            count: histogram.len(),
            independent,
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            stddev_ns: histogram.stdev(),
            p50_ns: at(0.5),
            p75_ns: at(0.75),
            p90_ns: at(0.9),
            p95_ns: at(0.95),
            p99_ns: known(0.99),
            p99_9_ns: known(0.999),
            p99_99_ns: known(0.9999),
            max_ns: histogram.max(),
            beyond_range,
            lag_grew: false,
            histogram: encode_histogram(histogram),
            tails: Vec::new(),
            slowest: None,
        })
    }

    /// The same of consumers that fell further and further behind.
    pub fn with_growing_lag(self) -> Self {
        Latency { p99_ns: None, p99_9_ns: None, p99_99_ns: None, lag_grew: true, tails: Vec::new(), ..self }
    }

    /// The percentiles beyond which few values lie, with their quantiles; only those that are stated.
    pub fn high_percentiles(&self) -> impl Iterator<Item = (f64, u64)> {
        let all = [(0.99, self.p99_ns), (0.999, self.p99_9_ns), (0.9999, self.p99_99_ns)];
        all.into_iter().filter_map(|(quantile, value_ns)| Some((quantile, value_ns?)))
    }

    /// The tail from `quantile` (0 to 1) on, where it is one of [`Latency::tails`].
    pub fn tail(&self, quantile: f64) -> Option<&Tail> {
        self.tails.iter().find(|tail| (tail.percentile - quantile * 100.0).abs() < 1e-9)
    }

    /// Whether too few events made the value at `quantile` for another run to have it as well, as far as that was recorded.
    pub fn is_of_few_events(&self, quantile: f64) -> bool {
        self.tail(quantile).is_some_and(|tail| !tail.exceedances().are_enough())
    }

    /// Values that are independent of each other; all of them where that was not counted.
    pub fn independent_values(&self) -> u64 {
        self.independent.unwrap_or(self.count.saturating_add(self.beyond_range))
    }

    /// Whether `quantile` (0 to 1) can be stated: at least `MIN_EXCEEDANCES` independent values lie beyond it, and lag did not grow.
    pub fn supports(&self, quantile: f64) -> bool {
        !self.lag_grew && self.independent_values() >= independent_values_needed(quantile)
    }

    /// The histogram that [`Latency::histogram`] encodes.
    ///
    /// # Errors
    /// When the text is not one that an HdrHistogram library wrote.
    pub fn decode_histogram(&self) -> Result<Histogram<u64>, HistogramError> {
        decode_histogram(&self.histogram)
    }
}

/// How many independent values a distribution must have for ten of them to lie beyond `quantile` (0 to 1); none are enough
/// for the maximum, beyond which nothing lies.
pub fn independent_values_needed(quantile: f64) -> u64 {
    // 1 − 0.9999 is not exactly 0.0001: rounded to where it makes no difference.
    match ((1.0 - quantile) * 1e9).round() as u64 {
        0 => u64::MAX,
        beyond => (MIN_EXCEEDANCES * 1_000_000_000).div_ceil(beyond),
    }
}

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
    /// Histogram with one value for each second.
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
    /// Seconds in which such messages were answered.
    pub seconds: u64,
    /// Tenths, among `tenths`, whose slowest message waited while a thread of the load generator was not woken, for half of its latency or longer.
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
    pub fn merged(all: &[&SlowestMessages]) -> Result<Option<Self>, HistogramError> {
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

/// The bytes before the counts: cookie, length of the counts, offset, digits, lowest and highest value, ratio (`EncodableHistogram` of
/// HdrHistogram for Java, `V2EncodingCookieBase`).
const HEAD_BYTES: usize = 40;

/// The first bytes of the encoding that is compressed, and of the one within it.
const COMPRESSED: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();
const PLAIN: [u8; 4] = 0x1c84_9313_u32.to_be_bytes();

/// The most bytes of counts: with [`MAX_DIGITS`], a histogram of all 63 bits has 56,320 counts of at most 9 bytes.
const MAX_BYTES: usize = 1 << 20;

/// The significant digits of brokermark's histograms. With each more, a histogram takes ten times the memory.
const MAX_DIGITS: u8 = 3;

/// The histogram in HdrHistogram's compressed V2 encoding, as base64.
///
/// Writing to memory fails only where a count does not fit 63 bits, which no trial lives to see: the text is empty then.
pub fn encode_histogram(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    match V2DeflateSerializer::new().serialize(histogram, &mut bytes) {
        Ok(_) => STANDARD.encode(bytes),
        Err(_) => String::new(),
    }
}

/// The histogram that [`encode_histogram`] wrote, or another program in one of HdrHistogram's V2 encodings.
///
/// The text may come from a damaged file or another machine. The library takes memory for what its head announces, so that this is checked
/// first.
///
/// # Errors
/// When the text is not one that an HdrHistogram library wrote, or the histogram is much larger than those of brokermark.
pub fn decode_histogram(text: &str) -> Result<Histogram<u64>, HistogramError> {
    let damaged = |reason: String| HistogramError(reason);
    let bytes = STANDARD.decode(text.trim()).map_err(|error| damaged(error.to_string()))?;
    let plain = match bytes.strip_prefix(&COMPRESSED).and_then(|rest| rest.get(4..)) {
        None => bytes,
        Some(compressed) => {
            let mut plain = Vec::new();
            let mut unpacked = ZlibDecoder::new(compressed).take((HEAD_BYTES + MAX_BYTES) as u64);
            unpacked.read_to_end(&mut plain).map_err(|error| damaged(error.to_string()))?;
            plain
        }
    };
    let word = |at: usize| plain.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    let (Some(announced), Some(digits)) = (word(4), word(12)) else { return Err(damaged("it is cut off".to_owned())) };
    if !plain.starts_with(&PLAIN) {
        return Err(damaged("it does not begin like one".to_owned()));
    }
    let there = plain.len().saturating_sub(HEAD_BYTES);
    if announced as usize > there {
        return Err(damaged(format!("it announces {announced} bytes, and has {there}")));
    }
    if digits > u32::from(MAX_DIGITS) {
        return Err(damaged(format!("it has {digits} significant digits, more than {MAX_DIGITS}")));
    }
    Deserializer::new().deserialize(&mut plain.as_slice()).map_err(|error| damaged(format!("{error:?}")))
}

/// A record's histogram cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the record's histogram is damaged ({0}): its other figures were made from it and still stand")]
pub struct HistogramError(String);

#[cfg(test)]
#[path = "../../../tests/unit/record/schema/latency.rs"]
mod tests;
