//! librdkafka's list of partitions, each with an offset.

use std::ffi::CString;
use std::ptr::NonNull;

use rdkafka::bindings as rd;
use rdkafka::bindings::rd_kafka_resp_err_t as Code;

/// A list of partitions, owned.
pub struct PartitionList(NonNull<rd::rd_kafka_topic_partition_list_t>);

// SAFETY: the list is memory of its own, which is used by one thread at a time.
unsafe impl Send for PartitionList {}

impl PartitionList {
    /// Partitions of `topic`, each with an offset.
    ///
    /// # Errors
    /// When the name contains a NUL byte.
    pub fn new(topic: &str, partitions: &[(i32, i64)]) -> Result<Self, Code> {
        let name = CString::new(topic).map_err(|_| Code::RD_KAFKA_RESP_ERR__INVALID_ARG)?;
        // SAFETY: the name is terminated; each element is written to before the next one is added, which may move them.
        unsafe {
            let list = rd::rd_kafka_topic_partition_list_new(partitions.len() as i32);
            for (partition, offset) in partitions {
                (*rd::rd_kafka_topic_partition_list_add(list, name.as_ptr(), *partition)).offset = *offset;
            }
            Self::from_raw(list).ok_or(Code::RD_KAFKA_RESP_ERR__INVALID_ARG)
        }
    }

    /// A copy of `list`.
    ///
    /// # Safety
    /// `list` must be valid.
    pub unsafe fn copy_of(list: *const rd::rd_kafka_topic_partition_list_t) -> Option<Self> {
        // SAFETY: by the caller's promise.
        unsafe { Self::from_raw(rd::rd_kafka_topic_partition_list_copy(list)) }
    }

    /// Takes over a list; `None`: it is null.
    ///
    /// # Safety
    /// `list` must be null, or valid and the caller's own.
    pub unsafe fn from_raw(list: *mut rd::rd_kafka_topic_partition_list_t) -> Option<Self> {
        NonNull::new(list).map(PartitionList)
    }

    /// The partitions and their offsets.
    pub fn iter(&self) -> impl Iterator<Item = (i32, i64)> {
        // SAFETY: the list is valid and has as many elements as it says.
        let elements = unsafe {
            let list = self.0.as_ref();
            match list.cnt {
                0 => &[],
                count => std::slice::from_raw_parts(list.elems, count as usize),
            }
        };
        elements.iter().map(|element| (element.partition, element.offset))
    }

    pub fn as_ptr(&self) -> *mut rd::rd_kafka_topic_partition_list_t {
        self.0.as_ptr()
    }
}

impl Drop for PartitionList {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { rd::rd_kafka_topic_partition_list_destroy(self.0.as_ptr()) };
    }
}
