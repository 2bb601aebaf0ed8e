//! Makes the messages of one producer: payload, trace header, key, attributes and send tag.
//!
//! Attributes are what some messages have beside payload and key: a partition or headers of their own, or no payload.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::broker::{Attributes, Outgoing};
use crate::load::{KeySource, PayloadPool, TombstoneSource};
use crate::measure::{Clock, SendTag, TRACE_HEADER_BYTES, TraceHeader};
use crate::scenario::Partitioning;

/// How messages carry their trace header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceHeaderMode {
    /// Without one: no consumer reads it.
    None,
    /// Over the payload's first bytes.
    InPayload,
    /// As a message header.
    Beside,
}

/// What the messages of all producers of a trial have in common.
#[derive(Debug, Clone)]
pub struct MessageSettings {
    pub payloads: Arc<PayloadPool>,
    pub trace_header: TraceHeaderMode,
    pub run_tag: u32,
    /// Producers of the trial, in all processes.
    pub producers: u64,
    pub clock: Clock,
    /// What is added to a time of `clock` to get a time as trace headers carry it.
    pub header_offset_ns: u64,
    /// The number of the first producer of this process, and how many the whole has: trace headers and payloads use them.
    pub first_producer: usize,
}

/// Makes one producer's messages, batch by batch.
pub struct MessageSource {
    settings: MessageSettings,
    producer_index: usize,
    keys: KeySource,
    attributes: AttributeSource,
    /// Every message is a payload of the pool as it is, and nothing else.
    is_plain: bool,
    next_payload: u64,
    sequence: u64,
    /// Bytes that this batch's messages carry beside or instead of pooled ones.
    scratch: Vec<u8>,
    parts: Vec<Parts>,
}

/// What a batch of messages is in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchSize {
    /// Messages that count.
    pub measured: u64,
    /// Bytes of all payloads.
    pub payload_bytes: u64,
}

/// Where one message's bytes lie: its payload in the pool, or everything in the scratch, in this order: payload, trace header, key.
struct Parts {
    pooled: u64,
    send_tag: SendTag,
    /// The payload's bytes in the scratch; `None` where the pooled payload is sent as it is.
    payload: Option<u32>,
    key: Option<u32>,
    attributes: Option<Chosen>,
    has_trace_header: bool,
}

// A batch is an array of these: a longer one would be slower to make and to read.
const _: () = assert!(size_of::<Parts>() <= 48);

impl MessageSource {
    pub fn new(settings: MessageSettings, producer_index: usize, keys: KeySource, attributes: AttributeSource) -> Self {
        MessageSource {
            producer_index,
            is_plain: settings.trace_header == TraceHeaderMode::None
                && settings.payloads.live(0).is_none()
                && keys.is_none()
                && attributes.plain,
            keys,
            attributes,
            // Producers begin far from each other, so that a topic sees payloads mixed, and the same one again, which would
            // compress to nothing, only after all others.
            next_payload: (settings.first_producer + producer_index) as u64
                * (settings.payloads.len() as u64 / settings.producers).max(1),
            settings,
            sequence: 0,
            scratch: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Appends to `outgoing` a message for each of `intended`: its time in nanoseconds since the trial's epoch, and whether it
    /// counts. All are sent at `sent_ns`.
    #[inline]
    pub fn make<'a>(
        &'a mut self,
        intended: impl Iterator<Item = (u64, bool)>,
        sent_ns: u64,
        outgoing: &mut Vec<Outgoing<'a>>,
    ) -> BatchSize {
        if self.is_plain {
            return self.make_plain(intended, sent_ns, outgoing);
        }
        self.parts.clear();
        self.scratch.clear();
        let mut size = BatchSize::default();
        for (intended_ns, measured) in intended {
            self.add(intended_ns, sent_ns, measured);
            size.measured += u64::from(measured);
        }
        size.payload_bytes = self.assemble(outgoing);
        size
    }

    /// Messages that need no more than a payload of the pool: nothing is remembered between choosing and assembling.
    #[inline]
    fn make_plain<'a>(
        &'a mut self,
        intended: impl Iterator<Item = (u64, bool)>,
        sent_ns: u64,
        outgoing: &mut Vec<Outgoing<'a>>,
    ) -> BatchSize {
        let mut size = BatchSize::default();
        for (intended_ns, measured) in intended {
            let send_tag = send_tag(self.producer_index, self.sequence, intended_ns, sent_ns, measured);
            let payload = self.settings.payloads.get(self.next_payload);
            self.next_payload = self.next_payload.wrapping_add(1);
            self.sequence += 1;
            size.measured += u64::from(measured);
            size.payload_bytes += payload.len() as u64;
            outgoing.push(Outgoing { payload, key: None, trace_header: None, attributes: None, send_tag });
        }
        size
    }

    #[inline]
    fn add(&mut self, intended_ns: u64, sent_ns: u64, measured: bool) {
        let send_tag = send_tag(self.producer_index, self.sequence, intended_ns, sent_ns, measured);
        let pooled = self.next_payload;
        self.next_payload = self.next_payload.wrapping_add(1);
        let attributes = self.attributes.choose();
        let is_tombstone = attributes.is_some_and(|chosen| self.attributes.get(chosen).null_payload);
        let mut parts = Parts { pooled, send_tag, payload: None, key: None, attributes, has_trace_header: false };
        if is_tombstone {
            parts.payload = Some(0);
        } else if let Some(live) = self.settings.payloads.live(pooled) {
            let begin = self.scratch.len();
            let unix_ns = self.settings.clock.epoch_unix_ns() + intended_ns;
            // Producers count in turn, so that no number comes twice.
            let number = (self.settings.first_producer + self.producer_index) as u64;
            let counter = self.sequence * self.settings.producers + number;
            live.render(&mut self.scratch, counter, unix_ns);
            parts.payload = Some((self.scratch.len() - begin) as u32);
        }
        if self.settings.trace_header != TraceHeaderMode::None {
            self.add_trace_header(&mut parts, is_tombstone, intended_ns, measured);
        }
        if let Some(key) = self.keys.next_key() {
            self.scratch.extend_from_slice(key);
            parts.key = Some(key.len() as u32);
        }
        self.sequence += 1;
        self.parts.push(parts);
    }

    fn add_trace_header(&mut self, parts: &mut Parts, is_tombstone: bool, intended_ns: u64, measured: bool) {
        let settings = &self.settings;
        let trace_header = TraceHeader {
            run_tag: settings.run_tag,
            producer: (settings.first_producer + self.producer_index) as u32,
            measured,
            sequence: self.sequence,
            intended_ns: intended_ns + settings.header_offset_ns,
        };
        let begin = self.scratch.len();
        match settings.trace_header {
            TraceHeaderMode::None => {}
            TraceHeaderMode::InPayload if !is_tombstone => {
                self.scratch.extend_from_slice(settings.payloads.get(parts.pooled));
                trace_header.seal(&mut self.scratch[begin..], settings.payloads.checksum(parts.pooled));
                parts.payload = Some((self.scratch.len() - begin) as u32);
            }
            TraceHeaderMode::InPayload | TraceHeaderMode::Beside => {
                let checksum = match parts.payload {
                    Some(live) => crc32fast::hash(&self.scratch[begin - live as usize..]),
                    None => settings.payloads.checksum(parts.pooled),
                };
                self.scratch.resize(begin + TRACE_HEADER_BYTES, 0);
                trace_header.seal(&mut self.scratch[begin..], checksum);
                parts.has_trace_header = true;
            }
        }
    }

    /// Appends the batch's messages to `outgoing` and returns the bytes of their payloads.
    fn assemble<'a>(&'a self, outgoing: &mut Vec<Outgoing<'a>>) -> u64 {
        let mut payload_bytes = 0;
        let mut scratch = &self.scratch[..];
        for parts in &self.parts {
            let mut next =
                |length: u32| scratch.split_off(..length as usize).expect("parts were appended in this order");
            let payload = parts.payload.map(&mut next).unwrap_or_else(|| self.settings.payloads.get(parts.pooled));
            let trace_header =
                parts.has_trace_header.then(|| next(TRACE_HEADER_BYTES as u32)).and_then(<[u8]>::first_chunk);
            let key = parts.key.map(&mut next);
            payload_bytes += payload.len() as u64;
            let attributes = parts.attributes.map(|chosen| self.attributes.get(chosen));
            outgoing.push(Outgoing { payload, key, trace_header, attributes, send_tag: parts.send_tag });
        }
        payload_bytes
    }
}

#[inline]
fn send_tag(producer_index: usize, sequence: u64, intended_ns: u64, sent_ns: u64, measured: bool) -> SendTag {
    SendTag::new(producer_index, sequence, sent_ns, sent_ns.saturating_sub(intended_ns), measured)
}

/// Decides message by message of one producer, by numbers that stand for the attributes, so that a batch's messages can borrow them.
pub struct AttributeSource {
    /// Attributes for each set of headers and each partition, of a message with a payload and of one without.
    table: Box<[Attributes]>,
    /// The places in the table that the next message's partition and headers have.
    partition: InTurn,
    header_set: InTurn,
    tombstones: TombstoneSource,
    /// No message has attributes.
    plain: bool,
}

/// Goes through so many places in turn, or stays at the first.
struct InTurn {
    places: usize,
    next: usize,
}

impl InTurn {
    fn advance(&mut self) -> usize {
        let place = self.next;
        self.next = (self.next + 1) % self.places;
        place
    }
}

/// A message's attributes, by their place in the table counted from 1, so that having none takes no room.
#[derive(Debug, Clone, Copy)]
struct Chosen(NonZeroU32);

impl AttributeSource {
    /// Of the producer that is the `place`-th of those on its topic, which has `partitions`. `header_sets`: how many different
    /// headers messages have. `tombstones`: which messages have no payload, if any.
    pub fn new(
        partitioning: Partitioning,
        place: usize,
        partitions: u32,
        header_sets: usize,
        tombstones: Option<TombstoneSource>,
    ) -> Self {
        let own = place as u32 % partitions.max(1);
        let (choice, next) = match partitioning {
            Partitioning::Client => (vec![None], 0),
            Partitioning::Own => (vec![Some(own)], 0),
            // Producers begin at different ones.
            Partitioning::RoundRobin => ((0..partitions.max(1)).map(Some).collect(), own as usize),
        };
        let mut table = Vec::new();
        for header_set in 0..header_sets as u32 {
            for partition in &choice {
                let partition = *partition;
                table.extend([false, true].map(|null_payload| Attributes { header_set, partition, null_payload }));
            }
        }
        AttributeSource {
            table: table.into(),
            partition: InTurn { places: choice.len(), next },
            header_set: InTurn { places: header_sets, next: place % header_sets },
            plain: partitioning == Partitioning::Client && header_sets == 1 && tombstones.is_none(),
            tombstones: tombstones.unwrap_or_else(|| TombstoneSource::new(0.0, 0, 0)),
        }
    }

    /// The next message's attributes, if it has any.
    #[inline]
    fn choose(&mut self) -> Option<Chosen> {
        if self.plain { None } else { self.choose_any() }
    }

    fn choose_any(&mut self) -> Option<Chosen> {
        let pair = self.header_set.advance() * self.partition.places + self.partition.advance();
        let chosen = pair * 2 + usize::from(self.tombstones.next_is_tombstone());
        if self.table[chosen] == Attributes::default() { None } else { NonZeroU32::new(chosen as u32 + 1).map(Chosen) }
    }

    fn get(&self, chosen: Chosen) -> &Attributes {
        &self.table[chosen.0.get() as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(mut source: AttributeSource, messages: usize) -> Vec<Option<Attributes>> {
        (0..messages).map(|_| source.choose().map(|chosen| *source.get(chosen))).collect()
    }

    fn partitions(partitioning: Partitioning, place: usize) -> Vec<Option<u32>> {
        let chosen = chosen(AttributeSource::new(partitioning, place, 3, 1, None), 4);
        chosen.into_iter().map(|attributes| attributes.and_then(|attributes| attributes.partition)).collect()
    }

    #[test]
    fn a_producer_has_one_partition_or_all_in_turn() {
        assert_eq!(partitions(Partitioning::Client, 1), [None; 4]);
        assert_eq!(partitions(Partitioning::Own, 1), [Some(1); 4]);
        assert_eq!(partitions(Partitioning::Own, 5), [Some(2); 4]);
        assert_eq!(partitions(Partitioning::RoundRobin, 4), [Some(1), Some(2), Some(0), Some(1)]);
    }

    #[test]
    fn headers_go_in_turn_and_every_partition_has_all_of_them() {
        let all = chosen(AttributeSource::new(Partitioning::Own, 1, 3, 2, None), 3);
        let sets: Vec<_> = all.into_iter().flatten().map(|one| (one.header_set, one.partition)).collect();
        assert_eq!(sets, [(1, Some(1)), (0, Some(1)), (1, Some(1))]);
        let all = chosen(AttributeSource::new(Partitioning::RoundRobin, 0, 2, 3, None), 6);
        let mut sets: Vec<_> = all.into_iter().map(|one| one.map(|one| (one.header_set, one.partition))).collect();
        sets.sort_unstable();
        sets.dedup();
        assert_eq!(sets.len(), 6, "{sets:?}");
    }

    #[test]
    fn messages_with_only_a_payload_have_no_attributes() {
        let tombstones = Some(TombstoneSource::new(0.5, 0, 1));
        let all = chosen(AttributeSource::new(Partitioning::Client, 0, 3, 1, tombstones), 100);
        assert!(all.contains(&None) && all.contains(&Some(Attributes { null_payload: true, ..Attributes::default() })));
        assert!(!all.contains(&Some(Attributes::default())));
    }
}
