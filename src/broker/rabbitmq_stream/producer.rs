//! A sender to one topic: a stream, or the streams of a super stream.
//!
//! A batch is handed over whole, also where its streams have several connections: the producer waits for the connection of
//! the first message, and then writes to all of them without waiting. Messages of a connection that is full or lost stay for
//! the next call, with those behind them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::body::Writer;
use super::codec::code;
use super::codec::publish::{MESSAGE_BYTES, PUBLISH_BYTES, Publish, SUB_ENTRY_BYTES, filter_bytes};
use super::connection::{PublisherLost, Settled, State, Writing};
use super::pool::Route;
use super::topic_publishers::SubEntries;
use super::topic_publishers::TopicPublishers;
use crate::broker::compression::Compression;
use crate::broker::{FailureClass, Outgoing, Producer, SubmitError};
use crate::net::session::{Offer, Protocol};

/// The least time of a failed submission, so that a deleted stream does not keep a core busy with failures.
const REFUSAL: Duration = Duration::from_millis(5);

/// A sender to one topic, over connections it shares with others.
pub struct RabbitmqStreamProducer {
    topic: TopicPublishers,
    writer: Arc<Writer>,
    sub_entries: Option<SubEntries>,
    reconnect: Duration,
    /// Whether each message has its key as the value to filter by.
    is_filtered: bool,
    /// Each message's stream; empty: all go to the only one.
    targets: Vec<usize>,
}

impl RabbitmqStreamProducer {
    pub(super) fn new(
        routes: Vec<Arc<Route>>,
        writer: Arc<Writer>,
        sub_entries: Option<(u16, Compression)>,
        reconnect: Duration,
        producer_number: usize,
        is_filtered: bool,
    ) -> Self {
        let sub_entries = sub_entries.map(|(most, compression)| SubEntries::new(most, compression));
        let topic = TopicPublishers::new(routes, producer_number);
        RabbitmqStreamProducer { topic, writer, sub_entries, reconnect, is_filtered, targets: Vec::new() }
    }

    fn target(&self, number: usize) -> usize {
        self.targets.get(number).copied().unwrap_or(0)
    }

    /// Most bytes that a message may have.
    fn most_bytes(&self) -> usize {
        let frame_max = self.topic.frame_max();
        match self.sub_entries {
            // What does not compress becomes a little longer.
            Some(_) => (frame_max - frame_max / 16).saturating_sub(PUBLISH_BYTES + SUB_ENTRY_BYTES + 64 + 4),
            None => frame_max.saturating_sub(PUBLISH_BYTES + MESSAGE_BYTES),
        }
    }

    /// How many messages there are before the first that is too large.
    fn fitting(&self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let most = self.most_bytes();
        let length = |outgoing: &Outgoing<'_>| match self.is_filtered {
            true => self.writer.length(outgoing) + filter_bytes(outgoing.key),
            false => self.writer.length(outgoing),
        };
        match batch.iter().position(|outgoing| length(outgoing) > most) {
            Some(0) => {
                let bytes = batch.first().map_or(0, length);
                let message =
                    format!("a message of {bytes} bytes is larger than the {most} that fit into a frame of the server");
                Err(SubmitError { class: FailureClass::TooLarge, message })
            }
            first => Ok(first.unwrap_or(batch.len())),
        }
    }

    /// Makes the sub-entries of a batch.
    fn gather(&mut self, batch: &[Outgoing<'_>]) -> Result<(), SubmitError> {
        let most = self.most_bytes() + 4;
        let Some(sub_entries) = &mut self.sub_entries else { return Ok(()) };
        let failed = |error| SubmitError {
            class: FailureClass::Other,
            message: format!("a sub-entry cannot be compressed: {error}"),
        };
        sub_entries.clear();
        for stream in 0..self.topic.streams() {
            for (number, outgoing) in batch.iter().enumerate() {
                if self.targets.get(number).copied().unwrap_or(0) == stream {
                    sub_entries.add(stream, outgoing, &self.writer, most).map_err(failed)?;
                }
            }
            sub_entries.finish(stream).map_err(failed)?;
        }
        Ok(())
    }

    /// The number of the connection of a message.
    #[inline]
    fn connection_of(&self, number: usize) -> usize {
        self.topic.connection_of(self.target(number))
    }

    /// Why the first message whose publisher is lost cannot be published, of those that go over a connection, and its number.
    fn find_lost(&self, connection: usize, messages: usize, state: &State) -> Option<(usize, PublisherLost)> {
        // If all go to the same stream, the first message's publisher is that of all.
        let decisive = if self.targets.is_empty() { messages.min(1) } else { messages };
        (0..decisive).filter(|number| self.connection_of(*number) == connection).find_map(|number| {
            let lost = state.lost(self.topic.publisher(self.target(number)))?;
            Some((number, lost.clone()))
        })
    }

    /// Hands over a batch, or says how much of it can be handed over. Waits for the connection of the first message only.
    async fn hand_over(&self, batch: &[Outgoing<'_>]) -> Result<Handed, SubmitError> {
        let first = self.connection_of(0);
        let connection = self.topic.connection(first);
        let is_redirected = || self.topic.is_redirected() || self.topic.final_loss().is_some();
        if (0..self.targets.len().min(batch.len())).all(|number| self.connection_of(number) == first) {
            let offer = |_: &_, state: &mut State, out: &mut Vec<u8>| match self.find_lost(first, batch.len(), state) {
                Some((0, lost)) => Offer::Lost(lost),
                Some((number, _)) => Offer::Taken(Handed::Cut(number)),
                None => {
                    self.write(first, batch, &mut Writing { out, state });
                    Offer::Taken(Handed::Taken)
                }
            };
            return connection.submit(is_redirected, self.reconnect, offer).await;
        }
        let check = |state: &State| self.find_lost(first, 1, state).map(|(_, lost)| lost);
        connection.ready(is_redirected, self.reconnect, check).await?;
        Ok(match self.published(batch) {
            taken if taken < batch.len() => Handed::Cut(taken),
            _ => self.write_to_all(batch),
        })
    }

    /// How many messages there are before the first that its connection cannot take now.
    fn published(&self, batch: &[Outgoing<'_>]) -> usize {
        let mut taken = batch.len();
        for connection in 0..self.topic.connections() {
            let Some(first) = (0..taken).find(|number| self.connection_of(*number) == connection) else { continue };
            let offer = self.topic.connection(connection).offer_now(|state| self.find_lost(connection, taken, state));
            match offer {
                Offer::Taken(lost) => taken = lost.map_or(taken, |(number, _)| number),
                Offer::Full | Offer::Lost(_) => taken = first,
            }
        }
        taken
    }

    /// Writes a batch to the connections of its messages, however much is unwritten there. Messages of a connection that has
    /// been lost in between fail with it.
    fn write_to_all(&self, batch: &[Outgoing<'_>]) -> Handed {
        for connection in 0..self.topic.connections() {
            let own = || (0..batch.len()).filter(|number| self.connection_of(*number) == connection);
            if own().next().is_none() {
                continue;
            }
            let write = |_: &_, state: &mut State, out: &mut Vec<u8>| {
                self.write(connection, batch, &mut Writing { out, state })
            };
            let session = self.topic.connection(connection).session();
            if let Err(lost) = session.append(write) {
                let settled = |number: usize| Settled {
                    send_tag: batch[number].send_tag,
                    bytes: batch[number].payload.len() as u32,
                    code: code::OK,
                };
                session.protocol.fail(own().map(settled).collect(), &lost);
            }
        }
        Handed::Taken
    }

    /// Writes those messages of a batch that go over a connection.
    fn write(&self, connection: usize, batch: &[Outgoing<'_>], writing: &mut Writing<'_>) {
        if let Some(sub_entries) = &self.sub_entries {
            sub_entries.write(&self.topic, connection, writing);
            return;
        }
        if self.targets.is_empty() {
            self.write_frames(self.topic.publisher(0), batch.iter(), writing);
            writing.taken(batch.len());
            return;
        }
        let targets = &self.targets[..batch.len()];
        let mut taken = 0;
        for stream in (0..self.topic.streams()).filter(|stream| self.topic.connection_of(*stream) == connection) {
            let of_stream = || batch.iter().zip(targets).filter(|(_, target)| **target == stream);
            let count = of_stream().count();
            if count > 0 {
                self.write_frames(self.topic.publisher(stream), of_stream().map(|(one, _)| one), writing);
                taken += count;
            }
        }
        writing.taken(taken);
    }

    #[inline]
    fn write_frames<'a>(
        &self,
        publisher: u8,
        messages: impl Iterator<Item = &'a Outgoing<'a>>,
        writing: &mut Writing<'_>,
    ) {
        match self.is_filtered {
            true => write_filtered_frames(&self.writer, publisher, messages, writing),
            false => write_frames(&self.writer, publisher, messages, writing),
        }
    }
}

/// The result of an attempt to hand over a batch.
enum Handed {
    Taken,
    /// Nothing was: only so many messages can be.
    Cut(usize),
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
            pending.keep(publish.end(out));
            publish = Publish::begin(out, publisher);
        }
        publish.message(out, pending.next_id(), length, |out| writer.write(outgoing, out));
        pending.push(outgoing.send_tag, outgoing.payload.len(), false);
    }
    pending.keep(publish.end(out));
}

/// As [`write_frames`], with each message's key as the value to filter by.
fn write_filtered_frames<'a>(
    writer: &Writer,
    publisher: u8,
    messages: impl Iterator<Item = &'a Outgoing<'a>>,
    writing: &mut Writing<'_>,
) {
    let frame_max = writing.frame_max();
    let (out, pending) = writing.parts(publisher);
    let mut publish = Publish::begin_filtered(out, publisher);
    for outgoing in messages {
        let (length, value) = (writer.length(outgoing), outgoing.key);
        if publish.bytes(out) + MESSAGE_BYTES + filter_bytes(value) + length > frame_max {
            pending.keep(publish.end(out));
            publish = Publish::begin_filtered(out, publisher);
        }
        publish.filtered_message(out, pending.next_id(), value, length, |out| writer.write(outgoing, out));
        pending.push(outgoing.send_tag, outgoing.payload.len(), false);
    }
    pending.keep(publish.end(out));
}

impl Producer for RabbitmqStreamProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let Some(first) = batch.first() else { return Ok(0) };
        if !self.writer.takes(first) {
            let message = "binary bodies cannot carry the trace header that consumers verify: leave `[consumers]` out, take payloads \
                           of 32 bytes or more, or set `broker.rabbitmq-stream.body` to \"amqp\"";
            return Err(SubmitError { class: FailureClass::Other, message: message.to_owned() });
        }
        if self.is_filtered && first.key.is_none() {
            let message = "messages without keys have no value to filter by: set `producers.keys`, or leave \
                           `broker.rabbitmq-stream.filter` out";
            return Err(SubmitError { class: FailureClass::Other, message: message.to_owned() });
        }
        self.topic.assign(batch, &mut self.targets);
        let mut batch = batch;
        loop {
            batch = &batch[..self.fitting(batch)?];
            self.gather(batch)?;
            match self.hand_over(batch).await {
                Ok(Handed::Taken) => return Ok(batch.len()),
                Ok(Handed::Cut(messages)) => batch = &batch[..messages],
                Err(_) if self.topic.is_redirected() => self.topic.redirect(),
                Err(error) => {
                    sleep(REFUSAL).await;
                    return Err(self.topic.final_loss().unwrap_or(error));
                }
            }
        }
    }

    fn fatal_error(&self) -> Option<String> {
        self.topic.final_loss().map(|error| error.message)
    }
}
