//! A sender to one topic by the crate.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as KEY_BASE64;
use pulsar_rs::ProducerOptions;
use pulsar_rs::compression::{self, Compression as CrateCompression};
use pulsar_rs::producer::Message;

use super::lane::{Item, Lane};
use crate::broker::pulsar::codec::compression::Compression;
use crate::broker::pulsar::codec::entry::trace_header_text;
use crate::broker::pulsar::config::{Hashing, PulsarOptions};
use crate::broker::pulsar::error::RequestError;
use crate::broker::pulsar::routing::partition;
use crate::broker::{Outgoing, Producer, SubmitError, TRACE_HEADER_NAME};

/// The crate closes an entry when it is full or has waited this long, but not at the end of a submission. This is the Java
/// client's default.
const DEFAULT_LINGER: Duration = Duration::from_millis(1);

/// What all producers have in common.
pub struct Manner {
    pub producer_options: ProducerOptions,
    properties: HashMap<String, String>,
    hashing: Hashing,
    deliver_after: Option<Duration>,
    /// How long producers waited for the crate to take messages.
    pub waited_ns: AtomicU64,
}

impl Manner {
    pub fn new(options: &PulsarOptions, properties: HashMap<String, String>) -> Self {
        let batching = options.batching && options.deliver_after.is_none();
        let producer_options = ProducerOptions {
            batch_size: batching.then(|| u32::try_from(options.batch_messages).unwrap_or(u32::MAX)),
            batch_byte_size: batching.then_some(options.batch_bytes),
            batch_timeout: batching.then(|| options.linger.unwrap_or(DEFAULT_LINGER)),
            compression: Some(compression(options.compression)),
            access_mode: Some(options.access_mode.number()),
            // Otherwise it refuses messages when its queue is full.
            block_queue_if_full: true,
            ..ProducerOptions::default()
        };
        let (hashing, deliver_after) = (options.hashing, options.deliver_after);
        Manner { producer_options, properties, hashing, deliver_after, waited_ns: AtomicU64::new(0) }
    }

    fn item(&self, outgoing: &Outgoing<'_>, deliver_at_time: Option<i64>) -> Item {
        let mut properties = self.properties.clone();
        if let Some(trace_header) = outgoing.trace_header {
            properties.insert(TRACE_HEADER_NAME.to_owned(), trace_header_text(trace_header));
        }
        let key = outgoing.key.map(|key| match str::from_utf8(key) {
            Ok(text) => (text.to_owned(), false),
            Err(_) => (KEY_BASE64.encode(key), true),
        });
        let (partition_key, partition_key_b64_encoded) = key.unzip();
        let payload = outgoing.payload.to_vec();
        let message = Message {
            payload,
            properties,
            partition_key,
            partition_key_b64_encoded,
            deliver_at_time,
            ..Message::default()
        };
        Item { message, send_tag: outgoing.send_tag, payload_bytes: outgoing.payload.len() }
    }

    fn deliver_at_time(&self) -> Option<i64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.deliver_after.map(|after| (now + after).as_millis() as i64)
    }
}

fn compression(compression: Compression) -> CrateCompression {
    match compression {
        Compression::None => CrateCompression::None,
        Compression::Lz4 => CrateCompression::Lz4(compression::CompressionLz4::default()),
        Compression::Zlib => CrateCompression::Zlib(compression::CompressionZlib::default()),
        Compression::Zstd => CrateCompression::Zstd(compression::CompressionZstd::default()),
        Compression::Snappy => CrateCompression::Snappy(compression::CompressionSnappy::default()),
    }
}

/// A sender to one topic.
pub struct CrateProducer {
    manner: Arc<Manner>,
    /// One for each partition; one for a topic that has none.
    lanes: Vec<Lane>,
    /// What goes to each of them. Empty between batches.
    groups: Vec<Vec<Item>>,
    /// The lane that the next batch without keys goes to.
    turn: usize,
}

impl CrateProducer {
    pub(super) fn new(manner: Arc<Manner>, lanes: Vec<Lane>, producer_number: usize) -> Self {
        // Producers begin at different partitions, so that these fill evenly.
        let turn = producer_number % lanes.len();
        let groups = lanes.iter().map(|_| Vec::new()).collect();
        CrateProducer { manner, lanes, groups, turn }
    }

    /// Why no lane can take more, if that is so.
    fn failure(&self) -> Option<&RequestError> {
        let mut failures = self.lanes.iter().map(Lane::failure);
        let first = failures.next()??;
        failures.all(|failure| failure.is_some()).then_some(first)
    }

    /// Sorts the batch by partitions.
    fn group(&mut self, batch: &[Outgoing<'_>]) {
        let deliver_at_time = self.manner.deliver_at_time();
        self.groups.iter_mut().for_each(Vec::clear);
        for outgoing in batch {
            let lane = match outgoing.key {
                Some(key) if self.lanes.len() > 1 => partition(self.manner.hashing, key, self.lanes.len()),
                _ => self.turn,
            };
            self.groups[lane].push(self.manner.item(outgoing, deliver_at_time));
        }
    }
}

impl Producer for CrateProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        if let Some(failure) = self.failure() {
            return Err(failure.submitting());
        }
        self.group(batch);
        let CrateProducer { manner, lanes, groups, turn } = self;
        let mut concerned: Vec<_> = lanes.iter().zip(groups).filter(|(_, group)| !group.is_empty()).collect();
        let full_since = (!concerned.iter().all(|(lane, _)| lane.has_room())).then(Instant::now);
        let mut rooms = Vec::with_capacity(concerned.len());
        for (lane, _) in &concerned {
            rooms.push(lane.room().await.map_err(|failure| failure.submitting())?);
        }
        // Nothing awaits from here on, so that a cancellation cannot split the batch.
        for (room, (_, group)) in rooms.into_iter().zip(&mut concerned) {
            room.send(mem::take(*group));
        }
        if let Some(since) = full_since {
            manner.waited_ns.fetch_add(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        *turn = (*turn + 1) % lanes.len();
        Ok(batch.len())
    }

    fn fatal_error(&self) -> Option<String> {
        self.failure().map(|failure| failure.message.clone())
    }

    fn finish(&mut self) {
        self.lanes.iter_mut().for_each(Lane::finish);
    }
}
