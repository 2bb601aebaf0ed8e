//! What librdkafka calls back for, on the thread that serves the client's queue.

use std::ffi::{c_char, c_void};

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;

use super::membership::{self, Membership};
use super::oauthbearer;
use crate::scenario::Secret;

/// The opaque pointer of a client points to it.
pub struct Callbacks {
    /// Of a consumer, its state in its group.
    pub membership: Option<Membership>,
    /// With SASL OAUTHBEARER, where the token is.
    pub token: Option<Secret>,
}

/// The group has decided which partitions the member has, or requests partitions back.
pub unsafe extern "C" fn rebalance(
    client: *mut rd::rd_kafka_t,
    code: Code,
    partitions: *mut rd::rd_kafka_topic_partition_list_t,
    opaque: *mut c_void,
) {
    // SAFETY: `opaque` is what `Client::new` gave, which the client keeps for as long as it lives; librdkafka calls with a valid
    // client, and with a list that is valid during the call.
    unsafe {
        if let Some(membership) = &(*opaque.cast::<Callbacks>()).membership {
            membership::rebalance(membership, client, code, partitions);
        }
    }
}

/// The client needs a token.
pub unsafe extern "C" fn refresh(client: *mut rd::rd_kafka_t, _config: *const c_char, opaque: *mut c_void) {
    // SAFETY: as above.
    unsafe {
        if let Some(secret) = &(*opaque.cast::<Callbacks>()).token {
            oauthbearer::refresh(client, secret);
        }
    }
}
