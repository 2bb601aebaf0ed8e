//! The requests of a member's session with one node: fetches, and answers, which a fetch may carry as well.
//!
//! Source: KIP-932, section "Share sessions": a session begins with epoch 0, each request that follows has the next one, and -1 ends it. A request
//! names only the partitions that are new to the session, that are answered, or that are not fetched any more.

use std::collections::{BTreeMap, BTreeSet};

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::share_acknowledge_request::{
    AcknowledgePartition, AcknowledgeTopic, AcknowledgementBatch as AcknowledgedBatch,
};
use kafka_protocol::messages::share_fetch_request::{AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::{ApiKey, ShareAcknowledgeRequest, ShareFetchRequest};
use uuid::Uuid;

use super::super::codec::shares::{OLDEST, ShareResponse, WITH_RENEWAL, read_share_acknowledged, read_share_fetched};
use super::super::error::CallError;
use super::super::net::control::ControlConnection;
use super::answers::{Answer, Answers, Stretch};
use super::member::ShareIdentity;

/// Epochs of a session that is not open, and of its last request.
const NEW: i32 = 0;
const LAST: i32 = -1;

/// `SHARE_SESSION_NOT_FOUND` and `INVALID_SHARE_SESSION_EPOCH`.
const SESSION_NOT_FOUND: i16 = 122;
const INVALID_EPOCH: i16 = 123;

/// As Kafka's own client asks: `fetch.max.wait.ms` and `fetch.max.bytes`.
const MAX_WAIT_MS: i32 = 500;
const MAX_BYTES: i32 = 50 << 20;

/// What a node remembers of a member.
#[derive(Debug, Default)]
pub struct ShareSession {
    epoch: i32,
    partitions: BTreeSet<u32>,
}

/// What a request came to.
pub enum Exchange {
    Answered(ShareResponse),
    /// The node does not have the session: what the member was delivered goes to others, and the next request begins another one.
    Lost,
}

impl ShareSession {
    /// Fetches from `partitions`, and answers. In a new session, nothing can be answered.
    ///
    /// # Errors
    /// When the node does not answer, or refuses.
    pub async fn fetch(
        &mut self,
        connection: &mut ControlConnection,
        identity: &ShareIdentity,
        (topic, partitions): (Uuid, &BTreeSet<u32>),
        answers: &Answers,
        max_records: u16,
    ) -> Result<Exchange, CallError> {
        let mut named: BTreeMap<u32, FetchPartition> = BTreeMap::new();
        let partition = |partition: &u32| FetchPartition::default().with_partition_index(*partition as i32);
        named.extend(partitions.difference(&self.partitions).map(|number| (*number, partition(number))));
        named.extend(answers.iter().map(|(number, stretches)| {
            let batches = stretches.iter().map(|stretch| {
                let batch =
                    AcknowledgementBatch::default().with_first_offset(stretch.first).with_last_offset(stretch.last);
                batch.with_acknowledge_types(vec![stretch.answer as i8])
            });
            (*number, partition(number).with_acknowledgement_batches(batches.collect()))
        }));
        let forgotten: Vec<i32> = self.partitions.difference(partitions).map(|number| *number as i32).collect();
        let mut request = ShareFetchRequest::default()
            .with_group_id(Some(identity.group_id()))
            .with_member_id(Some(identity.member_id()))
            .with_share_session_epoch(self.epoch)
            // The first response tells that the node has the member's place.
            .with_max_wait_ms(if self.epoch == NEW { 0 } else { MAX_WAIT_MS })
            .with_min_bytes(1)
            .with_max_bytes(MAX_BYTES)
            .with_max_records(i32::from(max_records))
            .with_batch_size(i32::from(max_records));
        if !named.is_empty() {
            let named = FetchTopic::default().with_topic_id(topic).with_partitions(named.into_values().collect());
            request.topics.push(named);
        }
        if !forgotten.is_empty() {
            let forgotten = ForgottenTopic::default().with_topic_id(topic).with_partitions(forgotten);
            request.forgotten_topics_data.push(forgotten);
        }
        let (body, _) = connection.call_body(&request, OLDEST).await?;
        let exchange = self.answered(read_share_fetched(&body)?)?;
        if matches!(exchange, Exchange::Answered(_)) {
            self.partitions.clone_from(partitions);
        }
        Ok(exchange)
    }

    /// Answers, and ends the session if they are the last.
    ///
    /// # Errors
    /// When the node does not answer, or refuses.
    pub async fn acknowledge(
        &mut self,
        connection: &mut ControlConnection,
        identity: &ShareIdentity,
        topic: Uuid,
        answers: &Answers,
        is_last: bool,
    ) -> Result<Exchange, CallError> {
        if self.epoch == NEW {
            return Ok(Exchange::Lost);
        }
        let batch = |stretch: &Stretch| {
            let batch = AcknowledgedBatch::default().with_first_offset(stretch.first).with_last_offset(stretch.last);
            batch.with_acknowledge_types(vec![stretch.answer as i8])
        };
        let partitions: Vec<AcknowledgePartition> = answers
            .iter()
            .map(|(number, stretches)| {
                let partition = AcknowledgePartition::default().with_partition_index(*number as i32);
                partition.with_acknowledgement_batches(stretches.iter().map(batch).collect())
            })
            .collect();
        let mut request = ShareAcknowledgeRequest::default()
            .with_group_id(Some(identity.group_id()))
            .with_member_id(Some(identity.member_id()))
            .with_share_session_epoch(if is_last { LAST } else { self.epoch });
        if !partitions.is_empty() {
            request.topics.push(AcknowledgeTopic::default().with_topic_id(topic).with_partitions(partitions));
        }
        let (body, version) = if answers.values().flatten().any(|stretch| stretch.answer == Answer::Renew) {
            connection
                .versions
                .newest_common(ApiKey::ShareAcknowledge as i16, WITH_RENEWAL, WITH_RENEWAL)
                .map_err(no_renewal)?;
            let flag = |body: &mut BytesMut| with_renewal(body, identity);
            (connection.call_adapted(&request, OLDEST, WITH_RENEWAL, flag).await?, WITH_RENEWAL)
        } else {
            connection.call_body(&request, OLDEST).await?
        };
        self.answered(read_share_acknowledged(&body, version)?)
    }

    /// The epoch goes on, or begins again.
    fn answered(&mut self, response: ShareResponse) -> Result<Exchange, CallError> {
        match response.code {
            0 => {
                self.epoch = self.epoch.checked_add(1).unwrap_or(1);
                Ok(Exchange::Answered(response))
            }
            SESSION_NOT_FOUND | INVALID_EPOCH if self.epoch != NEW => {
                *self = ShareSession::default();
                Ok(Exchange::Lost)
            }
            code => Err(CallError::Refused(code, response.message)),
        }
    }
}

/// Adds the field `IsRenewAck` of version 2 behind those before it: the group's id, the member's, and the session's epoch.
fn with_renewal(body: &mut BytesMut, identity: &ShareIdentity) {
    // A text of a flexible version has its length plus 1 before it, which takes a second byte from 128 on.
    let text = |text: &str| text.len() + if text.len() + 1 < 128 { 1 } else { 2 };
    let rest = body.split_off(text(&identity.group) + text(&identity.member_id) + 4);
    body.put_u8(1);
    body.unsplit(rest);
}

fn no_renewal(_: CallError) -> CallError {
    CallError::Unsupported(
        "the broker does not renew locks (KIP-1222, request ShareAcknowledge of version 2), which comes with Kafka 4.2: remove \
         `broker.kafka.share_group.renew`, or update the broker"
            .to_owned(),
    )
}
