//! What a message carries beside its payload, taken from librdkafka when it is asked for.

use std::borrow::Cow;
use std::ffi::{CStr, c_void};
use std::fmt;
use std::ptr;
use std::slice;

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;

use crate::broker::{Details, TRACE_HEADER_NAME};

/// A message of librdkafka's.
pub(super) struct MessageDetails {
    message: *const rd::rd_kafka_message_t,
}

impl MessageDetails {
    /// # Safety
    /// `message` must be valid for as long as the result is used.
    pub unsafe fn new(message: *const rd::rd_kafka_message_t) -> Self {
        MessageDetails { message }
    }

    pub fn message(&self) -> *const rd::rd_kafka_message_t {
        self.message
    }
}

impl fmt::Debug for MessageDetails {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, headers) = (self.key(), self.headers());
        formatter.debug_struct("MessageDetails").field("key", &key).field("headers", &headers).finish()
    }
}

impl Details for MessageDetails {
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        // SAFETY: the message is valid, and its key and the key's length belong together.
        unsafe {
            let key = (*self.message).key;
            (!key.is_null()).then(|| Cow::Borrowed(bytes(key, (*self.message).key_len)))
        }
    }

    /// When the producer's client made it, or, with `message.timestamp.type=LogAppendTime`, when the broker stored it.
    fn timestamp_unix_ns(&self) -> Option<u64> {
        let mut kind = rd::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
        // SAFETY: the message is valid. Without a timestamp the result is -1.
        let ms = unsafe { rd::rd_kafka_message_timestamp(self.message, &raw mut kind) };
        u64::try_from(ms).ok()?.checked_mul(1_000_000)
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        let mut headers = ptr::null_mut();
        // SAFETY: the message is valid; it owns the headers, and each name, value and length until it is destroyed.
        unsafe {
            if rd::rd_kafka_message_headers(self.message, &raw mut headers) != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                return all;
            }
            for index in 0..rd::rd_kafka_header_cnt(headers) {
                let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
                let code = rd::rd_kafka_header_get_all(headers, index, &raw mut name, &raw mut value, &raw mut length);
                if code != Code::RD_KAFKA_RESP_ERR_NO_ERROR {
                    break;
                }
                let name = CStr::from_ptr(name).to_string_lossy().into_owned();
                if name != TRACE_HEADER_NAME {
                    all.push((name, bytes(value, length).to_vec()));
                }
            }
        }
        all
    }
}

/// # Safety
/// `begin` must be null or the begin of `length` bytes that live for `'a`.
pub(super) unsafe fn bytes<'a>(begin: *const c_void, length: usize) -> &'a [u8] {
    if begin.is_null() {
        return &[];
    }
    // SAFETY: by the caller's promise.
    unsafe { slice::from_raw_parts(begin.cast(), length) }
}
