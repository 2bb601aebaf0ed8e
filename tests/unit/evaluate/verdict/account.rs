use super::super::sound::{judged, notes, reasons};
use super::*;
use crate::evaluate::verdict::sound;
use crate::record::{ErrorCount, Record, Start};

/// Moves messages from acknowledged to failed or unresolved.
fn shift(record: &mut Record, failed: u64, unresolved: u64) {
    record.counts.failed = failed;
    record.counts.unresolved = unresolved;
    record.counts.acknowledged = record.counts.attempted - failed - unresolved;
}

#[test]
fn topics_that_were_written_to_before_are_a_note() {
    assert_eq!(notes(|record, _, _| record.messages_before = Some(0)), []);
    assert_eq!(notes(|record, _, _| record.messages_before = Some(1)), [TopicNotEmpty]);
}

#[test]
fn few_missing_messages_are_a_note_and_more_a_reason() {
    for (failed, unresolved) in [(50, 0), (0, 50), (25, 25)] {
        assert_eq!(notes(|record, _, _| shift(record, failed, unresolved)), [MissingMessages]);
        assert_eq!(reasons(|record, _, _| shift(record, failed, unresolved)), []);
    }
    for (failed, unresolved) in [(51, 0), (0, 51), (26, 25)] {
        assert_eq!(reasons(|record, _, _| shift(record, failed, unresolved)), [MissingMessages]);
    }
    assert_eq!(notes(|record, _, _| record.counts.unsent = 50), [MissingMessages]);
    assert_eq!(reasons(|record, _, _| record.counts.unsent = 51), [MissingMessages]);
    let verdict = judged(|record, _, _| shift(record, 40, 30));
    assert!(verdict.reasons[0].evidence.contains("40 failed, 30 unresolved"), "{verdict:?}");
    let running = reasons(|record, _, _| {
        record.status = Status::Running;
        shift(record, 0, 51);
    });
    assert_eq!(running, [Unfinished]);
}

#[test]
fn messages_of_aborted_transactions_are_not_missing() {
    let aborted = |count| ErrorCount {
        class: FailureClass::Aborted,
        count,
        first_message: "on purpose".to_owned(),
        first_at_ns: 0,
    };
    let with = |failed, on_purpose| {
        reasons(|record, _, _| {
            shift(record, failed, 0);
            record.errors = vec![aborted(on_purpose)];
        })
    };
    assert_eq!(with(50_000, 50_000), []);
    assert_eq!(with(50_000, 49_949), [MissingMessages]);
}

#[test]
fn counts_that_are_too_large_for_their_sum_are_judged() {
    let verdict = judged(|record, _, _| {
        let counts = &mut record.counts;
        (counts.failed, counts.unresolved, counts.unsent) = (u64::MAX, u64::MAX, 1);
        let error = |class| ErrorCount { class, count: u64::MAX, first_message: String::new(), first_at_ns: 0 };
        record.receive_errors = vec![error(FailureClass::Timeout), error(FailureClass::Timeout)];
    });
    let kinds: Vec<_> = verdict.reasons.iter().map(|reason| reason.kind).collect();
    assert!(kinds.contains(&LedgerMismatch) && kinds.contains(&MissingMessages), "{kinds:?}");
}

#[test]
fn one_message_off_is_a_mismatch() {
    assert_eq!(reasons(|record, _, _| record.counts.attempted += 1), [LedgerMismatch]);
    assert_eq!(reasons(|record, _, _| record.counts.warm_up.failed += 1), [LedgerMismatch]);
}

#[test]
fn one_value_beyond_the_range_is_enough() {
    let verdict = judged(|record, _, _| record.latency.response.as_mut().unwrap().beyond_range = 1);
    assert_eq!(verdict.reasons[0].kind, BeyondRange);
    assert!(verdict.reasons[0].evidence.contains("1 of response"), "{:?}", verdict.reasons);
}

#[test]
fn a_crash_is_a_reason_and_not_a_retried_error() {
    let crash = ErrorCount {
        class: FailureClass::Crashed,
        count: 1,
        first_message: "index out of bounds".to_owned(),
        first_at_ns: 0,
    };
    let verdict = judged(|record, _, _| record.receive_errors = vec![crash]);
    let kinds: Vec<_> = verdict.reasons.iter().chain(&verdict.notes).map(|reason| reason.kind).collect();
    assert_eq!(kinds, [ConsumerCrashed]);
    assert!(verdict.reasons[0].evidence.contains("1 consumer(s) crashed"), "{verdict:?}");
}

#[test]
fn interruption_and_embedded_broker_are_reasons() {
    assert_eq!(reasons(|record, _, _| record.status = Status::Interrupted), [Interrupted]);
    assert_eq!(reasons(|record, _, _| record.status = Status::Running), [Unfinished]);
    assert_eq!(reasons(|record, _, _| record.environment.embedded = true), [Embedded]);
    assert_eq!(notes(|record, _, _| record.environment.debug_build = true), [DebugBuild]);
}

#[test]
fn a_share_is_noted_and_its_verification_is_left_to_the_merge() {
    let share = sound::share();
    let verdict = judged(|record, _, _| {
        record.share = Some(share);
        record.verification.iter_mut().for_each(|found| found.undecided = 1_000);
    });
    assert!(verdict.valid, "{verdict:#?}");
    assert_eq!(verdict.notes.iter().map(|note| note.kind).collect::<Vec<_>>(), [OneShare]);
}

#[test]
fn a_late_start_is_noted() {
    let start = |late_ns| {
        notes(|record, _, _| {
            let at = record.started_at;
            record.start = Some(Start { planned_at: at, began_at: at, late_ns });
        })
    };
    assert_eq!(start(40_000_000), []);
    assert_eq!(start(1_500_000_000), [LateStart]);
}
