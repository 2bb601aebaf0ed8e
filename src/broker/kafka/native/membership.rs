//! What a group asks of a member that commits: to let partitions go, which waits until their messages are done.
//!
//! librdkafka calls back from within the fetch that meets the group's decision, on the member's own task. Partitions that
//! are given are taken at once. Those that are asked back stay until [`Membership::let_go`]: the group waits for that (up
//! to `max.poll.interval.ms`), so that what has been taken from them can be finished and committed by the member that took
//! it, and nobody takes it twice. Groups are of the eager protocol: all partitions go and come together.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;

use super::client::Client;

/// One member's standing in its group.
#[derive(Default)]
pub struct Membership {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The group has decided, and not asked back since.
    joined: bool,
    /// It wants its partitions back.
    asked: bool,
    /// The member is leaving: what is asked back goes at once.
    leaving: bool,
}

impl Membership {
    pub fn has_joined(&self) -> bool {
        self.lock().joined
    }

    pub fn is_asked_to_let_go(&self) -> bool {
        self.lock().asked
    }

    pub(super) fn let_go(&self, client: &Client) {
        let mut state = self.lock();
        if std::mem::take(&mut state.asked) {
            // Until it is told what it gets instead.
            state.joined = false;
            // SAFETY: the client is alive.
            unsafe { give_back(client.as_ptr()) };
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
                rd::rd_kafka_assign(client, partitions);
            }
            _ if state.leaving => give_back(client),
            _ => state.asked = true,
        }
    }
}

/// # Safety
/// `client` must be valid.
unsafe fn give_back(client: *mut rd::rd_kafka_t) {
    // SAFETY: by the caller's promise; no list stands for no partitions.
    unsafe { rd::rd_kafka_assign(client, std::ptr::null()) };
}
