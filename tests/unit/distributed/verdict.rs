use super::*;
use crate::distributed::merge::made_up::{scenario, share};
use crate::record::{HostLoad, LoadModel};

const SECOND: u64 = 1_000_000_000;

fn completed(shares: &[KeptShare]) -> Verdict {
    let mut record = shares[0].record.clone();
    record.verdict = Verdict { valid: true, reasons: Vec::new(), ..Verdict::default() };
    complete(&mut record, shares, &SharedMachine::all(shares, &scenario()));
    record.verdict
}

fn kinds(shares: &[KeptShare]) -> Vec<ReasonKind> {
    completed(shares).reasons.iter().map(|reason| reason.kind).collect()
}

fn pair(later_ns: u64) -> [KeptShare; 2] {
    [share(1, 2, 0, 10 * SECOND, 1_000.0), share(2, 2, later_ns, 10 * SECOND, 1_000.0)]
}

#[test]
fn shares_that_ran_together_are_valid() {
    assert_eq!(kinds(&pair(1_000_000)), []);
}

#[test]
fn one_client_bound_share_makes_the_whole_client_bound() {
    let mut shares = pair(0);
    shares[1].record.verdict.reasons.push(Reason::new(ClientBound, "It was busy.".to_owned(), "Use more.", &[]));
    shares[1].record.verdict.limited_by = LimitedBy { limiter: Limiter::Client, evidence: "Busy.".to_owned() };
    let verdict = completed(&shares);
    assert_eq!(verdict.reasons[0].evidence, "Share 2: It was busy.");
    assert_eq!((verdict.valid, verdict.limited_by.limiter), (false, Limiter::Client));
    assert_eq!(verdict.limited_by.evidence, "Share 2: Busy.");
}

#[test]
fn a_share_that_only_consumes_does_not_hide_what_limited_those_that_send() {
    let mut shares = pair(0);
    let limit = |limiter, evidence: &str| LimitedBy { limiter, evidence: evidence.to_owned() };
    shares[0].record.verdict.limited_by = limit(Limiter::Schedule, "Kept.");
    shares[1].record.verdict.limited_by = limit(Limiter::Unknown, "No message was measured.");
    let unknown = limit(Limiter::Unknown, "Share 2: No message was measured.");
    assert_eq!(completed(&shares).limited_by, unknown, "it has producers");
    shares[1].record.share.as_mut().unwrap().producers = 0;
    assert_eq!(completed(&shares).limited_by, limit(Limiter::Schedule, "Share 1: Kept."));
    assert_eq!(completed(&shares[1..]).limited_by, unknown, "those that send are missing");
}

/// A closed loop on 4 cores, all of them busy; each share takes the other for a process that is not part of the load.
fn share_of_a_full_machine(share: &mut KeptShare, cores_used: f64) {
    let record = &mut share.record;
    record.load_model = LoadModel::Closed;
    record.throughput.target_per_second = None;
    record.environment.cores = 4;
    let client = &mut record.client;
    (client.cores_available, client.cores_allowed) = (4.0, Some("0-3".to_owned()));
    (client.cores_used, client.busiest_thread_cores) = (cores_used, Some(0.9));
    record.host_load = Some(HostLoad { system_cpu_busy: 0.99, steal: 0.0, ..record.host_load.unwrap_or_default() });
    let other = Reason::new(HostContended, "52 % with other processes.".to_owned(), "Run alone.", &[]);
    record.verdict.notes.push(other);
    record.verdict.limited_by = LimitedBy { limiter: Limiter::Machine, evidence: "Others'.".to_owned() };
}

#[test]
fn shares_that_fill_their_machine_together_are_the_limit() {
    let with = |cores_used: f64, boot_ids: [&str; 2]| {
        let mut shares = pair(0);
        for (share, boot_id) in shares.iter_mut().zip(boot_ids) {
            share_of_a_full_machine(share, cores_used);
            share.record.share.as_mut().unwrap().boot_id = Some(boot_id.to_owned());
            share.record.latency.end_to_end = None;
        }
        completed(&shares)
    };
    let together = with(1.9, ["a", "a"]);
    assert_eq!(together.reasons.iter().map(|reason| reason.kind).collect::<Vec<_>>(), [ClientBound]);
    let evidence = &together.reasons[0].evidence;
    assert!(evidence.starts_with("Shares 1 to 2 together: ") && evidence.contains("3.80 of 4 cores"), "{evidence}");
    assert!(together.notes.iter().all(|note| note.kind != HostContended), "{:?}", together.notes);
    assert_eq!(together.limited_by.limiter, Limiter::Client);

    // A broker has the rest: three quarters of the machine.
    let beside = with(0.5, ["a", "a"]);
    assert_eq!((beside.valid, beside.limited_by.limiter), (true, Limiter::Machine));
    let note = beside.notes.iter().find(|note| note.kind == HostContended).unwrap();
    assert!(note.evidence.contains("Shares 1 to 2 together: ") && note.evidence.contains("75 %"), "{note:?}");
    assert!(beside.limited_by.evidence.contains("1.00 of 4 cores"), "{:?}", beside.limited_by);

    // One that is full by itself says so for all.
    let mut shares = pair(0);
    shares.iter_mut().for_each(|share| share_of_a_full_machine(share, 1.9));
    shares[0].record.client.busiest_thread_cores = Some(0.99);
    shares[0].record.verdict.reasons.push(Reason::new(ClientBound, "It was busy.".to_owned(), "Use more.", &[]));
    let alone = completed(&shares);
    assert_eq!(alone.reasons.iter().map(|reason| &*reason.evidence).collect::<Vec<_>>(), ["Share 1: It was busy."]);

    let apart = with(1.9, ["a", "b"]);
    assert_eq!((apart.valid, apart.limited_by.evidence.as_str()), (true, "Share 1: Others'."));
    assert!(apart.notes.iter().any(|note| note.evidence.starts_with("Share 1: 52 %")), "{:?}", apart.notes);
}

/// The one that carried the most kept its schedule.
#[test]
fn missed_rate_on_a_full_machine_is_said_for_all_shares() {
    let mut shares = [share(1, 2, 0, 10 * SECOND, 500.0), share(2, 2, 0, 10 * SECOND, 1_000.0)];
    shares.iter_mut().for_each(|share| {
        share_of_a_full_machine(share, 0.5);
        share.record.load_model = LoadModel::Open;
        let throughput = &mut share.record.throughput;
        throughput.sent_per_second = throughput.messages_per_second;
        throughput.target_per_second = Some(1_000.0);
    });
    shares[1].record.verdict.limited_by = LimitedBy { limiter: Limiter::Schedule, evidence: "Kept.".to_owned() };
    let LimitedBy { limiter, evidence } = completed(&shares).limited_by;
    assert_eq!((limiter, evidence.as_str()), (Limiter::Machine, "Share 1: Others'."));
}

#[test]
fn machines_are_told_from_shares_by_their_names() {
    let mut shares: Vec<KeptShare> = (1..=5).map(|number| share(number, 5, 0, 10 * SECOND, 1_000.0)).collect();
    for (share, boot_id) in shares.iter_mut().zip(["a", "b", "a", "b", "c"]) {
        share_of_a_full_machine(share, 0.5);
        share.record.share.as_mut().unwrap().boot_id = Some(boot_id.to_owned());
    }
    let verdict = completed(&shares);
    let note = verdict.notes.iter().find(|note| note.kind == HostContended).unwrap();
    assert!(note.evidence.starts_with("Share 5: "), "{note:?}");
    assert!(note.evidence.ends_with("for: (1, 3 together), (2, 4 together)."), "{note:?}");
    assert_eq!(note.figures["shares"], 5.0);
}

#[test]
fn a_share_that_began_late_says_how_far_all_overlap() {
    let mut shares = pair(200_000_000);
    let late = Reason::new(LateStart, "The load began 200 ms late.".to_owned(), "Begin later.", &[]);
    shares[1].record.verdict.notes.push(late);
    let mut record = shares[0].record.clone();
    record.together = Some(Together { window_overlap: 0.98, start_skew_ns: Some(200_000_000) });
    record.verdict = Verdict { valid: true, reasons: Vec::new(), ..Verdict::default() };
    complete(&mut record, &shares, &[]);
    let note = record.verdict.notes.iter().find(|note| note.kind == LateStart).unwrap();
    let expected = "Share 2: The load began 200 ms late. The measured windows of all shares overlap by 98";
    assert!(note.evidence.starts_with(expected), "{}", note.evidence);
    assert!(note.evidence.ends_with("began within 200 ms of each other."), "{}", note.evidence);
    assert_eq!((note.figures["window_overlap"], note.figures["start_skew_ns"]), (0.98, 2e8));
}
