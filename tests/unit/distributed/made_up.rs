//! Shares for tests.

use super::*;
use crate::record::{Share, Start, sample};

/// A scenario that shares might have run.
pub fn scenario() -> Scenario {
    let mut share = share(1, 1, 0, 1, 1.0);
    share.record.scenario = serde_json::json!({ "broker": { "kind": "null" }, "run": { "messages": 5 } });
    super::scenario(&share, crate::engine::kinds()).unwrap()
}

/// A sound share of `count` whose window begins `begin_ns` after 1970 and lasts `window_ns`.
pub fn share(number: usize, count: usize, begin_ns: u64, window_ns: u64, messages_per_second: f64) -> KeptShare {
    let mut record = sample::record();
    let messages = (messages_per_second * window_ns as f64 / 1e9) as u64;
    record.counts.acknowledged = messages;
    record.counts.attempted = messages;
    (record.counts.failed, record.counts.unresolved, record.counts.unsent) = (0, 0, 0);
    (record.throughput.window_ns, record.throughput.messages_per_second) = (window_ns, messages_per_second);
    let began_at = Timestamp::from_nanosecond(i128::from(begin_ns)).unwrap();
    record.start = Some(Start { planned_at: began_at, began_at, late_ns: 0 });
    record.share = Some(Share {
        number,
        count,
        first_producer: (number - 1) * 2,
        producers: 2,
        consumers: 0,
        window_begin_unix_ns: begin_ns,
        first_sent_unix_ns: Some(begin_ns),
        first_due_unix_ns: Some(begin_ns),
        clock_shift_ns: None,
        clock_error_ns: None,
        boot_id: Some("machine".to_owned()),
        before_intended: 0,
        most_before_intended_ns: 0,
    });
    record.verdict.reasons.clear();
    record.verdict.notes.clear();
    (record.verdict.valid, record.verification) = (true, None);
    KeptShare {
        origin: format!("share-{number}"),
        record,
        series: sample::series(),
        interval_log: String::new(),
        messages: None,
        clock: None,
    }
}
