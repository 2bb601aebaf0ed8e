//! The account of a trial's messages: what became of them, who sent and received how many, where they stopped.

use std::collections::BTreeSet;

use super::verified::verified;
use super::{Fact, above_zero, duration_or_dash, known};
use crate::measure::FailureClass;
use crate::record::readable::{SLEEPER, bytes, count, duration, percent, rate};
use crate::record::{
    Backlog, BacklogPhase, Condition, ConsumerAnswers, ConsumerSpread, Counts, ErrorCount, Extent, GroupDrain,
    IdleConnections, MergedShare, Outage, Record, Transactions, Verification, Wire,
};

/// From this fairness index on, producers' shares are not worth a line.
const EVEN_SHARES: f64 = 0.99;

/// Outages and shares that a terminal shows.
const MAX_OUTAGES: usize = 5;
const MAX_SHARES: usize = 8;

/// The load: what was sent and carried, by whom, and where it stopped.
/// `in_detail`: also rates and bytes that repeat what others tell.
pub fn load(record: &Record, in_detail: bool) -> Vec<Fact> {
    let share = record.share.as_ref().map(|share| Fact::new("share", format!("{} of {}", share.number, share.count)));
    let transactions = record.transactions.as_ref().map(|Transactions { committed, aborted, .. }| {
        Fact::new("transactions", format!("{} committed, {} aborted", count(*committed), count(*aborted)))
    });
    let facts = [
        Some(Fact::list("messages", messages(&record.counts))),
        share,
        Some(Fact { most: MAX_SHARES + 1, ..Fact::list("shares", shares(record)) }),
        Some(Fact::list("throughput", throughput(record, in_detail))),
        record.wire.as_ref().map(|wire| Fact::new("wire", crossed(wire, in_detail))),
        record.idle_connections.as_ref().map(|idle| Fact::list("idle connections", idle_connections(idle))),
        consumed(record).filter(|_| in_detail || record.verification.is_none()),
        record.consumer_answers.as_ref().map(|answers| Fact::new("answers", answered(answers))),
        Some(Fact::new("partitions", partitions(record))),
        Some(Fact::list("consumers", consumers(record))),
        transactions,
        Some(Fact { most: MAX_OUTAGES, ..Fact::list("outages", record.outages.iter().map(outage).collect()) }),
        Some(Fact {
            most: MAX_OUTAGES,
            ..Fact::list("held up", record.conditions.iter().map(Condition::told_in_full).collect())
        }),
    ];
    known(facts.into_iter().flatten())
}

/// What came of it: a backlog, errors, and what consumers verified.
pub fn outcome(record: &Record) -> Vec<Fact> {
    known([
        Fact::list("backlog", record.backlog.as_ref().map(|found| backlog(found, record)).unwrap_or_default()),
        Fact::list("errors", errors(&record.errors)),
        Fact::list("receiving", errors(&record.receive_errors)),
        Fact::list("verified", record.verification.as_ref().map(verified).unwrap_or_default()),
    ])
}

/// The messages of several trials together.
pub fn all_messages(records: &[&Record]) -> Vec<Fact> {
    let mut counts = records.iter().fold(Counts::default(), |sum, record| sum.plus(&record.counts));
    counts.producers_that_differ += records.iter().filter(|record| !record.counts.balances()).count() as u64;
    let found = records.iter().filter_map(|record| record.verification.clone());
    let verification = found.reduce(|sum, found| sum.plus(&found));
    let verified = verification.map(|sum| verified(&Verification { groups: Vec::new(), ..sum })).unwrap_or_default();
    let payload = format!("{} acknowledged", bytes(counts.payload_bytes_acknowledged as f64));
    known([Fact::list("messages", messages(&counts)), Fact::new("payload", payload), Fact::list("verified", verified)])
}

fn messages(counts: &Counts) -> Vec<String> {
    let attempted = counts.attempted.max(1) as f64;
    let outcome = |number: u64, name: &str| match number {
        0 => format!("0 {name}"),
        number => format!("{} {name} ({})", count(number), percent(number as f64 / attempted)),
    };
    let mut account = format!(
        "{} attempted = {} acknowledged + {} + {}",
        count(counts.attempted),
        count(counts.acknowledged),
        outcome(counts.failed, "failed"),
        outcome(counts.unresolved, "unresolved")
    );
    if counts.unsent > 0 {
        account += &format!("; {} were due and never sent", count(counts.unsent));
    }
    if counts.warm_up.attempted > 0 {
        account += &format!("; before these, {} of the warm-up", count(counts.warm_up.attempted));
    }
    let mut sentences = vec![account];
    if counts.unresolved > 0 {
        let meaning =
            "unresolved: without an answer when the wait for acknowledgements ended; the broker may have them";
        sentences.push(meaning.to_owned());
    }
    if !counts.balances() {
        sentences.push("This does not add up: it is a bug of brokermark.".to_owned());
    }
    sentences
}

/// The shares that a record was merged from.
fn shares(record: &Record) -> Vec<String> {
    let Some(first) = record.shares.first() else { return Vec::new() };
    let begun = apart_ns(record).map(|apart| format!(", first messages due within {}", duration(apart)));
    let all = record.shares.len();
    let counted = format!(
        "{all} of {}, on {}{}",
        first.share.count,
        super::several(machines(record), "machine"),
        begun.unwrap_or_default()
    );
    let one = |of: &MergedShare| {
        format!(
            "{}: {} messages/s over {}, {:.2} cores, {}{}",
            of.share.number,
            rate(of.messages_per_second),
            duration(of.window_ns as f64),
            of.cores_used,
            of.hostname.as_deref().unwrap_or("unknown host"),
            if of.valid { "" } else { ", not valid" }
        )
    };
    std::iter::once(counted).chain(record.shares.iter().map(one)).collect()
}

/// The machines that the shares ran on; 0 where the record is of one process.
pub fn machines(record: &Record) -> usize {
    let machine =
        |of: &MergedShare| (of.share.boot_id.clone(), of.hostname.clone().filter(|_| of.share.boot_id.is_none()));
    record.shares.iter().map(machine).collect::<BTreeSet<_>>().len()
}

/// Nanoseconds from the earliest time at which a share's first message was due to the latest; `None` where no time was set.
fn apart_ns(record: &Record) -> Option<f64> {
    let begins = record.shares.iter().map(|of| of.start.as_ref().map(|start| start.began_at.as_nanosecond()));
    let begins = begins.collect::<Option<Vec<i128>>>()?;
    Some((begins.iter().max()? - begins.iter().min()?) as f64)
}

fn throughput(record: &Record, in_detail: bool) -> Vec<String> {
    let throughput = &record.throughput;
    let mut carried = format!(
        "{} messages/s, {}/s of payload",
        rate(throughput.messages_per_second),
        bytes(throughput.payload_bytes_per_second)
    );
    if let Some(target) = throughput.target_per_second {
        if in_detail {
            carried += &format!("; wanted {}/s, sent {}/s", rate(target), rate(throughput.sent_per_second));
        }
        if throughput.messages_per_second > target && throughput.warm_up_messages > 0 {
            carried += &format!(
                "; {} messages of the warm-up were answered in the window",
                count(throughput.warm_up_messages)
            );
        }
    }
    if let Some(whole) = throughput.until_last_acknowledgement.as_ref().filter(|_| in_detail) {
        carried += &format!(
            "; {}/s over the {} until the last acknowledgement",
            rate(whole.messages_per_second),
            duration(whole.duration_ns as f64)
        );
    }
    let uneven = throughput.producer_shares.filter(|shares| shares.jain_index < EVEN_SHARES).map(|shares| {
        format!(
            "producers sent from {} to {} messages each (Jain's fairness index {:.3})",
            count(shares.smallest_messages),
            count(shares.largest_messages),
            shares.jain_index
        )
    });
    std::iter::once(carried).chain(uneven).collect()
}

fn consumed(record: &Record) -> Option<Fact> {
    let (consumed, per_second) = record.counts.consumed.zip(record.throughput.consumed_per_second)?;
    Some(Fact::new("consumed", format!("{} messages, {}/s", count(consumed), rate(per_second))))
}

/// What consumers answered to messages.
fn answered(answers: &ConsumerAnswers) -> String {
    let mut parts = vec![format!("{}: {} accepted", answers.acknowledge, count(answers.accepted))];
    parts.extend(above_zero(&[
        (answers.released, "given back"),
        (answers.rejected, "rejected"),
        (answers.renewed, "locks renewed"),
        (answers.left_to_expire, "left to expire"),
        (answers.unconfirmed, "refused or not confirmed"),
    ]));
    parts.push(format!("most deliveries of a message: {}", count(answers.most_deliveries)));
    parts.join(", ")
}

/// What crossed the wire. Where nothing was compressed, raw and sent bytes differ by the encoding alone.
fn crossed(wire: &Wire, in_detail: bool) -> String {
    let mut parts = vec![format!("{}/s sent", bytes(wire.sent_bytes_per_second))];
    if let Some(ratio) = wire.compression_ratio.filter(|ratio| *ratio > 1.0) {
        parts.push(format!("compressed {ratio:.2} times from {}/s", bytes(wire.raw_bytes_per_second)));
    }
    if in_detail {
        parts.extend(wire.raw_bytes_per_cpu_second.map(|raw| format!("{} raw for each second of CPU", bytes(raw))));
        parts.push(format!("{} requests", count(wire.requests)));
    }
    parts.extend(above_zero(&[(wire.retried, "sent again"), (wire.quota_refusals, "refused for a quota")]));
    if wire.throttled_fetches > 0 {
        let (throttled, fetches) = (count(wire.throttled_fetches), count(wire.fetches));
        parts.push(format!("{throttled} of {fetches} fetches delayed for a quota"));
    }
    parts.join(", ")
}

/// How partitions differ, where one is more than 10 % above another.
fn partitions(record: &Record) -> String {
    let Some(found) = record.partitions.as_ref().filter(|found| found.differ()) else { return String::new() };
    let messages = format!("{} took {} messages each", count(found.partitions), between(found.acknowledged, count));
    let latency = latencies(found.p50_ns, found.p99_ns);
    if latency.is_empty() { messages } else { format!("{messages}; {} {latency}", record.headline) }
}

/// How consumers differ, likewise.
fn consumers(record: &Record) -> Vec<String> {
    let groups = record.consumers.as_ref().map(|consumers| consumers.groups.as_slice()).unwrap_or_default();
    let sentence = |group: &ConsumerSpread| {
        let name = if groups.len() > 1 { format!("group {}: ", record.group_name(group.group)) } else { String::new() };
        let messages = format!("{} received {} messages each", count(group.consumers), between(group.consumed, count));
        let latency = latencies(group.end_to_end_p50_ns, group.end_to_end_p99_ns);
        format!("{name}{messages}{}", if latency.is_empty() { latency } else { format!("; end to end {latency}") })
    };
    groups.iter().filter(|group| group.differs()).map(sentence).collect()
}

/// Median and 99th percentile, as far as they are known.
fn latencies(p50_ns: Option<Extent>, p99_ns: Option<Extent>) -> String {
    let known = [("p50", p50_ns), ("p99", p99_ns)].into_iter().filter_map(|(name, ns)| Some((name, ns?)));
    let texts = known.map(|(name, ns)| format!("{name} {}", between(ns, |ns| duration(ns as f64))));
    texts.collect::<Vec<_>>().join(", ")
}

fn between(extent: Extent, text: impl Fn(u64) -> String) -> String {
    format!("from {} to {}", text(extent.smallest), text(extent.largest))
}

/// "at 2.10 s: the next acknowledgement after 1.84 s, longest gap 1.84 s, 95 % of 50,000/s held again after 2.20 s".
fn outage(outage: &Outage) -> String {
    let after = |ns: u64| duration(ns as f64);
    let first = match outage.first_acknowledgement_ns {
        Some(0) => "the next acknowledgement too".to_owned(),
        Some(first_ns) => format!("the next acknowledgement after {}", after(first_ns)),
        None => "no acknowledgement followed".to_owned(),
    };
    let expected = rate(outage.expected_per_second);
    let recovered = match outage.recovered_ns {
        Some(recovered_ns) => format!("95 % of {expected}/s held again after {}", after(recovered_ns)),
        None => format!("95 % of {expected}/s not held again"),
    };
    let paused = match (outage.client_paused_ns, outage.caused_by_client) {
        (0, _) => String::new(),
        (paused_ns, false) => format!("; {SLEEPER} for {} of the gap", after(paused_ns)),
        (paused_ns, true) => format!("; {SLEEPER} for {} of the gap: it may not be the broker's", after(paused_ns)),
    };
    format!("{}: {first}, longest gap {}, {recovered}{paused}", outage.when(), after(outage.longest_gap_ns))
}

/// The backlog that consumers found: how it was built and drained, and what the producers saw meanwhile.
fn backlog(backlog: &Backlog, record: &Record) -> Vec<String> {
    let built = match (backlog.messages, backlog.payload_bytes) {
        (Some(messages), Some(payload)) => {
            format!("{} messages, {} of payload, when the consumers began", count(messages), bytes(payload as f64))
        }
        _ => "not there when the load ended, so no consumer began before".to_owned(),
    };
    let drained = backlog.groups.iter().map(|group| {
        let is_alone = backlog.groups.len() < 2;
        let name = if is_alone { String::new() } else { format!("group {}: ", record.group_name(group.group)) };
        name + &drained(group)
    });
    let phases =
        [("build", Some(&backlog.build)), ("drain", backlog.drain.as_ref()), ("after", backlog.after.as_ref())];
    let phases = phases.into_iter().filter_map(|(name, phase)| Some(producers(name, phase?)));
    std::iter::once(built).chain(drained).chain(phases).collect()
}

fn drained(group: &GroupDrain) -> String {
    let first = group.first_arrival_ns.map(|ns| format!("; first message after {}", duration(ns as f64)));
    let drained = match (group.duration_ns, group.received_per_second) {
        (Some(took_ns), per_second) => format!(
            "caught up after {} and {} messages, {}/s; {} behind then",
            duration(took_ns as f64),
            count(group.received),
            rate(per_second.unwrap_or_default()),
            count(group.behind)
        ),
        (None, _) => format!(
            "not caught up when the load ended: {} received, {} behind",
            count(group.received),
            count(group.behind)
        ),
    };
    drained + &first.unwrap_or_default()
}

/// What the producers saw.
fn producers(name: &str, phase: &BacklogPhase) -> String {
    let latency = phase.response.as_ref().map_or_else(String::new, |response| {
        format!(", response p50 {}, p99 {}", duration(response.p50_ns as f64), duration_or_dash(response.p99_ns))
    });
    format!(
        "{name} {}: {}/s sent, {}/s acknowledged, {}/s consumed{latency}",
        duration(phase.duration_ns as f64),
        rate(phase.sent_per_second),
        rate(phase.messages_per_second),
        rate(phase.consumed_per_second)
    )
}

/// How connections without messages were opened, and what became of them.
fn idle_connections(idle: &IdleConnections) -> Vec<String> {
    let memory = idle.memory_bytes_each.map(|each| format!("; {} of memory each", bytes(each as f64)));
    let opened = format!(
        "{} of {} open at the end; {}/s were opened{}",
        count(idle.open_at_end),
        count(idle.wanted),
        rate(idle.opened_per_second),
        memory.unwrap_or_default()
    );
    let ready = idle.time_to_ready.as_ref().map(|ready| {
        let p99 = ready.p99_ns.map(|p99| format!(", p99 {}", duration(p99 as f64))).unwrap_or_default();
        format!(
            "ready {} after each was due (p50){p99}, max {}",
            duration(ready.p50_ns as f64),
            duration(ready.max_ns as f64)
        )
    });
    let replaced = (idle.replaced > 0).then(|| format!("{} were replaced", count(idle.replaced)));
    let missing = [("failed", &idle.failed), ("lost", &idle.lost)];
    let missing = missing
        .into_iter()
        .flat_map(|(what, found)| errors(found).into_iter().map(move |one| format!("{what}: {one}")));
    [Some(opened), ready, replaced].into_iter().flatten().chain(missing).collect()
}

/// Errors by class.
pub fn errors(errors: &[ErrorCount]) -> Vec<String> {
    let sentence = |error: &ErrorCount| {
        let first = match (error.class, error.first_at_ns) {
            // When consumers crashed is not known.
            (FailureClass::Crashed, _) => String::new(),
            (_, 0) => " (first before the measured phase)".to_owned(),
            (_, at_ns) => format!(" (first after {})", duration(at_ns as f64)),
        };
        format!("{} × {}: {}{first}", count(error.count), error.class, error.first_message)
    };
    errors.iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_before_the_measured_phase_is_told_so() {
        let error = |class, first_at_ns| ErrorCount { class, count: 2, first_message: "gone".to_owned(), first_at_ns };
        let told = errors(&[
            error(FailureClass::Timeout, 1_500_000_000),
            error(FailureClass::ConnectionLost, 0),
            error(FailureClass::Crashed, 0),
        ]);
        assert_eq!(
            told,
            [
                "2 × timeout: gone (first after 1.50 s)",
                "2 × connection-lost: gone (first before the measured phase)",
                "2 × crashed: gone"
            ]
        );
        let found = Outage {
            begin_ns: 0,
            longest_gap_ns: 3_000_000_000,
            first_acknowledgement_ns: Some(3_000_000_000),
            recovered_ns: None,
            expected_per_second: 1000.0,
            client_paused_ns: 0,
            caused_by_client: false,
            in_window_ns: 500_000_000,
        };
        assert!(outage(&found).starts_with("before the measured phase: the next acknowledgement after 3.00 s"));
        let again = Outage { first_acknowledgement_ns: Some(0), ..found };
        assert!(outage(&again).starts_with("before the measured phase: the next acknowledgement too, longest gap"));
        assert!(outage(&Outage { begin_ns: 1_000_000_000, ..found }).starts_with("at 1.00 s: "));
    }
}
