//! What a node remembers of a member's fetches (KIP-227), so that a fetch names only the partitions whose positions have changed: Kafka's
//! `FetchSessionHandler.java` and `FetchMetadata.java`.

use std::collections::BTreeMap;

use super::super::codec::responses::FetchResponse;
use super::super::error::CallError;

/// `FETCH_SESSION_ID_NOT_FOUND`: the node has made room for another session, or was started again.
const SESSION_NOT_FOUND: i16 = 70;

/// `INVALID_FETCH_SESSION_EPOCH`: the node has heard another number of fetches.
const INVALID_EPOCH: i16 = 71;

/// With this epoch, a fetch names all its partitions, and ends the session whose id it has.
const FULL: i32 = 0;

/// From where a partition is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchPlace {
    /// The offset of the next message.
    pub next: i64,
    /// The epoch of the leader that metadata names; below 0: it does not tell. A node that knows another one refuses the fetch (KIP-320).
    pub leader_epoch: i32,
}

pub type FetchPlaces = BTreeMap<u32, FetchPlace>;

/// The fetches from one node.
#[derive(Debug, Default)]
pub struct FetchSession {
    /// Id that the node has given; 0: the node remembers nothing.
    id: i32,
    /// Epoch of the next fetch.
    epoch: i32,
    /// The places that the node remembers.
    known: FetchPlaces,
    /// Whether the last fetch has no answer, so that it is not known what the node remembers.
    is_unanswered: bool,
}

/// What a fetch says of its session and partitions.
#[derive(Debug, PartialEq, Eq)]
pub struct SessionFetch {
    pub id: i32,
    pub epoch: i32,
    /// Partitions that are new to the node, or have another place.
    pub changed: FetchPlaces,
    /// Partitions that are fetched no longer.
    pub forgotten: Vec<i32>,
}

impl FetchSession {
    /// The next fetch, which is from these places.
    pub fn fetch(&mut self, places: FetchPlaces) -> SessionFetch {
        if self.is_unanswered {
            self.epoch = FULL;
        }
        if self.epoch == FULL {
            self.known.clear();
        }
        let is_changed = |(partition, place): &(&u32, &FetchPlace)| self.known.get(*partition) != Some(*place);
        let changed = places.iter().filter(is_changed).map(|(partition, place)| (*partition, *place)).collect();
        let is_left = |partition: &&u32| !places.contains_key(*partition);
        let forgotten = self.known.keys().filter(is_left).map(|partition| *partition as i32).collect();
        (self.known, self.is_unanswered) = (places, true);
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
            if response.code == SESSION_NOT_FOUND {
                self.id = 0;
            }
            self.epoch = FULL;
            let is_lost = !was_full && matches!(response.code, SESSION_NOT_FOUND | INVALID_EPOCH);
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
#[path = "../../../../tests/unit/broker/kafka_native/consume/session.rs"]
mod tests;
