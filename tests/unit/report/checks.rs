use super::*;
use crate::evaluate::comparison::{Bounds, KeptTrial, compare};
use crate::record::{Reason, ReasonKind, ThresholdOutcome, sample};

/// Six trials whose rates differ a little.
fn trials(change: impl Fn(&mut Record)) -> Vec<Record> {
    let trial = |trial| {
        let mut record = Record { trial, thresholds: Vec::new(), ..sample::record() };
        record.throughput.messages_per_second += f64::from(trial) * 10.0;
        change(&mut record);
        record
    };
    (1..=6).map(trial).collect()
}

fn threshold(held: bool) -> ThresholdOutcome {
    ThresholdOutcome {
        text: "p99 < 5ms".to_owned(),
        measured: Some(9e6),
        held,
        explanation: "9.00 ms measured".to_owned(),
    }
}

/// Its second trial lost messages, and so misses the threshold.
fn lossy(record: &mut Record) {
    record.thresholds = vec![threshold(record.trial != 2)];
    record.verdict.valid = record.trial != 2;
    record.verdict.reasons = match record.verdict.valid {
        true => Vec::new(),
        false => vec![Reason::new(ReasonKind::Losses, "12 were lost".to_owned(), "", &[])],
    };
}

fn checks(records: &[Record], strict: bool) -> Vec<Check> {
    let must_be_valid = |record: &Record| strict || !record.thresholds.is_empty();
    of_records("orders-1", &records.iter().collect::<Vec<_>>(), &must_be_valid, &|_| None)
}

fn compared(before: &[Record], after: &[Record]) -> Comparison {
    let kept = |records: &[Record]| -> Vec<KeptTrial> {
        let trial = |record: &Record| KeptTrial { record: record.clone(), series: Vec::new() };
        records.iter().map(trial).collect()
    };
    compare(&kept(before), &kept(after), Bounds::default()).unwrap()
}

#[test]
fn thresholds_and_validity_of_all_trials_and_what_became_worse() {
    let slower = |record: &mut Record| {
        lossy(record);
        record.throughput.messages_per_second /= 1.5;
    };
    let (before, after) = (trials(|_| {}), trials(slower));
    let comparison = compared(&before, &after);
    let all = [checks(&after, false), of_comparison(&comparison)].concat();
    insta::assert_snapshot!(junit(&all));
    insta::assert_snapshot!(markdown(&all));
}

#[test]
fn a_trial_that_is_not_valid_fails_where_that_is_required() {
    let outcome = |records: &[Record], strict| {
        let checks = checks(records, strict);
        checks.iter().find(|check| check.name == "valid").unwrap().outcome
    };
    let without_thresholds = trials(|record| {
        lossy(record);
        record.thresholds.clear();
    });
    assert_eq!(outcome(&without_thresholds, false), CheckOutcome::NotKnown);
    assert_eq!(outcome(&without_thresholds, true), CheckOutcome::Failed);
    assert_eq!(outcome(&trials(lossy), false), CheckOutcome::Failed);
    assert_eq!(outcome(&trials(|_| {}), true), CheckOutcome::Passed);
}

#[test]
fn a_trial_that_went_to_its_end_and_failed_is_not_completed() {
    let failure = |_: &Record| Some("nothing was acknowledged".to_owned());
    let checks = of_records("orders-1", &[&sample::record()], &|_| false, &failure);
    let text = "in 0 of 1 trial; trial 1: nothing was acknowledged";
    assert_eq!(checks[0], Check::new("orders-1", "completed", CheckOutcome::Failed, text));
}

#[test]
fn a_trial_that_stalled_has_a_reason_and_no_error() {
    let mut record = Record { status: Status::Stalled, ..sample::record() };
    record.verdict.reasons = vec![Reason::new(ReasonKind::Stalled, "No outcome arrived.".to_owned(), "", &[])];
    let checks = of_records("orders-1", &[&record], &|_| false, &|_| None);
    assert_eq!(checks[0].text, "in 0 of 1 trial; trial 1: No outcome arrived");
}

#[test]
fn figures_of_a_side_without_a_valid_trial_neither_pass_nor_fail() {
    let slow = trials(|record| {
        record.throughput.messages_per_second /= 1.5;
        record.verdict.valid = false;
    });
    let checks = of_comparison(&compared(&trials(|_| {}), &slow));
    let outcome = |name: &str| checks.iter().find(|check| check.name == name).unwrap().outcome;
    assert_eq!(outcome("both sides are valid"), CheckOutcome::Failed);
    assert_eq!(outcome("messages/s"), CheckOutcome::NotKnown);
}

#[test]
fn text_is_no_markup() {
    let check = Check::new("a|b", "p99 < 5ms", CheckOutcome::Failed, "\"<x>\" & more\nlines");
    assert!(junit(std::slice::from_ref(&check)).contains(
        "<testcase classname=\"a|b\" name=\"p99 &lt; 5ms\"><failure message=\"&quot;&lt;x&gt;&quot; &amp; more\nlines\"/>"
    ));
    assert!(markdown(&[check]).contains("| **✗** | a\\|b | p99 &lt; 5ms | \"&lt;x>\" & more lines |"));
}
