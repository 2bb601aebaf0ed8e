use super::*;
use crate::distributed::merge::made_up::share;

const SECOND: u64 = 1_000_000_000;

fn kinds(shares: &[KeptShare]) -> Vec<ReasonKind> {
    findings_together(&shares[0].record, shares).reasons.iter().map(|reason| reason.kind).collect()
}

fn pair(later_ns: u64) -> [KeptShare; 2] {
    [share(1, 2, 0, 10 * SECOND, 1_000.0), share(2, 2, later_ns, 10 * SECOND, 1_000.0)]
}

#[test]
fn small_overlap_and_a_missing_share_are_reasons() {
    assert_eq!(kinds(&pair(200_000_000)), [], "9.8 s of 10.2 s");
    assert_eq!(kinds(&pair(300_000_000)), [SharesApart]);
    assert_eq!(kinds(&pair(20 * SECOND)), [SharesApart]);
    assert_eq!(kinds(&[share(2, 3, 0, SECOND, 1.0)]), [ShareMissing]);
}

#[test]
fn clocks_of_two_machines_are_doubted_as_far_as_they_may_differ() {
    let with = |errors: [Option<u64>; 2], boot_ids: [&str; 2], before_intended| {
        let mut shares = pair(0);
        for (share, (error, boot_id)) in shares.iter_mut().zip(errors.into_iter().zip(boot_ids)) {
            let of = share.record.share.as_mut().unwrap();
            (of.clock_error_ns, of.boot_id, of.before_intended) = (error, Some(boot_id.to_owned()), before_intended);
            share.record.latency.end_to_end.as_mut().unwrap().p50_ns = 10_000_000;
        }
        let uncertainty = clock_uncertainty_ns(&shares);
        let found = findings_together(&shares[0].record, &shares);
        let has = |list: &[Reason]| list.iter().any(|reason| reason.kind == ClocksDiffer);
        (uncertainty, has(&found.reasons), has(&found.notes))
    };
    assert_eq!(with([None, None], ["a", "a"], 0), (Some(0), false, false), "one machine has one clock");
    assert_eq!(with([Some(400_000), Some(500_000)], ["a", "b"], 0), (Some(900_000), false, true));
    assert_eq!(with([Some(400_000), Some(700_000)], ["a", "b"], 0), (Some(1_100_000), true, false));
    assert_eq!(with([Some(400_000), None], ["a", "b"], 0), (None, true, false));
    assert_eq!(with([Some(4), Some(5)], ["a", "b"], 3), (Some(9), true, false), "messages that arrived too early");
}

#[test]
fn machines_whose_kernels_are_not_named_have_a_clock_each() {
    let with = |hostnames: [Option<&str>; 2]| {
        let mut shares = pair(0);
        for (share, (hostname, error)) in shares.iter_mut().zip(hostnames.into_iter().zip([400_000, 700_000])) {
            let of = share.record.share.as_mut().unwrap();
            (of.clock_error_ns, of.boot_id) = (Some(error), None);
            share.record.environment.hostname = hostname.map(str::to_owned);
            share.record.latency.end_to_end.as_mut().unwrap().p50_ns = 10_000_000;
        }
        (clock_uncertainty_ns(&shares), kinds(&shares))
    };
    assert_eq!(with([Some("a"), Some("b")]), (Some(1_100_000), vec![ClocksDiffer]));
    assert_eq!(with([None, None]), (Some(1_100_000), vec![ClocksDiffer]), "it is not known to be one");
    assert_eq!(with([Some("a"), Some("a")]), (Some(0), vec![]));
}

#[test]
fn early_arrivals_are_told_with_the_largest_lead() {
    let mut shares = pair(0);
    for (share, early_ns) in shares.iter_mut().zip([2_000_000, 3_000_000]) {
        let of = share.record.share.as_mut().unwrap();
        of.boot_id = Some(format!("machine {}", of.number));
        (of.before_intended, of.most_before_intended_ns) = (2, early_ns);
    }
    let found = findings_together(&shares[0].record, &shares);
    let told = found.reasons.iter().find(|reason| reason.kind == ClocksDiffer).unwrap();
    assert!(told.evidence.contains("4 messages arrived before they were intended, by up to 3"), "{}", told.evidence);
    assert_eq!(told.figures["most_before_intended_ns"], 3e6);
}

#[test]
fn one_clock_at_both_ends_needs_no_other() {
    let mut shares = pair(0);
    shares[1].record.share.as_mut().unwrap().boot_id = Some("b".to_owned());
    assert_eq!(kinds(&shares), [ClocksDiffer]);
    shares.iter_mut().for_each(|share| share.record.scenario["consumers"]["timing"] = "own".into());
    assert_eq!(kinds(&shares), []);
}

#[test]
fn machines_that_are_not_alike_are_noted() {
    let mut shares = pair(0);
    shares[1].record.environment.cores += 1;
    let found = findings_together(&shares[0].record, &shares);
    assert!(
        found.reasons.is_empty() && found.notes.iter().any(|note| note.kind == UnequalMachines),
        "{:?}",
        found.notes
    );
}
