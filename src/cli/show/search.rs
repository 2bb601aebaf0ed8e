//! A search as text: its probes, and the answer.

use super::page::{Page, Tone, View};
use super::table::{self, Align, Column};
use crate::record::readable::{self, count, duration};
use crate::record::{ProbeRecord, ProbeResult, SearchEnd, SearchRecord};

pub fn page(record: &SearchRecord, view: View) -> String {
    Page::of(view, |page| {
        let name = page.paint(Tone::Strong, &record.scenario_name);
        page.line(&format!("{name}  the highest rate with {}", record.requirements.join(", ")));
        page.blank();
        if !record.probes.is_empty() {
            probes(page, &record.probes);
            page.blank();
        }
        answer(page, record);
    })
}

/// What is printed when a probe has ended.
pub fn progress_line(number: usize, probe: &ProbeRecord) -> String {
    format!("probe {number}: {}/s {}", readable::rate(probe.rate_per_second), outcome(probe))
}

fn outcome(probe: &ProbeRecord) -> String {
    match probe.outcome {
        ProbeResult::Held => "held".to_owned(),
        ProbeResult::Missed => format!("missed: {}", probe.reason),
        ProbeResult::LimitedByClient => format!("limited by the client or its machine: {}", probe.reason),
    }
}

fn probes(page: &mut Page, probes: &[ProbeRecord]) {
    let column = |title: &str, rank, cell: &dyn Fn(&ProbeRecord) -> String| {
        Column::new(title, Align::Right, rank, probes.iter().map(cell))
    };
    let numbers = (1..=probes.len()).map(|number| number.to_string());
    let tone = |probe: &ProbeRecord| match probe.outcome {
        ProbeResult::Held => Tone::Good,
        ProbeResult::Missed => Tone::Plain,
        ProbeResult::LimitedByClient => Tone::Doubtful,
    };
    let columns = vec![
        Column::new("probe", Align::Right, Column::KEEP, numbers),
        column("messages/s", Column::KEEP, &|probe| readable::rate(probe.rate_per_second)),
        column("for", Column::KEEP, &|probe| duration(probe.window_ns as f64)),
        column("carried/s", 5, &|probe| readable::rate(probe.messages_per_second)),
        column("p99", Column::KEEP, &|probe| probe.p99_ns.map_or("–".to_owned(), |ns| duration(ns as f64))),
        Column {
            title: "outcome".to_owned(),
            cells: probes.iter().map(|probe| (tone(probe), short(&outcome(probe)))).collect(),
            align: Align::Left,
            rank: Column::KEEP,
        },
    ];
    table::print(page, columns);
    if probes.iter().any(|probe| probe.p99_ns.is_none() && probe.outcome == ProbeResult::Held) {
        page.line("– too few messages to state a p99: such a probe is judged by what they tell of it");
    }
}

/// The first of several reasons; all of them are in the record.
fn short(outcome: &str) -> String {
    /// What still fits beside the figures on a usual terminal.
    const MAX: usize = 60;
    let first = outcome.split(';').next().unwrap_or_default();
    match first.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &first[..end]),
        None => first.to_owned(),
    }
}

fn answer(page: &mut Page, record: &SearchRecord) {
    let found = &record.answer;
    let (sign, tone) = match found.end {
        SearchEnd::Found | SearchEnd::NothingMissed => ("✓ ", Tone::Good),
        _ if found.rate_per_second.is_some() => ("! ", Tone::Doubtful),
        _ => ("✗ ", Tone::Bad),
    };
    page.led(sign, tone, &record.conclusion());
    if let Some(change) = record.change() {
        page.led("! ", Tone::Doubtful, &change);
    }
    if let (Some(capacity), Some(low), Some(high)) =
        (found.capacity_per_second, found.capacity_low, found.capacity_high)
    {
        page.labelled(
            "capacity",
            &format!(
                "{} messages/s, 95 % interval {} … {}: the rate at which half of all probes would hold",
                readable::rate(capacity),
                readable::rate(low),
                readable::rate(high)
            ),
        );
    }
    if !found.doubts.is_empty() {
        page.led("✗ ", Tone::Bad, &format!("not to be trusted: {}", found.doubts.join(", ")));
    }
    let took = duration(record.took_ns as f64);
    page.labelled("search", &format!("{} probes in {took}", count(record.probes.len() as u64)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{SEARCH_SCHEMA, SearchAnswer};

    fn record(end: SearchEnd) -> SearchRecord {
        let probe = |rate: f64, window_ns, outcome, reason: &str, p99_ns| ProbeRecord {
            point_index: 0,
            trial: 1,
            rate_per_second: rate,
            window_ns,
            outcome,
            reason: reason.to_owned(),
            messages_per_second: rate,
            p99_ns,
            doubts: Vec::new(),
        };
        let missed = "p99 < 20ms: 3.20 s measured; 50,000 of 160,000 messages/s were sent in time";
        SearchRecord {
            schema: SEARCH_SCHEMA.to_owned(),
            scenario_name: "orders".to_owned(),
            requirements: vec!["p99 < 20ms".to_owned(), "lost = 0".to_owned()],
            least_per_second: 1e3,
            most_per_second: 2e6,
            within_ns: 600_000_000_000,
            took_ns: 301_000_000_000,
            probes: vec![
                probe(40e3, 10_000_000_000, ProbeResult::Held, "", Some(2_100_000)),
                probe(160e3, 10_000_000_000, ProbeResult::Missed, missed, Some(3_200_000_000)),
                probe(96_840.0, 30_000_000_000, ProbeResult::Held, "", None),
            ],
            answer: SearchAnswer {
                end,
                rate_per_second: Some(96_840.0),
                unconfirmed_per_second: None,
                capacity_per_second: Some(97_900.0),
                capacity_low: Some(96_500.0),
                capacity_high: Some(99_100.0),
                early_capacity_per_second: None,
                late_capacity_per_second: None,
                doubts: Vec::new(),
            },
        }
    }

    #[test]
    fn the_page_of_a_search() {
        insta::assert_snapshot!(page(&record(SearchEnd::Found), View { width: 110, colour: false, charts: false }));
    }

    #[test]
    fn each_end_says_what_to_do() {
        let ends = [SearchEnd::NothingHeld, SearchEnd::NothingMissed, SearchEnd::LimitedByClient, SearchEnd::OutOfTime];
        let texts = ends.map(|end| record(end).conclusion());
        insta::assert_snapshot!(texts.join("\n"));
    }
}
