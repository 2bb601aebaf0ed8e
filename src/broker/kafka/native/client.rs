//! One librdkafka client instance, owned.

use std::ffi::{CStr, CString, c_char};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings as rd;
use rdkafka::types::RDKafkaConfRes;

use super::callbacks::{self, Callbacks};
use super::error::text;
use super::membership::Membership;
use super::partition_list::PartitionList;
use crate::load::PayloadPool;
use crate::scenario::Secret;

/// What a client instance is for.
pub enum Role {
    /// Delivery reports, errors and statistics come as events.
    Producer,
    /// Its group calls back with what it assigns and requests back.
    Consumer(Membership),
}

/// Owns a `rd_kafka_t`. librdkafka's functions on it may be called from any thread.
pub struct Client {
    client: NonNull<rd::rd_kafka_t>,
    /// Messages may point into the pool as long as the client lives: fields are dropped after it is destroyed.
    payloads: Option<Arc<PayloadPool>>,
    /// The argument of the callbacks, for as long as the client lives.
    callbacks: Arc<Callbacks>,
}

// SAFETY: librdkafka's client is thread-safe ("fully thread-safe", INTRODUCTION.md, "Threads and callbacks").
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl Client {
    /// A client without a token.
    #[cfg(test)]
    pub fn new<'p>(
        role: Role,
        properties: impl IntoIterator<Item = (&'p str, &'p str)>,
        payloads: Option<Arc<PayloadPool>>,
    ) -> Result<Self, String> {
        Self::with_token(role, properties, payloads, None)
    }

    /// Makes a client with `properties`, later ones overriding earlier ones. A producing one keeps `payloads` for as long
    /// as it lives. `token`: with SASL OAUTHBEARER, where the token is, which is read whenever librdkafka needs it.
    ///
    /// # Errors
    /// librdkafka's sentence on the property it does not know or cannot take.
    pub fn with_token<'p>(
        role: Role,
        properties: impl IntoIterator<Item = (&'p str, &'p str)>,
        payloads: Option<Arc<PayloadPool>>,
        token: Option<Secret>,
    ) -> Result<Self, String> {
        let membership = match role {
            Role::Producer => None,
            Role::Consumer(membership) => Some(membership),
        };
        let callbacks = Arc::new(Callbacks { membership, token });
        // SAFETY: has no preconditions.
        let configuration = unsafe { rd::rd_kafka_conf_new() };
        for (key, value) in properties {
            if let Err(reason) = set(configuration, key, value) {
                // SAFETY: the configuration was made above and is not used again.
                unsafe { rd::rd_kafka_conf_destroy(configuration) };
                return Err(reason);
            }
        }
        let mut reason = [0 as c_char; 512];
        // SAFETY: the configuration is valid; `rd_kafka_new` takes it over if it succeeds, else it is destroyed here. The
        // reason's buffer is as long as it says. Without a log callback librdkafka keeps its log to itself; errors come
        // as events.
        unsafe {
            let kind = configure(configuration, &callbacks);
            let client = rd::rd_kafka_new(kind, configuration, reason.as_mut_ptr(), reason.len());
            match NonNull::new(client) {
                Some(client) => {
                    let client = Client { client, payloads, callbacks };
                    client.serve_tokens();
                    Ok(client)
                }
                None => {
                    rd::rd_kafka_conf_destroy(configuration);
                    Err(text(&reason))
                }
            }
        }
    }

    /// Lets a thread of librdkafka's ask for tokens, whether or not the client is polled.
    fn serve_tokens(&self) {
        if self.callbacks.token.is_some() {
            // SAFETY: the client is alive; an error would mean that it has no queue for that, which `new` asked for.
            unsafe {
                let error = rd::rd_kafka_sasl_background_callbacks_enable(self.as_ptr());
                if !error.is_null() {
                    rd::rd_kafka_error_destroy(error);
                }
            }
        }
    }

    /// Of a consumer, its state in its group.
    pub fn membership(&self) -> Option<&Membership> {
        self.callbacks.membership.as_ref()
    }

    /// Of a consumer, the partitions that are assigned to it, each with the offset of the next message to take; negative: it is
    /// not known.
    pub(super) fn assigned(&self) -> Option<PartitionList> {
        let mut list = std::ptr::null_mut();
        // SAFETY: the client is alive; the list, if there is one, is the caller's.
        unsafe {
            rd::rd_kafka_assignment(self.as_ptr(), &mut list);
            let list = PartitionList::from_raw(list)?;
            rd::rd_kafka_position(self.as_ptr(), list.as_ptr());
            Some(list)
        }
    }

    /// Of a consumer, returns the partitions that the group requests back.
    pub(super) fn revoke(&self) {
        if let Some(membership) = self.membership() {
            // SAFETY: it is the membership of this client, which is alive.
            unsafe { membership.revoke(self.as_ptr()) };
        }
    }

    /// Of a consumer, leaves the group. Without a coordinator that takes as long as a session.
    pub(super) fn leave(&self) {
        // SAFETY: as above.
        unsafe {
            if let Some(membership) = self.membership() {
                membership.leave(self.as_ptr());
            }
            rd::rd_kafka_consumer_close(self.as_ptr());
        }
    }

    pub(super) fn as_ptr(&self) -> *mut rd::rd_kafka_t {
        self.client.as_ptr()
    }

    /// Whether `payload` stays where it is for as long as the client lives.
    pub(super) fn keeps(&self, payload: &[u8]) -> bool {
        self.payloads.as_ref().is_some_and(|payloads| payloads.holds(payload))
    }

    /// Asks the cluster for its metadata: the number of brokers it has.
    ///
    /// # Errors
    /// librdkafka's code when no broker answers within `timeout`.
    pub fn count_brokers(&self, timeout: Duration) -> Result<usize, rd::rd_kafka_resp_err_t> {
        let mut metadata = std::ptr::null();
        let only_topic = std::ptr::null_mut();
        // SAFETY: the client is alive; on success `metadata` points to a structure that is destroyed after its last use.
        unsafe {
            let code = rd::rd_kafka_metadata(self.as_ptr(), 0, only_topic, &mut metadata, timeout.as_millis() as i32);
            if code != rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return Err(code);
            }
            let brokers = (*metadata).broker_cnt as usize;
            rd::rd_kafka_metadata_destroy(metadata);
            Ok(brokers)
        }
    }

    /// The offset that the next message of the partition will have.
    ///
    /// # Errors
    /// librdkafka's code when the broker does not answer within `timeout`.
    pub fn end_offset(&self, topic: &str, partition: i32, timeout: Duration) -> Result<i64, rd::rd_kafka_resp_err_t> {
        let name = CString::new(topic).map_err(|_| rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR__INVALID_ARG)?;
        let (mut begin, mut end) = (0, 0);
        let timeout_ms = timeout.as_millis() as i32;
        // SAFETY: the client is alive, the name terminated; both offsets outlive the call.
        let code = unsafe {
            let (topic, client) = (name.as_ptr(), self.as_ptr());
            rd::rd_kafka_query_watermark_offsets(client, topic, partition, &mut begin, &mut end, timeout_ms)
        };
        if code == rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR { Ok(end) } else { Err(code) }
    }

    /// The error after which the client takes no message any more, with librdkafka's reason.
    pub fn fatal_error(&self) -> Option<(rd::rd_kafka_resp_err_t, String)> {
        let mut reason = [0 as c_char; 512];
        // SAFETY: the client is alive, and the buffer is as long as it says.
        let code = unsafe { rd::rd_kafka_fatal_error(self.as_ptr(), reason.as_mut_ptr(), reason.len()) };
        (code != rd::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR).then(|| (code, text(&reason)))
    }

    /// Raises a fatal error, as a broker's answer would.
    #[cfg(test)]
    pub fn raise(&self, code: rd::rd_kafka_resp_err_t) {
        // SAFETY: the client is alive, and the reason is terminated.
        unsafe { rd::rd_kafka_test_fatal_error(self.as_ptr(), code, c"raised".as_ptr()) };
    }

    /// The cluster's id, once its metadata is known.
    pub fn cluster_id(&self) -> Option<String> {
        // SAFETY: the client is alive; the string, if any, is the caller's and freed by librdkafka's own function.
        unsafe {
            let id = rd::rd_kafka_clusterid(self.as_ptr(), 0);
            if id.is_null() {
                return None;
            }
            let text = CStr::from_ptr(id).to_string_lossy().into_owned();
            rd::rd_kafka_mem_free(self.as_ptr(), id.cast());
            Some(text)
        }
    }

    /// Abandons every message that is queued or in flight; each still gets its delivery report.
    pub fn purge(&self) {
        // SAFETY: the client is alive.
        unsafe { rd::rd_kafka_purge(self.as_ptr(), rd::RD_KAFKA_PURGE_F_QUEUE | rd::RD_KAFKA_PURGE_F_INFLIGHT) };
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: this is the only owner; queues and topics of the client hold a reference to its owner and are gone.
        unsafe { rd::rd_kafka_destroy(self.as_ptr()) };
    }
}

/// Sets what librdkafka calls back for, and what comes as events.
///
/// # Safety
/// `configuration` must be valid, and `callbacks` live as long as the client that is made with it.
unsafe fn configure(configuration: *mut rd::rd_kafka_conf_t, callbacks: &Arc<Callbacks>) -> rd::rd_kafka_type_t {
    // SAFETY: by the caller's promise.
    unsafe {
        rd::rd_kafka_conf_set_log_cb(configuration, None);
        rd::rd_kafka_conf_set_opaque(configuration, Arc::as_ptr(callbacks).cast_mut().cast());
        if callbacks.token.is_some() {
            rd::rd_kafka_conf_set_oauthbearer_token_refresh_cb(configuration, Some(callbacks::refresh));
            rd::rd_kafka_conf_enable_sasl_queue(configuration, 1);
        }
        match &callbacks.membership {
            None => {
                let events = rd::RD_KAFKA_EVENT_DR | rd::RD_KAFKA_EVENT_ERROR | rd::RD_KAFKA_EVENT_STATS;
                rd::rd_kafka_conf_set_events(configuration, events);
                rd::rd_kafka_type_t::RD_KAFKA_PRODUCER
            }
            Some(_) => {
                rd::rd_kafka_conf_set_rebalance_cb(configuration, Some(callbacks::rebalance));
                rd::rd_kafka_type_t::RD_KAFKA_CONSUMER
            }
        }
    }
}

/// Secrets are not shorter than this, in bytes.
const MIN_SECRET: usize = 4;

fn set(configuration: *mut rd::rd_kafka_conf_t, key: &str, value: &str) -> Result<(), String> {
    let nul = |_| format!("property '{key}' contains a NUL byte");
    let (name, content) = (CString::new(key).map_err(nul)?, CString::new(value).map_err(nul)?);
    let mut reason = [0 as c_char; 512];
    // SAFETY: the configuration is valid, the strings are terminated, the buffer is as long as it says.
    let result = unsafe {
        rd::rd_kafka_conf_set(configuration, name.as_ptr(), content.as_ptr(), reason.as_mut_ptr(), reason.len())
    };
    match result {
        RDKafkaConfRes::RD_KAFKA_CONF_OK => Ok(()),
        _ => Err(format!("property '{key}': {}", without(value, text(&reason)))),
    }
}

/// librdkafka's sentence quotes the value, which may be a secret. A short value is also part of other words.
fn without(value: &str, reason: String) -> String {
    let hidden = reason.replace(&format!("\"{value}\""), "\"…\"");
    if value.len() < MIN_SECRET { hidden } else { hidden.replace(value, "…") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_property_is_named_and_a_bad_value_is_not_shown() {
        let unknown = Client::new(Role::Producer, [("linger.mss", "5")], None).err().unwrap();
        assert!(unknown.contains("linger.mss"), "{unknown}");
        let bad = Client::new(Role::Producer, [("linger.ms", "hunter2")], None).err().unwrap();
        assert!(bad.contains("linger.ms") && !bad.contains("hunter2"), "{bad}");
        for short in ["", "e"] {
            let bad = Client::new(Role::Producer, [("linger.ms", short)], None).err().unwrap();
            assert!(bad.contains("configuration property \"queue.buffering.max.ms\""), "{bad}");
        }
    }
}
