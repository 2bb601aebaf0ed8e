//! What a group requests of its members: to revoke partitions, and to take on others.
//!
//! librdkafka calls back from within the fetch that meets the group's decision, on the member's own task. Partitions that are
//! assigned are taken on at once. Those that are requested back stay until [`Membership::revoke`]: the group waits for that
//! (up to `max.poll.interval.ms`), so that the member can record, or finish and commit, what it has taken from them. A member
//! that commits begins at the offsets that the group has committed. One that does not commit begins where the trial's own
//! members have stopped, by [`GroupOffsets`]: from the broker's begin or end of the partition, messages would seem to be
//! duplicated or lost.

use std::ffi::CStr;
use std::sync::Arc;

use parking_lot::Mutex;
use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;

use super::partition_list::PartitionList;

/// Up to where the members of a group that does not commit have taken each partition of their topic.
#[derive(Debug, Default)]
pub struct GroupOffsets {
    /// By partition; 0: nothing was taken.
    next: Mutex<Vec<i64>>,
}

impl GroupOffsets {
    /// All before these offsets was taken.
    pub(super) fn advance(&self, taken: &[(u32, i64)]) {
        let mut next = self.next.lock();
        for (partition, offset) in taken {
            let partition = *partition as usize;
            if next.len() <= partition {
                next.resize(partition + 1, 0);
            }
            next[partition] = next[partition].max(*offset);
        }
    }

    fn of(&self, partition: i32) -> Option<i64> {
        self.next.lock().get(usize::try_from(partition).ok()?).copied().filter(|offset| *offset > 0)
    }
}

/// One member's state in its group.
#[derive(Default)]
pub struct Membership {
    /// Of a member that does not commit.
    offsets: Option<Arc<GroupOffsets>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The group has decided, and has not requested partitions back since.
    assigned: bool,
    /// The group has decided at least once.
    met: bool,
    /// The partitions that the group requests back.
    requested: Option<PartitionList>,
    /// The member is leaving: requested partitions are revoked at once.
    leaving: bool,
}

impl Membership {
    /// Of a member that does not commit, in the group with these offsets.
    pub fn resuming(offsets: Arc<GroupOffsets>) -> Self {
        Membership { offsets: Some(offsets), state: Mutex::default() }
    }

    /// Of a member that does not commit.
    pub(super) fn offsets(&self) -> Option<&GroupOffsets> {
        self.offsets.as_deref()
    }

    /// Partitions are assigned, by a group or without one.
    pub(super) fn decided(&self) {
        let mut state = self.state.lock();
        (state.assigned, state.met) = (true, true);
    }

    pub fn is_assigned(&self) -> bool {
        self.state.lock().assigned
    }

    /// Whether the group has decided at least once.
    pub fn has_met(&self) -> bool {
        self.state.lock().met
    }

    pub fn is_revocation_requested(&self) -> bool {
        self.state.lock().requested.is_some()
    }

    /// # Safety
    /// `client` must be the valid client of this member.
    pub(super) unsafe fn revoke(&self, client: *mut rd::rd_kafka_t) {
        let mut state = self.state.lock();
        if let Some(requested) = state.requested.take() {
            // Until the group assigns other partitions.
            state.assigned = false;
            // SAFETY: by the caller's promise, and the list is alive.
            unsafe { unassign(client, requested.as_ptr()) };
        }
    }

    /// From now on partitions are revoked at once, so that the client can be closed.
    ///
    /// # Safety
    /// `client` must be the valid client of this member.
    pub(super) unsafe fn leave(&self, client: *mut rd::rd_kafka_t) {
        self.state.lock().leaving = true;
        // SAFETY: by the caller's promise.
        unsafe { self.revoke(client) };
    }
}

/// Does what the group has decided.
///
/// # Safety
/// `client` and the list must be valid.
pub(super) unsafe fn rebalance(
    membership: &Membership,
    client: *mut rd::rd_kafka_t,
    code: Code,
    partitions: *mut rd::rd_kafka_topic_partition_list_t,
) {
    let mut state = membership.state.lock();
    // SAFETY: by the caller's promise; what outlives the call is a copy of the list.
    unsafe {
        match code {
            Code::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                (state.assigned, state.met) = (true, true);
                if let Some(offsets) = &membership.offsets {
                    resume(partitions, offsets);
                }
                assign(client, partitions);
            }
            _ if state.leaving => unassign(client, partitions),
            _ => {
                let earlier = std::mem::replace(&mut state.requested, PartitionList::copy_of(partitions));
                if let Some(earlier) = earlier {
                    unassign(client, earlier.as_ptr());
                }
            }
        }
    }
}

/// # Safety
/// The list must be valid.
unsafe fn resume(partitions: *mut rd::rd_kafka_topic_partition_list_t, offsets: &GroupOffsets) {
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
unsafe fn assign(client: *mut rd::rd_kafka_t, partitions: *const rd::rd_kafka_topic_partition_list_t) {
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
unsafe fn unassign(client: *mut rd::rd_kafka_t, partitions: *const rd::rd_kafka_topic_partition_list_t) {
    // SAFETY: by the caller's promise; no list means no partitions: in the eager protocol all are revoked together.
    unsafe {
        if is_cooperative(client) {
            ignore(rd::rd_kafka_incremental_unassign(client, partitions));
        } else {
            rd::rd_kafka_assign(client, std::ptr::null());
        }
    }
}

/// Whether partitions are assigned and revoked one by one, by the group's strategy or protocol.
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

/// The next fetch reports the same error again.
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
    fn offsets_only_grow_and_a_partition_of_which_nothing_was_taken_has_none() {
        let offsets = GroupOffsets::default();
        offsets.advance(&[(2, 10), (0, 4), (2, 12)]);
        offsets.advance(&[(2, 11)]);
        assert_eq!([0, 1, 2, 3, -1].map(|partition| offsets.of(partition)), [Some(4), None, Some(12), None, None]);
    }
}
