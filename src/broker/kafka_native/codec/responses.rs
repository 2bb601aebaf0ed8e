//! The responses that come for every batch of messages, read where they lie: to produce requests and to fetches.
//!
//! Source: Kafka's `ProduceResponse.json` and `FetchResponse.json`. What a response announces takes no memory before it is there.

use bytes::Bytes;

use super::{Malformed, varint};

/// The newest versions that are read here. A later produce request names topics by their ids, and a later fetch encodes lengths in
/// another way.
pub const NEWEST_PRODUCED: i16 = 12;
pub const NEWEST_FETCHED: i16 = 11;

/// The first flexible version (KIP-482) of a produce request and its response.
pub const FLEXIBLE_PRODUCED: i16 = 9;

/// What became of the batch of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Produced<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub code: i16,
    pub message: Option<&'a str>,
}

/// What was fetched of all partitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FetchResponse {
    pub throttled_ms: i32,
    pub code: i16,
    pub session_id: i32,
    pub partitions: Vec<FetchedPartition>,
}

/// What was fetched of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedPartition {
    pub partition: i32,
    pub code: i16,
    /// The first offset and the producer of each aborted transaction among the records.
    pub aborted: Vec<(i64, i64)>,
    /// Batches, of which the last one may be cut off.
    pub records: Bytes,
}

/// Reads a response to a produce request of `version`, from 3 on. Returns for how many milliseconds the broker asks the client to wait.
///
/// # Errors
/// When it is cut off, or a number is senseless. What was handed to `each` before may be wrong as well.
pub fn read_produced<'a>(body: &'a [u8], version: i16, mut each: impl FnMut(Produced<'a>)) -> Result<i32, Malformed> {
    let mut reader = Reader(body);
    let is_flexible = version >= FLEXIBLE_PRODUCED;
    for _ in 0..reader.any_count(is_flexible)? {
        let topic = reader.any_text(is_flexible)?.ok_or(Malformed("a topic has no name"))?;
        for _ in 0..reader.any_count(is_flexible)? {
            each(produced_partition(&mut reader, topic, version)?);
        }
        reader.end(is_flexible)?;
    }
    reader.i32()
}

fn produced_partition<'a>(reader: &mut Reader<'a>, topic: &'a str, version: i16) -> Result<Produced<'a>, Malformed> {
    let is_flexible = version >= FLEXIBLE_PRODUCED;
    let (partition, code) = (reader.i32()?, reader.i16()?);
    // The first offset and the time of the broker's log, and the first offset of the log.
    reader.take(if version >= 5 { 24 } else { 16 })?;
    let mut message = None;
    if version >= 8 {
        for _ in 0..reader.any_count(is_flexible)? {
            // A record of the batch, and what is wrong with it.
            reader.take(4)?;
            reader.any_text(is_flexible)?;
            reader.end(is_flexible)?;
        }
        message = reader.any_text(is_flexible)?;
    }
    reader.end(is_flexible)?;
    Ok(Produced { topic, partition, code, message })
}

/// Reads a response to a fetch of `version`, from 4 on. The records stay where they are.
///
/// # Errors
/// When it is cut off, or a number is senseless.
pub fn read_fetched(body: &Bytes, version: i16) -> Result<FetchResponse, Malformed> {
    let mut reader = Reader(body);
    let mut response = FetchResponse { throttled_ms: reader.i32()?, ..FetchResponse::default() };
    if version >= 7 {
        (response.code, response.session_id) = (reader.i16()?, reader.i32()?);
    }
    for _ in 0..reader.count()? {
        reader.text()?;
        for _ in 0..reader.count()? {
            response.partitions.push(fetched_partition(&mut reader, body, version)?);
        }
    }
    Ok(response)
}

fn fetched_partition(reader: &mut Reader<'_>, body: &Bytes, version: i16) -> Result<FetchedPartition, Malformed> {
    let (partition, code) = (reader.i32()?, reader.i16()?);
    // The ends of what is replicated and of what is committed, and where the log begins.
    reader.take(if version >= 5 { 24 } else { 16 })?;
    let mut aborted = Vec::new();
    for _ in 0..reader.count()? {
        let (producer, first_offset) = (reader.i64()?, reader.i64()?);
        aborted.push((first_offset, producer));
    }
    if version >= 11 {
        // A replica that is nearer.
        reader.take(4)?;
    }
    let length = usize::try_from(reader.i32()?).unwrap_or(0);
    let records = body.slice_ref(reader.take(length)?);
    Ok(FetchedPartition { partition, code, aborted, records })
}

/// What is left of a response.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], Malformed> {
        let (number, rest) = self.0.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(*number)
    }

    pub(super) fn i16(&mut self) -> Result<i16, Malformed> {
        self.number().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, Malformed> {
        self.number().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64, Malformed> {
        self.number().map(i64::from_be_bytes)
    }

    pub(super) fn unsigned(&mut self) -> Result<u32, Malformed> {
        varint::read_unsigned(&mut self.0)
    }

    /// How many elements follow in a list of a flexible version.
    pub(super) fn compact_count(&mut self) -> Result<usize, Malformed> {
        let count = self.unsigned()?.saturating_sub(1) as usize;
        // Each takes a byte at least.
        if count <= self.0.len() { Ok(count) } else { Err(Malformed("it announces more than it has")) }
    }

    pub(super) fn compact_text(&mut self) -> Result<Option<&'a str>, Malformed> {
        match self.unsigned()? {
            0 => Ok(None),
            length => text(self.take(length as usize - 1)?).map(Some),
        }
    }

    fn any_count(&mut self, is_flexible: bool) -> Result<usize, Malformed> {
        if is_flexible { self.compact_count() } else { self.count() }
    }

    fn any_text(&mut self, is_flexible: bool) -> Result<Option<&'a str>, Malformed> {
        if is_flexible { self.compact_text() } else { self.text() }
    }

    /// The end of an element: in flexible versions, fields that are optional.
    fn end(&mut self, is_flexible: bool) -> Result<(), Malformed> {
        if is_flexible { self.skip_tags() } else { Ok(()) }
    }

    /// Fields that are optional, none of which is read.
    pub(super) fn skip_tags(&mut self) -> Result<(), Malformed> {
        for _ in 0..self.unsigned()? {
            self.unsigned()?;
            let length = self.unsigned()? as usize;
            self.take(length)?;
        }
        Ok(())
    }

    /// How many elements follow. A null list has none.
    pub(super) fn count(&mut self) -> Result<usize, Malformed> {
        match self.i32()? {
            -1 => Ok(0),
            count => match usize::try_from(count) {
                // Each takes a byte at least.
                Ok(count) if count <= self.0.len() => Ok(count),
                _ => Err(Malformed("it announces more than it has")),
            },
        }
    }

    fn text(&mut self) -> Result<Option<&'a str>, Malformed> {
        match self.i16()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| Malformed("a length is negative"))?;
                text(self.take(length)?).map(Some)
            }
        }
    }
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("a text is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use kafka_protocol::messages::fetch_response::{AbortedTransaction, FetchableTopicResponse, PartitionData};
    use kafka_protocol::messages::produce_response::{
        BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse,
    };
    use kafka_protocol::messages::{FetchResponse as Fetch, ProduceResponse, TopicName};
    use kafka_protocol::protocol::{Encodable, StrBytes};
    use proptest::prelude::*;

    use super::*;

    fn text(text: &'static str) -> StrBytes {
        StrBytes::from_static_str(text)
    }

    fn encoded(message: &impl Encodable, version: i16) -> Bytes {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes, version).unwrap();
        bytes.freeze()
    }

    fn produced(version: i16) -> Bytes {
        let mut refused = PartitionProduceResponse::default().with_index(3).with_error_code(10);
        if version >= 8 {
            let record = BatchIndexAndErrorMessage::default().with_batch_index_error_message(Some(text("large")));
            refused = refused.with_record_errors(vec![record]).with_error_message(Some(text("too large")));
        }
        let mut taken = PartitionProduceResponse::default().with_index(4);
        if version >= 10 {
            taken.current_leader.leader_id = 2.into();
        }
        let topic = TopicProduceResponse::default()
            .with_name(TopicName(text("topic")))
            .with_partition_responses(vec![refused, taken]);
        encoded(&ProduceResponse::default().with_responses(vec![topic]).with_throttle_time_ms(12), version)
    }

    fn fetched(version: i16) -> Bytes {
        let aborted = AbortedTransaction::default().with_producer_id(7.into()).with_first_offset(5);
        let full = PartitionData::default()
            .with_partition_index(1)
            .with_aborted_transactions(Some(vec![aborted]))
            .with_records(Some(Bytes::from_static(b"records")));
        let refused = PartitionData::default().with_partition_index(2).with_error_code(6);
        let topic =
            FetchableTopicResponse::default().with_topic(TopicName(text("topic"))).with_partitions(vec![full, refused]);
        let mut response = Fetch::default().with_responses(vec![topic]).with_throttle_time_ms(12);
        if version >= 7 {
            response = response.with_session_id(9);
        }
        encoded(&response, version)
    }

    #[test]
    fn what_another_encoder_writes_is_read_in_every_version() {
        for version in 3..=NEWEST_PRODUCED {
            let (body, mut found) = (produced(version), Vec::new());
            assert_eq!(read_produced(&body, version, |one| found.push(one)), Ok(12), "version {version}");
            let message = (version >= 8).then_some("too large");
            let of = |partition, code, message| Produced { topic: "topic", partition, code, message };
            assert_eq!(found, [of(3, 10, message), of(4, 0, None)], "version {version}");
        }
        for version in 4..=NEWEST_FETCHED {
            let records = Bytes::from_static(b"records");
            let full = FetchedPartition { partition: 1, code: 0, aborted: vec![(5, 7)], records };
            let refused = FetchedPartition { partition: 2, code: 6, aborted: Vec::new(), records: Bytes::new() };
            let session_id = if version >= 7 { 9 } else { 0 };
            let expected = FetchResponse { throttled_ms: 12, code: 0, session_id, partitions: vec![full, refused] };
            assert_eq!(read_fetched(&fetched(version), version), Ok(expected), "version {version}");
        }
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        for version in [8, NEWEST_PRODUCED] {
            let of_produce = produced(version);
            // What comes after the time of throttling is not read.
            let end = of_produce.len() - usize::from(version >= FLEXIBLE_PRODUCED);
            for end in 0..end {
                assert!(read_produced(&of_produce[..end], version, |_| {}).is_err(), "{end}");
            }
        }
        let of_fetch = fetched(11);
        for end in 0..of_fetch.len() {
            assert!(read_fetched(&of_fetch.slice(..end), 11).is_err(), "{end}");
        }
    }

    proptest! {
        #[test]
        fn nonsense_is_refused_or_read_without_panic(body: Vec<u8>, version in 3..13_i16) {
            let _ = read_produced(&body, version, |_| {});
            let _ = read_fetched(&body.into(), version.min(NEWEST_FETCHED));
        }

        #[test]
        fn a_byte_that_is_wrong_is_refused_or_read_without_panic(place: proptest::sample::Index, byte: u8) {
            for (body, is_fetch) in [(produced(8), false), (produced(NEWEST_PRODUCED), false), (fetched(11), true)] {
                let mut body = body.to_vec();
                let place = place.index(body.len());
                body[place] = byte;
                if is_fetch {
                    let _ = read_fetched(&body.into(), 11);
                } else {
                    let _ = read_produced(&body, 8, |_| {});
                    let _ = read_produced(&body, NEWEST_PRODUCED, |_| {});
                }
            }
        }
    }
}
