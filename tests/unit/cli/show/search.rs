//! Snapshots of a search.

use super::{View, search_text};
use crate::present::search::{conclusion, summary};
use crate::record::{ProbeRecord, ProbeResult, SEARCH_SCHEMA, SearchAnswer, SearchEnd, SearchRecord};

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
fn search_has_its_answer_and_its_probes() {
    let view = View { width: 110, colour: false, charts: false, details: false };
    insta::assert_snapshot!(search_text(&record(SearchEnd::Found), &[], view));
}

#[test]
fn a_search_that_ended_after_its_first_probe_has_one() {
    let mut search = record(SearchEnd::Interrupted);
    search.probes.truncate(1);
    let view = View { width: 110, colour: false, charts: false, details: false };
    let text = search_text(&search, &[], view);
    assert!(text.contains("1 probe in 5m 01s"), "{text}");
}

/// The line between early and late probes need not be in their middle.
#[test]
fn a_capacity_that_changed_is_told_by_early_and_late_probes() {
    let mut search = record(SearchEnd::Found);
    (search.answer.early_capacity_per_second, search.answer.late_capacity_per_second) = (Some(110e3), Some(90e3));
    let evidence = summary(&search, &[]).answers.remove(0).evidence;
    assert!(evidence.contains("about 110,000 messages/s by its early probes, 90,000 by its late ones"), "{evidence}");
}

#[test]
fn each_end_says_what_to_do() {
    let ends = [SearchEnd::NothingHeld, SearchEnd::NothingMissed, SearchEnd::LimitedByClient, SearchEnd::OutOfTime];
    let texts = ends.map(|end| conclusion(&record(end)));
    insta::assert_snapshot!(texts.join("\n"));
}
