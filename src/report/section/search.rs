//! A search: its answer first, then its probes as marks, then each as a row.

use super::lead::{LIMIT, Lead, TRUST, Tone, Word, context, limiter};
use super::tiles::{Tile, tile};
use super::{Part, Section, several, texts};
use crate::record::readable::{duration, rate};
use crate::record::{Limiter, ProbeRecord, ProbeResult, Record, SearchEnd, SearchRecord};
use crate::report::figure::{Figure, PHONE, Table, WIDE};
use crate::report::svg::Shape;
use crate::report::svg::probes::{Kind, Probe, Probes};

const SHAPES: (Shape, Shape) = (Shape { height: 330.0, ..WIDE }, Shape { height: 290.0, ..PHONE });

/// The head of the page.
pub fn lead(search: &SearchRecord, records: &[&Record]) -> Lead {
    Lead {
        context: records.first().map_or_else(|| search.scenario_name.clone(), |record| context(record)),
        sentence: sentence(search),
        answers: std::iter::once((TRUST, verdict(search)))
            .chain(limit(search, records).map(|limit| (LIMIT, limit)))
            .collect(),
        tiles: tiles(search),
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

fn verdict(search: &SearchRecord) -> Word {
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
    let change = search.change().map(|change| format!(" {change}")).unwrap_or_default();
    Word { tone, word: word.to_owned(), evidence: format!("{}{change}{doubts}", search.conclusion()) }
}

/// What limited the slowest rate above the answer that was missed (or of all, where no rate above it was missed): the requirement that did
/// not hold, or what stood behind it.
fn limit(search: &SearchRecord, records: &[&Record]) -> Option<Word> {
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
        // The probe asked for a rate, so its own limit is that rate wherever it was sent in time.
        ProbeResult::Missed => search.requirements.iter().find(|required| reason.starts_with(required.as_str())),
        ProbeResult::Held | ProbeResult::LimitedByClient => None,
    };
    let (at, limiter) = (rate(lowest.rate_per_second), record.verdict.limited_by.limiter);
    let (word, evidence) = match missed {
        Some(required) => {
            let measured = reason[required.len()..].trim_start_matches([':', ' ']);
            let behind = match limiter {
                Limiter::Schedule | Limiter::Unknown => String::new(),
                limiter => format!(" {} limited that probe.", self::limiter(limiter)),
            };
            (format!("The requirement {required}"), format!("Missed at {at} messages/s: {measured}.{behind}"))
        }
        None => (self::limiter(limiter).to_owned(), format!("At {at} messages/s, missed: {reason}.")),
    };
    Some(Word { tone: Tone::Plain, word, evidence })
}

fn tiles(search: &SearchRecord) -> Vec<Tile> {
    let found = &search.answer;
    let confirmed = |held: f64| tile("messages per second", rate(held), "held in a longer probe too".to_owned());
    let short = |held: f64| tile("in short probes only", rate(held), "messages per second, not confirmed".to_owned());
    let held = found.rate_per_second.map(confirmed).or(found.unconfirmed_per_second.map(short));
    let interval = found.capacity_low.zip(found.capacity_high);
    let capacity = found.capacity_per_second.map(|capacity| {
        let note = interval.map(|(low, high)| format!("95 % interval {} … {}", rate(low), rate(high)));
        tile("rate that half of all probes hold", rate(capacity), note.unwrap_or_default())
    });
    let p99 = probe_of_the_answer(search).and_then(|probe| probe.p99_ns);
    let p99 = p99.map(|ns| tile("p99 at that rate", duration(ns as f64), "response time".to_owned()));
    let probes = tile("probes", search.probes.len().to_string(), format!("in {}", duration(search.took_ns as f64)));
    // The p99 belongs to the rate beside it.
    [held, p99, capacity, Some(probes)].into_iter().flatten().collect()
}

/// The probes as a chart and as rows.
pub fn section(search: &SearchRecord) -> Option<Section> {
    if search.probes.is_empty() {
        return None;
    }
    Section::of("search", "The search", vec![Part::figure(figure(search)), Part::Html(table(search).html())])
}

fn figure(search: &SearchRecord) -> Figure {
    let kind = |outcome| match outcome {
        ProbeResult::Held => Kind::Held,
        ProbeResult::Missed => Kind::Missed,
        ProbeResult::LimitedByClient => Kind::LimitedByClient,
    };
    let probe = |probe: &ProbeRecord| {
        let latency_ns = probe.p99_ns? as f64;
        Some(Probe { rate_per_second: probe.rate_per_second, latency_ns, kind: kind(probe.outcome) })
    };
    let chart = Probes {
        name: "response time, p99".to_owned(),
        axis: "rate that was probed, messages/s".to_owned(),
        probes: search.probes.iter().filter_map(probe).collect(),
        interval: search.answer.capacity_low.zip(search.answer.capacity_high),
        answer: search.answer.rate_per_second,
    };
    let shown = chart.probes.len();
    Figure::draw("probes", "Probes by rate", what_to_see(search, shown), SHAPES, |shape| chart.draw(shape))
}

fn what_to_see(search: &SearchRecord, shown: usize) -> String {
    let all = || search.probes.iter();
    let rates = |held: bool| {
        all().filter(move |probe| (probe.outcome == ProbeResult::Held) == held).map(|probe| probe.rate_per_second)
    };
    let held =
        rates(true).reduce(f64::max).map(|highest| format!("{} held, up to {}/s", rates(true).count(), rate(highest)));
    let missed = rates(false)
        .reduce(f64::min)
        .map(|lowest| format!("{} missed, from {}/s on", rates(false).count(), rate(lowest)));
    let both = [held, missed].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let overlap = match (rates(true).reduce(f64::max), rates(false).reduce(f64::min)) {
        (Some(highest), Some(lowest)) if lowest < highest => " Between these two rates, some held and others missed.",
        _ => "",
    };
    let interval = match search.answer.capacity_low {
        Some(_) => " Tinted: the 95 % interval of the rate at which half of all probes would hold.",
        None => "",
    };
    let line = if search.answer.rate_per_second.is_some() { " The line is the answer." } else { "" };
    let absent = match all().count() - shown {
        0 => String::new(),
        number => format!(" {} had too few messages for a p99.", several(number, "probe")),
    };
    format!("Of {}, {both}.{overlap}{interval}{line}{absent}", several(all().count(), "probe"))
}

/// The first of several reasons; all of them are in the record.
fn first(reasons: &str) -> &str {
    reasons.split(';').next().unwrap_or_default()
}

fn table(search: &SearchRecord) -> Table {
    let row = |(index, probe): (usize, &ProbeRecord)| {
        let outcome = match probe.outcome {
            ProbeResult::Held => "✓ held".to_owned(),
            ProbeResult::Missed => format!("✗ missed: {}", first(&probe.reason)),
            ProbeResult::LimitedByClient => format!("! limited by the client: {}", first(&probe.reason)),
        };
        vec![
            (index + 1).to_string(),
            rate(probe.rate_per_second),
            duration(probe.window_ns as f64),
            rate(probe.messages_per_second),
            probe.p99_ns.map_or("–".to_owned(), |ns| duration(ns as f64)),
            outcome,
        ]
    };
    let heads = texts(&["probe", "wanted/s", "measured for", "carried/s", "p99", "outcome"]);
    Table { heads, rows: search.probes.iter().enumerate().map(row).collect(), ..Table::default() }
}

/// The place of the record that the answer rests on: of the last probe that held its rate.
pub fn of_the_answer(search: &SearchRecord, records: &[&Record]) -> Option<usize> {
    let probe = probe_of_the_answer(search)?;
    records.iter().position(|record| (record.point_index, record.trial) == (probe.point_index, probe.trial))
}

fn probe_of_the_answer(search: &SearchRecord) -> Option<&ProbeRecord> {
    let answer = search.answer.rate_per_second.or(search.answer.unconfirmed_per_second)?;
    let of_rate = search.probes.iter().filter(|probe| probe.rate_per_second == answer);
    of_rate.filter(|probe| probe.outcome == ProbeResult::Held).max_by_key(|probe| probe.window_ns)
}
