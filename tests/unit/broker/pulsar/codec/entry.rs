//! Entries written and read again, one message or a batch of them.

use super::super::compression::Compressor;
use super::super::frame::{Frame, put_message};
use super::super::proto::ToBroker;
use super::*;
use crate::measure::SendTag;
use proptest::prelude::*;

const STAMP: fn() -> SendTag = || SendTag::new(0, 0, 0, 0, true);

fn heading(uncompressed_size: Option<usize>) -> Heading<'static> {
    Heading {
        producer_name: "standalone-0-1",
        sequence_id: 300,
        publish_time_ms: 1_700_000_000_000,
        deliver_at_ms: None,
        uncompressed_size,
    }
}

/// A payload, its trace header, its key, its timestamp, its other headers.
type Arrived = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>, Option<u64>, Vec<(String, Vec<u8>)>);

fn received(rest: &[u8]) -> Result<Vec<Arrived>, FrameError> {
    let mut all = Vec::new();
    read(rest, 3, true, &mut Vec::new(), &mut |message| {
        assert!((message.partition, message.redelivered) == (3, true));
        let details = message.details;
        let (trace_header, key) = (message.trace_header.map(<[u8]>::to_vec), details.key().map(Cow::into_owned));
        all.push((message.payload.to_vec(), trace_header, key, details.timestamp_unix_ns(), details.headers()));
    })?;
    Ok(all)
}

proptest! {
    #[test]
    fn messages_come_back_from_batches_however_they_are_compressed(
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..20),
        key in proptest::option::of("[a-z]{0,9}"),
        trace_header in proptest::option::of(any::<[u8; TRACE_HEADER_BYTES]>()),
        number in 0..5i32,
        headers: bool,
    ) {
        let headers = if headers { vec![("trace".to_owned(), "abc".to_owned())] } else { Vec::new() };
        let template = EntryTemplate::new(Compression::from_number(number).unwrap(), &headers);
        let messages: Vec<Outgoing<'_>> = payloads
            .iter()
            .map(|payload| Outgoing {
                payload,
                key: key.as_ref().map(String::as_bytes),
                trace_header: trace_header.as_ref(),
                attributes: None,
                send_tag: STAMP(),
            })
            .collect();
        let mut plain = Vec::new();
        for (index, message) in messages.iter().enumerate() {
            put_single(&mut plain, &template, 300 + index as u64, message);
        }
        let size = (template.compression != Compression::None).then_some(plain.len());
        let mut out = Vec::new();
        put_message(
            &mut out,
            &ToBroker::default(),
            |out| put_batch(out, &template, heading(size), messages.len(), messages[0].key),
            |out| Compressor::new(template.compression).unwrap().compress(&plain, out),
        );
        let (frame, _) = Frame::first(&out, 1 << 20).unwrap().unwrap();
        let texts = headers.iter().map(|(name, text)| (name.clone(), text.clone().into_bytes()));
        let texts: Vec<_> = texts.collect();
        let (traced, key) = (trace_header.map(|bytes| bytes.to_vec()), key.clone().map(String::into_bytes));
        let published_at = Some(1_700_000_000_000_000_000);
        let arrived = |payload: &Vec<u8>| (payload.clone(), traced.clone(), key.clone(), published_at, texts.clone());
        let expected: Vec<Arrived> = payloads.iter().map(arrived).collect();
        prop_assert_eq!(received(frame.rest), Ok(expected.clone()));
        prop_assert_eq!(count(frame.rest), payloads.len());

        let mut out = Vec::new();
        put_message(
            &mut out,
            &ToBroker::default(),
            |out| put_one(out, &EntryTemplate::new(Compression::None, &headers), heading(None), &messages[0]),
            |out| out.extend(&payloads[0]),
        );
        let (frame, _) = Frame::first(&out, 1 << 20).unwrap().unwrap();
        prop_assert_eq!(received(frame.rest), Ok(expected[..1].to_vec()));
        prop_assert_eq!(count(frame.rest), 1);
    }
}
