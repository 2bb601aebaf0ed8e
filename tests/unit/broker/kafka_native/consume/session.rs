use bytes::Bytes;

use super::*;
use crate::broker::kafka_native::codec::responses::FetchedPartition;

fn response(code: i16, session_id: i32, partitions: i32) -> FetchResponse {
    let one = |partition| FetchedPartition { partition, code: 0, aborted: Vec::new(), records: Bytes::new() };
    FetchResponse { throttled_ms: 0, code, session_id, partitions: (0..partitions).map(one).collect() }
}

fn fetch(session: &mut FetchSession, positions: &[(u32, i64)]) -> SessionFetch {
    session.fetch(places(positions))
}

fn places(positions: &[(u32, i64)]) -> FetchPlaces {
    positions.iter().map(|(partition, next)| (*partition, FetchPlace { next: *next, leader_epoch: 3 })).collect()
}

fn named(id: i32, epoch: i32, changed: &[(u32, i64)], forgotten: &[i32]) -> SessionFetch {
    SessionFetch { id, epoch, changed: places(changed), forgotten: forgotten.to_vec() }
}

/// A session with the id 9 of the partitions 0 and 1, which are at 5 and 6.
fn begun() -> FetchSession {
    let mut session = FetchSession::default();
    assert_eq!(fetch(&mut session, &[(0, 5), (1, 6)]), named(0, 0, &[(0, 5), (1, 6)], &[]));
    assert!(session.answered(&response(0, 9, 2)).unwrap());
    session
}

#[test]
fn only_what_has_changed_is_named_and_what_is_left_is_forgotten() {
    let mut session = begun();
    assert_eq!(fetch(&mut session, &[(0, 5), (1, 8)]), named(9, 1, &[(1, 8)], &[]));
    assert!(session.answered(&response(0, 9, 1)).unwrap());
    assert_eq!(fetch(&mut session, &[(0, 5), (1, 8)]), named(9, 2, &[], &[]));
    assert!(session.answered(&response(0, 9, 0)).unwrap());
    assert_eq!(fetch(&mut session, &[(1, 8), (2, 0)]), named(9, 3, &[(2, 0)], &[0]));
    assert!(session.answered(&response(0, 9, 1)).unwrap());
    assert_eq!(fetch(&mut session, &[(1, 8), (2, 0)]), named(9, 4, &[], &[]));
}

/// The node would refuse the fetch again and again otherwise.
#[test]
fn a_partition_whose_leader_has_another_epoch_is_named() {
    let mut session = begun();
    let mut moved = places(&[(0, 5), (1, 6)]);
    moved.entry(1).and_modify(|place| place.leader_epoch = 4);
    let fetch = session.fetch(moved);
    assert_eq!(fetch.changed, [(1, FetchPlace { next: 6, leader_epoch: 4 })].into());
}

#[test]
fn unknown_session_restarts_with_all_partitions() {
    // One that was not found has no id any more; with another epoch, it is there and is to end.
    for (code, id) in [(SESSION_NOT_FOUND, 0), (INVALID_EPOCH, 9)] {
        let mut session = begun();
        fetch(&mut session, &[(0, 5), (1, 8)]);
        assert!(!session.answered(&response(code, 0, 0)).unwrap());
        let all = named(id, 0, &[(0, 5), (1, 8)], &[]);
        assert_eq!(fetch(&mut session, &[(0, 5), (1, 8)]), all, "{code}");
        // A node that refuses that too is not asked at once again.
        assert!(session.answered(&response(code, 0, 0)).is_err(), "{code}");
    }
}

#[test]
fn unanswered_fetch_ends_the_session_and_starts_another() {
    let mut session = begun();
    assert_eq!(fetch(&mut session, &[(0, 7), (1, 6)]).epoch, 1);
    assert_eq!(fetch(&mut session, &[(1, 6)]), named(9, 0, &[(1, 6)], &[]));
    assert!(session.answered(&response(0, 10, 1)).unwrap());
    assert_eq!(fetch(&mut session, &[(1, 6)]), named(10, 1, &[], &[]));
}

#[test]
fn an_error_of_the_whole_fetch_is_reported_and_ends_the_session() {
    let mut session = begun();
    fetch(&mut session, &[(0, 5), (1, 6)]);
    assert!(matches!(session.answered(&response(2, 0, 0)), Err(CallError::Refused(2, _))));
    assert_eq!(fetch(&mut session, &[(0, 5), (1, 6)]).epoch, FULL);
}

#[test]
fn without_a_session_each_fetch_names_all_partitions() {
    // No session is begun; one is offered without all partitions; the node ends the one that there was.
    for (offered, partitions, then) in [(0, 2, None), (9, 0, None), (9, 2, Some(0))] {
        let mut session = FetchSession::default();
        fetch(&mut session, &[(0, 5), (1, 6)]);
        assert!(session.answered(&response(0, offered, partitions)).unwrap());
        if let Some(id) = then {
            fetch(&mut session, &[(0, 5), (1, 6)]);
            assert!(session.answered(&response(0, id, 0)).unwrap());
        }
        let again = fetch(&mut session, &[(0, 5), (1, 6)]);
        assert_eq!(again, named(0, 0, &[(0, 5), (1, 6)], &[]), "{offered}, {partitions}, {then:?}");
    }
}

#[test]
fn epochs_begin_again_at_1() {
    let mut session = begun();
    session.epoch = i32::MAX;
    fetch(&mut session, &[(0, 5), (1, 6)]);
    assert!(session.answered(&response(0, 9, 0)).unwrap());
    assert_eq!(session.epoch, 1);
}
