//! Latencies of several shares as one: histograms are added bucket by bucket. What single consumers received: each consumer ran in one of the
//! shares.

use std::collections::BTreeMap;

use super::{KeptShare, MergeError, saturating_sum};
use crate::evaluate::listed_consumers;
use crate::record::{
    ConsumerFigures, ConsumerSpread, Consumers, Extent, HistogramError, Latencies, Latency, Record, SchedulePart,
    SlowestMessages, Tail, Transactions,
};

/// All four latencies.
pub(super) fn latencies(shares: &[KeptShare]) -> Result<Latencies, MergeError> {
    Ok(Latencies {
        response: merged_latency(shares, |record| record.latency.response.as_ref())?,
        service: merged_latency(shares, |record| record.latency.service.as_ref())?,
        schedule_delay: merged_latency(shares, |record| record.latency.schedule_delay.as_ref())?,
        end_to_end: merged_latency(shares, |record| record.latency.end_to_end.as_ref())?,
    })
}

/// One latency of all shares that have it; `None`: none has.
pub(super) fn merged_latency<'a>(
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
    Ok(if has_fallen_behind { latency.map(Latency::with_growing_lag) } else { latency })
}

/// A safe bound for how many values of all shares are independent of each other. A moment at which the broker answered is one moment, however
/// many shares saw it, and records do not tell which moments of two shares are the same. So moments are not added: the share with the most
/// counts, as in [`SlowestMessages::merged`]. `None` where no share counted them.
fn independent_of_all(latencies: &[(&str, &Latency)]) -> Option<u64> {
    latencies.iter().filter_map(|(_, latency)| latency.independent).max()
}

/// The latency with how many events made its tails, of all shares together.
fn with_tails(latency: Latency, of_shares: &[&SlowestMessages]) -> Result<Latency, HistogramError> {
    let Some(slowest) = SlowestMessages::merged(of_shares)? else { return Ok(latency) };
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
        response: merged_latency(shares, |record| record.parts.get(index)?.response.as_ref())?,
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
        commit: merged_latency(shares, |record| record.transactions.as_ref()?.commit.as_ref())?,
    }))
}

/// `None`: no group had two of them.
pub(super) fn consumers(shares: &[KeptShare]) -> Option<Consumers> {
    let found = || shares.iter().filter_map(|share| share.record.consumers.as_ref());
    let mut groups: BTreeMap<usize, ConsumerSpread> = BTreeMap::new();
    for spread in found().flat_map(|consumers| &consumers.groups) {
        groups.entry(spread.group).and_modify(|sum| *sum = both(sum, spread)).or_insert_with(|| spread.clone());
    }
    groups.retain(|_, spread| spread.consumers > 1);
    let mut listed: Vec<ConsumerFigures> = found().flat_map(|consumers| consumers.listed.iter().cloned()).collect();
    listed.sort_by(|one, other| (one.group, &one.topic, one.member).cmp(&(other.group, &other.topic, other.member)));
    (!groups.is_empty()).then(|| Consumers { groups: groups.into_values().collect(), listed: listed_consumers(listed) })
}

fn both(one: &ConsumerSpread, other: &ConsumerSpread) -> ConsumerSpread {
    let known = |of: fn(&ConsumerSpread) -> Option<Extent>| Some(of(one)?.plus(of(other)?));
    ConsumerSpread {
        group: one.group,
        consumers: one.consumers.saturating_add(other.consumers),
        consumed: one.consumed.plus(other.consumed),
        end_to_end_p50_ns: known(|of| of.end_to_end_p50_ns),
        end_to_end_p99_ns: known(|of| of.end_to_end_p99_ns),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/distributed/latencies.rs"]
mod tests;
