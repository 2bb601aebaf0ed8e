//! A sender to one topic.

use std::sync::Arc;
use std::time::Instant;

use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use super::client::{self, describe, failure_class};
use super::connection::Connection;
use super::transactions::{Handed, Transactions};
use crate::broker::{Outgoing, Producer, SubmitError, TRACE_HEADER_NAME};

/// A sender to one topic, over a connection it shares with others.
pub struct KafkaProducer {
    connection: Arc<Connection>,
    topic: String,
    header_sets: HeaderSets,
    /// The client took no message at the last attempt: the next one is made with a single message.
    refused: bool,
}

/// The headers that messages may have, by the number of their set.
#[derive(Clone)]
pub struct HeaderSets(Arc<[Option<OwnedHeaders>]>);

impl HeaderSets {
    pub fn new(sets: &[Vec<(String, String)>]) -> Self {
        let add = |headers: OwnedHeaders, (name, value): &(String, String)| {
            headers.insert(Header { key: name, value: Some(value.as_bytes()) })
        };
        let headers = |set: &Vec<(String, String)>| {
            let empty = || OwnedHeaders::new_with_capacity(set.len() + 1);
            (!set.is_empty()).then(|| set.iter().fold(empty(), add))
        };
        HeaderSets(sets.iter().map(headers).collect())
    }

    /// A message's headers, with the engine's own one.
    fn headers(&self, outgoing: &Outgoing<'_>, set: u32) -> Option<OwnedHeaders> {
        let own = self.0[set as usize].clone();
        match outgoing.trace_header {
            None => own,
            Some(trace_header) => {
                let header = Header { key: TRACE_HEADER_NAME, value: Some(trace_header) };
                Some(own.unwrap_or_else(|| OwnedHeaders::new_with_capacity(1)).insert(header))
            }
        }
    }
}

impl KafkaProducer {
    pub(super) fn new(connection: Arc<Connection>, topic: &str, header_sets: HeaderSets) -> Self {
        KafkaProducer { connection, topic: topic.to_owned(), header_sets, refused: false }
    }

    /// Hands over as much of `batch` as fits into the queue, in order, and records the failure of each message that the client refuses
    /// for itself (too large).
    fn hand_over(&self, batch: &[Outgoing<'_>]) -> Handed {
        for (index, outgoing) in batch.iter().enumerate() {
            match self.hand_over_one(outgoing) {
                Ok(()) => {}
                Err(Code::QueueFull) if index == 0 => return Handed::QueueFull,
                Err(Code::QueueFull) => return Handed::Taken(index),
                Err(code) if index == 0 && code != Code::MessageSizeTooLarge => return Handed::Refused(code),
                Err(code) => {
                    let mut acks = self.connection.reports().recorder.batch();
                    acks.failed(outgoing.send_tag, failure_class(code), || describe(code));
                }
            }
        }
        Handed::Taken(batch.len())
    }

    fn hand_over_one(&self, outgoing: &Outgoing<'_>) -> Result<(), Code> {
        let attributes = outgoing.attributes.copied().unwrap_or_default();
        let record: BaseRecord<'_, [u8], [u8], usize> = BaseRecord {
            topic: &self.topic,
            partition: attributes.partition.map(|partition| partition as i32),
            payload: (!attributes.null_payload).then_some(outgoing.payload),
            key: outgoing.key,
            timestamp: None,
            headers: self.header_sets.headers(outgoing, attributes.header_set),
            delivery_opaque: outgoing.send_tag.to_word() as usize,
        };
        self.connection.producer.send(record).map_err(|(error, _)| client::code(&error))
    }
}

impl Producer for KafkaProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let mut full_since = None;
        let batch = if self.refused { &batch[..batch.len().min(1)] } else { batch };
        loop {
            // Created before the attempt, so that capacity freed in between is not missed.
            let connection = self.connection.clone();
            let capacity = connection.capacity();
            let begun = connection.transactions().map(Transactions::begun);
            let handed = match connection.transactions() {
                None => Some(self.hand_over(batch)),
                Some(transactions) => transactions.enter(|room| self.hand_over(&batch[..batch.len().min(room)])),
            };
            let Some(handed) = handed else {
                if let Some(begun) = begun {
                    begun.await;
                }
                continue;
            };
            match handed {
                Handed::Taken(taken) => {
                    if let Some(since) = full_since {
                        self.connection.waited(Instant::elapsed(&since));
                    }
                    self.refused = false;
                    return Ok(taken);
                }
                Handed::Refused(code) => {
                    self.refused = true;
                    return Err(self.connection.refusal(code));
                }
                Handed::QueueFull => {
                    full_since.get_or_insert_with(Instant::now);
                    capacity.await;
                }
            }
        }
    }

    fn fatal_error(&self) -> Option<String> {
        self.connection.fatal_error()
    }

    fn finish(&mut self) {
        if let Some(transactions) = self.connection.transactions() {
            transactions.finish();
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/kafka/producer.rs"]
mod tests;
