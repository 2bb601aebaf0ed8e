//! Where reading goes on when the place of a member is gone: retention has removed what comes next, a new leader lacks what was read before, or
//! another client has replaced the topic. The consumer is told, with the number of messages.
//!
//! Source: KIP-320. A leader tells where the messages of an epoch end in its log: below the member's place, the log was cut off there.

use kafka_protocol::messages::offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic};
use kafka_protocol::messages::{ApiKey, OffsetForLeaderEpochRequest};

use super::super::config::Isolation;
use super::super::error::{CallError, UNKNOWN_TOPIC_ID};
use super::super::net::admin::{End, EndsQuery};
use super::super::net::cluster::name_of;
use super::super::net::control::ControlConnection;
use super::fetcher::FetchTask;
use crate::broker::{FailureClass, ReceiveError};

/// The versions that are used here.
const OLDEST: i16 = 2;
const NEWEST: i16 = 4;

impl FetchTask {
    /// Asks the leader of those of `partitions` that have moved where its log ends by the epoch of what was read last. Returns those about which
    /// it gives an error.
    pub(super) async fn check_epochs(
        &self,
        connection: &mut ControlConnection,
        partitions: &[u32],
    ) -> Result<Vec<(u32, CallError)>, CallError> {
        let moved: Vec<u32> = {
            let mut places = self.places.lock();
            partitions.iter().copied().filter(|partition| places.unchecked.remove(partition)).collect()
        };
        let asked: Vec<OffsetForLeaderPartition> = {
            let (places, epochs) = (self.places.lock(), self.epochs.lock());
            let asked = |partition: &u32| {
                let read = *epochs.get(partition).filter(|epoch| **epoch >= 0)?;
                let leaders = places.leader_epochs.get(partition).copied().unwrap_or(-1);
                let asked = OffsetForLeaderPartition::default().with_partition(*partition as i32);
                Some(asked.with_current_leader_epoch(leaders).with_leader_epoch(read))
            };
            moved.iter().filter_map(asked).collect()
        };
        let is_supported =
            connection.versions.newest_common(ApiKey::OffsetForLeaderEpoch as i16, OLDEST, NEWEST).is_ok();
        if asked.is_empty() || !is_supported {
            return Ok(Vec::new());
        }
        let topic =
            OffsetForLeaderTopic::default().with_topic(name_of(&self.start_offsets.topic)).with_partitions(asked);
        let request = OffsetForLeaderEpochRequest::default().with_replica_id((-1).into()).with_topics(vec![topic]);
        let response = connection.call(&request, NEWEST).await?;
        let mut refused = Vec::new();
        for answer in response.topics.iter().flat_map(|topic| &topic.partitions) {
            let partition = answer.partition as u32;
            match CallError::check(answer.error_code) {
                Err(error) => refused.push((partition, error)),
                Ok(()) if answer.end_offset >= 0 => self.cut_off(partition, answer.end_offset, answer.leader_epoch),
                // It knows no epoch of those that were read: the fetch tells whether it has the messages.
                Ok(()) => {}
            }
        }
        Ok(refused)
    }

    /// The log of the leader ends there, for the messages that were read.
    fn cut_off(&self, partition: u32, end: i64, epoch: i32) {
        let mut positions = self.positions.lock();
        let Some(next) = positions.get_mut(&partition).filter(|next| **next > end) else { return };
        let read = std::mem::replace(next, end);
        drop(positions);
        self.epochs.lock().insert(partition, epoch);
        self.tell_truncation(partition, read, end);
    }

    /// The node has no message at the member's place.
    pub(super) async fn go_on_elsewhere(&self, partition: u32) -> Result<(), CallError> {
        let (begin, end) = (self.end_of(partition, End::Earliest).await?, self.end_of(partition, End::Latest).await?);
        let cluster = &self.start_offsets.admin.cluster;
        if cluster.first_id(&self.start_offsets.topic) == Some(self.places.lock().topic_id)
            && cluster.is_replaced(&self.start_offsets.topic)
        {
            return Err(CallError::Refused(UNKNOWN_TOPIC_ID, None));
        }
        let Some(gone) = self.positions.lock().get(&partition).copied() else { return Ok(()) };
        if gone < begin {
            self.positions.lock().insert(partition, begin);
            self.tell(format!(
                "{} messages of partition {partition}, from offset {gone} on, were removed before they were read, by the retention of the topic \
                 or by another client: reading goes on at offset {begin}",
                begin - gone
            ));
        } else if gone > end {
            self.positions.lock().insert(partition, end);
            self.tell_truncation(partition, gone, end);
        }
        Ok(())
    }

    async fn end_of(&self, partition: u32, end: End) -> Result<i64, CallError> {
        let (topic, isolation) = (&self.start_offsets.topic, Isolation::ReadUncommitted);
        let query = EndsQuery { topic, partitions: &[partition], end, isolation };
        let ends = self.start_offsets.admin.ends(&query).await?;
        ends.get(&partition).copied().ok_or_else(|| CallError::Malformed("it does not name the partition".to_owned()))
    }

    /// All partitions are those of another topic of the same name.
    pub(super) fn begin_in_new_topic(&self) {
        for (partition, next) in self.positions.lock().iter_mut() {
            *next = 0;
            self.start_offsets.cut_off(*partition, 0);
        }
        self.epochs.lock().clear();
        self.read_before.lock().clear();
        let topic = &self.start_offsets.topic;
        self.tell(format!(
            "another client has deleted the topic '{topic}' and created it again: reading goes on where the new one begins"
        ));
    }

    fn tell_truncation(&self, partition: u32, read: i64, end: i64) {
        self.read_before.lock().insert(partition, read);
        self.start_offsets.cut_off(partition, end);
        self.tell(format!(
            "the log of partition {partition} was truncated from offset {read} to {end}, as by an unclean election: its new leader does not \
             have {} messages that were read, and reading goes on at offset {end}",
            read - end
        ));
    }

    fn tell(&self, message: String) {
        self.buffer.report(ReceiveError { class: FailureClass::Other, message });
    }
}
