//! The request that creates topics. rdkafka's own leaves out the broker's reason for a refusal.

use std::ffi::{CStr, CString, c_char};
use std::ptr::NonNull;
use std::slice;
use std::time::Duration;

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;

use super::client::Client;
use super::error::name_of;
use super::error::text;
use crate::broker::Topic;

/// How long the answer may take beyond the broker's own time limit.
const GRACE: Duration = Duration::from_secs(1);

/// What became of each topic: its name, and why it was refused.
pub type Outcomes = Vec<(String, Result<(), (Code, String)>)>;

/// Creates `topics`, each with the settings in `config`.
///
/// # Errors
/// When the request cannot be made, or is not answered within `timeout`.
pub fn create_topics(
    client: &Client,
    topics: &[&Topic],
    config: &[(String, String)],
    timeout: Duration,
) -> Result<Outcomes, String> {
    let new = topics.iter().map(|topic| NewTopic::new(topic, config)).collect::<Result<Vec<_>, _>>()?;
    let mut pointers: Vec<_> = new.iter().map(|topic| topic.0.as_ptr()).collect();
    let options = Options::new(client, timeout)?;
    // SAFETY: client, topics and options are alive, and librdkafka copies what it needs of them. Queue and event are made here
    // and destroyed after their last use; an answer that comes later finds its queue destroyed, for which librdkafka keeps a
    // reference of its own.
    unsafe {
        let queue = rd::rd_kafka_queue_new(client.as_ptr());
        let options = options.0.as_ptr();
        rd::rd_kafka_CreateTopics(client.as_ptr(), pointers.as_mut_ptr(), pointers.len(), options, queue);
        let event = rd::rd_kafka_queue_poll(queue, (timeout + GRACE).as_millis() as i32);
        let outcomes = if event.is_null() { Err(name_of(Code::RD_KAFKA_RESP_ERR__TIMED_OUT)) } else { outcomes(event) };
        if !event.is_null() {
            rd::rd_kafka_event_destroy(event);
        }
        rd::rd_kafka_queue_destroy(queue);
        outcomes
    }
}

/// # Safety
/// `event` must be the valid answer to the request.
unsafe fn outcomes(event: *mut rd::rd_kafka_event_t) -> Result<Outcomes, String> {
    // SAFETY: by the caller's promise. The results live as long as the event, and there are as many as librdkafka says.
    unsafe {
        if rd::rd_kafka_event_error(event) != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(sentence(rd::rd_kafka_event_error_string(event)).unwrap_or_default());
        }
        let result = rd::rd_kafka_event_CreateTopics_result(event);
        if result.is_null() {
            return Err(name_of(Code::RD_KAFKA_RESP_ERR__BAD_MSG));
        }
        let mut count = 0;
        let begin = rd::rd_kafka_CreateTopics_result_topics(result, &mut count);
        let results = if count == 0 { &[] } else { slice::from_raw_parts(begin, count) };
        let outcome = |topic: &*const rd::rd_kafka_topic_result_t| {
            let name = sentence(rd::rd_kafka_topic_result_name(*topic)).unwrap_or_default();
            let code = rd::rd_kafka_topic_result_error(*topic);
            let reason = || sentence(rd::rd_kafka_topic_result_error_string(*topic)).unwrap_or_else(|| name_of(code));
            let created = code == Code::RD_KAFKA_RESP_ERR_NO_ERROR;
            (name, if created { Ok(()) } else { Err((code, reason())) })
        };
        Ok(results.iter().map(outcome).collect())
    }
}

/// # Safety
/// `text` must be null or a terminated string.
unsafe fn sentence(text: *const c_char) -> Option<String> {
    // SAFETY: by the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A topic to be created, owned.
struct NewTopic(NonNull<rd::rd_kafka_NewTopic_t>);

impl NewTopic {
    fn new(topic: &Topic, config: &[(String, String)]) -> Result<Self, String> {
        let terminated = |text: &str| CString::new(text).map_err(|_| format!("'{text}' contains a NUL byte"));
        let name = terminated(&topic.name)?;
        let (partitions, replication) = (topic.partitions as i32, topic.replication as i32);
        let mut reason = [0 as c_char; 512];
        // SAFETY: the name is terminated, and the buffer is as long as it says.
        let new = unsafe {
            rd::rd_kafka_NewTopic_new(name.as_ptr(), partitions, replication, reason.as_mut_ptr(), reason.len())
        };
        let new = NewTopic(NonNull::new(new).ok_or_else(|| text(&reason))?);
        for (key, value) in config {
            let (name, value) = (terminated(key)?, terminated(value)?);
            // SAFETY: the topic is alive, and the strings are terminated.
            let code = unsafe { rd::rd_kafka_NewTopic_set_config(new.0.as_ptr(), name.as_ptr(), value.as_ptr()) };
            if code != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                return Err(format!("'{key}': {}", name_of(code)));
            }
        }
        Ok(new)
    }
}

impl Drop for NewTopic {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { rd::rd_kafka_NewTopic_destroy(self.0.as_ptr()) };
    }
}

/// The time limits of the request, owned.
struct Options(NonNull<rd::rd_kafka_AdminOptions_t>);

impl Options {
    fn new(client: &Client, timeout: Duration) -> Result<Self, String> {
        let kind = rd::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_CREATETOPICS;
        let timeout_ms = timeout.as_millis() as i32;
        let mut reason = [0 as c_char; 512];
        // SAFETY: the client is alive; the options are valid until they are destroyed, and the buffer is as long as it says.
        unsafe {
            let options = NonNull::new(rd::rd_kafka_AdminOptions_new(client.as_ptr(), kind)).map(Options);
            let options = options.ok_or_else(|| "librdkafka has no such request".to_owned())?;
            let (begin, length) = (reason.as_mut_ptr(), reason.len());
            for set in [rd::rd_kafka_AdminOptions_set_request_timeout, rd::rd_kafka_AdminOptions_set_operation_timeout]
            {
                if set(options.0.as_ptr(), timeout_ms, begin, length) != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                    return Err(text(&reason));
                }
            }
            Ok(options)
        }
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { rd::rd_kafka_AdminOptions_destroy(self.0.as_ptr()) };
    }
}
