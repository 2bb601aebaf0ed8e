//! What a record's sections have in common: rates, latencies and errors by class.

use crate::measure::{Distribution, ErrorTally, Errors};
use crate::record::{ErrorCount, Latency};

/// 0 over no time.
pub(super) fn per_second(count: u64, ns: u64) -> f64 {
    if ns == 0 { 0.0 } else { count as f64 * 1e9 / ns as f64 }
}

/// The latency of messages whose ends became known at so many moments.
pub(super) fn independent(distribution: &Distribution, moments: u64) -> Option<Latency> {
    Latency::from_histogram(distribution.histogram(), distribution.beyond_range(), Some(moments))
}

/// The latency of what happened one by one.
pub(super) fn latency(distribution: &Distribution) -> Option<Latency> {
    Latency::from_histogram(distribution.histogram(), distribution.beyond_range(), None)
}

/// Most frequent first.
pub(super) fn errors_by_class(errors: &Errors, begin_ns: u64) -> Vec<ErrorCount> {
    let count = |(class, tally): (_, &ErrorTally)| {
        let (at_ns, message) = tally.first.clone().unwrap_or_default();
        ErrorCount { class, count: tally.count, first_message: message, first_at_ns: at_ns.saturating_sub(begin_ns) }
    };
    let mut errors: Vec<ErrorCount> = errors.iter().map(count).collect();
    errors.sort_by_key(|error| std::cmp::Reverse(error.count));
    errors
}
