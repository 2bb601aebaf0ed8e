//! Record batches, read where they lie: nothing is copied unless a batch is compressed.

use std::borrow::Cow;

use super::Malformed;
use super::batch::{BEFORE_LENGTH_ENDS, HEADER_BYTES, MAGIC, at};
use super::compression::Compression;
use super::varint;
use crate::limits::{TRACE_HEADER_NAME, shrink_unpacked};
use crate::measure::Details;

/// A batch, whose checksum was right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBatch<'a> {
    pub base_offset: i64,
    pub last_offset_delta: i32,
    pub compression: Compression,
    /// Whether it belongs to a transaction.
    pub is_transactional: bool,
    /// Whether it marks the end of a transaction, and holds no messages.
    pub is_control: bool,
    pub producer_id: i64,
    pub base_timestamp_ms: i64,
    pub record_count: i32,
    /// The records, as they are compressed.
    pub body: &'a [u8],
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadRecord<'a> {
    pub offset: i64,
    pub timestamp_ms: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    /// The headers one after the other, as they are encoded.
    headers: &'a [u8],
    /// The value of the trace header.
    pub trace_header: Option<&'a [u8]>,
}

/// Takes the next batch from `bytes`. `None`: there is no whole one. A broker cuts off what does not fit its response.
///
/// # Errors
/// When the batch is of another version, damaged, or senseless.
pub fn next_batch<'a>(bytes: &mut &'a [u8]) -> Result<Option<ReadBatch<'a>>, Malformed> {
    let Some((batch, rest)) = split_batch(bytes)? else { return Ok(None) };
    if crc_fast::crc32_iscsi(&batch[at::ATTRIBUTES..]) != u32::from_be_bytes(number(batch, at::CRC)) {
        return Err(Malformed("a batch has a wrong checksum"));
    }
    *bytes = rest;
    let attributes = i16::from_be_bytes(number(batch, at::ATTRIBUTES));
    let compression =
        Compression::from_attributes(attributes).ok_or(Malformed("a batch has an unknown compression"))?;
    Ok(Some(ReadBatch {
        base_offset: i64::from_be_bytes(number(batch, 0)),
        last_offset_delta: i32::from_be_bytes(number(batch, at::LAST_OFFSET_DELTA)),
        compression,
        is_transactional: attributes & 0x10 != 0,
        is_control: attributes & 0x20 != 0,
        producer_id: i64::from_be_bytes(number(batch, at::PRODUCER_ID)),
        base_timestamp_ms: i64::from_be_bytes(number(batch, at::BASE_TIMESTAMP)),
        record_count: i32::from_be_bytes(number(batch, at::RECORD_COUNT)),
        body: &batch[HEADER_BYTES..],
    }))
}

/// Takes the next batch from `bytes` unread, and returns the offset after it. `None`: there is no whole one.
///
/// # Errors
/// When its length is senseless.
pub fn skip_batch(bytes: &mut &[u8]) -> Result<Option<i64>, Malformed> {
    let Some((batch, rest)) = split_batch(bytes)? else { return Ok(None) };
    *bytes = rest;
    let base_offset = i64::from_be_bytes(number(batch, 0));
    let last_offset_delta = i32::from_be_bytes(number(batch, at::LAST_OFFSET_DELTA));
    Ok(Some(base_offset.saturating_add(i64::from(last_offset_delta)).saturating_add(1)))
}

/// A batch and what comes after it.
type Split<'a> = (&'a [u8], &'a [u8]);

/// The next whole batch.
fn split_batch(bytes: &[u8]) -> Result<Option<Split<'_>>, Malformed> {
    if bytes.len() < HEADER_BYTES {
        return Ok(None);
    }
    let length = i32::from_be_bytes(number(bytes, at::BATCH_LENGTH));
    let length = usize::try_from(length).map_err(|_| Malformed("a batch has a negative length"))? + BEFORE_LENGTH_ENDS;
    if bytes[at::MAGIC] != MAGIC {
        return Err(Malformed("a batch is of another version than 2"));
    }
    if length < HEADER_BYTES {
        return Err(Malformed("a batch is shorter than its header"));
    }
    Ok(bytes.split_at_checked(length))
}

impl ReadBatch<'_> {
    /// The offset of the next batch.
    pub fn next_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta)).saturating_add(1)
    }

    /// Hands over the records. `unpacked` is memory for those of a compressed batch.
    ///
    /// # Errors
    /// When the records after those that were handed over are malformed.
    #[inline]
    pub fn for_each(&self, unpacked: &mut Vec<u8>, mut each: impl FnMut(ReadRecord<'_>)) -> Result<(), Malformed> {
        let mut hand_over = |mut records: &[u8]| -> Result<(), Malformed> {
            for _ in 0..self.record_count {
                each(next_record(&mut records, self)?);
            }
            Ok(())
        };
        match self.compression {
            Compression::None => hand_over(self.body),
            compression => {
                let read = compression.decompress(self.body, unpacked).and_then(|()| hand_over(unpacked));
                shrink_unpacked(unpacked);
                read
            }
        }
    }
}

impl Details for ReadRecord<'_> {
    fn key(&self) -> Option<Cow<'_, [u8]>> {
        self.key.map(Cow::Borrowed)
    }

    fn timestamp_unix_ns(&self) -> Option<u64> {
        u64::try_from(self.timestamp_ms).ok()?.checked_mul(1_000_000)
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let mut rest = self.headers;
        let mut headers = Vec::new();
        // They were read once, so they can be read again.
        while let Ok((name, value)) = next_header(&mut rest) {
            if name != TRACE_HEADER_NAME.as_bytes() {
                headers.push((String::from_utf8_lossy(name).into_owned(), value.unwrap_or_default().to_vec()));
            }
        }
        headers
    }
}

#[inline]
fn next_record<'a>(bytes: &mut &'a [u8], batch: &ReadBatch<'_>) -> Result<ReadRecord<'a>, Malformed> {
    let length = length(bytes)?.ok_or(Malformed("a record has a negative length"))?;
    let mut record = take(bytes, length)?;
    let record = &mut record;
    // The record's attributes: none are defined.
    take(record, 1)?;
    let timestamp_ms = batch.base_timestamp_ms.wrapping_add(varint::read(record)?);
    let offset = batch.base_offset.wrapping_add(varint::read(record)?);
    let key = field(record)?;
    let value = field(record)?;
    let count = varint::read(record)?;
    let headers = *record;
    let mut trace_header = None;
    for _ in 0..count {
        let (name, content) = next_header(record)?;
        if name == TRACE_HEADER_NAME.as_bytes() {
            trace_header = content;
        }
    }
    Ok(ReadRecord { offset, timestamp_ms, key, value, headers, trace_header })
}

#[inline]
fn next_header<'a>(bytes: &mut &'a [u8]) -> Result<(&'a [u8], Option<&'a [u8]>), Malformed> {
    let name = field(bytes)?.ok_or(Malformed("a header has no name"))?;
    Ok((name, field(bytes)?))
}

/// Bytes with their length before them; `None`: null.
#[inline]
fn field<'a>(bytes: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
    match length(bytes)? {
        None => Ok(None),
        Some(length) => take(bytes, length).map(Some),
    }
}

#[inline]
fn length(bytes: &mut &[u8]) -> Result<Option<usize>, Malformed> {
    match varint::read(bytes)? {
        -1 => Ok(None),
        length => usize::try_from(length).map(Some).map_err(|_| Malformed("a length is negative")),
    }
}

#[inline]
fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Malformed> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or(Malformed("a record ends too early"))?;
    *bytes = rest;
    Ok(taken)
}

fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    let mut number = [0; BYTES];
    number.copy_from_slice(&bytes[at..at + BYTES]);
    number
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::broker::kafka_native::codec::batch::{Author, Batch, Headers, Memory, Record};
    use crate::broker::kafka_native::codec::checksum::PayloadChecksums;
    use crate::broker::kafka_native::codec::compression::Compressor;
    use crate::broker::kafka_native::tests::payloads;
    use crate::limits::TRACE_HEADER_BYTES;

    const ALL: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

    type Written = (Option<Vec<u8>>, Option<Vec<u8>>, bool, i64);

    fn write(records: &[Written], headers: &Headers, compression: Compression) -> Vec<u8> {
        let mut batch = Batch::in_memory_of(Memory::from(vec![7; 100]));
        for (key, value, is_traced, timestamp_ms) in records {
            batch.push(&Record {
                key: key.as_deref(),
                value: value.as_deref(),
                shared: None,
                headers,
                trace_header: is_traced.then_some(&[5; TRACE_HEADER_BYTES]),
                timestamp_ms: *timestamp_ms,
            });
        }
        if compression != Compression::None {
            let mut packed = vec![0; HEADER_BYTES];
            Compressor::new(compression).unwrap().compress(&batch.own_bytes()[HEADER_BYTES..], &mut packed).unwrap();
            batch.replace_bytes(packed);
        }
        batch.seal(
            compression as u8,
            Author { producer_id: 9, epoch: 1, sequence: 3 },
            &payloads(),
            &PayloadChecksums::new(&payloads(), 0),
        );
        batch.own_bytes().to_vec()
    }

    fn records() -> impl Strategy<Value = Vec<Written>> {
        let bytes = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200));
        proptest::collection::vec((bytes(), bytes(), any::<bool>(), 0..1_i64 << 41), 1..20)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_is_written_is_read(records in records(), names in proptest::collection::vec("[a-z]{0,20}", 0..4)) {
            let own: Vec<(String, String)> = names.iter().map(|name| (name.clone(), format!("{name}!"))).collect();
            let headers = Headers::new(&own);
            for compression in ALL {
                let bytes = write(&records, &headers, compression);
                let mut rest = &bytes[..];
                let batch = next_batch(&mut rest).unwrap().unwrap();
                prop_assert!(rest.is_empty());
                prop_assert_eq!((batch.producer_id, batch.next_offset()), (9, records.len() as i64));
                let mut found = Vec::new();
                batch.for_each(&mut Vec::new(), |record| {
                    let own: Vec<_> = own.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
                    assert_eq!((record.headers(), record.offset), (own, found.len() as i64));
                    let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
                    found.push((key, value, record.trace_header.is_some(), record.timestamp_ms));
                }).unwrap();
                prop_assert_eq!(&found, &records);
            }
        }

        /// Where values lie makes no difference to what is sent.
        #[test]
        fn a_batch_that_refers_to_values_has_the_same_bytes(
            records in proptest::collection::vec((any::<bool>(), 0..16_u64, any::<bool>(), 0..1_i64 << 30), 1..40),
            is_traced: bool,
        ) {
            let (payloads, headers) = (payloads(), Headers::new(&[("tenant".to_owned(), "orders".to_owned())]));
            let whole = |shares: bool| {
                let mut batch = Batch::in_memory_of(Memory::default());
                for (is_shared, index, has_key, timestamp_ms) in &records {
                    let value = payloads.get(*index);
                    batch.push(&Record {
                        key: has_key.then_some(b"key"),
                        value: Some(value),
                        shared: payloads.place(value).filter(|_| shares && *is_shared),
                        headers: &headers,
                        trace_header: is_traced.then_some(&[5; TRACE_HEADER_BYTES]),
                        timestamp_ms: *timestamp_ms,
                    });
                }
                batch.seal(0, Author::UNNAMED, &payloads, &PayloadChecksums::new(&payloads, 0));
                let bytes = (0..batch.pieces()).flat_map(|piece| batch.piece(piece, &payloads)).copied();
                let bytes: Vec<u8> = bytes.collect();
                assert_eq!(bytes.len(), batch.len());
                bytes
            };
            let copied = whole(false);
            prop_assert!(next_batch(&mut &copied[..]).unwrap().is_some());
            prop_assert!(whole(true) == copied);
        }

        #[test]
        fn a_batch_that_is_cut_off_is_not_there_yet(records in records()) {
            let bytes = write(&records, &Headers::new(&[]), Compression::None);
            for end in 0..bytes.len() {
                prop_assert_eq!(next_batch(&mut &bytes[..end]), Ok(None));
            }
        }

        #[test]
        fn damage_is_noticed(records in records(), place in any::<proptest::sample::Index>(), bit in 0..8_u8) {
            let mut bytes = write(&records, &Headers::new(&[]), Compression::None);
            // What comes before the checksum is the broker's.
            let place = at::CRC + place.index(bytes.len() - at::CRC);
            bytes[place] ^= 1 << bit;
            prop_assert_eq!(next_batch(&mut &bytes[..]), Err(Malformed("a batch has a wrong checksum")));
        }

        #[test]
        fn nonsense_with_right_checksum_is_refused_or_read(body: Vec<u8>, count: i32, attributes: u8) {
            let mut bytes = write(&[(None, None, false, 0)], &Headers::new(&[]), Compression::None);
            bytes.truncate(HEADER_BYTES);
            bytes.extend_from_slice(&body);
            let length = (bytes.len() - BEFORE_LENGTH_ENDS) as i32;
            bytes[at::BATCH_LENGTH..at::BATCH_LENGTH + 4].copy_from_slice(&length.to_be_bytes());
            bytes[at::ATTRIBUTES + 1] = attributes;
            bytes[at::RECORD_COUNT..HEADER_BYTES].copy_from_slice(&count.to_be_bytes());
            let checksum = crc_fast::crc32_iscsi(&bytes[at::ATTRIBUTES..]);
            bytes[at::CRC..at::ATTRIBUTES].copy_from_slice(&checksum.to_be_bytes());
            if let Ok(Some(batch)) = next_batch(&mut &bytes[..]) {
                let _ = batch.for_each(&mut Vec::new(), |_| {});
            }
        }
    }

    /// Around the largest numbers that are written in a register, and beyond them.
    #[test]
    fn large_records_and_distant_timestamps_round_trip() {
        const NEAR: i64 = 1 << 20;
        let headers = Headers::new(&[]);
        for delta in [-NEAR - 1, -NEAR, 0, NEAR - 65, NEAR - 64, NEAR - 1, NEAR, 1 << 40] {
            for (key, value) in
                [(0, 1 << 20), ((1 << 20) - 70, 5), (1 << 20, 0), (3, (1 << 20) - 72), (1 << 22, 1 << 22)]
            {
                let (key, value) = ((key > 0).then(|| vec![1; key]), Some(vec![2; value]));
                let base = 1 << 41;
                let written: [Written; 2] = [(None, None, false, base), (key, value, true, base + delta)];
                let bytes = write(&written, &headers, Compression::None);
                let (mut found, mut rest) = (Vec::new(), &bytes[..]);
                let batch = next_batch(&mut rest).unwrap().unwrap();
                let read = batch.for_each(&mut Vec::new(), |record| {
                    let (key, value) = (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec));
                    found.push((key, value, record.trace_header.is_some(), record.timestamp_ms));
                });
                assert_eq!(read, Ok(()));
                assert!(found == written, "{delta}");
            }
        }
    }

    #[test]
    fn an_old_version_and_a_senseless_length_are_refused() {
        let bytes = write(&[(None, Some(b"x".to_vec()), false, 0)], &Headers::new(&[]), Compression::None);
        let with = |place: usize, value: &[u8]| {
            let mut bytes = bytes.clone();
            bytes[place..place + value.len()].copy_from_slice(value);
            next_batch(&mut &bytes[..]).unwrap_err().to_string()
        };
        assert!(with(at::MAGIC, &[1]).contains("version"));
        assert!(with(at::BATCH_LENGTH, &(-1_i32).to_be_bytes()).contains("negative"));
        assert!(with(at::BATCH_LENGTH, &10_i32.to_be_bytes()).contains("shorter"));
    }
}
