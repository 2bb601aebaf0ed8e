//! The sections of a merged record: those that are sums, or the worst of the shares; what became of single messages over all shares; latencies,
//! whose histograms are added bucket by bucket; and what single consumers received: each ran in one of the shares.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{KeptShare, MergeError};
use crate::broker::known_sum;
use crate::evaluate::listed_consumers;
use crate::measure::{FailureClass, GroupAccount, MergedGroup, MessageSets, merge_groups};
use crate::record::{
    Completion, ConsumerAnswers, ConsumerFigures, ConsumerSpread, Consumers, Counts, ErrorCount, Extent, Fault,
    FaultCommand, GroupLatency, GroupVerification, HistogramError, IdleConnections, Latencies, Latency, ProducerShares,
    Record, SchedulePart, SlowestMessages, Tail, Throughput, Transactions, Verification, Wire, saturating_sum,
};

/// The windows of all shares overlap by at least this much of the stretch that they cover, or the rate is not that of all.
pub(super) const MIN_OVERLAP: f64 = 0.95;

/// Whether a share has producers.
pub(super) fn sends(share: &KeptShare) -> bool {
    share.record.share.as_ref().is_some_and(|share| share.producers > 0)
}

/// The measured windows of the shares that have producers: one that only consumes may receive later than others send.
pub(super) fn windows(shares: &[KeptShare]) -> impl Iterator<Item = (u64, u64)> {
    let any_sends = shares.iter().any(sends);
    shares.iter().filter(move |share| !any_sends || sends(share)).map(window_of)
}

/// Begin and end of the stretch that these windows cover, in nanoseconds since 1970.
pub(super) fn window(shares: &[KeptShare]) -> (u64, u64) {
    let windows = || windows(shares);
    (windows().map(|(begin_ns, _)| begin_ns).min().unwrap_or(0), windows().map(|(_, end_ns)| end_ns).max().unwrap_or(0))
}

/// Begin and end of a share's measured window, in nanoseconds since 1970.
pub(super) fn window_of(share: &KeptShare) -> (u64, u64) {
    let begin_ns = share.record.share.as_ref().map_or(0, |share| share.window_begin_unix_ns);
    (begin_ns, begin_ns.saturating_add(share.record.throughput.window_ns))
}

/// The faults that one share has run. What followed them in its own messages is not what followed them in all.
pub(super) fn faults(shares: &[KeptShare]) -> Vec<Fault> {
    let alone = |command: &FaultCommand| FaultCommand {
        outages: 0,
        longest_gap_ns: None,
        first_acknowledgement_ns: None,
        recovered_ns: None,
        failed: 0,
        ..command.clone()
    };
    let merged =
        |fault: &Fault| Fault { run: alone(&fault.run), undo: fault.undo.as_ref().map(alone), ..fault.clone() };
    shares.iter().flat_map(|share| &share.record.faults).map(merged).collect()
}

/// The part of the stretch that all windows cover which lies in every one of them.
pub(super) fn overlap(shares: &[KeptShare]) -> f64 {
    let (begin_ns, end_ns) = window(shares);
    let windows = || windows(shares);
    let latest_begin = windows().map(|(begin_ns, _)| begin_ns).max().unwrap_or(0);
    let first_end = windows().map(|(_, end_ns)| end_ns).min().unwrap_or(0);
    match end_ns - begin_ns {
        0 => 0.0,
        covered => first_end.saturating_sub(latest_begin) as f64 / covered as f64,
    }
}

/// Nanoseconds from the begin of the first share's load to that of the last one's, each by its first message; `None`: not known of every
/// share that has producers. Producers are due one after another, so that it is not the times of the messages that are compared, but by how much
/// each was late.
pub(super) fn start_skew_ns(shares: &[KeptShare]) -> Option<u64> {
    let begin = |share: &KeptShare| {
        let (start, share) = (share.record.start.as_ref()?, share.record.share.as_ref()?);
        let late_ns = share.first_sent_unix_ns?.saturating_sub(share.first_due_unix_ns?);
        Some(u64::try_from(start.began_at.as_nanosecond()).ok()?.saturating_add(late_ns))
    };
    let begins = shares.iter().filter(|share| sends(share)).map(begin).collect::<Option<Vec<u64>>>()?;
    Some(begins.iter().max()? - begins.iter().min()?)
}

pub(super) fn counts(shares: &[KeptShare]) -> Counts {
    shares.iter().fold(Counts::default(), |sum, share| sum.plus(&share.record.counts))
}

/// Messages that all shares carried in their windows, over the stretch that the windows cover together: shares that began apart have
/// a lower rate together than the sum of theirs.
pub(super) fn throughput(shares: &[KeptShare], counts: &Counts) -> Throughput {
    let (begin_ns, end_ns) = window(shares);
    let window_ns = end_ns - begin_ns;
    let all = || shares.iter().map(|share| &share.record.throughput);
    let per_second = |rate: fn(&Throughput) -> f64| {
        let messages: f64 = all().map(|of| rate(of) * of.window_ns as f64).sum();
        if window_ns == 0 { 0.0 } else { messages / window_ns as f64 }
    };
    let payload_bytes = counts.payload_bytes_acknowledged as f64;
    Throughput {
        window_ns,
        messages_per_second: per_second(|of| of.messages_per_second),
        warm_up_messages: saturating_sum(all().map(|of| of.warm_up_messages)),
        payload_bytes_per_second: per_second(|of| of.payload_bytes_per_second),
        sent_per_second: per_second(|of| of.sent_per_second),
        target_per_second: all().filter_map(|of| of.target_per_second).reduce(|sum, rate| sum + rate),
        consumed_per_second: consumed_per_second(shares, window_ns),
        in_flight_by_littles_law: None,
        until_last_acknowledgement: last(shares, |of| of.until_last_acknowledgement)
            .and_then(|ns| Completion::new(ns.saturating_sub(begin_ns), counts.acknowledged, payload_bytes)),
        until_last_arrival: last(shares, |of| of.until_last_arrival).and_then(|ns| {
            let bytes = all().filter_map(|of| of.until_last_arrival);
            let bytes = bytes.map(|of| of.payload_bytes_per_second * of.duration_ns as f64 / 1e9).sum();
            Completion::new(ns.saturating_sub(begin_ns), counts.consumed.unwrap_or(0), bytes)
        }),
        longest_gap_ns: None,
        producer_shares: producer_shares(shares),
    }
}

/// What all shares received in their windows, over the stretch that the windows cover together. A share that only consumes has a window
/// of its own, and its rate is that of this window.
fn consumed_per_second(shares: &[KeptShare], window_ns: u64) -> Option<f64> {
    let rate = |share: &KeptShare| {
        let Throughput { consumed_per_second, window_ns: own_ns, .. } = &share.record.throughput;
        let part = if sends(share) { *own_ns as f64 / window_ns as f64 } else { 1.0 };
        Some((*consumed_per_second)? * part)
    };
    shares.iter().filter_map(rate).reduce(|sum, rate| sum + rate).filter(|_| window_ns > 0)
}

/// When the last of it happened in any share, in nanoseconds since 1970.
fn last(shares: &[KeptShare], of: fn(&Throughput) -> Option<Completion>) -> Option<u64> {
    shares
        .iter()
        .filter_map(|share| Some(window_of(share).0.saturating_add(of(&share.record.throughput)?.duration_ns)))
        .max()
}

/// From each share's index and its sum of messages follows its sum of squares, and from these the index of all.
fn producer_shares(shares: &[KeptShare]) -> Option<ProducerShares> {
    let of_shares =
        || shares.iter().filter_map(|share| Some((&share.record, share.record.throughput.producer_shares?)));
    let smallest_messages = of_shares().map(|(_, of)| of.smallest_messages).min()?;
    let producers = |record: &Record| record.share.as_ref().map_or(0, |share| share.producers) as f64;
    let sum: f64 = of_shares().map(|(record, _)| record.counts.attempted as f64).sum();
    let squares: f64 = of_shares()
        .map(|(record, of)| (record.counts.attempted as f64).powi(2) / (producers(record) * of.jain_index))
        .sum();
    let all: f64 = shares.iter().map(|share| producers(&share.record)).sum();
    let senders = shares.iter().filter(|share| sends(share)).count();
    Some(ProducerShares {
        smallest_messages: if of_shares().count() < senders { 0 } else { smallest_messages },
        largest_messages: of_shares().map(|(_, of)| of.largest_messages).max()?,
        jain_index: sum * sum / (all * squares),
    })
}

/// Errors of a class are added; the message is that of the first one by the wall clock.
pub(super) fn errors(shares: &[KeptShare], of: fn(&Record) -> &[ErrorCount]) -> Vec<ErrorCount> {
    let (begin_ns, _) = window(shares);
    let mut by_class: BTreeMap<FailureClass, ErrorCount> = BTreeMap::new();
    for share in shares {
        let later_ns = window_of(share).0.saturating_sub(begin_ns);
        for error in of(&share.record) {
            let first_at_ns = if error.first_at_ns == 0 { 0 } else { error.first_at_ns.saturating_add(later_ns) };
            let error = ErrorCount { first_at_ns, ..error.clone() };
            by_class
                .entry(error.class)
                .and_modify(|sum| {
                    let count = sum.count + error.count;
                    let first = if error.first_at_ns < sum.first_at_ns { error.clone() } else { sum.clone() };
                    *sum = ErrorCount { count, ..first };
                })
                .or_insert(error);
        }
    }
    let mut errors: Vec<ErrorCount> = by_class.into_values().collect();
    errors.sort_by_key(|error| Reverse(error.count));
    errors
}

pub(super) fn wire(shares: &[KeptShare], throughput: &Throughput, cpu_seconds: f64) -> Option<Wire> {
    let found =
        || shares.iter().filter_map(|share| Some((share.record.wire.as_ref()?, share.record.throughput.window_ns)));
    found().next()?;
    let sum = |count: fn(&Wire) -> u64| saturating_sum(found().map(|(wire, _)| count(wire)));
    let inside =
        |rate: fn(&Wire) -> f64| found().map(|(wire, window_ns)| rate(wire) * window_ns as f64 / 1e9).sum::<f64>();
    let seconds = throughput.window_ns as f64 / 1e9;
    let over = |bytes: f64, divisor: f64| (divisor > 0.0).then(|| bytes / divisor);
    let (body_bytes, sent_bytes) = (sum(|wire| wire.body_bytes), sum(|wire| wire.sent_bytes));
    Some(Wire {
        requests: sum(|wire| wire.requests),
        retried: sum(|wire| wire.retried),
        quota_refusals: sum(|wire| wire.quota_refusals),
        raw_bytes: sum(|wire| wire.raw_bytes),
        body_bytes,
        sent_bytes,
        fetches: sum(|wire| wire.fetches),
        throttled_fetches: sum(|wire| wire.throttled_fetches),
        compression_ratio: over(body_bytes as f64, sent_bytes as f64),
        raw_bytes_per_second: over(inside(|wire| wire.raw_bytes_per_second), seconds).unwrap_or_default(),
        sent_bytes_per_second: over(inside(|wire| wire.sent_bytes_per_second), seconds).unwrap_or_default(),
        raw_bytes_per_cpu_second: over(inside(|wire| wire.raw_bytes_per_second), cpu_seconds),
    })
}

/// The verification of all shares; `None`: nothing was verified. What arrived is added; what is missing follows from the messages that
/// each share kept.
pub(super) fn verification(shares: &[KeptShare]) -> Result<Option<Verification>, MergeError> {
    let Some(first) = shares.iter().find_map(|share| share.record.verification.as_ref()) else { return Ok(None) };
    let messages: Option<Vec<Arc<MessageSets>>> = shares.iter().map(|share| share.messages.clone()).collect();
    let Some(messages) = messages else {
        let without = shares.iter().find(|share| share.messages.is_none()).map_or("", |share| share.origin.as_str());
        let reason = "its messages.json is missing, without which it is not known what was lost".to_owned();
        return Err(MergeError::Damaged { origin: without.to_owned(), reason });
    };
    let groups =
        merge_groups(&messages).map_err(|reason| MergeError::Damaged { origin: shares[0].origin.clone(), reason })?;
    let are_all = shares[0].record.share.as_ref().is_none_or(|share| share.count <= shares.len());
    let of_shares = || shares.iter().filter_map(|share| share.record.verification.as_ref());
    let total = |count: fn(&Verification) -> u64| saturating_sum(of_shares().map(count));
    let mut removal_rules: Vec<_> = of_shares().flat_map(|found| found.removal_rules.iter().cloned()).collect();
    removal_rules.sort();
    removal_rules.dedup();
    let is_decided = are_all && removal_rules.is_empty();
    let mut sum = Verification {
        removal_rules,
        unordered: total(|found| found.unordered),
        order_unchecked: total(|found| found.order_unchecked),
        foreign: total(|found| found.foreign),
        saturated: groups.iter().any(|group| group.account.saturated),
        ..Verification::default()
    };
    for (number, merged) in groups.iter().enumerate().take(first.groups.len()) {
        let found: Vec<&GroupVerification> = of_shares().filter_map(|found| found.groups.get(number)).collect();
        sum.add_group(group(&found, merged, are_all, is_decided));
    }
    Ok(Some(sum))
}

/// `are_all`: whether all shares are there. It is not known which messages a missing share has received. `is_decided`: whether a message that is
/// missing is certainly lost or unread, because no share is missing and the broker removed nothing.
fn group(found: &[&GroupVerification], merged: &MergedGroup, are_all: bool, is_decided: bool) -> GroupVerification {
    let MergedGroup { mut account, repeated } = *merged;
    if !is_decided {
        let undecided = account.undecided.saturating_add(account.lost).saturating_add(account.unread);
        account = GroupAccount { lost: 0, unread: 0, undecided, ..account };
    }
    if !are_all {
        account.not_acknowledged_but_stored = 0;
    }
    let total = |count: fn(&GroupVerification) -> u64| saturating_sum(found.iter().map(|group| count(group)));
    let received_something = found.iter().filter(|group| group.received > 0);
    GroupVerification {
        group: found[0].group,
        name: found[0].name.clone(),
        task: found[0].task.clone(),
        received: total(|group| group.received),
        consumed: total(|group| group.consumed),
        lost: account.lost,
        unread: account.unread,
        removed: account.removed,
        undecided: account.undecided,
        not_acknowledged_but_stored: account.not_acknowledged_but_stored,
        // Two shares took the same message for its first delivery.
        duplicated: total(|group| group.duplicated).saturating_add(repeated),
        redelivered: total(|group| group.redelivered),
        reordered: total(|group| group.reordered),
        corrupt: total(|group| group.corrupt),
        consumer_lag_at_load_end: None,
        catch_up_ns: received_something
            .filter_map(|group| group.catch_up_ns)
            .max()
            .filter(|_| are_all && merged.account.unread == 0),
    }
}

/// Connections without messages are opened by each share, beside the others.
pub(super) fn idle_connections(shares: &[KeptShare]) -> Result<Option<IdleConnections>, MergeError> {
    let of_shares = || shares.iter().filter_map(|share| share.record.idle_connections.as_ref());
    if of_shares().next().is_none() {
        return Ok(None);
    }
    let total = |count: fn(&IdleConnections) -> u64| saturating_sum(of_shares().map(count));
    let wanted = total(|idle| idle.wanted);
    let memory: Option<u64> = of_shares().map(|idle| Some(idle.memory_bytes_each? * idle.wanted)).sum();
    Ok(Some(IdleConnections {
        wanted,
        opened: total(|idle| idle.opened),
        open_at_end: total(|idle| idle.open_at_end),
        replaced: total(|idle| idle.replaced),
        opened_per_second: of_shares().map(|idle| idle.opened_per_second).sum(),
        time_to_ready: merged_latency(shares, |record| record.idle_connections.as_ref()?.time_to_ready.as_ref())?,
        memory_bytes_each: memory.and_then(|bytes| bytes.checked_div(wanted)),
        failed: errors(shares, |record| record.idle_connections.as_ref().map_or(&[], |idle| &idle.failed)),
        lost: errors(shares, |record| record.idle_connections.as_ref().map_or(&[], |idle| &idle.lost)),
    }))
}

/// All four latencies.
pub(super) fn latencies(shares: &[KeptShare]) -> Result<Latencies, MergeError> {
    Ok(Latencies {
        response: merged_latency(shares, |record| record.latency.response.as_ref())?,
        service: merged_latency(shares, |record| record.latency.service.as_ref())?,
        schedule_delay: merged_latency(shares, |record| record.latency.schedule_delay.as_ref())?,
        end_to_end: merged_latency(shares, |record| record.latency.end_to_end.as_ref())?,
        end_to_end_by_group: latencies_by_group(shares)?,
    })
}

/// End-to-end latency of each group. All shares have the same groups.
fn latencies_by_group(shares: &[KeptShare]) -> Result<Vec<GroupLatency>, MergeError> {
    let groups = shares.first().map(|share| share.record.latency.end_to_end_by_group.as_slice()).unwrap_or_default();
    let of_group = |of: &GroupLatency| {
        let end_to_end = merged_latency(shares, |record| record.latency.of_group(&of.group))?;
        Ok(GroupLatency { group: of.group.clone(), end_to_end })
    };
    groups.iter().map(of_group).collect()
}

/// One latency of all shares that have it; `None`: none has.
fn merged_latency<'a>(
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

/// The answers of all shares' consumers.
pub(super) fn consumer_answers(shares: &[KeptShare]) -> Option<ConsumerAnswers> {
    shares.iter().map(|share| share.record.consumer_answers.clone()).fold(None, known_sum)
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
mod latency_tests;
#[cfg(test)]
#[path = "../../tests/unit/distributed/sections.rs"]
mod tests;
