use super::super::sound::{judged, notes, reasons};
use super::*;
use crate::record::{RemovalCause, RemovalRule};

/// What a group found in a trial with two of them, of which it is the second.
fn found(group: GroupVerification) -> Option<Verification> {
    let first =
        GroupVerification { consumer_lag_at_load_end: Some(0), catch_up_ns: Some(0), ..GroupVerification::default() };
    Some(Verification {
        lost: group.lost,
        unread: group.unread,
        duplicated: group.duplicated,
        corrupt: group.corrupt,
        not_acknowledged_but_stored: group.not_acknowledged_but_stored,
        groups: vec![first, GroupVerification { group: 1, ..group }],
        ..Verification::default()
    })
}

#[test]
fn loss_duplicate_or_damage_is_a_reason_and_names_the_group() {
    for one in [
        GroupVerification { lost: 1, ..GroupVerification::default() },
        GroupVerification { duplicated: 1, ..GroupVerification::default() },
        GroupVerification { corrupt: 1, ..GroupVerification::default() },
    ] {
        let verdict = judged(|record, _, _| record.verification = found(one));
        assert_eq!(verdict.reasons.iter().map(|reason| reason.kind).collect::<Vec<_>>(), [Losses]);
        let evidence = &verdict.reasons[0].evidence;
        assert!(evidence.starts_with("In group 1, ") && !evidence.contains("group 0"), "{evidence}");
    }
}

#[test]
fn unread_messages_speak_against_it_and_do_not_blame_the_broker() {
    let one = || GroupVerification { unread: 500, consumer_lag_at_load_end: Some(700), ..GroupVerification::default() };
    let verdict = judged(|record, _, _| record.verification = found(one()));
    assert_eq!(verdict.reasons.iter().map(|reason| reason.kind).collect::<Vec<_>>(), [Unread]);
    let evidence = &verdict.reasons[0].evidence;
    assert!(evidence.starts_with("In group 1, 500 of "), "{evidence}");
}

#[test]
fn removed_messages_name_the_rule_and_do_not_blame_the_broker() {
    let verdict = judged(|record, _, _| {
        let found = found(GroupVerification { removed: 500, ..GroupVerification::default() }).unwrap();
        let rules = vec![RemovalRule::new(RemovalCause::Retention, "max-length-bytes", "10000000")];
        record.verification = Some(Verification { removed: 500, removal_rules: rules, ..found });
    });
    assert_eq!(verdict.reasons.iter().map(|reason| reason.kind).collect::<Vec<_>>(), [Removed]);
    let evidence = &verdict.reasons[0].evidence;
    assert!(evidence.starts_with("In group 1, 500 of "), "{evidence}");
    assert!(evidence.ends_with("by its own rules: retention (max-length-bytes = 10000000)."), "{evidence}");
}

#[test]
fn late_catch_up_is_a_note_and_a_prompt_one_is_not() {
    let one = |catch_up_ns| {
        let (consumer_lag_at_load_end, catch_up_ns) = (Some(90), Some(catch_up_ns));
        found(GroupVerification { consumer_lag_at_load_end, catch_up_ns, ..GroupVerification::default() })
    };
    assert_eq!(notes(|record, _, _| record.verification = one(1_000_000_000)), []);
    let late = judged(|record, _, _| record.verification = one(9_000_000_000));
    assert!(late.valid);
    assert_eq!(late.notes[0].kind, ConsumersBehind);
    assert!(late.notes[0].evidence.starts_with("Group 1 was 90 messages behind"), "{}", late.notes[0].evidence);
}

#[test]
fn what_is_only_worth_knowing_is_a_note() {
    let stored = || found(GroupVerification { not_acknowledged_but_stored: 3, ..GroupVerification::default() });
    assert_eq!(reasons(|record, _, _| record.verification = stored()), []);
    assert_eq!(notes(|record, _, _| record.verification = stored()), [NotAcknowledgedButStored]);
    let harmless = || Some(Verification { reordered: 1, redelivered: 1, foreign: 1, ..Verification::default() });
    assert_eq!(reasons(|record, _, _| record.verification = harmless()), []);
    assert_eq!(notes(|record, _, _| record.verification = harmless()), [Reordered]);
    let saturated = || Some(Verification { saturated: true, ..Verification::default() });
    assert_eq!(notes(|record, _, _| record.verification = saturated()), [VerificationIncomplete]);
    let unchecked = || Some(Verification { order_unchecked: 1, ..Verification::default() });
    assert_eq!(notes(|record, _, _| record.verification = unchecked()), [VerificationIncomplete]);
}
