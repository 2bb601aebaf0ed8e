//! A producer's ways to the streams of its topic: the publishers, the connections that they are on, and the stream of each key.
//! Sub-entries are several messages as one entry with one publishing id, built before a connection is locked.

use std::io;
use std::sync::Arc;

use super::body::Writer;
use super::codec::chunk::compress;
use super::codec::publish::{Publish, SUB_ENTRY_BYTES, record};
use super::connection::{Connection, StreamPublisher, Writing};
use super::pool::Route;
use crate::broker::compression::Compression;
use crate::broker::murmur3::murmur3;
use crate::broker::{Outgoing, SubmitError};
use crate::measure::SendTag;

/// For each stream of a topic, the publisher and its connection.
pub struct TopicPublishers {
    routes: Vec<Arc<Route>>,
    publishers: Vec<StreamPublisher>,
    /// Each connection once.
    connections: Vec<Arc<Connection>>,
    /// The number of each stream's connection.
    connection_of: Vec<usize>,
    /// Largest frame that all of them accept.
    frame_max: usize,
    /// The stream of the next batch without keys.
    turn: usize,
}

impl TopicPublishers {
    pub fn new(routes: Vec<Arc<Route>>, producer_number: usize) -> Self {
        let turn = producer_number % routes.len().max(1);
        let (publishers, connections, connection_of) = (Vec::new(), Vec::new(), Vec::new());
        let mut topic = TopicPublishers { routes, publishers, connections, connection_of, frame_max: 0, turn };
        topic.redirect();
        topic
    }

    /// Whether a stream is published to over another connection now.
    pub fn is_redirected(&self) -> bool {
        self.routes.iter().zip(&self.publishers).any(|(route, publisher)| route.has_left(publisher))
    }

    /// Why no stream can be published to any more, if that is so.
    pub fn final_loss(&self) -> Option<SubmitError> {
        let mut losses = self.publishers.iter().map(StreamPublisher::final_loss);
        let first = losses.next()??;
        losses.all(|loss| loss.is_some()).then_some(first)
    }

    /// Uses the connections over which streams are published to now.
    pub fn redirect(&mut self) {
        self.publishers = self.routes.iter().map(|route| route.current()).collect();
        self.connections.clear();
        self.connection_of.clear();
        for StreamPublisher { connection, .. } in &self.publishers {
            let known = self.connections.iter().position(|known| Arc::ptr_eq(known, connection));
            self.connection_of.push(known.unwrap_or_else(|| {
                self.connections.push(connection.clone());
                self.connections.len() - 1
            }));
        }
        self.frame_max = self.connections.iter().map(|connection| connection.frame_max()).min().unwrap_or(0);
    }

    pub fn frame_max(&self) -> usize {
        self.frame_max
    }

    pub fn streams(&self) -> usize {
        self.publishers.len()
    }

    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    pub fn connection(&self, number: usize) -> &Arc<Connection> {
        &self.connections[number]
    }

    /// The number of the connection of a stream.
    #[inline]
    pub fn connection_of(&self, stream: usize) -> usize {
        self.connection_of[stream]
    }

    /// The publisher of a stream on its connection.
    #[inline]
    pub fn publisher(&self, stream: usize) -> u8 {
        self.publishers[stream].publisher
    }

    /// Finds each message's stream. A batch without keys stays together and goes to the streams in turn. Of a topic of one
    /// stream, `targets` stays empty.
    pub fn assign(&mut self, batch: &[Outgoing<'_>], targets: &mut Vec<usize>) {
        targets.clear();
        let streams = self.publishers.len();
        if streams > 1 {
            if batch.iter().any(|one| one.key.is_none()) {
                self.pass_over_lost();
            }
            let target = |one: &Outgoing<'_>| one.key.map_or(self.turn, |key| partition(key, streams));
            targets.extend(batch.iter().map(target));
            self.turn = (self.turn + 1) % streams;
        }
    }

    /// If the publisher of the stream whose turn it is was lost, it is the turn of the next stream that can be published to, if there is one.
    fn pass_over_lost(&mut self) {
        let is_open = |one: &StreamPublisher| one.connection.has_publisher(one.publisher);
        if is_open(&self.publishers[self.turn]) {
            return;
        }
        // It may have been declared again over another connection.
        if self.is_redirected() {
            self.redirect();
        }
        let (turn, streams) = (self.turn, self.publishers.len());
        let mut from_turn = (turn..turn + streams).map(|stream| stream % streams);
        self.turn = from_turn.find(|stream| is_open(&self.publishers[*stream])).unwrap_or(turn);
    }
}

/// The seed that RabbitMQ's clients share.
const SEED: u32 = 104_729;

/// The partition of a key: the remainder of its hash, as the Java client's `HashRoutingStrategy`.
fn partition(key: &[u8], partitions: usize) -> usize {
    murmur3(key, SEED) as usize % partitions
}

/// The sub-entries of a batch.
pub struct SubEntries {
    most: usize,
    compression: Compression,
    plain: Vec<u8>,
    /// All contents, one behind the other.
    content: Vec<u8>,
    entries: Vec<SubEntry>,
    members: Vec<(SendTag, usize)>,
    /// The number of members that are in no entry yet.
    open: usize,
}

struct SubEntry {
    stream: usize,
    messages: u16,
    uncompressed: usize,
    compressed: usize,
}

impl SubEntries {
    /// Makes sub-entries of `most` messages each.
    pub fn new(most: u16, compression: Compression) -> Self {
        SubEntries {
            most: usize::from(most),
            compression,
            plain: Vec::new(),
            content: Vec::new(),
            entries: Vec::new(),
            members: Vec::new(),
            open: 0,
        }
    }

    pub fn clear(&mut self) {
        self.plain.clear();
        self.content.clear();
        self.entries.clear();
        self.members.clear();
        self.open = 0;
    }

    /// Adds a message to the entries of its stream, which [`SubEntries::finish`] ends.
    ///
    /// # Errors
    /// When the compressing library fails.
    pub fn add(
        &mut self,
        stream: usize,
        outgoing: &Outgoing<'_>,
        writer: &Writer,
        most_bytes: usize,
    ) -> io::Result<()> {
        let length = writer.length(outgoing);
        if self.open == self.most || self.plain.len() + 4 + length > most_bytes {
            self.finish(stream)?;
        }
        record(&mut self.plain, length, |out| writer.write(outgoing, out));
        self.members.push((outgoing.send_tag, outgoing.payload.len()));
        self.open += 1;
        Ok(())
    }

    /// Compresses what was added since the last time.
    ///
    /// # Errors
    /// When the compressing library fails.
    pub fn finish(&mut self, stream: usize) -> io::Result<()> {
        let messages = std::mem::take(&mut self.open) as u16;
        if messages > 0 {
            let begin = self.content.len();
            compress(self.compression, &self.plain, &mut self.content)?;
            let (uncompressed, compressed) = (self.plain.len(), self.content.len() - begin);
            self.entries.push(SubEntry { stream, messages, uncompressed, compressed });
            self.plain.clear();
        }
        Ok(())
    }

    /// Writes those for one connection.
    pub fn write(&self, topic: &TopicPublishers, connection: usize, writing: &mut Writing<'_>) {
        let own = self.entries.iter().filter(|entry| topic.connection_of(entry.stream) == connection);
        let total = own.map(|entry| usize::from(entry.messages)).sum();
        let frame_max = writing.frame_max();
        let (mut members, mut content) = (&self.members[..], &self.content[..]);
        let mut entries = self.entries.iter().peekable();
        while let Some(&&SubEntry { stream, messages, compressed, .. }) = entries.peek() {
            if topic.connection_of(stream) != connection {
                entries.next();
                (members, content) = (&members[usize::from(messages)..], &content[compressed..]);
                continue;
            }
            let (out, pending) = writing.parts(topic.publisher(stream));
            let mut publish = Publish::begin(out, topic.publisher(stream));
            let mut empty = true;
            while let Some(entry) = entries.next_if(|entry| {
                entry.stream == stream
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
            pending.keep(publish.end(out));
        }
        writing.taken(total);
    }
}
