//! What a node remembers of a member's fetches (KIP-227), so that a fetch names only the partitions whose positions have changed.
//!
//! Source: Kafka's `FetchSessionHandler.java` and `FetchMetadata.java`.

use super::super::codec::responses::FetchResponse;
use super::super::error::CallError;
use super::start_offset::Positions;

/// `FETCH_SESSION_ID_NOT_FOUND`: the node has made room for another session, or was started again.
const NOT_FOUND: i16 = 70;

/// `INVALID_FETCH_SESSION_EPOCH`: the node has heard another number of fetches.
const INVALID_EPOCH: i16 = 71;

/// With this epoch, a fetch names all its partitions, and ends the session whose id it has.
const FULL: i32 = 0;

/// The fetches from one node.
#[derive(Debug, Default)]
pub struct FetchSession {
    /// Id that the node has given; 0: the node remembers nothing.
    id: i32,
    /// Epoch of the next fetch.
    epoch: i32,
    /// The positions that the node remembers.
    known: Positions,
    /// Whether the last fetch has no answer, so that it is not known what the node remembers.
    is_unanswered: bool,
}

/// What a fetch says of its session and partitions.
#[derive(Debug, PartialEq, Eq)]
pub struct SessionFetch {
    pub id: i32,
    pub epoch: i32,
    /// Partitions that are new to the node, or have another position.
    pub changed: Positions,
    /// Partitions that are fetched no longer.
    pub forgotten: Vec<i32>,
}

impl FetchSession {
    /// The next fetch, which is from these positions.
    pub fn fetch(&mut self, positions: Positions) -> SessionFetch {
        if self.is_unanswered {
            self.epoch = FULL;
        }
        if self.epoch == FULL {
            self.known.clear();
        }
        let is_changed = |(partition, next): &(&u32, &i64)| self.known.get(*partition) != Some(*next);
        let changed = positions.iter().filter(is_changed).map(|(partition, next)| (*partition, *next)).collect();
        let is_left = |partition: &&u32| !positions.contains_key(*partition);
        let forgotten = self.known.keys().filter(is_left).map(|partition| *partition as i32).collect();
        (self.known, self.is_unanswered) = (positions, true);
        SessionFetch { id: self.id, epoch: self.epoch, changed, forgotten }
    }

    /// The last fetch was answered. Returns whether the node knew the session; otherwise, the next fetch names all partitions.
    ///
    /// # Errors
    /// When the node refused the fetch for another reason.
    pub fn answered(&mut self, response: &FetchResponse) -> Result<bool, CallError> {
        self.is_unanswered = false;
        let was_full = self.epoch == FULL;
        if response.code != 0 {
            if response.code == NOT_FOUND {
                self.id = 0;
            }
            self.epoch = FULL;
            let is_lost = !was_full && matches!(response.code, NOT_FOUND | INVALID_EPOCH);
            return if is_lost { Ok(false) } else { CallError::check(response.code).map(|()| true) };
        }
        let goes_on = if was_full {
            // A node that delays a client answers about no partition, and begins no session (KIP-219).
            response.session_id != 0 && response.partitions.len() == self.known.len()
        } else {
            response.session_id == self.id
        };
        (self.id, self.epoch) =
            if goes_on { (response.session_id, self.epoch.checked_add(1).unwrap_or(1)) } else { (0, FULL) };
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::broker::kafka_native::codec::responses::FetchedPartition;

    fn response(code: i16, session_id: i32, partitions: i32) -> FetchResponse {
        let one = |partition| FetchedPartition { partition, code: 0, aborted: Vec::new(), records: Bytes::new() };
        FetchResponse { throttled_ms: 0, code, session_id, partitions: (0..partitions).map(one).collect() }
    }

    fn fetch(session: &mut FetchSession, positions: &[(u32, i64)]) -> SessionFetch {
        session.fetch(positions.iter().copied().collect())
    }

    fn named(id: i32, epoch: i32, changed: &[(u32, i64)], forgotten: &[i32]) -> SessionFetch {
        SessionFetch { id, epoch, changed: changed.iter().copied().collect(), forgotten: forgotten.to_vec() }
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

    #[test]
    fn unknown_session_restarts_with_all_partitions() {
        // One that was not found has no id any more; with another epoch, it is there and is to end.
        for (code, id) in [(NOT_FOUND, 0), (INVALID_EPOCH, 9)] {
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
}
