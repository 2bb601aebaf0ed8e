use super::*;
use crate::scenario::{CommitPolicy, Parse};

fn config() -> scenario::Pipeline {
    let sink =
        |kind: &str| scenario::Sink { kind: kind.to_owned(), options: Default::default(), needs: Default::default() };
    scenario::Pipeline {
        parse: Parse::Json,
        timestamp: None,
        broker_timestamp: false,
        batch: 3000,
        linger: Duration::from_millis(50),
        writers: 2,
        instances: 1,
        group: None,
        sinks_run: SinksRun::InOrder,
        commit: CommitPolicy::AfterWrite,
        producer_mode: ProducerMode::Concurrent,
        wait_for_sinks: false,
        remove_rows: false,
        sinks: vec![sink("redis"), sink("mongodb"), sink("redis")],
    }
}

fn figures(blocked_ns: u64, sinks: [u64; 3]) -> Figures {
    let mut figures = Figures::for_sinks(3);
    figures.consumed = 1;
    figures.fetch.record(900);
    figures.blocked.total_ns = blocked_ns;
    for (sink, ns) in figures.sinks.iter_mut().zip(sinks) {
        sink.time.record(ns);
    }
    figures
}

#[test]
fn the_slowest_sink_is_the_limit_where_writers_were_waited_for() {
    let config = config();
    let bound = |blocked_ns, consuming_ns| {
        let figures = figures(blocked_ns, [10, 1500, 20]);
        let stages = stages(&config, &figures, &names(&config), 1000);
        bottleneck(&config, &figures, &stages, &names(&config), trailing(consuming_ns, 1000)).stage.unwrap()
    };
    assert_eq!(bound(0, 1000), "fetch", "there was no more to receive");
    assert_eq!(bound(100, 1000), "mongodb");
    assert_eq!(bound(0, 900), "mongodb", "all was taken long before it was written");
    assert_eq!(names(&config), ["redis", "mongodb", "redis-2"]);
}

#[test]
fn messages_in_hand_after_a_short_load_are_no_backlog() {
    const SECOND: u64 = 1_000_000_000;
    assert!(kept_up(10_000, 9_900, 60 * SECOND).held);
    assert!(!kept_up(10_000, 9_899, 60 * SECOND).held);
    assert!(kept_up(10_000, 9_600, 5 * SECOND).held, "that is 200 ms");
    assert!(!kept_up(10_000, 9_400, 5 * SECOND).held);
    assert!(kept_up(0, 0, 0).held);
}

#[test]
fn a_sink_that_took_nothing_is_the_limit() {
    let config = config();
    let mut figures = figures(0, [10, 10, 10]);
    figures.sinks[1].time = Stage { total_ns: 1900, ..Stage::default() };
    let stages = stages(&config, &figures, &names(&config), 1000);
    let bottleneck = bottleneck(&config, &figures, &stages, &names(&config), trailing(100, 1000));
    assert_eq!(bottleneck.stage.as_deref(), Some("mongodb"));
    assert!(bottleneck.evidence.ends_with("in mongodb, where no batch had an outcome."), "{bottleneck:?}");
}

fn sink_record(written: u64, duplicates: u64, delta: Option<u64>) -> SinkRecord {
    let row_count = RowCount { delta, ..RowCount::default() };
    SinkRecord { written, duplicates, row_count, ..SinkRecord::default() }
}

#[test]
fn existing_row_is_complete_if_counted_once() {
    assert!(is_complete(&sink_record(10, 0, None), 10));
    assert!(is_complete(&sink_record(7, 3, Some(10)), 10), "an answer was lost");
    assert!(!is_complete(&sink_record(7, 3, None), 10), "they may be rows of another program");
    assert!(!is_complete(&sink_record(7, 3, Some(7)), 10), "they are another's");
    assert!(!is_complete(&sink_record(9, 0, None), 10));
    assert!(!is_complete(&sink_record(10, 0, Some(11)), 10));
}

#[test]
fn row_written_after_revocation_is_a_duplicate() {
    let repeated = |sink: SinkRecord| SinkRecord { repeated: 2, ..sink };
    assert!(is_complete(&repeated(sink_record(10, 2, Some(10))), 10), "the database has ids of its own");
    assert!(is_complete(&repeated(sink_record(12, 0, None)), 10), "the same value was written again");
    assert!(is_complete(&repeated(sink_record(12, 0, Some(12))), 10), "the same entry was appended again");
    assert!(!is_complete(&repeated(sink_record(10, 0, None)), 10), "two are missing");
    assert!(!is_complete(&repeated(sink_record(12, 0, Some(13))), 10));
}

#[test]
fn a_key_that_lost_its_value_is_a_mismatch() {
    let with = |found| SinkRecord { read_back: Some(record::ReadBack { keys: 3, found }), ..sink_record(10, 0, None) };
    assert!(is_complete(&with(3), 10) && !is_complete(&with(2), 10));
}
