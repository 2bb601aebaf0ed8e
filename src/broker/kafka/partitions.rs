//! Where the messages of a client's partitions are counted.

use std::collections::BTreeMap;

use super::native::{PartitionKey, Report};
use crate::measure::{AckRecorder, PartitionIndex};

/// The partitions of which the thread of a client has had reports.
#[derive(Default)]
pub struct KnownPartitions {
    all: BTreeMap<PartitionKey, PartitionIndex>,
    /// Reports of one event are nearly always of one partition.
    last: Option<(PartitionKey, PartitionIndex)>,
}

impl KnownPartitions {
    #[inline]
    pub fn index_of(&mut self, report: &Report<'_>, recorder: &AckRecorder) -> PartitionIndex {
        let key = report.partition();
        match self.last {
            Some((last, index)) if last == key => index,
            _ => self.look_up(key, report, recorder),
        }
    }

    fn look_up(&mut self, key: PartitionKey, report: &Report<'_>, recorder: &AckRecorder) -> PartitionIndex {
        let index = *self.all.entry(key).or_insert_with(|| match report.partition_name() {
            Some((topic, number)) => recorder.partition(&topic, Some(number)),
            None => PartitionIndex::UNKNOWN,
        });
        self.last = Some((key, index));
        index
    }
}
