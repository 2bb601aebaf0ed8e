//! A publishing connection to one nsqd.
//!
//! nsqd responds to the commands of a connection in their order, so each response belongs to the first command without one. `Traffic`
//! counts what was sent, and how long nsqd took to respond.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::codec::{Frame, HEARTBEAT, OK, command, decode};
use super::config::{NsqOptions, Single};
use super::connect::{Connector, Role, class_of, text};
use crate::broker::{FailureClass, Outgoing, SubmitError, Wire};
use crate::measure::host::tasks;
use crate::measure::{AckRecorder, ConditionKind, SendTag, Subject};
use crate::net::session::{Offer, Protocol, PublishingConnection, Served, Session};
use crate::net::transport::WriteBuffer;

/// nsqd's `-max-body-size` where it is not told and not configured.
const DEFAULT_MAX_BODY_BYTES: u64 = 5 << 20;

pub type Connection = PublishingConnection<Publishing>;

/// What a publishing connection needs to know.
pub struct Publishing {
    address: String,
    held_up: Subject,
    connector: Arc<Connector>,
    recorder: AckRecorder,
    /// Most bytes without a response.
    unanswered: u64,
    /// Most bytes of the body of a command with several messages.
    max_body_bytes: u64,
    single: Single,
    defer_ms: Option<u64>,
    heartbeat: Duration,
}

#[derive(Default)]
pub struct InFlight {
    sent: VecDeque<Sent>,
    /// Bytes of the messages in `sent`.
    bytes: u64,
    pub traffic: Traffic,
}

/// A message whose command has no response yet.
#[derive(Clone, Copy)]
pub struct Sent {
    send_tag: SendTag,
    bytes: u32,
    /// The last message of its command.
    last: bool,
}

impl Publishing {
    /// Takes over a session. `max_body_bytes`: nsqd's limit, if it is known.
    pub fn start(
        address: String,
        session: super::connect::Session,
        connector: Arc<Connector>,
        recorder: AckRecorder,
        max_body_bytes: Option<u64>,
    ) -> Connection {
        let NsqOptions { unanswered, single, defer, heartbeat, .. } = *connector.options();
        let defer_ms = defer.map(|defer| defer.as_millis() as u64);
        let mut in_flight = InFlight::default();
        in_flight.traffic.begin(session.compressed_bytes.clone());
        let served = served(session, heartbeat);
        let held_up = connector.node(&address);
        let max_body_bytes = max_body_bytes.unwrap_or(DEFAULT_MAX_BODY_BYTES).min(i32::MAX as u64);
        let publishing = Publishing {
            address,
            held_up,
            connector,
            recorder,
            unanswered,
            max_body_bytes,
            single,
            defer_ms,
            heartbeat,
        };
        PublishingConnection::start(publishing, in_flight, served, WriteBuffer::default())
    }

    /// Appends the whole batch as one command, or as much of it as one command can hold, or nothing. Returns how many
    /// messages that are.
    #[inline]
    pub fn publish(
        &self,
        topic: &str,
        batch: &[Outgoing<'_>],
        in_flight: &mut InFlight,
        out: &mut Vec<u8>,
    ) -> Offer<usize, SubmitError> {
        let fitting = fitting(batch.iter().map(|outgoing| outgoing.payload.len() as u64), self.max_body_bytes);
        let batch = &batch[..fitting.min(batch.len())];
        let bytes: u64 = batch.iter().map(|outgoing| outgoing.payload.len() as u64).sum();
        if !in_flight.sent.is_empty() && in_flight.bytes + bytes > self.unanswered {
            return Offer::Full;
        }
        let unpublished = out.len();
        let one_by_one = match (batch, self.defer_ms) {
            (_, Some(defer_ms)) => {
                batch.iter().for_each(|one| command::publish_deferred(out, topic, defer_ms, one.payload));
                true
            }
            ([one], None) if self.single == Single::Pub => {
                command::publish(out, topic, one.payload);
                true
            }
            _ => {
                command::publish_many(out, topic, batch.iter().map(|one| one.payload));
                false
            }
        };
        let sent =
            |one: &Outgoing<'_>| Sent { send_tag: one.send_tag, bytes: one.payload.len() as u32, last: one_by_one };
        in_flight.sent.extend(batch.iter().map(sent));
        if let Some(last) = in_flight.sent.back_mut() {
            last.last = true;
        }
        in_flight.bytes += bytes;
        in_flight.traffic.publish(if one_by_one { batch.len() } else { 1 }, out.len() - unpublished);
        Offer::Taken(batch.len())
    }
}

/// How many messages of these sizes fit into the body of one command: at least one, of which nsqd says whether it is too large.
fn fitting(sizes: impl Iterator<Item = u64>, max_body_bytes: u64) -> usize {
    let mut bytes = 4;
    let fitting = sizes.take_while(|size| {
        bytes += 4 + size;
        bytes <= max_body_bytes
    });
    fitting.count().max(1)
}

fn served(session: super::connect::Session, heartbeat: Duration) -> Served {
    let super::connect::Session { transport, read_buffer, .. } = session;
    Served { transport: Arc::new(transport), read_buffer, heartbeat: Some(heartbeat) }
}

impl Protocol for Publishing {
    type State = InFlight;
    type Message = Sent;
    type Error = SubmitError;
    type Scratch = Vec<Sent>;

    /// `unanswered` limits what is in flight.
    const MAX_UNWRITTEN: usize = usize::MAX;

    fn pending(in_flight: &InFlight) -> usize {
        in_flight.sent.len()
    }

    fn watched(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send + 'static {
        tasks::watched("connection", 0, task)
    }

    fn read(session: &Arc<Session<Self>>, served: &mut Served, settled: &mut Vec<Sent>) -> io::Result<()> {
        // Frames are read before an error of the socket is returned: nsqd sends the reason why it closes a connection.
        let filled = served.read_buffer.fill(&served.transport);
        let mut responses = 0;
        loop {
            match served.read_buffer.next(decode).map_err(io::Error::other)? {
                Some(Frame::Response(OK)) => responses += 1,
                Some(Frame::Response(HEARTBEAT)) => {
                    command::nothing(&mut session.state().write_buffer.bytes);
                    session.notify_work();
                }
                Some(Frame::Response(other)) => {
                    return Err(io::Error::other(format!("unexpected response: {}", text(other))));
                }
                Some(Frame::Error(error)) => {
                    session.settle(std::mem::take(&mut responses), settled);
                    session.refuse(error, settled);
                    return Err(io::Error::other(format!("nsqd closes it after {}", text(error))));
                }
                Some(Frame::Message(_)) => {
                    return Err(io::Error::other("a message on a connection without a subscription"));
                }
                None => break,
            }
        }
        session.settle(responses, settled);
        filled.map(drop)
    }

    async fn reconnect(session: &Arc<Session<Self>>) -> Option<Served> {
        let Publishing { connector, address, heartbeat, .. } = &session.protocol;
        let connected = match connector.connect(address, &Role::Writer).await {
            Ok(connected) => connected,
            Err(error) => {
                session.protocol.held_up.begin(error.condition(), &error.to_string());
                return None;
            }
        };
        // What a message was refused for lasts until one is acknowledged.
        session.protocol.held_up.end_only(ConditionKind::Connecting);
        session.state().protocol.traffic.begin(connected.compressed_bytes.clone());
        let served = served(connected, *heartbeat);
        session.install(served.transport.clone(), WriteBuffer::default());
        Some(served)
    }

    fn lost(&self, reason: &str) -> SubmitError {
        let message = format!("the connection to nsqd at {} was lost: {reason}", self.address);
        SubmitError { class: FailureClass::ConnectionLost, message }
    }

    fn take_pending(in_flight: &mut InFlight) -> Vec<Sent> {
        in_flight.bytes = 0;
        in_flight.traffic.lose();
        std::mem::take(&mut in_flight.sent).into()
    }

    fn fail(&self, messages: Vec<Sent>, error: &SubmitError) {
        let mut acks = self.recorder.batch();
        for sent in messages {
            acks.failed(sent.send_tag, error.class, || error.message.clone());
        }
    }
}

/// What helps against an error of nsqd.
fn remedy(error: &[u8]) -> &'static str {
    match class_of(error) {
        FailureClass::TooLarge if error.starts_with(b"E_BAD_BODY") => {
            ": lower `producers.batch`, or start nsqd with a larger -max-body-size"
        }
        FailureClass::TooLarge => ": lower `payload.size`, or start nsqd with a larger -max-msg-size",
        _ => "",
    }
}

impl Session<Publishing> {
    /// nsqd accepted the first `commands` without a response.
    fn settle(&self, commands: usize, settled: &mut Vec<Sent>) {
        if commands == 0 {
            return;
        }
        self.protocol.held_up.end();
        self.take_sent(commands, true, settled);
        let mut acks = self.protocol.recorder.batch();
        for sent in settled.drain(..) {
            acks.acknowledged(sent.send_tag, sent.bytes as usize);
        }
        drop(acks);
        self.notify_capacity();
    }

    /// nsqd refused the first command without a response. It closes the connection after that, for any topic, so
    /// nothing more is written to it.
    fn refuse(&self, error: &[u8], settled: &mut Vec<Sent>) {
        let class = class_of(error);
        // A message that is too large is about itself only.
        if class != FailureClass::TooLarge {
            self.protocol.held_up.begin(ConditionKind::from_failure(class), &text(error));
        }
        self.state().transport = None;
        self.take_sent(1, false, settled);
        let mut acks = self.protocol.recorder.batch();
        for sent in settled.drain(..) {
            acks.failed(sent.send_tag, class, || text(error) + remedy(error));
        }
    }

    /// Takes the messages of the first commands, which have a response. `taken`: nsqd took them.
    fn take_sent(&self, commands: usize, taken: bool, settled: &mut Vec<Sent>) {
        let mut state = self.state();
        let in_flight = &mut state.protocol;
        let before = in_flight.bytes;
        let mut left = commands;
        while left > 0
            && let Some(sent) = in_flight.sent.pop_front()
        {
            left -= usize::from(sent.last);
            in_flight.bytes -= u64::from(sent.bytes);
            settled.push(sent);
        }
        in_flight.traffic.answer(commands, if taken { before - in_flight.bytes } else { 0 });
    }
}

/// Most round trips that are kept from one look to the next.
const MAX_ROUND_TRIPS: usize = 8192;

/// Counts since the last look. One command at a time has its round trip timed, so that most commands cost no look at the clock.
#[derive(Default)]
pub struct Traffic {
    wire: Wire,
    /// Commands so far: published, and with a response.
    published: u64,
    answered: u64,
    /// The number of the command that is timed, and when it was handed over.
    timed: Option<(u64, Instant)>,
    round_trips: Vec<u64>,
    /// What a compressed connection has sent; without compression, commands are sent as they are.
    compressed: Option<Arc<AtomicU64>>,
}

impl Traffic {
    /// The connection is now this one.
    pub fn begin(&mut self, compressed: Option<Arc<AtomicU64>>) {
        self.wire.sent_bytes += self.compressed.take().map_or(0, |before| before.swap(0, Ordering::Relaxed));
        self.compressed = compressed;
    }

    /// So many commands of `bytes` together were handed over.
    #[inline]
    pub fn publish(&mut self, commands: usize, bytes: usize) {
        self.published += commands as u64;
        self.wire.requests += commands as u64;
        self.wire.body_bytes += bytes as u64;
        if self.compressed.is_none() {
            self.wire.sent_bytes += bytes as u64;
        }
        if self.timed.is_none() {
            self.timed = Some((self.published, Instant::now()));
        }
    }

    /// So many commands were responded to. `taken`: the payload bytes of those that nsqd took.
    pub fn answer(&mut self, commands: usize, taken: u64) {
        self.answered += commands as u64;
        self.wire.raw_bytes += taken;
        if let Some((_, since)) = self.timed.filter(|(number, _)| *number <= self.answered) {
            self.timed = None;
            if self.round_trips.len() < MAX_ROUND_TRIPS {
                self.round_trips.push(since.elapsed().as_nanos() as u64);
            }
        }
    }

    /// No response will come to what was published so far.
    pub fn lose(&mut self) {
        self.answered = self.published;
        self.timed = None;
    }

    /// What was counted since the last call, and the round trips in nanoseconds.
    pub fn take(&mut self) -> (Wire, Vec<u64>) {
        self.wire.sent_bytes += self.compressed.as_ref().map_or(0, |sent| sent.swap(0, Ordering::Relaxed));
        (std::mem::take(&mut self.wire), std::mem::take(&mut self.round_trips))
    }
}

/// The value that this share of the sorted values does not exceed.
pub fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_holds_what_nsqd_accepts_and_at_least_one_message() {
        assert_eq!(fitting([100; 200].into_iter(), 5 << 20), 200);
        assert_eq!(fitting([100; 200].into_iter(), 4 + 2 * 104), 2);
        assert_eq!(fitting([100; 200].into_iter(), 4 + 2 * 104 - 1), 1);
        assert_eq!(fitting([100; 200].into_iter(), 50), 1);
    }

    #[test]
    fn one_command_at_a_time_is_timed_until_its_response() {
        let mut traffic = Traffic::default();
        traffic.publish(2, 100);
        traffic.publish(1, 50);
        traffic.answer(1, 40);
        assert_eq!(traffic.take().1.len(), 0, "the second command is timed");
        traffic.answer(1, 40);
        let (wire, round_trips) = traffic.take();
        assert_eq!((wire.raw_bytes, round_trips.len()), (40, 1));
        traffic.publish(1, 50);
        traffic.lose();
        traffic.publish(1, 50);
        traffic.answer(1, 10);
        assert_eq!(traffic.take().1.len(), 1, "a response that is lost is not waited for");
    }

    #[test]
    fn a_compressed_connection_counts_what_it_sends() {
        let (mut traffic, sent) = (Traffic::default(), Arc::new(AtomicU64::new(0)));
        traffic.publish(1, 100);
        traffic.begin(Some(sent.clone()));
        traffic.publish(1, 100);
        sent.store(30, Ordering::Relaxed);
        traffic.begin(None);
        let (wire, _) = traffic.take();
        assert_fields!(wire, { requests: 2, body_bytes: 200, sent_bytes: 130 });
    }

    #[test]
    fn quantiles_are_values() {
        let sorted: Vec<u64> = (1..=100).collect();
        assert_eq!(quantile(&sorted, 0.5), Some(50));
        assert_eq!(quantile(&sorted, 0.99), Some(99));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
