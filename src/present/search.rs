//! A search: its answer, and its probes as rows.

use super::setup::ran;
use super::trial::begun;
use super::verdict::limiter_name;
use super::{
    Align, Answer, Column, Fact, LIMIT, Summary, TRUST, Table, Tone, capital, duration_or_dash, known, several,
};
use crate::record::readable::{duration, rate};
use crate::record::{Limiter, ProbeRecord, ProbeResult, Record, SearchEnd, SearchRecord};

/// One probe of so many that the client limited is more than an accident.
const MANY: usize = 4;

pub fn summary(search: &SearchRecord, records: &[&Record]) -> Summary {
    let first = records.first();
    Summary {
        name: search.scenario_name.clone(),
        context: first.map(|first| begun(first)).into_iter().collect(),
        ran: ran(records),
        sentence: sentence(search),
        answers: std::iter::once(verdict(search)).chain(limit(search, records)).collect(),
    }
}

fn sentence(search: &SearchRecord) -> String {
    let required = search.requirements.join(", ");
    match search.answer.rate_per_second {
        Some(held) if search.answer.end == SearchEnd::Found => {
            format!("{} messages/s is the highest rate that held {required}.", rate(held))
        }
        Some(held) => format!("At least {} messages/s held {required}.", rate(held)),
        None => format!("No rate was confirmed to hold {required}."),
    }
}

fn verdict(search: &SearchRecord) -> Answer {
    let found = &search.answer;
    let is_confirmed = found.rate_per_second.is_some();
    let (tone, word) = match found.end {
        _ if !found.doubts.is_empty() => (Tone::Bad, "Not to be trusted"),
        SearchEnd::Found => (Tone::Good, "Found"),
        SearchEnd::NothingMissed => (Tone::Doubtful, "The limit lies above the range"),
        SearchEnd::NothingHeld => (Tone::Bad, "Nothing held"),
        SearchEnd::LimitedByClient if is_confirmed => (Tone::Doubtful, "Valid; above it the client was the limit"),
        SearchEnd::LimitedByClient => (Tone::Bad, "Not known: the client was the limit"),
        SearchEnd::OutOfTime | SearchEnd::WriteLimit if is_confirmed => {
            (Tone::Doubtful, "Valid; a higher rate may hold too")
        }
        SearchEnd::OutOfTime => (Tone::Bad, "Not confirmed: time was up"),
        SearchEnd::WriteLimit => (Tone::Bad, "Not confirmed: no more may be written"),
        SearchEnd::Interrupted => (Tone::Bad, "Interrupted"),
        SearchEnd::Failed => (Tone::Bad, "A probe failed"),
    };
    let doubts = if found.doubts.is_empty() {
        String::new()
    } else {
        format!(" Against the probe that confirmed it: {}.", found.doubts.join(", "))
    };
    let change = change(search).map(|change| format!(" {change}")).unwrap_or_default();
    let evidence = format!("{}{change}{doubts}", conclusion(search));
    Answer { question: TRUST, tone, word: word.to_owned(), evidence }
}

/// The answer in words, and what to do next.
pub fn conclusion(search: &SearchRecord) -> String {
    let found = &search.answer;
    let held = match (found.rate_per_second, found.unconfirmed_per_second) {
        (Some(confirmed), _) => format!("{} messages/s held, and held for longer as well", rate(confirmed)),
        (None, Some(short)) => {
            format!("no rate was confirmed: {} messages/s held in short probes, and in no long one", rate(short))
        }
        (None, None) => "no rate was confirmed: not one held".to_owned(),
    };
    let words = match found.end {
        SearchEnd::Found => format!("{held}."),
        SearchEnd::NothingHeld => format!(
            "No rate was confirmed: not even {} messages/s held. Search below it with --between, or require less.",
            rate(search.least_per_second)
        ),
        SearchEnd::NothingMissed => format!(
            "{held}: that is the highest rate of the range, so the limit lies above it. Search above it with --between."
        ),
        SearchEnd::LimitedByClient => {
            format!("{held}. {}", limited_by_client(search))
        }
        SearchEnd::OutOfTime => {
            let up = format!("Time was up after {}: {held}.", duration(search.within_ns as f64));
            format!("{up} {}", limited_often(search).unwrap_or("Search for longer with --within.".to_owned()))
        }
        SearchEnd::WriteLimit => {
            let advice = "Raise --write-limit, search below the rates that missed with --between, or shorten --probe.";
            format!("No more may be written: {held}. {}", limited_often(search).unwrap_or(advice.to_owned()))
        }
        SearchEnd::Interrupted => format!("Interrupted: {held}."),
        SearchEnd::Failed => format!("A probe could not run, or its record could not be written: {held}."),
    };
    capital(&words)
}

/// That late probes contradict early ones.
fn change(search: &SearchRecord) -> Option<String> {
    let (early, late) = search.answer.early_capacity_per_second.zip(search.answer.late_capacity_per_second)?;
    Some(format!(
        "The capacity changed during the search: about {} messages/s by its early probes, {} by its late ones. Find out what changed, and \
         search again.",
        rate(early),
        rate(late)
    ))
}

fn limited_probes(search: &SearchRecord) -> usize {
    search.probes.iter().filter(|probe| probe.outcome == ProbeResult::LimitedByClient).count()
}

fn limited_by_client(search: &SearchRecord) -> String {
    format!(
        "The load generator or its machine was the limit in {} of {} probes, so the broker's limit is not known: run the load from a \
         machine of its own, batch more, use more connections, or raise `producers.in_flight` where the window was full.",
        limited_probes(search),
        search.probes.len()
    )
}

/// Where longer would not help.
fn limited_often(search: &SearchRecord) -> Option<String> {
    (limited_probes(search) * MANY >= search.probes.len().max(1)).then(|| limited_by_client(search))
}

/// What limited the slowest rate above the answer that was missed (or of all, where no rate above it was missed): the requirement that did
/// not hold, or what stood behind it.
fn limit(search: &SearchRecord, records: &[&Record]) -> Option<Answer> {
    let held = search.answer.rate_per_second.or(search.answer.unconfirmed_per_second).unwrap_or(0.0);
    let missed = search.probes.iter().filter(|probe| probe.outcome != ProbeResult::Held);
    let order = |one: &ProbeRecord, other: &ProbeRecord| {
        let is_below = |probe: &ProbeRecord| probe.rate_per_second <= held;
        is_below(one).cmp(&is_below(other)).then(one.rate_per_second.total_cmp(&other.rate_per_second))
    };
    let lowest = missed.min_by(|one, other| order(one, other))?;
    let is_of_it = |record: &&&Record| (record.point_index, record.trial) == (lowest.point_index, lowest.trial);
    let record = records.iter().find(is_of_it)?;
    let reason = first(&lowest.reason);
    let missed = match lowest.outcome {
        // The probe asked for a rate, so its own limit is that rate if it was sent in time.
        ProbeResult::Missed => search.requirements.iter().find(|required| reason.starts_with(required.as_str())),
        ProbeResult::Held | ProbeResult::LimitedByClient => None,
    };
    let (at, limiter) = (rate(lowest.rate_per_second), record.verdict.limited_by.limiter);
    let (word, evidence) = match missed {
        Some(required) => {
            let measured = reason[required.len()..].trim_start_matches([':', ' ']);
            let behind = match limiter {
                Limiter::Schedule | Limiter::Unknown => String::new(),
                limiter => format!(" {} limited that probe.", limiter_name(limiter)),
            };
            (format!("The requirement {required}"), format!("Missed at {at} messages/s: {measured}.{behind}"))
        }
        None => (limiter_name(limiter).to_owned(), format!("At {at} messages/s, missed: {reason}.")),
    };
    Some(Answer { question: LIMIT, tone: Tone::Plain, word, evidence })
}

/// The first of several reasons; all of them are in the record.
fn first(reasons: &str) -> &str {
    reasons.split(';').next().unwrap_or_default()
}

/// The probe that the answer rests on: the last one that held its rate.
pub fn probe_of_the_answer(search: &SearchRecord) -> Option<&ProbeRecord> {
    let answer = search.answer.rate_per_second.or(search.answer.unconfirmed_per_second)?;
    let of_rate = search.probes.iter().filter(|probe| probe.rate_per_second == answer);
    of_rate.filter(|probe| probe.outcome == ProbeResult::Held).max_by_key(|probe| probe.window_ns)
}

/// What is printed when a probe has ended.
pub fn progress_line(number: usize, probe: &ProbeRecord) -> String {
    format!("probe {number}: {}/s {}", rate(probe.rate_per_second), outcome(probe, &probe.reason))
}

fn outcome(probe: &ProbeRecord, reason: &str) -> String {
    match probe.outcome {
        ProbeResult::Held => "held".to_owned(),
        ProbeResult::Missed => format!("missed: {reason}"),
        ProbeResult::LimitedByClient => format!("limited by the client or its machine: {reason}"),
    }
}

/// A row for each probe; `None` without any.
pub fn probes_table(search: &SearchRecord) -> Option<Table> {
    let probes = &search.probes;
    let column = |title: &str, rank, cell: &dyn Fn(&ProbeRecord) -> String| {
        Column::new(title, Align::Right, rank, probes.iter().map(cell))
    };
    let judged = |probe: &ProbeRecord| {
        let tone = match probe.outcome {
            ProbeResult::Held => Tone::Good,
            ProbeResult::Missed => Tone::Bad,
            ProbeResult::LimitedByClient => Tone::Doubtful,
        };
        (tone, format!("{} {}", tone.mark(), cut(&outcome(probe, first(&probe.reason)))))
    };
    let columns = vec![
        Column::new("probe", Align::Right, Column::KEEP, (1..=probes.len()).map(|number| number.to_string())),
        column("messages/s", Column::KEEP, &|probe| rate(probe.rate_per_second)),
        column("for", Column::KEEP, &|probe| duration(probe.window_ns as f64)),
        column("carried/s", 5, &|probe| rate(probe.messages_per_second)),
        column("p99", Column::KEEP, &|probe| duration_or_dash(probe.p99_ns)),
        Column::toned("outcome", Align::Left, Column::KEEP, probes.iter().map(judged)),
    ];
    let is_without_p99 = |probe: &ProbeRecord| probe.p99_ns.is_none() && probe.outcome == ProbeResult::Held;
    let note = if probes.iter().any(is_without_p99) {
        "– too few messages to state a p99: such a probe is judged by what they tell of it"
    } else {
        ""
    };
    (!probes.is_empty()).then(|| Table { note: note.to_owned(), columns, ..Table::default() })
}

/// What still fits beside the figures on a usual terminal.
fn cut(outcome: &str) -> String {
    const MAX: usize = 60;
    match outcome.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &outcome[..end]),
        None => outcome.to_owned(),
    }
}

/// The capacity with its interval, and how many probes it took.
pub fn facts(search: &SearchRecord) -> Vec<Fact> {
    let found = &search.answer;
    let interval = found.capacity_low.zip(found.capacity_high);
    let capacity = found.capacity_per_second.zip(interval).map(|(capacity, (low, high))| {
        format!(
            "{} messages/s, 95 % interval {} … {}: the rate at which half of all probes would hold",
            rate(capacity),
            rate(low),
            rate(high)
        )
    });
    let took = format!("{} in {}", several(search.probes.len(), "probe"), duration(search.took_ns as f64));
    known([Fact::new("capacity", capacity.unwrap_or_default()), Fact::new("search", took)])
}
