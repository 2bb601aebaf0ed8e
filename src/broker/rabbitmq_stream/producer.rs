//! A sender to one topic: a stream, or the streams of a super stream.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::body::Writer;
use super::codec::command::{MESSAGE_BYTES, PUBLISH_BYTES, Publish, SUB_ENTRY_BYTES, record};
use super::config::Compression;
use super::connection::{Connection, PublisherLost, Writing};
use super::pool::{Route, StreamPublisher};
use super::routing;
use crate::broker::{FailureClass, Outgoing, Producer, SubmitError};
use crate::measure::SendTag;
use crate::net::session::Offer;

/// The least time of a failed submission, so that a deleted stream does not keep a core busy with failures.
const REFUSAL: Duration = Duration::from_millis(5);

/// A sender to one topic, over connections it shares with others.
pub struct RabbitmqStreamProducer {
    /// One for each stream of the topic.
    publishers: Vec<StreamPublisher>,
    /// The same streams', which lead to other publishers when a stream gets another leader.
    ways: Vec<Arc<Route>>,
    writer: Arc<Writer>,
    sub_entries: Option<SubEntries>,
    reconnect: Duration,
    /// Where the next batch without keys goes.
    turn: usize,
    /// Each message's publisher.
    routes: Vec<usize>,
}

/// Several messages as one entry, built before the connection is locked.
struct SubEntries {
    most: usize,
    compression: Compression,
    plain: Vec<u8>,
    /// All contents, one behind the other.
    content: Vec<u8>,
    entries: Vec<SubEntry>,
    members: Vec<(SendTag, usize)>,
    /// Those of them that are in no entry yet.
    open: usize,
}

struct SubEntry {
    publisher: u8,
    messages: u16,
    uncompressed: usize,
    compressed: usize,
}

/// The result of writing a batch.
enum Handed {
    Taken(usize),
    TooLarge { bytes: usize, most: usize },
}

impl RabbitmqStreamProducer {
    pub(super) fn new(
        ways: Vec<Arc<Route>>,
        writer: Arc<Writer>,
        sub_entries: Option<(u16, Compression)>,
        reconnect: Duration,
        producer_index: usize,
    ) -> Self {
        let sub_entries = sub_entries.map(|(most, compression)| SubEntries {
            most: usize::from(most),
            compression,
            plain: Vec::new(),
            content: Vec::new(),
            entries: Vec::new(),
            members: Vec::new(),
            open: 0,
        });
        let publishers: Vec<_> = ways.iter().map(|way| way.current()).collect();
        let turn = producer_index % publishers.len();
        RabbitmqStreamProducer { publishers, ways, writer, sub_entries, reconnect, turn, routes: Vec::new() }
    }

    /// Whether a stream is published to over another connection now.
    fn is_redirected(&self) -> bool {
        self.ways.iter().zip(&self.publishers).any(|(way, publisher)| way.has_left(publisher))
    }

    /// Goes over to the connections that streams are published to now. Returns whether one has changed.
    fn redirect(&mut self) -> bool {
        let is_redirected = self.is_redirected();
        for (way, publisher) in self.ways.iter().zip(&mut self.publishers) {
            *publisher = way.current();
        }
        is_redirected
    }

    /// Finds each message's publisher, and how many from the beginning go over the same connection: those are handed over
    /// together. A batch without keys stays together and goes to the streams in turn.
    fn route(&mut self, batch: &[Outgoing<'_>]) -> usize {
        self.routes.clear();
        if self.publishers.len() == 1 {
            return batch.len();
        }
        let mut first: Option<&Arc<Connection>> = None;
        for outgoing in batch {
            let publisher = outgoing.key.map_or(self.turn, |key| routing::partition(key, self.publishers.len()));
            let connection = &self.publishers[publisher].connection;
            if !Arc::ptr_eq(first.get_or_insert(connection), connection) {
                break;
            }
            self.routes.push(publisher);
        }
        self.turn = (self.turn + 1) % self.publishers.len();
        self.routes.len()
    }

    fn write(&self, batch: &[Outgoing<'_>], writing: &mut Writing<'_>) -> Result<Handed, PublisherLost> {
        if let Some(sub_entries) = &self.sub_entries {
            return sub_entries.write(writing);
        }
        let writer = &*self.writer;
        let most = writing.frame_max() - PUBLISH_BYTES - MESSAGE_BYTES;
        let mut taken = 0;
        for (number, outgoing) in batch.iter().enumerate() {
            let bytes = writer.length(outgoing);
            if bytes > most {
                if number == 0 {
                    return Ok(Handed::TooLarge { bytes, most });
                }
                break;
            }
            // If all go to the same stream, the first message's publisher is that of all.
            if (number == 0 || !self.routes.is_empty())
                && let Some(lost) = writing.lost(self.publisher(number))
            {
                if number == 0 {
                    return Err(lost.clone());
                }
                break;
            }
            taken += 1;
        }
        let batch = &batch[..taken];
        if self.routes.is_empty() {
            write_frames(writer, self.publishers[0].publisher, batch.iter(), writing);
        } else {
            for (index, StreamPublisher { publisher, .. }) in self.publishers.iter().enumerate() {
                if self.routes[..taken].contains(&index) {
                    let of_stream = batch.iter().zip(&self.routes).filter(|(_, route)| **route == index);
                    write_frames(writer, *publisher, of_stream.map(|(outgoing, _)| outgoing), writing);
                }
            }
        }
        writing.taken(taken);
        Ok(Handed::Taken(taken))
    }

    fn publisher(&self, number: usize) -> u8 {
        self.publishers[self.routes.get(number).copied().unwrap_or(0)].publisher
    }

    /// Makes sub-entries of a batch; how many of its messages.
    fn gather(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let Some(sub_entries) = &mut self.sub_entries else { return Ok(batch.len()) };
        let Some(first) = self.publishers.get(self.routes.first().copied().unwrap_or(0)) else { return Ok(0) };
        // What does not compress becomes a little longer.
        let frame_max = first.connection.frame_max();
        let most = (frame_max - frame_max / 16).saturating_sub(PUBLISH_BYTES + SUB_ENTRY_BYTES + 64);
        let fits = |outgoing: &Outgoing<'_>| 4 + self.writer.length(outgoing) <= most;
        let taken = batch.iter().position(|outgoing| !fits(outgoing)).unwrap_or(batch.len());
        let Some(batch) = batch.get(..taken).filter(|batch| !batch.is_empty()) else {
            return Err(too_large(batch.first().map_or(0, |first| self.writer.length(first)), most));
        };
        sub_entries.clear();
        for (index, StreamPublisher { publisher, .. }) in self.publishers.iter().enumerate() {
            let routes = &self.routes;
            let of_stream = (0..taken).filter(|number| routes.get(*number).copied().unwrap_or(0) == index);
            for outgoing in of_stream.map(|number| &batch[number]) {
                sub_entries.add(*publisher, outgoing, &self.writer, most).map_err(|error| SubmitError {
                    class: FailureClass::Other,
                    message: format!("a sub-entry cannot be compressed: {error}"),
                })?;
            }
            sub_entries.finish(*publisher).map_err(|error| SubmitError {
                class: FailureClass::Other,
                message: format!("a sub-entry cannot be compressed: {error}"),
            })?;
        }
        Ok(taken)
    }
}

/// As few frames as the messages fit into: one, unless they are more than the server takes.
#[inline]
fn write_frames<'a>(
    writer: &Writer,
    publisher: u8,
    messages: impl Iterator<Item = &'a Outgoing<'a>>,
    writing: &mut Writing<'_>,
) {
    let frame_max = writing.frame_max();
    let (out, pending) = writing.parts(publisher);
    let mut publish = Publish::begin(out, publisher);
    for outgoing in messages {
        let length = writer.length(outgoing);
        if publish.bytes(out) + MESSAGE_BYTES + length > frame_max {
            publish.end(out);
            publish = Publish::begin(out, publisher);
        }
        publish.message(out, pending.next_id(), length, |out| writer.write(outgoing, out));
        pending.push(outgoing.send_tag, outgoing.payload.len(), false);
    }
    publish.end(out);
}

impl SubEntries {
    fn clear(&mut self) {
        self.plain.clear();
        self.content.clear();
        self.entries.clear();
        self.members.clear();
        self.open = 0;
    }

    fn add(
        &mut self,
        publisher: u8,
        outgoing: &Outgoing<'_>,
        writer: &Writer,
        most_bytes: usize,
    ) -> std::io::Result<()> {
        let length = writer.length(outgoing);
        if self.open == self.most || self.plain.len() + 4 + length > most_bytes {
            self.finish(publisher)?;
        }
        record(&mut self.plain, length, |out| writer.write(outgoing, out));
        self.members.push((outgoing.send_tag, outgoing.payload.len()));
        self.open += 1;
        Ok(())
    }

    /// Compresses what was added since the last time.
    fn finish(&mut self, publisher: u8) -> std::io::Result<()> {
        let messages = std::mem::take(&mut self.open) as u16;
        if messages > 0 {
            let begin = self.content.len();
            self.compression.compress(&self.plain, &mut self.content)?;
            let (uncompressed, compressed) = (self.plain.len(), self.content.len() - begin);
            self.entries.push(SubEntry { publisher, messages, uncompressed, compressed });
            self.plain.clear();
        }
        Ok(())
    }

    /// Writes all of them, or nothing if one of their streams is lost.
    fn write(&self, writing: &mut Writing<'_>) -> Result<Handed, PublisherLost> {
        if let Some(lost) = self.entries.iter().find_map(|entry| writing.lost(entry.publisher)) {
            return Err(lost.clone());
        }
        let frame_max = writing.frame_max();
        let (mut members, mut content) = (&self.members[..], &self.content[..]);
        let mut entries = self.entries.iter().peekable();
        while let Some(publisher) = entries.peek().map(|entry| entry.publisher) {
            let (out, pending) = writing.parts(publisher);
            let mut publish = Publish::begin(out, publisher);
            let mut empty = true;
            while let Some(entry) = entries.next_if(|entry| {
                entry.publisher == publisher
                    && (empty || publish.bytes(out) + SUB_ENTRY_BYTES + entry.compressed <= frame_max)
            }) {
                empty = false;
                let (of_entry, rest) = members.split_at(usize::from(entry.messages));
                members = rest;
                for (number, (send_tag, bytes)) in of_entry.iter().enumerate() {
                    pending.push(*send_tag, *bytes, number + 1 < of_entry.len());
                }
                let (of_entry, rest) = content.split_at(entry.compressed);
                content = rest;
                let (id, number) = (pending.next_id() - 1, self.compression as u8);
                publish.sub_entry(out, id, number, entry.messages, entry.uncompressed, of_entry);
            }
            publish.end(out);
        }
        writing.taken(self.members.len());
        Ok(Handed::Taken(self.members.len()))
    }
}

fn too_large(bytes: usize, most: usize) -> SubmitError {
    let message = format!("a message of {bytes} bytes is larger than the {most} that fit into a frame of the server");
    SubmitError { class: FailureClass::TooLarge, message }
}

impl Producer for RabbitmqStreamProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let Some(first) = batch.first() else { return Ok(0) };
        if !self.writer.takes(first) {
            let message = "binary bodies cannot carry the trace header that consumers verify: leave `[consumers]` out, take payloads \
                           of 32 bytes or more, or set `broker.rabbitmq-stream.body` to \"amqp\"";
            return Err(SubmitError { class: FailureClass::Other, message: message.to_owned() });
        }
        loop {
            let routed = self.route(batch);
            let gathered = self.gather(&batch[..routed])?;
            let batch = &batch[..gathered];
            let producer = &*self;
            let connection = &producer.publishers[producer.routes.first().copied().unwrap_or(0)].connection;
            let is_redirected = || producer.is_redirected();
            let written = connection.submit_unless(is_redirected, self.reconnect, |_, state, out| {
                producer.write(batch, &mut Writing { out, state }).map_or_else(Offer::Lost, Offer::Taken)
            });
            match written.await {
                Ok(Handed::Taken(count)) => return Ok(count),
                Ok(Handed::TooLarge { bytes, most }) => return Err(too_large(bytes, most)),
                Err(_) if self.redirect() => {}
                Err(error) => {
                    sleep(REFUSAL).await;
                    return Err(error);
                }
            }
        }
    }
}
