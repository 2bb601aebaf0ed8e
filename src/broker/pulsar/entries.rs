//! Builds the entries of a call before the connection is locked: which messages go into one, and which are too large.

use super::codec::compression::{Compression, Compressor};
use super::codec::entry::{EntryTemplate, Heading, put_batch, put_one, put_single};
use super::codec::frame::put_message;
use super::codec::proto::send_command;
use super::config::PulsarOptions;
use super::connection::{Entry, EntrySizes, ProducerId};
use crate::broker::{FailureClass, Outgoing};
use crate::measure::AckRecorder;

/// Memory and a compressor for the frames of one call, which are built before the connection is locked.
pub struct Build {
    compressor: Compressor,
    /// A batch before its compression.
    plain: Vec<u8>,
    pub frames: Vec<u8>,
    pub entries: Vec<Entry>,
    /// Messages that are larger than the broker takes, by their place in the call, and the bytes of their entries.
    pub too_large: Vec<(usize, usize)>,
}

/// What the entries of one call have in common.
pub struct Lane<'a> {
    pub producer: ProducerId,
    pub producer_name: &'a str,
    pub template: &'a EntryTemplate,
    pub options: &'a PulsarOptions,
    /// Most bytes of an entry's metadata and payload.
    pub max_message: usize,
    pub publish_time_ms: u64,
}

impl Lane<'_> {
    fn deliver_at_ms(&self) -> Option<u64> {
        self.options.deliver_after.map(|after| self.publish_time_ms + after.as_millis() as u64)
    }
}

impl Build {
    pub fn new(compressor: Compressor) -> Self {
        Build { compressor, plain: Vec::new(), frames: Vec::new(), entries: Vec::new(), too_large: Vec::new() }
    }

    /// Builds the entries of `count` messages, the first of which has the number `sequence_id`. Returns the next message's.
    pub fn put_entries<'a>(
        &mut self,
        lane: &Lane<'_>,
        mut sequence_id: u64,
        count: usize,
        at: &impl Fn(usize) -> &'a Outgoing<'a>,
    ) -> u64 {
        self.frames.clear();
        self.entries.clear();
        self.too_large.clear();
        let most =
            if lane.options.batching && lane.options.deliver_after.is_none() { lane.options.batch_messages } else { 1 };
        let most_bytes = lane.options.batch_bytes.min(lane.max_message);
        let mut begin = 0;
        while begin < count {
            let (mut end, mut bytes) = (begin, 0);
            while end < count && end - begin < most {
                bytes += at(end).payload.len();
                if end > begin && bytes > most_bytes {
                    break;
                }
                end += 1;
            }
            // An entry is judged as it will be sent: compressed, and with its metadata.
            let before = self.frames.len();
            let (mut size, mut entry) = self.put_entry(lane, sequence_id, end - begin, |index| at(begin + index));
            while size > lane.max_message && end - begin > 1 {
                self.frames.truncate(before);
                end = begin + (end - begin) / 2;
                (size, entry) = self.put_entry(lane, sequence_id, end - begin, |index| at(begin + index));
            }
            if size > lane.max_message {
                self.frames.truncate(before);
                self.too_large.push((begin, size));
            } else {
                self.entries.push(entry);
                sequence_id += (end - begin) as u64;
            }
            begin = end;
        }
        sequence_id
    }

    /// Fails the messages that were too large.
    pub fn refuse<'a>(&self, limit: usize, recorder: &AckRecorder, at: &impl Fn(usize) -> &'a Outgoing<'a>) {
        if self.too_large.is_empty() {
            return;
        }
        let mut acks = recorder.batch();
        for (index, size) in &self.too_large {
            acks.failed(at(*index).send_tag, FailureClass::TooLarge, || {
                format!(
                    "a message makes {size} bytes with its metadata, but the broker takes {limit} (`maxMessageSize`)"
                )
            });
        }
    }

    /// Appends one entry, a message of its own or a batch, and returns it with the bytes of its metadata and payload.
    fn put_entry<'a>(
        &mut self,
        lane: &Lane<'_>,
        sequence_id: u64,
        count: usize,
        at: impl Fn(usize) -> &'a Outgoing<'a>,
    ) -> (usize, Entry) {
        let Build { compressor, plain, frames, .. } = self;
        let &Lane { producer, producer_name, template, publish_time_ms, .. } = lane;
        let deliver_at_ms = lane.deliver_at_ms();
        let mut heading =
            Heading { producer_name, sequence_id, publish_time_ms, deliver_at_ms, uncompressed_size: None };
        let put_payload = |out: &mut Vec<u8>| {
            if count == 1 {
                out.extend_from_slice(at(0).payload);
            } else {
                (0..count).for_each(|index| put_single(out, template, sequence_id + index as u64, at(index)));
            }
        };
        if template.compression != Compression::None {
            plain.clear();
            put_payload(plain);
            heading.uncompressed_size = Some(plain.len());
        }
        let (before, mut compressed) = (frames.len(), 0);
        let size = put_message(
            frames,
            &send_command(producer, sequence_id, count),
            |out| match count {
                1 => put_one(out, template, heading, at(0)),
                _ => put_batch(out, template, heading, count, at(0).key),
            },
            |out| match heading.uncompressed_size {
                None => put_payload(out),
                Some(_) => {
                    let begin = out.len();
                    compressor.compress(plain, out);
                    compressed = out.len() - begin;
                }
            },
        );
        let sent_bytes = frames.len() - before;
        let sizes = EntrySizes {
            payload_bytes: (0..count).map(|index| at(index).payload.len()).sum(),
            body_bytes: sent_bytes - compressed + heading.uncompressed_size.unwrap_or(0),
            sent_bytes,
        };
        (size, Entry { sequence_id, messages: count as u32, sizes })
    }
}
