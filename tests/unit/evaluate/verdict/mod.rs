use super::*;
use crate::record::{Counts, Throughput};

#[test]
fn a_sound_trial_is_valid_without_a_note() {
    let verdict = sound::judged(|_, _, _| {});
    assert!(verdict.valid && verdict.reasons.is_empty() && verdict.notes.is_empty(), "{verdict:#?}");
}

#[test]
fn reasons_are_sorted_by_gravity_with_words_and_figures() {
    let verdict = sound::judged(|record, _, _| {
        record.throughput.window_ns = 1_000_000_000;
        record.environment.embedded = true;
        record.counts.attempted += 1;
    });
    let kinds: Vec<ReasonKind> = verdict.reasons.iter().map(|reason| reason.kind).collect();
    assert_eq!(kinds, [ReasonKind::LedgerMismatch, ReasonKind::Embedded, ReasonKind::TooShort]);
    for reason in &verdict.reasons {
        assert!(reason.evidence.ends_with('.') && reason.advice.ends_with('.'), "{reason:?}");
    }
}

#[test]
fn a_failed_trial_is_not_also_too_short() {
    let kinds = sound::reasons(|record, series, _| {
        record.status = Status::Failed;
        record.counts = Counts::default();
        record.throughput = Throughput::default();
        series.clear();
    });
    assert_eq!(kinds, [ReasonKind::Failed]);
}
