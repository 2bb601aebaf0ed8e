//! What a group asks of its members: to let partitions go, and to take others on where the group has got to.
//!
//! librdkafka calls back from within the fetch that meets the group's decision, on the member's own task. Partitions that
//! are given are taken at once. Those that are asked back stay until [`Membership::let_go`]: the group waits for that (up
//! to `max.poll.interval.ms`), so that what has been taken from them can be recorded, or finished and committed, by the member
//! that took it, and nobody takes it twice. A member that commits begins where the broker says that the group has committed.
//! One that does not begins where the trial's own members have got to, by [`GroupPositions`]: the broker would send it to the
//! begin or to the end of the partition, and what it read there would seem to be duplicated or lost.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;

use super::client::Client;

/// Up to where the members of a group that does not commit have taken each partition of their topic.
#[derive(Debug, Default)]
pub struct GroupPositions {
    /// By partition; 0: nothing was taken.
    next: Mutex<Vec<i64>>,
}

impl GroupPositions {
    /// All before these offsets was taken.
    pub(super) fn advance(&self, taken: &[(u32, i64)]) {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        for (partition, offset) in taken {
            let partition = *partition as usize;
            if next.len() <= partition {
                next.resize(partition + 1, 0);
            }
            next[partition] = next[partition].max(*offset);
        }
    }

    fn of(&self, partition: i32) -> Option<i64> {
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        next.get(usize::try_from(partition).ok()?).copied().filter(|offset| *offset > 0)
    }
}

/// One member's standing in its group.
#[derive(Default)]
pub struct Membership {
    /// Of a member that does not commit.
    offsets: Option<Arc<GroupPositions>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The group has decided, and not asked back since.
    joined: bool,
    /// What it wants back.
    asked: Option<Partitions>,
    /// The member is leaving: what is asked back goes at once.
    leaving: bool,
}

impl Membership {
    /// Of a member that does not commit, in the group with these offsets.
    pub fn resuming(offsets: Arc<GroupPositions>) -> Self {
        Membership { offsets: Some(offsets), state: Mutex::default() }
    }

    /// Of a member that does not commit.
    pub(super) fn offsets(&self) -> Option<&GroupPositions> {
        self.offsets.as_deref()
    }

    pub fn has_joined(&self) -> bool {
        self.lock().joined
    }

    pub fn is_asked_to_let_go(&self) -> bool {
        self.lock().asked.is_some()
    }

    pub(super) fn let_go(&self, client: &Client) {
        let mut state = self.lock();
        if let Some(asked) = state.asked.take() {
            // Until it is told what it gets instead.
            state.joined = false;
            // SAFETY: the client is alive, and so is the list.
            unsafe { give_back(client.as_ptr(), asked.0.as_ptr()) };
        }
    }

    /// From now on nothing is held back, so that the client can be closed.
    pub(super) fn leave(&self, client: &Client) {
        self.lock().leaving = true;
        self.let_go(client);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A list of partitions, owned.
struct Partitions(NonNull<rd::rd_kafka_topic_partition_list_t>);

// SAFETY: the list is memory of its own, which is used by one thread at a time.
unsafe impl Send for Partitions {}

impl Drop for Partitions {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { rd::rd_kafka_topic_partition_list_destroy(self.0.as_ptr()) };
    }
}

/// librdkafka's callback of a client whose opaque pointer is its [`Membership`].
pub(super) unsafe extern "C" fn rebalance(
    client: *mut rd::rd_kafka_t,
    code: Code,
    partitions: *mut rd::rd_kafka_topic_partition_list_t,
    opaque: *mut c_void,
) {
    // SAFETY: `opaque` is what `Client::new` gave, which the client keeps for as long as it lives; the list is valid during
    // the call, and what outlives it is a copy.
    unsafe {
        let membership = &*opaque.cast::<Membership>();
        let mut state = membership.lock();
        match code {
            Code::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                state.joined = true;
                if let Some(offsets) = &membership.offsets {
                    resume(partitions, offsets);
                }
                take_on(client, partitions);
            }
            _ if state.leaving => give_back(client, partitions),
            _ => {
                let copy = rd::rd_kafka_topic_partition_list_copy(partitions);
                if let Some(earlier) = std::mem::replace(&mut state.asked, NonNull::new(copy).map(Partitions)) {
                    give_back(client, earlier.0.as_ptr());
                }
            }
        }
    }
}

/// # Safety
/// The list must be valid.
unsafe fn resume(partitions: *mut rd::rd_kafka_topic_partition_list_t, offsets: &GroupPositions) {
    // SAFETY: by the caller's promise; the list has as many elements as it says.
    unsafe {
        for index in 0..(*partitions).cnt as usize {
            let element = &mut *(*partitions).elems.add(index);
            if let Some(offset) = offsets.of(element.partition) {
                element.offset = offset;
            }
        }
    }
}

/// # Safety
/// Both must be valid.
unsafe fn take_on(client: *mut rd::rd_kafka_t, partitions: *const rd::rd_kafka_topic_partition_list_t) {
    // SAFETY: by the caller's promise.
    unsafe {
        if is_cooperative(client) {
            ignore(rd::rd_kafka_incremental_assign(client, partitions));
        } else {
            rd::rd_kafka_assign(client, partitions);
        }
    }
}

/// # Safety
/// Both must be valid.
unsafe fn give_back(client: *mut rd::rd_kafka_t, partitions: *const rd::rd_kafka_topic_partition_list_t) {
    // SAFETY: by the caller's promise; no list stands for no partitions, as all go together in the eager protocol.
    unsafe {
        if is_cooperative(client) {
            ignore(rd::rd_kafka_incremental_unassign(client, partitions));
        } else {
            rd::rd_kafka_assign(client, std::ptr::null());
        }
    }
}

/// Whether partitions come and go one by one, as the group's strategy or protocol wants it.
///
/// # Safety
/// `client` must be valid.
unsafe fn is_cooperative(client: *mut rd::rd_kafka_t) -> bool {
    // SAFETY: by the caller's promise; the result is null or a static, terminated string.
    unsafe {
        let protocol = rd::rd_kafka_rebalance_protocol(client);
        !protocol.is_null() && CStr::from_ptr(protocol) == c"COOPERATIVE"
    }
}

/// What fails here is met again as an error of the next fetch.
///
/// # Safety
/// `error` must be null or the caller's own.
unsafe fn ignore(error: *mut rd::rd_kafka_error_t) {
    if !error.is_null() {
        // SAFETY: by the caller's promise.
        unsafe { rd::rd_kafka_error_destroy(error) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_only_grow_and_a_partition_of_which_nothing_was_taken_has_none() {
        let offsets = GroupPositions::default();
        offsets.advance(&[(2, 10), (0, 4), (2, 12)]);
        offsets.advance(&[(2, 11)]);
        assert_eq!([0, 1, 2, 3, -1].map(|partition| offsets.of(partition)), [Some(4), None, Some(12), None, None]);
    }
}
