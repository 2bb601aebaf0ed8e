//! What only some trials have: a schedule of several parts, groups of consumers that differ, unequal producers, outages, a backlog.

use super::{Part, Section, texts};
use crate::record::readable::{bytes, count, duration, rate};
use crate::record::{BacklogPhase, Record};
use crate::report::figure::Table;
use crate::report::svg::escape;
use crate::report::svg::unit::moment;

/// From this fairness index on, producers' shares are not worth a line.
const EVEN_SHARES: f64 = 0.99;

pub fn section(record: &Record) -> Option<Section> {
    let tables = [
        ("Parts of the schedule", parts(record)),
        ("Outages", outages(record)),
        ("Backlog", backlog(record)),
        ("How groups drained it", drains(record)),
        ("Groups of consumers", groups(record)),
        ("Shares", shares_of_run(record)),
        ("The broker's processes", sources(record)),
        ("Errors", errors(record)),
    ];
    let known = tables.into_iter().filter(|(_, table)| !table.rows.is_empty());
    let mut all: Vec<Part> =
        known.map(|(title, table)| Part::Html(format!("<h3>{title}</h3>{}", table.html()))).collect();
    all.extend(shares(record).map(|text| Part::Html(format!("<p>{}</p>", escape(&text)))));
    Section::of("details", "Parts, groups and errors", all)
}

fn p99(latency: &Option<crate::record::Latency>) -> String {
    latency.as_ref().and_then(|latency| latency.p99_ns).map_or("–".to_owned(), |ns| duration(ns as f64))
}

fn known(ns: Option<u64>) -> String {
    ns.map_or("–".to_owned(), |ns| duration(ns as f64))
}

fn parts(record: &Record) -> Table {
    let row = |part: &crate::record::SchedulePart| {
        vec![
            part.kind.to_string(),
            moment(part.begin_ns as f64 / 1e9),
            duration(part.duration_ns as f64),
            rate(part.target_per_second),
            rate(part.messages_per_second),
            p99(&part.response),
        ]
    };
    let heads = texts(&["part", "from", "lasted", "wanted/s", "achieved/s", "response p99"]);
    Table { heads, rows: record.parts.iter().map(row).collect(), ..Table::default() }
}

fn outages(record: &Record) -> Table {
    let row = |outage: &crate::record::Outage| {
        vec![
            moment(outage.begin_ns as f64 / 1e9),
            duration(outage.longest_gap_ns as f64),
            known(outage.first_acknowledgement_ns),
            known(outage.recovered_ns),
            rate(outage.expected_per_second),
            paused(outage),
        ]
    };
    let heads = texts(&[
        "from (measured time)",
        "longest gap",
        "until the first acknowledgement",
        "until the rate was held",
        "expected/s",
        "of the longest gap, a thread of the load generator was not woken for",
    ]);
    Table { heads, rows: record.outages.iter().map(row).collect(), ..Table::default() }
}

fn paused(outage: &crate::record::Outage) -> String {
    let paused = duration(outage.client_paused_ns as f64);
    if outage.caused_by_client { format!("{paused}: it may not be the broker's") } else { paused }
}

fn backlog(record: &Record) -> Table {
    let Some(backlog) = &record.backlog else { return Table::default() };
    let phases =
        [("build", Some(&backlog.build)), ("drain", backlog.drain.as_ref()), ("after", backlog.after.as_ref())];
    let row = |(name, phase): (&str, &BacklogPhase)| {
        vec![
            name.to_owned(),
            duration(phase.duration_ns as f64),
            rate(phase.sent_per_second),
            rate(phase.messages_per_second),
            rate(phase.consumed_per_second),
            p99(&phase.response),
        ]
    };
    let rows = phases.into_iter().filter_map(|(name, phase)| Some(row((name, phase?)))).collect();
    let heads = texts(&["phase", "lasted", "sent/s", "acknowledged/s", "received/s", "response p99"]);
    let size = backlog.messages.map(|messages| {
        let payload = backlog.payload_bytes.map(|size| format!(", {} of payload", bytes(size as f64)));
        format!("{} messages waited{} when the consumers began.", count(messages), payload.unwrap_or_default())
    });
    Table { note: size.unwrap_or_default(), heads, rows }
}

fn drains(record: &Record) -> Table {
    let groups = record.backlog.iter().flat_map(|backlog| &backlog.groups);
    let row = |group: &crate::record::GroupDrain| {
        vec![
            group.group.to_string(),
            known(group.first_arrival_ns),
            known(group.duration_ns),
            count(group.received),
            group.received_per_second.map_or("–".to_owned(), rate),
        ]
    };
    let heads = texts(&["group", "first message after", "caught up after", "received", "received/s"]);
    Table { heads, rows: groups.map(row).collect(), ..Table::default() }
}

/// One row says nothing that the ledger does not.
fn groups(record: &Record) -> Table {
    let Some(found) = record.verification.as_ref().filter(|found| found.groups.len() > 1) else {
        return Table::default();
    };
    let row = |group: &crate::record::GroupVerification| {
        let numbers = [group.received, group.lost, group.unread, group.duplicated, group.redelivered, group.reordered];
        let behind = group.consumer_lag_at_load_end.map_or("–".to_owned(), count);
        std::iter::once(group.group.to_string())
            .chain(numbers.map(count))
            .chain([behind, known(group.catch_up_ns)])
            .collect()
    };
    let heads = texts(&[
        "group",
        "received",
        "lost",
        "unread",
        "duplicated",
        "redelivered",
        "reordered",
        "behind at the end",
        "caught up after",
    ]);
    let note = "Duplicated: received again, and the broker did not announce it. Redelivered: received again, as the broker announced. \
                Unread: not received when the wait for consumers ended.";
    Table { note: note.to_owned(), heads, rows: found.groups.iter().map(row).collect() }
}

/// What each process had, where several ran the scenario together.
fn shares_of_run(record: &Record) -> Table {
    let row = |share: &crate::record::MergedShare| {
        vec![
            format!("{} of {}", share.share.number, share.share.count),
            share.hostname.clone().unwrap_or_else(|| "–".to_owned()),
            duration(share.window_ns as f64),
            rate(share.messages_per_second),
            format!("{:.2}", share.cores_used),
        ]
    };
    let heads = texts(&["share", "machine", "measured for", "messages/s", "cores"]);
    Table { heads, rows: record.shares.iter().map(row).collect(), ..Table::default() }
}

/// One that told everything is in the charts and among the large figures already.
fn sources(record: &Record) -> Table {
    let all = record.broker_usage.iter().flat_map(|usage| &usage.sources);
    let is_alone = all.clone().count() == 1;
    let shown = all.filter(|source| !is_alone || source.failures > 0);
    let row = |source: &crate::record::BrokerSource| {
        vec![
            source.name.clone(),
            source.cores_used.map_or("–".to_owned(), |cores| format!("{cores:.2}")),
            source.memory_bytes_max.map_or("–".to_owned(), |most| bytes(most as f64)),
            count(source.failures),
            source.first_failure.clone().unwrap_or_default(),
        ]
    };
    let heads = texts(&["process or endpoint", "cores", "most memory", "samples that failed", "why the first one did"]);
    Table { heads, rows: shown.map(row).collect(), ..Table::default() }
}

fn errors(record: &Record) -> Table {
    let of = |kind: &'static str, errors: &[crate::record::ErrorCount]| -> Vec<Vec<String>> {
        let row = |error: &crate::record::ErrorCount| {
            vec![
                kind.to_owned(),
                error.class.to_string(),
                count(error.count),
                moment(error.first_at_ns as f64 / 1e9),
                error.first_message.clone(),
            ]
        };
        errors.iter().map(row).collect()
    };
    let rows = [of("sending", &record.errors), of("receiving", &record.receive_errors)].concat();
    Table {
        heads: texts(&["while", "class", "count", "first at (measured time)", "its message"]),
        rows,
        ..Table::default()
    }
}

fn shares(record: &Record) -> Option<String> {
    let shares = record.throughput.producer_shares.filter(|shares| shares.jain_index < EVEN_SHARES)?;
    Some(format!(
        "Producers did not send alike: from {} to {} messages each (Jain's fairness index {:.3}).",
        count(shares.smallest_messages),
        count(shares.largest_messages),
        shares.jain_index
    ))
}
