//! A request that came to the scripted cluster: what it asks, and how a test answers it.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{ApiKey, FetchRequest, ProduceRequest, ProduceResponse, ResponseHeader, TopicName};
use kafka_protocol::protocol::{Encodable, HeaderVersion, Request, StrBytes};
use tokio::sync::mpsc::UnboundedSender;

use super::bench::TOPIC;
use crate::broker::kafka_native::codec::records::next_batch;

/// A request that waits for the test's answer.
pub struct Asked {
    pub node: usize,
    pub key: ApiKey,
    pub version: i16,
    pub correlation: i32,
    pub body: Bytes,
    /// What is written to its connection next; nothing: it is closed.
    pub out: UnboundedSender<Bytes>,
}

/// A batch of a produce request.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    pub partition: i32,
    pub numbers: Vec<u64>,
    pub producer_id: i64,
}

impl Asked {
    /// What is asked.
    pub fn request<R: Request>(&self) -> R {
        R::decode(&mut self.body.clone(), self.version).unwrap()
    }

    /// The batches of a produce request.
    pub fn written(&self) -> Vec<Written> {
        let request = self.request::<ProduceRequest>();
        let partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
        let written = partitions.map(|partition| {
            let bytes = partition.records.clone().unwrap();
            let batch = next_batch(&mut &bytes[..]).unwrap().unwrap();
            let mut numbers = Vec::new();
            let read = batch.for_each(&mut Vec::new(), |record| {
                let (number, _padding) = record.value.unwrap().split_first_chunk().unwrap();
                numbers.push(u64::from_be_bytes(*number));
            });
            read.unwrap();
            Written { partition: partition.index, numbers, producer_id: batch.producer_id }
        });
        written.collect()
    }

    /// The numbers of all messages of a produce request.
    pub fn numbers(&self) -> Vec<u64> {
        self.written().into_iter().flat_map(|written| written.numbers).collect()
    }

    /// The response to a produce request, with these error codes of partitions.
    pub fn produced(&self, codes: &[(i32, i16)], throttled_ms: i32) -> Bytes {
        let partition =
            |(index, code): &(i32, i16)| PartitionProduceResponse::default().with_index(*index).with_error_code(*code);
        let topic = TopicProduceResponse::default()
            .with_name(name())
            .with_partition_responses(codes.iter().map(partition).collect());
        let response = ProduceResponse::default().with_responses(vec![topic]).with_throttle_time_ms(throttled_ms);
        self.frame::<ProduceRequest>(&response)
    }

    /// Answers a produce request with the same code for all its partitions.
    pub fn answer(&self, code: i16) {
        let codes: Vec<(i32, i16)> = self.written().iter().map(|written| (written.partition, code)).collect();
        self.send(self.produced(&codes, 0));
    }

    /// The partitions of a fetch and their positions.
    pub fn positions(&self) -> Vec<(i32, i64)> {
        let request = self.request::<FetchRequest>();
        let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|partition| (partition.partition, partition.fetch_offset)).collect()
    }

    /// The epoch of the leader that a fetch means, for each of its partitions.
    pub fn leader_epochs(&self) -> Vec<i32> {
        let request = self.request::<FetchRequest>();
        let partitions = request.topics.iter().flat_map(|topic| &topic.partitions);
        partitions.map(|partition| partition.current_leader_epoch).collect()
    }

    pub fn send(&self, bytes: Bytes) {
        // The client may have closed the connection.
        let _ = self.out.send(bytes);
    }

    /// Closes the connection.
    pub fn close(&self) {
        self.send(Bytes::new());
    }

    /// A whole response to this request.
    pub fn frame<R: Request>(&self, response: &R::Response) -> Bytes {
        frame::<R>(response, self.version, self.correlation)
    }
}

/// [`TOPIC`], as messages have it.
pub fn name() -> TopicName {
    TopicName(StrBytes::from_static_str(TOPIC))
}

/// A whole response.
pub fn frame<R: Request>(response: &R::Response, version: i16, correlation: i32) -> Bytes {
    let mut frame = BytesMut::from(&[0; 4][..]);
    let header = ResponseHeader::default().with_correlation_id(correlation);
    header.encode(&mut frame, R::Response::header_version(version)).unwrap();
    response.encode(&mut frame, version).unwrap();
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}
