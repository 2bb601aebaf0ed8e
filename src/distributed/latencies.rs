//! Latencies of several shares as one: histograms are added bucket by bucket.

use super::{KeptShare, MergeError, saturating_sum};
use crate::record::{HistogramError, Latencies, Latency, Record, SchedulePart, SlowestMessages, Tail, Transactions};

/// All four latencies.
pub(super) fn latencies(shares: &[KeptShare]) -> Result<Latencies, MergeError> {
    Ok(Latencies {
        response: of(shares, |record| record.latency.response.as_ref())?,
        service: of(shares, |record| record.latency.service.as_ref())?,
        schedule_delay: of(shares, |record| record.latency.schedule_delay.as_ref())?,
        end_to_end: of(shares, |record| record.latency.end_to_end.as_ref())?,
    })
}

/// One latency of all shares that have it; `None`: none has.
pub(super) fn of<'a>(
    shares: &'a [KeptShare],
    choose: impl Fn(&'a Record) -> Option<&'a Latency>,
) -> Result<Option<Latency>, MergeError> {
    let found: Vec<(&str, &Latency)> =
        shares.iter().filter_map(|share| Some((share.origin.as_str(), choose(&share.record)?))).collect();
    sum(&found)
}

/// The latency of all values of several; each is named by where it comes from.
fn sum(latencies: &[(&str, &Latency)]) -> Result<Option<Latency>, MergeError> {
    let Some(((origin, first), rest)) = latencies.split_first() else { return Ok(None) };
    let damaged = |origin: &str, reason: String| MergeError::Damaged { origin: origin.to_owned(), reason };
    let decode = |origin: &str, latency: &Latency| {
        latency.decode_histogram().map_err(|error| damaged(origin, error.to_string()))
    };
    let mut histogram = decode(origin, first)?;
    for (origin, latency) in rest {
        let added = histogram.add(decode(origin, latency)?);
        added.map_err(|error| damaged(origin, format!("its histogram has another range: {error}")))?;
    }
    let beyond_range = saturating_sum(latencies.iter().map(|(_, latency)| latency.beyond_range));
    let independent = independent_of_all(latencies);
    let latency = Latency::from_histogram(&histogram, beyond_range, independent);
    // Where one share does not tell, nothing is known of all.
    let slowest: Option<Vec<&SlowestMessages>> =
        latencies.iter().map(|(_, latency)| latency.slowest.as_ref()).collect();
    let tailed = |latency| with_tails(latency, &slowest.unwrap_or_default());
    let latency = latency.map(tailed).transpose().map_err(|error| damaged(origin, error.to_string()))?;
    // Its consumers fell behind in partitions of their own, which those of other shares do not make up for.
    let has_fallen_behind = latencies.iter().any(|(_, latency)| latency.lag_grew);
    Ok(if has_fallen_behind { latency.map(Latency::of_growing_lag) } else { latency })
}

/// A safe bound for how many values of all shares are independent of each other. A moment at which the broker answered is one moment, however
/// many shares saw it, and records do not tell which moments of two shares are the same. So moments are not added: the share with the most
/// counts, as in [`SlowestMessages::of_all`]. `None` where no share counted them.
fn independent_of_all(latencies: &[(&str, &Latency)]) -> Option<u64> {
    latencies.iter().filter_map(|(_, latency)| latency.independent).max()
}

/// The latency with how many events made its tails, of all shares together.
fn with_tails(latency: Latency, of_shares: &[&SlowestMessages]) -> Result<Latency, HistogramError> {
    let Some(slowest) = SlowestMessages::of_all(of_shares)? else { return Ok(latency) };
    let tail = |(quantile, value_ns): (f64, u64)| {
        let exceedances = slowest.exceedances(value_ns)?;
        let (tenths, seconds) = (exceedances.tenths, exceedances.seconds);
        Ok(Tail { percentile: quantile * 100.0, tenths, seconds, client_paused_tenths: None })
    };
    let tails = latency.high_percentiles().map(tail).collect::<Result<_, _>>()?;
    Ok(Latency { tails, slowest: Some(slowest), ..latency })
}

/// The parts of the schedule, which all shares have at the same times.
pub(super) fn parts(shares: &[KeptShare]) -> Result<Vec<SchedulePart>, MergeError> {
    let most = shares.iter().map(|share| share.record.parts.len()).max().unwrap_or(0);
    (0..most).filter_map(|index| part(shares, index).transpose()).collect()
}

fn part(shares: &[KeptShare], index: usize) -> Result<Option<SchedulePart>, MergeError> {
    let of_shares = || shares.iter().filter_map(|share| share.record.parts.get(index));
    let Some(first) = of_shares().next() else { return Ok(None) };
    let duration_ns = of_shares().map(|part| part.duration_ns).max().unwrap_or(0);
    let per_second = |rate: fn(&SchedulePart) -> f64| {
        let messages: f64 = of_shares().map(|part| rate(part) * part.duration_ns as f64).sum();
        if duration_ns == 0 { 0.0 } else { messages / duration_ns as f64 }
    };
    Ok(Some(SchedulePart {
        kind: first.kind,
        begin_ns: of_shares().map(|part| part.begin_ns).min().unwrap_or(0),
        duration_ns,
        target_per_second: per_second(|part| part.target_per_second),
        sent_per_second: per_second(|part| part.sent_per_second),
        messages_per_second: per_second(|part| part.messages_per_second),
        response: of(shares, |record| record.parts.get(index)?.response.as_ref())?,
    }))
}

/// The transactions of all shares.
pub(super) fn transactions(shares: &[KeptShare]) -> Result<Option<Transactions>, MergeError> {
    let of_shares = || shares.iter().filter_map(|share| share.record.transactions.as_ref());
    if of_shares().next().is_none() {
        return Ok(None);
    }
    Ok(Some(Transactions {
        committed: saturating_sum(of_shares().map(|found| found.committed)),
        aborted: saturating_sum(of_shares().map(|found| found.aborted)),
        commit: of(shares, |record| record.transactions.as_ref()?.commit.as_ref())?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    fn histogram() -> Histogram<u64> {
        // As the recorders have it.
        crate::measure::Distribution::default().histogram().clone()
    }

    proptest! {
        /// What the record states of all shares is what it would state of one histogram of all values.
        #[test]
        fn merged_quantiles_are_those_of_one_histogram_of_all_values(
            shares in proptest::collection::vec(
                proptest::collection::vec((1..400_000_000_000u64, 1..5_000u64), 0..40), 1..6),
            beyond in 0..3u64,
        ) {
            let mut whole = histogram();
            let mut latencies = Vec::new();
            for values in &shares {
                let mut of_share = histogram();
                for (value, count) in values {
                    whole.record_n(*value, *count).unwrap();
                    of_share.record_n(*value, *count).unwrap();
                }
                latencies.extend(Latency::from_histogram(&of_share, beyond, Some(values.len() as u64)));
            }
            let named: Vec<(&str, &Latency)> = latencies.iter().map(|latency| ("share", latency)).collect();
            let merged = sum(&named).unwrap();
            let values = shares.iter().map(Vec::len).max().unwrap_or(0) as u64;
            let expected = Latency::from_histogram(&whole, beyond * latencies.len() as u64, Some(values));
            prop_assert_eq!(merged, expected);
        }
    }

    #[test]
    fn merged_moments_of_100_shares_are_those_of_one() {
        let mut of_share = histogram();
        of_share.record_n(1_000_000, 50_000).unwrap();
        let merged = |moments: [Option<u64>; 2]| {
            let of_moments = |moments| Latency::from_histogram(&of_share, 0, moments).unwrap();
            let [most, other] = moments.map(of_moments);
            let named: Vec<(&str, &Latency)> =
                (0..100).map(|rank| ("share", if rank == 7 { &most } else { &other })).collect();
            sum(&named).unwrap().unwrap()
        };
        // 100 shares saw the same 900 answers of the broker.
        let latency = merged([Some(900), Some(900)]);
        assert_eq!((latency.count, latency.independent, latency.p99_ns), (5_000_000, Some(900), None));
        let latency = merged([Some(1_000), Some(900)]);
        assert!(latency.p99_ns.is_some() && latency.p99_9_ns.is_none(), "{latency:?}");
        assert_eq!(merged([None, Some(900)]).independent, Some(900), "one share did not count its moments");
        assert_eq!(merged([None, None]).independent, None);
    }

    #[test]
    fn a_damaged_histogram_is_named() {
        let latency = Latency::from_histogram(
            &{
                let mut one = histogram();
                one.record(5).unwrap();
                one
            },
            0,
            None,
        )
        .unwrap();
        let damaged = Latency { histogram: "AAAA".to_owned(), ..latency.clone() };
        let error = sum(&[("a", &latency), ("b", &damaged)]).unwrap_err();
        assert!(error.to_string().starts_with("b: "), "{error}");
    }
}
