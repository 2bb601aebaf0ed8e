//! One trial: its headline, and the tables of its latencies and of the parts of its schedule.

use std::borrow::Cow;

use super::setup::ran;
use super::verdict::{cause, is_demonstration, limit, trust};
use super::verified::SHOWN_CATCH_UP_NS;
use super::{Align, Column, Summary, Table, Tone, above_zero, or_dash, point, several, stated, uncapital};
use crate::record::readable::{count, duration, rate};
use crate::record::{
    GroupVerification, Headline, Latencies, Latency, LoadModel, Pipeline, ReasonKind, Record, SchedulePart, Status,
};
use crate::scenario::{ScheduleTable, units};

/// What a reader is to find within seconds.
pub fn summary(record: &Record) -> Summary {
    let point = point(&record.point);
    let context = [(!point.is_empty()).then_some(point), Some(format!("trial {}", record.trial)), Some(begun(record))];
    Summary {
        name: record.scenario_name.clone(),
        context: context.into_iter().flatten().collect(),
        ran: ran(&[record]),
        sentence: sentence(record),
        answers: std::iter::once(trust(record)).chain(limit(record)).collect(),
    }
}

/// When it began, to the minute.
pub fn begun(record: &Record) -> String {
    record.started_at.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// One trial among several: "trial 3, payload.size = 1KiB: 49,994 messages/s, response p50 1.29 ms, p99 3.06 ms, valid".
pub fn line(record: &Record) -> String {
    let point = point(&record.point);
    let name = [format!("trial {}", record.trial), point].into_iter().filter(|part| !part.is_empty());
    let latency = record.headline_latency().map(|latency| {
        let [p50, p99] = [(0.5, Some(latency.p50_ns)), (0.99, latency.p99_ns)].map(|(at, ns)| stated(latency, at, ns));
        format!(", {} p50 {p50}, p99 {p99}", record.headline)
    });
    let verdict = match record.verdict.kinds_against() {
        Some(kinds) if !is_demonstration(record) => format!("not valid: {kinds}"),
        Some(_) => "a demonstration".to_owned(),
        None if record.missed_a_threshold() => "valid, but a threshold was missed".to_owned(),
        None => "valid".to_owned(),
    };
    format!(
        "{}: {} messages/s{}, {verdict}",
        name.collect::<Vec<_>>().join(", "),
        rate(record.throughput.messages_per_second),
        latency.unwrap_or_default()
    )
}

/// "Held 20,000 messages/s; p99 3.60 ms; nothing lost."
pub fn sentence(record: &Record) -> String {
    if record.status == Status::Failed {
        return format!("The trial failed: {}.", cause(record));
    }
    let carried = match &record.pipeline {
        // What its producers did is told below.
        Some(pipeline) if pipeline.consumed > 0 => vec![worked_off(pipeline)],
        _ => [Some(carried(record)), tail(record)].into_iter().flatten().collect(),
    };
    let text = [vec![carried.join("; "), missing(record)], behind(record)].concat().join("; ");
    if is_demonstration(record) { format!("No real broker: {}.", uncapital(&text)) } else { format!("{text}.") }
}

/// "The pipeline wrote 11,757 rows/s to each of redis and mongodb".
fn worked_off(pipeline: &Pipeline) -> String {
    let rates: Vec<String> = pipeline.sinks.iter().map(|sink| rate(sink.written_per_second)).collect();
    match (pipeline.sinks.as_slice(), rates.as_slice()) {
        ([], _) => format!("The pipeline consumed {} messages/s", rate(pipeline.consumed_per_second)),
        ([before @ .., last], [one, others @ ..]) if !others.is_empty() && others.iter().all(|other| other == one) => {
            let before: Vec<&str> = before.iter().map(|sink| sink.name.as_str()).collect();
            format!("The pipeline wrote {one} rows/s to each of {} and {}", before.join(", "), last.name)
        }
        (sinks, rates) => {
            let rows: Vec<String> =
                sinks.iter().zip(rates).map(|(sink, rate)| format!("{rate} rows/s to {}", sink.name)).collect();
            format!("The pipeline wrote {}", rows.join(", "))
        }
    }
}

fn carried(record: &Record) -> String {
    let throughput = &record.throughput;
    let carried = rate(throughput.messages_per_second);
    let is_late = record.verdict.reasons.iter().any(|reason| reason.kind == ReasonKind::RateMissed);
    // Of a rate that changes, a mean says little.
    let (target, course) = (record.target_without_aborted(), course(record));
    let wanted = target.unwrap_or_default();
    if let Some(course) = course {
        return if is_late || throughput.messages_per_second < wanted * 0.95 {
            format!("Did not follow {course} messages/s: {carried} of {} on average", rate(wanted))
        } else {
            format!("Followed {course} messages/s")
        };
    }
    match target.filter(|_| record.load_model == LoadModel::Open) {
        Some(wanted) if is_late && throughput.messages_per_second >= wanted * 0.99 => {
            format!("Carried {carried} messages/s as wanted, but late")
        }
        Some(wanted) if is_late => format!("Carried {carried} of the {} messages/s that were wanted", rate(wanted)),
        Some(wanted) if throughput.messages_per_second < wanted * 0.95 => {
            format!("Answered {carried} of the {} messages/s that were wanted", rate(wanted))
        }
        Some(_) => format!("Held {carried} messages/s"),
        None => format!("Carried {carried} messages/s"),
    }
}

/// The rates of a ramp at both ends of what was measured, or those of steps.
fn course(record: &Record) -> Option<String> {
    let tables = record.tables();
    match tables.load.schedule? {
        ScheduleTable::Ramp { from, to, over } => {
            let (units::Rate::MessagesPerSecond(from), units::Rate::MessagesPerSecond(to)) = (from.0, to.0) else {
                return None;
            };
            let at = |ns: f64| rate(from + (to - from) * (ns / over.as_nanos() as f64).min(1.0));
            let begin_ns = tables.run.limits.warm_up.as_nanos() as f64;
            Some(format!("{} → {}", at(begin_ns), at(begin_ns + record.throughput.window_ns as f64)))
        }
        ScheduleTable::Steps { .. } => {
            let rates: Vec<String> = record.parts.iter().map(|part| rate(part.target_per_second)).collect();
            match rates.as_slice() {
                [] | [_] => None,
                [first, .., last] if rates.len() > MAX_STEPS => Some(format!("{first} … {last}")),
                few => Some(few.join(" → ")),
            }
        }
        _ => None,
    }
}

/// Steps that a sentence names.
const MAX_STEPS: usize = 4;

/// Groups that received the last messages long after the load, which a sentence on the whole trial must not hide.
fn behind(record: &Record) -> Vec<String> {
    let groups = record.verification.as_ref().map(|found| found.groups.as_slice()).unwrap_or_default();
    let late = |group: &GroupVerification| {
        let behind = duration(group.catch_up_ns.filter(|ns| *ns >= SHOWN_CATCH_UP_NS)? as f64);
        let name = if groups.len() > 1 { format!("group {}", group.title()) } else { "consumers".to_owned() };
        group.consumer_lag_at_load_end.filter(|lag| *lag > 0).map(|_| format!("{name} ended {behind} behind"))
    };
    groups.iter().filter_map(late).collect()
}

fn tail(record: &Record) -> Option<String> {
    let latency = record.headline_latency()?;
    match latency.p99_ns {
        Some(p99) => Some(format!("p99 {}", duration(p99 as f64))),
        None => latency.supports(0.5).then(|| format!("median {}", duration(latency.p50_ns as f64))),
    }
}

/// What is missing, or that nothing is.
fn missing(record: &Record) -> String {
    let (counts, aborted) = (&record.counts, record.aborted_on_purpose());
    let failed = counts.failed.saturating_sub(aborted);
    let outcomes = [(counts.unsent, "never sent"), (failed.saturating_add(counts.unresolved), "not acknowledged")];
    let above = outcomes.into_iter().filter(|(number, _)| *number > 0);
    let mut found: Vec<String> =
        above.map(|(number, outcome)| format!("{} {outcome}", several(number as usize, "message"))).collect();
    let nothing = match &record.verification {
        Some(verified) => {
            // Of a share, that is all which its producers sent.
            let undecided = if record.share.is_some() { 0 } else { verified.undecided };
            found.extend(above_zero(&[
                (undecided, "not known to have arrived"),
                (verified.lost, "lost"),
                (verified.unread, "not read"),
                (verified.removed, "removed by the broker's rules"),
                (verified.duplicated, "delivered twice"),
                (verified.corrupt, "damaged"),
            ]));
            if record.share.is_some() {
                "only all shares together tell what was lost"
            } else if verified.saturated {
                "no loss found, though not every message was verified"
            } else {
                "nothing lost"
            }
        }
        None if aborted > 0 => "every message acknowledged but those of aborted transactions",
        None => "every message acknowledged",
    };
    if found.is_empty() { nothing.to_owned() } else { found.join(", ") }
}

/// The latencies that a trial has, by name; the headline is strong.
///
/// Of several groups of consumers, each has its own: one may be quick where another one is far behind.
pub fn latencies(record: &Record) -> Vec<(Cow<'static, str>, &Latency)> {
    let Latencies { response, service, schedule_delay, end_to_end, end_to_end_by_group: groups } = &record.latency;
    let before = [("response", response), ("service", service), ("schedule delay", schedule_delay)];
    let before = before.map(|(name, latency)| (Cow::from(name), latency.as_ref()));
    let end_to_end = (Cow::from(END_TO_END), end_to_end.as_ref().filter(|_| groups.is_empty()));
    let by_group = groups.iter().map(|of| (format!("{END_TO_END}, {}", of.group).into(), of.end_to_end.as_ref()));
    let commit = record.transactions.as_ref().and_then(|transactions| transactions.commit.as_ref());
    let all = before.into_iter().chain([end_to_end]).chain(by_group).chain([(Cow::from("commit"), commit)]);
    all.filter_map(|(name, latency)| Some((name, latency?))).collect()
}

/// How the latency from when a message was due to when it was received is called.
pub const END_TO_END: &str = "end to end";

/// A figure of a latency, in words.
type Statistic = fn(&Latency) -> String;

/// Rows are latencies, columns percentiles; `None` where nothing was recorded.
pub fn latency_table(record: &Record) -> Option<Table> {
    let rows = latencies(record);
    let tone = |name: &str| if name == record.headline.to_string() { Tone::Strong } else { Tone::Plain };
    let names = rows.iter().map(|(name, _)| (tone(name), format!("{name:<FIRST_COLUMN$}")));
    let mut columns = vec![Column::toned("latency", Align::Left, Column::KEEP, names)];
    let statistics: [(&str, u8, Statistic); 8] = [
        ("messages", 0, |latency| count(latency.count)),
        ("p50", 9, |latency| stated(latency, 0.5, latency.p50_ns)),
        ("p90", 3, |latency| stated(latency, 0.9, latency.p90_ns)),
        ("p99", 9, |latency| stated(latency, 0.99, latency.p99_ns)),
        ("p99.9", 8, |latency| stated(latency, 0.999, latency.p99_9_ns)),
        ("p99.99", 2, |latency| stated(latency, 0.9999, latency.p99_99_ns)),
        ("max", 7, |latency| duration(latency.max_ns as f64)),
        ("mean", 1, |latency| duration(latency.mean_ns)),
    ];
    columns.extend(statistics.map(|(title, rank, statistic)| {
        let cells = rows.iter().map(|(name, latency)| (tone(name), statistic(latency)));
        Column::toned(&format!("{title:>8}"), Align::Right, rank, cells)
    }));
    if rows.iter().any(|(_, latency)| latency.beyond_range > 0) {
        let cells = rows.iter().map(|(_, latency)| (Tone::Bad, count(latency.beyond_range)));
        columns.push(Column::toned("beyond range", Align::Right, Column::KEEP, cells));
    }
    (!rows.is_empty()).then(|| Table { columns, ..Table::default() })
}

/// The width of a table's first column, so that the figures of several tables stand below each other.
const FIRST_COLUMN: usize = 15;

/// The highest percentile of the table, and why a dash stands there.
const LAST_QUANTILE: f64 = 0.9999;
const TOO_FEW: &str =
    "–: fewer than ten independent messages are slower (those acknowledged together count as one): measure for longer";

/// What the words and signs of [`latency_table`] mean.
pub fn latency_words(record: &Record) -> Vec<&'static str> {
    let all: Vec<&Latency> = latencies(record).into_iter().map(|(_, latency)| latency).collect();
    let is_unknown = |latency: &&Latency| !latency.lag_grew && !latency.supports(LAST_QUANTILE);
    let is_of_few =
        |latency: &&Latency| latency.high_percentiles().any(|(quantile, _)| latency.is_of_few_events(quantile));
    let headline = match record.headline {
        Headline::Response => {
            "response: from when a message was due to its acknowledgement, whatever held it back; service: from when it was sent; \
             schedule delay: from when it was due to when it was sent"
        }
        Headline::Service => {
            "service: from when a message was sent to its acknowledgement; without a schedule, what held it back before is unknown"
        }
    };
    let said = [
        (all.iter().any(is_unknown), TOO_FEW),
        (all.iter().any(is_of_few), super::FEW_EVENTS),
        (true, headline),
        (
            all.iter().any(|latency| latency.beyond_range > 0),
            "beyond range: longer than the histogram can hold, so the upper percentiles and the maximum are too low",
        ),
        (
            all.iter().any(|latency| latency.lag_grew),
            "end to end: consumers fell further and further behind, so it tells how long the trial lasted",
        ),
    ];
    said.into_iter().filter(|(is_said, _)| *is_said).map(|(_, words)| words).collect()
}

/// The parts of a schedule that changes its rate; `None` of any other.
pub fn parts_table(record: &Record) -> Option<Table> {
    let each = |text: fn(&SchedulePart) -> String| record.parts.iter().map(text);
    let latency = |figure: fn(&Latency) -> String| {
        record.parts.iter().map(move |part| or_dash(part.response.as_ref().map(figure)))
    };
    let names = record.parts.iter().map(|part| format!("{:<width$}", part.kind, width = FIRST_COLUMN));
    let columns = vec![
        Column::new("schedule", Align::Left, Column::KEEP, names),
        Column::new("begins at", Align::Right, 5, each(|part| duration(part.begin_ns as f64))),
        Column::new("lasts", Align::Right, 4, each(|part| duration(part.duration_ns as f64))),
        Column::new("wanted/s", Align::Right, 8, each(|part| rate(part.target_per_second))),
        Column::new("sent/s", Align::Right, 3, each(|part| rate(part.sent_per_second))),
        Column::new("acknowledged/s", Align::Right, Column::KEEP, each(|part| rate(part.messages_per_second))),
        Column::new("p50", Align::Right, 6, latency(|latency| stated(latency, 0.5, latency.p50_ns))),
        Column::new("p99", Align::Right, 7, latency(|latency| stated(latency, 0.99, latency.p99_ns))),
    ];
    (!record.parts.is_empty()).then(|| Table { title: "Parts of the schedule".to_owned(), columns, ..Table::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::FailureClass;
    use crate::record::{ErrorCount, SinkRecord, sample};

    #[test]
    fn sinks_that_got_the_same_are_told_together() {
        let pipeline = |rates: &[(&str, f64)]| {
            let sinks = rates.iter().map(|(name, rate)| SinkRecord {
                name: (*name).to_owned(),
                written_per_second: *rate,
                ..SinkRecord::default()
            });
            worked_off(&Pipeline { sinks: sinks.collect(), consumed_per_second: 12.0, ..Pipeline::default() })
        };
        let same = [("redis", 1000.1), ("mongodb", 1000.2), ("redis-2", 1000.3)];
        assert_eq!(pipeline(&same), "The pipeline wrote 1,000 rows/s to each of redis, mongodb and redis-2");
        assert_eq!(pipeline(&same[..1]), "The pipeline wrote 1,000 rows/s to redis");
        let differ = [("redis", 1000.0), ("mongodb", 900.0)];
        assert_eq!(pipeline(&differ), "The pipeline wrote 1,000 rows/s to redis, 900 rows/s to mongodb");
        assert_eq!(pipeline(&[]), "The pipeline consumed 12.0 messages/s");
    }

    #[test]
    fn a_ramp_is_told_by_its_ends_and_a_group_by_how_far_it_is_behind() {
        let mut record = sample::record();
        record.scenario["load"] =
            serde_json::json!({ "schedule": { "kind": "ramp", "from": "10k/s", "to": "70k/s", "over": "12s" } });
        assert!(sentence(&record).starts_with("Followed 20,000 → 70,000 messages/s; p99 "), "{}", sentence(&record));
        let group = &mut record.verification.as_mut().unwrap().groups[0];
        group.catch_up_ns = Some(47_000_000_000);
        assert!(sentence(&record).ends_with("; consumers ended 47.0 s behind."), "{}", sentence(&record));
        record.throughput.messages_per_second = 30_000.0;
        let missed = sentence(&record);
        assert!(
            missed.starts_with("Did not follow 20,000 → 70,000 messages/s: 30,000 of 50,000 on average"),
            "{missed}"
        );
    }

    #[test]
    fn nothing_is_lost_where_all_was_verified_and_committed() {
        let mut record = sample::record();
        let errors = std::mem::take(&mut record.errors);
        record.counts.failed = 0;
        let says = |record: &Record, end: &str| {
            let text = sentence(record);
            assert!(text.ends_with(end), "{text}");
        };
        says(&record, "; nothing lost.");
        let aborted = ErrorCount { class: FailureClass::Aborted, count: 3, ..errors[0].clone() };
        let mut transactional = Record { errors: vec![aborted], ..record.clone() };
        transactional.counts.failed = 3;
        says(&transactional, "; nothing lost.");
        transactional.verification = None;
        says(&transactional, "; every message acknowledged but those of aborted transactions.");
        transactional.counts.failed = 4;
        says(&transactional, "; 1 message not acknowledged.");
        record.verification.as_mut().unwrap().saturated = true;
        says(&record, "; no loss found, though not every message was verified.");
        record.verification.as_mut().unwrap().undecided = 7;
        says(&record, "; 7 not known to have arrived.");
    }

    #[test]
    fn a_rate_is_held_without_the_messages_that_the_scenario_aborts() {
        let mut record = sample::record();
        let aborted = record.counts.attempted / 5;
        record.errors = vec![ErrorCount { class: FailureClass::Aborted, count: aborted, ..record.errors[0].clone() }];
        record.throughput.messages_per_second = 40_000.0;
        assert!(sentence(&record).starts_with("Held 40,000 messages/s; "), "{}", sentence(&record));
        record.errors[0].class = FailureClass::Other;
        let answered = "Answered 40,000 of the 50,000 messages/s that were wanted; ";
        assert!(sentence(&record).starts_with(answered), "{}", sentence(&record));
    }

    #[test]
    fn a_median_that_cannot_be_stated_is_not_told() {
        let mut record = sample::record();
        for (independent, is_told) in [(19, false), (20, true)] {
            let latency = record.latency.response.as_mut().unwrap();
            (latency.p99_ns, latency.independent) = (None, Some(independent));
            assert_eq!(sentence(&record).contains("; median 1.29 ms"), is_told, "{}", sentence(&record));
        }
    }

    #[test]
    fn unsent_messages_are_told_from_unanswered_ones() {
        let mut record = sample::record();
        (record.counts.unsent, record.counts.failed, record.counts.unresolved) = (7, 2, 1);
        let text = sentence(&record);
        assert!(text.contains("7 messages never sent, 3 messages not acknowledged"), "{text}");
    }
}
