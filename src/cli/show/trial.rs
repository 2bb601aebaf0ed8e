//! One trial in full: its verdict, its figures, and its environment.

use super::errors::errors;
use super::latency;
use super::page::{LABEL_WIDTH, Page, Tone};
use super::sparkline::{Fold, sparkline};
use super::words;
use crate::record::readable::{bytes, count, duration, percent, plain, rate};
use crate::record::{
    Client, GroupVerification, HostLoad, LimitedBy, Limiter, LoadModel, Phase, Reason, ReasonKind, Record, SeriesRow,
    Status, Transactions, Verification, Wire,
};

/// From this fairness index on, producers' shares are not worth a line.
const EVEN_SHARES: f64 = 0.99;

/// A shorter time to catch up is not shown: messages in flight when the load ends take about as long.
const SHOWN_CATCH_UP_NS: u64 = 1_000_000_000;

/// Every section, with throughput and latency over time.
pub(super) fn whole(page: &mut Page, record: &Record, series: &[SeriesRow]) {
    heading(page, record);
    verdict(page, record);
    figures(page, record);
    course(page, record, series);
    super::percentile_curve::draw(page, record);
    page.blank();
    client(page, record);
    super::place::place(page, record);
}

/// The sections that are printed when the trial has just ended.
pub(super) fn summary(page: &mut Page, record: &Record) {
    heading(page, record);
    verdict(page, record);
    figures(page, record);
}

fn heading(page: &mut Page, record: &Record) {
    let point: Vec<String> = record.point.iter().map(|(key, value)| format!("{key} = {}", plain(value))).collect();
    let model = match record.load_model {
        LoadModel::Open => "open loop",
        LoadModel::Closed => "closed loop",
    };
    let rest = [point.join(", "), format!("trial {}", record.trial), model.to_owned()];
    let rest: Vec<&str> = rest.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let name = page.paint(Tone::Strong, &record.scenario_name);
    page.line(&format!("{name}  {}", rest.join(" · ")));
}

fn verdict(page: &mut Page, record: &Record) {
    let limit = &record.verdict.limited_by;
    if record.is_demonstration() {
        page.led(
            "◦ demonstration  ",
            Tone::Doubtful,
            "The broker runs inside this process, so its figures describe no real broker.",
        );
        for doubt in record.verdict.reasons.iter().filter(|reason| reason.kind != ReasonKind::Embedded) {
            finding(page, "!", doubt, Tone::Doubtful);
        }
        return notes(page, record);
    }
    if record.is_without_broker() {
        let text = "The null broker answers within this process: the figures are those of brokermark and this machine.";
        page.led("◦ no broker  ", Tone::Doubtful, text);
    }
    let (lead, tone, word) = match (record.status, record.verdict.valid) {
        (Status::Failed, _) => ("✗ failed  ", Tone::Bad, record.error.as_deref().unwrap_or_default()),
        (_, true) => ("✓ valid  ", Tone::Good, ""),
        (Status::Running, false) => ("✗ unfinished  ", Tone::Bad, ""),
        (Status::Interrupted, false) => ("✗ interrupted  ", Tone::Bad, ""),
        (Status::Stalled, false) => ("✗ stalled  ", Tone::Bad, ""),
        (Status::Completed, false) => ("✗ not to be trusted  ", Tone::Bad, ""),
    };
    let text = match record.status {
        Status::Failed => word.to_owned(),
        _ => format!("{}. {}", limited_by(limit), limit.evidence),
    };
    page.led(lead, tone, &text);
    for reason in record.verdict.reasons.iter().filter(|_| record.status != Status::Failed) {
        finding(page, "✗", reason, Tone::Bad);
    }
    notes(page, record);
}

/// In words: to be limited by the schedule is what an open loop is for, and "unknown" means that no limit was found.
fn limited_by(limit: &LimitedBy) -> String {
    match limit.limiter {
        Limiter::Schedule => "limited by: schedule, as wanted".to_owned(),
        Limiter::Unknown => "limited by: unknown, no limit was found".to_owned(),
        limiter => format!("limited by: {limiter}"),
    }
}

fn notes(page: &mut Page, record: &Record) {
    for note in &record.verdict.notes {
        finding(page, "!", note, Tone::Doubtful);
    }
}

/// A cross marks a reason against the figures, an exclamation mark a note.
fn finding(page: &mut Page, mark: &str, reason: &Reason, tone: Tone) {
    page.led(&format!("  {mark} {}  ", reason.kind), tone, &reason.evidence);
    page.led("    → ", Tone::Faint, &reason.advice);
}

/// Prints nothing for a trial that failed before its first message.
fn figures(page: &mut Page, record: &Record) {
    let counts = &record.counts;
    if record.status == Status::Failed && counts.attempted == 0 {
        return;
    }
    page.blank();
    let mut account = format!(
        "{} attempted = {} acknowledged + {} failed + {} unresolved",
        count(counts.attempted),
        count(counts.acknowledged),
        count(counts.failed),
        count(counts.unresolved)
    );
    if counts.unsent > 0 {
        account += &format!("; {} were due and never sent", count(counts.unsent));
    }
    page.labelled("messages", &account);
    words::unresolved(page, counts.unresolved);
    super::shares::shares(page, record);
    throughput(page, record);
    super::spread::partitions(page, record);
    super::spread::consumers(page, record);
    transactions(page, record);
    super::outages::outages(page, record);
    page.blank();
    latency::table(page, record);
    words::latencies(page, record);
    super::parts::table(page, record);
    page.blank();
    super::backlog::backlog(page, record);
    errors(page, "errors", &record.errors);
    errors(page, "receiving", &record.receive_errors);
    verification(page, record);
    super::pipeline::pipeline(page, record);
    thresholds(page, record);
}

fn transactions(page: &mut Page, record: &Record) {
    if let Some(Transactions { committed, aborted, commit: _ }) = record.transactions {
        page.labelled("transactions", &format!("{} committed, {} aborted", count(committed), count(aborted)));
    }
}

fn throughput(page: &mut Page, record: &Record) {
    let throughput = &record.throughput;
    let mut carried = format!(
        "{} messages/s, {}/s of payload, in a window of {}",
        rate(throughput.messages_per_second),
        bytes(throughput.payload_bytes_per_second),
        duration(throughput.window_ns as f64)
    );
    if let Some(target) = throughput.target_per_second {
        carried += &format!("; wanted {}/s, sent {}/s", rate(target), rate(throughput.sent_per_second));
    }
    let more = throughput.target_per_second.is_some_and(|target| throughput.messages_per_second > target);
    if more && throughput.warm_up_messages > 0 {
        carried +=
            &format!("; {} messages of the warm-up were answered in the window", count(throughput.warm_up_messages));
    }
    if let Some(whole) = &throughput.until_last_acknowledgement {
        carried += &format!(
            "; {}/s over the {} until the last acknowledgement",
            rate(whole.messages_per_second),
            duration(whole.duration_ns as f64)
        );
    }
    page.labelled("throughput", &carried);
    if let Some(shares) = throughput.producer_shares.filter(|shares| shares.jain_index < EVEN_SHARES) {
        let text = format!(
            "producers sent from {} to {} messages each (Jain's fairness index {:.3})",
            count(shares.smallest_messages),
            count(shares.largest_messages),
            shares.jain_index
        );
        page.labelled("", &text);
    }
    if let Some(wire) = &record.wire {
        page.labelled("wire", &crossed(wire));
    }
    if let (Some(consumed), Some(per_second)) = (record.counts.consumed, throughput.consumed_per_second) {
        page.labelled("consumed", &format!("{} messages, {}/s", count(consumed), rate(per_second)));
    }
}

fn crossed(wire: &Wire) -> String {
    let mut parts =
        vec![format!("{}/s raw, {}/s sent", bytes(wire.raw_bytes_per_second), bytes(wire.sent_bytes_per_second))];
    if let Some(ratio) = wire.compression_ratio {
        parts.push(format!("compressed {ratio:.2} times"));
    }
    if let Some(per_core) = wire.raw_bytes_per_cpu_second {
        parts.push(format!("{} raw for each second of CPU", bytes(per_core)));
    }
    parts.push(format!("{} requests", count(wire.requests)));
    for (number, what) in [(wire.retried, "sent again"), (wire.quota_refusals, "refused for a quota")] {
        if number > 0 {
            parts.push(format!("{} {what}", count(number)));
        }
    }
    if wire.throttled_fetches > 0 {
        let (throttled, fetches) = (count(wire.throttled_fetches), count(wire.fetches));
        parts.push(format!("{throttled} of {fetches} fetches delayed for a quota"));
    }
    parts.join(", ")
}

fn verification(page: &mut Page, record: &Record) {
    let Some(found) = &record.verification else { return };
    // Older records have the sums of all groups alone.
    let sum = GroupVerification {
        received: found.received,
        lost: found.lost,
        unread: found.unread,
        undecided: found.undecided,
        not_acknowledged_but_stored: found.not_acknowledged_but_stored,
        duplicated: found.duplicated,
        redelivered: found.redelivered,
        reordered: found.reordered,
        corrupt: found.corrupt,
        ..GroupVerification::default()
    };
    let groups = if found.groups.is_empty() { std::slice::from_ref(&sum) } else { &found.groups };
    for (index, group) in groups.iter().enumerate() {
        let name = if groups.len() > 1 { format!("group {}: ", group.group) } else { String::new() };
        let label = if index == 0 { "verified" } else { "" };
        let task = group.task.as_ref().map_or_else(String::new, |task| format!("({}) ", super::backlog::task(task)));
        page.labelled(label, &format!("{name}{task}{}", verified(group, found)));
    }
    let elsewhere = [("foreign", found.foreign), ("without a check of their order", found.order_unchecked)];
    let listed: Vec<String> = listed(&elsewhere);
    if !listed.is_empty() {
        page.labelled("", &listed.join(", "));
    }
    words::found(page, &[numbers(&sum).as_slice(), &elsewhere].concat());
}

/// What can be found in a group, with its name.
fn numbers(group: &GroupVerification) -> [(&'static str, u64); 8] {
    [
        ("lost", group.lost),
        ("unread", group.unread),
        ("undecided", group.undecided),
        ("not acknowledged but stored", group.not_acknowledged_but_stored),
        ("duplicated", group.duplicated),
        ("redelivered", group.redelivered),
        ("reordered", group.reordered),
        ("corrupt", group.corrupt),
    ]
}

/// One group's line.
fn verified(group: &GroupVerification, found: &Verification) -> String {
    let listed = listed(&numbers(group));
    let mut text = match (listed.is_empty(), found.unordered) {
        (true, 0) => "each exactly once, in order and whole".to_owned(),
        (true, _) => "each exactly once and whole; the broker promises no order".to_owned(),
        (false, _) => format!("{}; otherwise as sent", listed.join(", ")),
    };
    if let (Some(consumer_lag), Some(catch_up_ns)) = (group.consumer_lag_at_load_end, group.catch_up_ns)
        && consumer_lag > 0
        && catch_up_ns >= SHOWN_CATCH_UP_NS
    {
        text += &format!(
            "; {} behind when the load ended, caught up after {}",
            count(consumer_lag),
            duration(catch_up_ns as f64)
        );
    }
    if found.saturated {
        text += "; memory exceeded, so these are lower bounds";
    }
    format!("{} received: {text}", count(group.received))
}

/// The numbers above 0, with their names.
fn listed(numbers: &[(&str, u64)]) -> Vec<String> {
    let above = numbers.iter().filter(|(_, number)| *number > 0);
    above.map(|(name, number)| format!("{} {name}", count(*number))).collect()
}

fn thresholds(page: &mut Page, record: &Record) {
    let width = record.thresholds.iter().map(|outcome| outcome.text.chars().count()).max().unwrap_or(0);
    for (index, outcome) in record.thresholds.iter().enumerate() {
        let (mark, tone) = if outcome.held { ("✓", Tone::Good) } else { ("✗", Tone::Bad) };
        let label = if index == 0 { "thresholds" } else { "" };
        let line = format!(
            "{}{} {:width$}  {}",
            page.paint(Tone::Faint, &format!("{label:LABEL_WIDTH$}")),
            page.paint(tone, mark),
            outcome.text,
            outcome.explanation
        );
        page.line(&line);
    }
}

/// Throughput and 99th percentile second by second, measured seconds only.
fn course(page: &mut Page, record: &Record, series: &[SeriesRow]) {
    let rows: Vec<&SeriesRow> = series.iter().filter(|row| row.phase == Phase::Measure && row.full).collect();
    if rows.len() < 2 {
        return;
    }
    let width = page.width().saturating_sub(LABEL_WIDTH + 32).max(10);
    let throughput: Vec<Option<f64>> = rows.iter().map(|row| Some(row.acknowledged_per_second())).collect();
    let slowest: Vec<Option<f64>> = rows.iter().map(|row| row.p99_ns.map(|value| value as f64)).collect();
    let range = |figures: &[Option<f64>], text: fn(f64) -> String| {
        let known = || figures.iter().flatten().copied();
        format!("{} … {}", text(known().fold(f64::INFINITY, f64::min)), text(known().fold(0.0, f64::max)))
    };
    page.blank();
    let blocks = |page: &Page, figures: &[Option<f64>], fold| match page.has_charts() {
        true => sparkline(figures, width, fold) + "  ",
        false => String::new(),
    };
    let label = |page: &Page, text: &str| page.paint(Tone::Faint, &format!("{text:LABEL_WIDTH$}"));
    let drawn = blocks(page, &throughput, Fold::Mean);
    let line = format!("{}{drawn}{} messages/s", label(page, "each second"), range(&throughput, rate));
    page.line(&line);
    if slowest.iter().any(Option::is_some) {
        let name = record.headline;
        let drawn = blocks(page, &slowest, Fold::Max);
        let line = format!("{}{drawn}{} {name} p99", label(page, ""), range(&slowest, duration));
        page.line(&line);
    }
    // What a share lacks of its own messages is no lag.
    let lag: Vec<Option<f64>> = rows.iter().map(|row| furthest_behind(row)).collect();
    if record.share.is_none() && lag.iter().any(Option::is_some) {
        let drawn = blocks(page, &lag, Fold::Max);
        let line = format!("{}{drawn}{} messages of lag", label(page, ""), range(&lag, |lag| count(lag as u64)));
        page.line(&line);
    }
}

/// Lag of the group that lacks the most.
fn furthest_behind(row: &SeriesRow) -> Option<f64> {
    row.groups.iter().filter_map(|group| group.consumer_lag).max().map(|lag| lag.max(0) as f64)
}

fn client(page: &mut Page, record: &Record) {
    let client = &record.client;
    let mut parts = vec![client.cores()];
    if let Some(cpu) = client.cpu_ns_per_message {
        parts.push(format!("{} CPU a message", duration(cpu)));
    }
    if let (Some(name), Some(cores)) = (&client.busiest_thread, client.busiest_thread_cores) {
        parts.push(format!("busiest thread '{name}' {}", percent(cores)));
    }
    if let (Some(name), Some(cores)) = (&client.busiest_task, client.busiest_task_cores) {
        parts.push(format!("busiest task '{name}' {}", percent(cores)));
    }
    if let Some(peak) = client.peak_memory_bytes {
        parts.push(format!("{} at most", bytes(peak as f64)));
    }
    if client.queue_full_ns > 0 {
        parts.push(format!("{} waiting for a full queue", duration(client.queue_full_ns as f64)));
    }
    if client.unmatched_answers > 0 {
        parts.push(format!("{} answers came too late for their messages", count(client.unmatched_answers)));
    }
    page.labelled("client", &parts.join(", "));
    if let Some(load) = &record.host_load {
        page.labelled("machine", &machine(load, client, record.environment.cores));
    }
    if let Some(usage) = &record.broker_usage {
        page.labelled("broker uses", &super::place::broker_usage(usage));
    }
}

fn machine(load: &HostLoad, client: &Client, cores: usize) -> String {
    let others = (load.system_cpu_busy - client.cores_used / cores.max(1) as f64).max(0.0);
    let mut parts = vec![
        format!("{} busy ({} with other programs)", percent(load.system_cpu_busy), percent(others)),
        format!("{} withheld by the hypervisor", percent(load.steal)),
    ];
    let waited = [
        (load.cgroup_throttled_share, "withheld by a CPU quota"),
        (load.cpu_pressure_share, "of the time a task waited for a core"),
        (load.memory_pressure_share, "of it for memory"),
        (load.io_pressure_share, "of it for disks"),
    ];
    let known = waited.into_iter().filter_map(|(share, what)| Some((share.filter(|share| *share > 0.0)?, what)));
    parts.extend(known.map(|(share, what)| format!("{} {what}", percent(share))));
    if let Some(pauses) = client.pauses {
        parts.push(format!(
            "1 in 100 wake-ups {} late or later, none over {}",
            duration(pauses.p99_ns as f64),
            duration(pauses.max_ns as f64)
        ));
    }
    parts.join(", ")
}
