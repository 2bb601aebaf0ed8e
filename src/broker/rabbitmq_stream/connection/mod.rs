//! A publishing connection, and the publishers that are declared on it.
//!
//! Producers that write to the same stream over the same connection share one publisher: their messages have ids from one
//! sequence. So a connection is limited to 256 streams, and not to 256 producers; more streams have further connections.
//!
//! A connection that is lost stays lost. It reports its publishers, which are then declared on another one.

mod pending;
mod protocol;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use self::pending::Pending;
pub use self::pending::Settled;
use super::codec::command::Request;
use super::codec::publish::publish_again;
use super::codec::{ConnectError, PUBLISHER, Reader, Refusal, class_of, code};
use super::connect::{FAREWELL, LEAVE};
use crate::broker::{FailureClass, SubmitError};
use crate::measure::{AckRecorder, Clock, ConditionKind, PartitionIndex, Subject};
use crate::net::connect::within;
use crate::net::session::{Lost, Protocol, PublishingConnection, Served, Session};

/// The protocol numbers publishers in one byte.
const MAX_PUBLISHERS: usize = 256;

/// A server that confirms nothing for so long does not read: it confirms what it has read within milliseconds.
const UNANSWERED: Duration = Duration::from_secs(2);

/// The protocol does not tell of alarms: a server with one reads no publisher's connection.
const ALARM: &str =
    "the node confirms nothing, as while an alarm of memory or disk is set: `rabbitmq-diagnostics alarms` lists them";

/// A publishing connection, shared by its producers.
pub type Connection = PublishingConnection<Publishing>;

/// Something that was lost: the connection, or a publisher whose stream is not available.
pub type PublisherLost = Lost<SubmitError>;

/// A publisher on a connection.
#[derive(Clone)]
pub struct StreamPublisher {
    pub connection: Arc<Connection>,
    pub publisher: u8,
}

impl StreamPublisher {
    /// Why it cannot publish any more, if that is so.
    pub fn final_loss(&self) -> Option<SubmitError> {
        let state = self.connection.session().state();
        let lost = state.protocol.lost(self.publisher).filter(|lost| lost.is_final);
        lost.map(|lost| lost.error.clone())
    }
}

/// What a publishing connection needs to know.
pub struct Publishing {
    /// Address of the node.
    pub address: String,
    /// The node, as what can be held up.
    pub held_up: Subject,
    /// Number of the connection among those to the node.
    pub number: usize,
    /// The publishers' name on this connection, if they have one.
    pub reference: Option<String>,
    pub recorder: AckRecorder,
    pub clock: Clock,
    /// How long messages may be without a confirmation.
    pub confirm_timeout: Option<Duration>,
    /// Whether messages survive the loss of the connection, to be published over another one.
    pub resend: bool,
    /// Where publishers are reported that were lost.
    pub lost: UnboundedSender<LostPublishers>,
}

/// Publishers that must be declared again.
pub struct LostPublishers {
    /// Number of the connection.
    pub number: usize,
    pub streams: Vec<String>,
}

/// What the connection's lock protects.
#[derive(Default)]
pub struct State {
    frame_max: usize,
    publishers: Vec<Publisher>,
    /// Messages of all publishers.
    pending: usize,
    /// Since when looks have found messages and no new confirmation.
    unanswered_since: Option<Instant>,
    correlation: u32,
    requests: BTreeMap<u32, oneshot::Sender<Response>>,
}

/// A response: its code, and what follows.
type Response = (u16, Vec<u8>);

/// Publishes to one stream. Its index in the list is its id.
struct Publisher {
    stream: String,
    /// Where its messages are counted.
    counted_in: PartitionIndex,
    pending: Pending,
    /// Why nothing can be published; `None` while the server knows the publisher.
    lost: Option<PublisherLost>,
    /// A declaration was sent that the server has not refused, and it has not removed the publisher since.
    may_be_declared: bool,
}

/// The bytes to write, and the state that frames need.
pub struct Writing<'a> {
    pub out: &'a mut Vec<u8>,
    pub state: &'a mut State,
}

impl State {
    /// Why a publisher cannot be written to.
    #[inline]
    pub fn lost(&self, publisher: u8) -> Option<&PublisherLost> {
        self.publishers[usize::from(publisher)].lost.as_ref()
    }
}

impl Writing<'_> {
    /// Largest frame that the server accepts.
    #[inline]
    pub fn frame_max(&self) -> usize {
        self.state.frame_max
    }

    /// The bytes to write to, and a publisher's messages, which have the next id.
    #[inline]
    pub fn parts(&mut self, publisher: u8) -> (&mut Vec<u8>, &mut Pending) {
        (self.out, &mut self.state.publishers[usize::from(publisher)].pending)
    }

    /// Counts messages that were added to a publisher's pending ones.
    #[inline]
    pub fn taken(&mut self, messages: usize) {
        self.state.pending += messages;
    }
}

impl Publishing {
    /// Takes over a session.
    pub fn start(self, session: super::connect::Session) -> Connection {
        let super::connect::Session { transport, read_buffer, write_buffer, frame_max, heartbeat, .. } = session;
        let served = Served { transport: Arc::new(transport), read_buffer, heartbeat };
        PublishingConnection::start(self, State { frame_max, ..State::default() }, served, write_buffer)
    }
}

impl Connection {
    /// Looks whether the server confirms anything of what it has been sent. To be called about once a second.
    pub fn look_for_answers(&self) {
        let is_lost = self.is_lost();
        let since = self.with_state(|state| {
            let is_waiting = state.pending > 0 && !is_lost;
            state.unanswered_since = is_waiting.then(|| state.unanswered_since.unwrap_or_else(Instant::now));
            state.unanswered_since
        });
        if let Some(since) = since.filter(|since| since.elapsed() >= UNANSWERED) {
            self.session().protocol.held_up.begin_since(ConditionKind::Unanswered, ALARM, since);
        }
    }

    /// Largest frame that the server accepts.
    pub fn frame_max(&self) -> usize {
        self.session().state().protocol.frame_max
    }

    /// Declares the publisher of a stream, whose messages are counted in this partition, within `limit`, in the place of the `old` one: its ids go on after those of the old one
    /// and those that the server has, and it publishes again what the old one has kept. `None`: the connection has as many publishers as it can.
    ///
    /// # Errors
    /// When the server refuses, or the connection is lost.
    pub async fn publisher(
        &self,
        (stream, counted_in): (&str, PartitionIndex),
        old: Option<&StreamPublisher>,
        limit: Duration,
    ) -> Result<Option<u8>, ConnectError> {
        let session = self.session();
        let number = {
            let publishers = &mut session.state().protocol.publishers;
            let known = publishers.iter().position(|publisher| publisher.stream == stream);
            if known.is_none() && publishers.len() == MAX_PUBLISHERS {
                return Ok(None);
            }
            known.unwrap_or_else(|| {
                publishers.push(Publisher::undeclared(stream, counted_in, session.protocol.resend));
                publishers.len() - 1
            })
        };
        let last = old.map_or(0, |old| old.connection.last_id(old.publisher));
        let stored = within(limit, session.declare(number as u8)).await?;
        let old = old.filter(|old| !Arc::ptr_eq(old.connection.session(), session));
        let kept = old.and_then(|old| old.connection.take_kept(old.publisher));
        session.declared(number as u8, stored.max(last), kept);
        Ok(Some(number as u8))
    }

    /// Abandons the messages in flight, takes leave of the server, and closes the connection.
    pub async fn close(&self) {
        let session = self.session();
        drop(Publishing::take_pending(&mut session.state().protocol));
        // A server that does not respond is left without a word.
        let _ = within(FAREWELL, session.request(&Request::close(LEAVE), "the end")).await;
        self.end();
    }

    /// Whether messages can be published.
    pub fn has_publisher(&self, publisher: u8) -> bool {
        let state = self.session().state();
        state.transport.is_some() && state.protocol.publishers[usize::from(publisher)].lost.is_none()
    }

    /// The last id that a publisher has given to a message.
    pub fn last_id(&self, publisher: u8) -> u64 {
        self.session().state().protocol.publishers[usize::from(publisher)].pending.next_id().saturating_sub(1)
    }

    /// The messages of a publisher that are to be published again.
    fn take_kept(&self, publisher: u8) -> Option<Pending> {
        let mut state = self.session().state();
        let pending = &mut state.protocol.publishers[usize::from(publisher)].pending;
        let kept = pending.keeps().then(|| std::mem::replace(pending, Pending::keeping()))?;
        state.protocol.pending -= kept.unconfirmed();
        Some(kept)
    }

    /// The publisher's stream does not exist any more.
    pub fn abandon(&self, publisher: u8, code: u16) {
        let mut state = self.session().state();
        let publisher = &mut state.protocol.publishers[usize::from(publisher)];
        let unavailable = publisher.unavailable(code);
        let since = publisher.lost.as_ref().map_or(unavailable.since, |lost| lost.since);
        let lost = Lost { since, is_final: true, ..unavailable };
        publisher.lost = Some(lost.clone());
        let mut kept = Vec::new();
        publisher.pending.settle_all(code, &mut kept);
        state.protocol.pending -= kept.len();
        drop(state);
        self.session().protocol.fail(kept, &lost.error);
        self.session().notify_capacity();
    }

    /// Fails the messages that wait to be published again, if they have waited longer than `patience`.
    pub fn give_up(&self, publisher: u8, patience: Duration) {
        let mut guard = self.session().state();
        let state = &mut *guard;
        let publisher = &mut state.protocol.publishers[usize::from(publisher)];
        let Some(lost) = state.lost.as_ref().or(publisher.lost.as_ref()) else { return };
        if !publisher.pending.is_lost_for(patience) {
            return;
        }
        let (error, mut kept) = (lost.error.clone(), Vec::new());
        publisher.pending.settle_all(code::OK, &mut kept);
        state.protocol.pending -= kept.len();
        drop(guard);
        if !kept.is_empty() {
            self.session().protocol.fail(kept, &error);
        }
    }
}

impl Publisher {
    fn undeclared(stream: &str, counted_in: PartitionIndex, resend: bool) -> Self {
        let message = format!("the publisher of {stream} is not declared yet");
        let error = SubmitError { class: FailureClass::UnknownTopic, message };
        let lost = Lost { since: Instant::now(), error, is_final: false };
        let pending = if resend { Pending::keeping() } else { Pending::default() };
        Publisher { stream: stream.to_owned(), counted_in, pending, lost: Some(lost), may_be_declared: false }
    }

    /// The server removed the publisher: its messages fail, unless they are kept. Returns its stream, if it was declared until now.
    fn lose(&mut self, code: u16, settled: &mut Vec<Settled>) -> Option<String> {
        match self.pending.keeps() {
            true => self.pending.mark_lost(),
            false => self.pending.settle_all(code, settled),
        }
        self.may_be_declared = false;
        if self.lost.is_some() {
            return None;
        }
        self.lost = Some(self.unavailable(code));
        Some(self.stream.clone())
    }

    fn unavailable(&self, code: u16) -> PublisherLost {
        let message = format!("{}: {}", self.stream, code::name(code));
        Lost { since: Instant::now(), error: SubmitError { class: class_of(code), message }, is_final: false }
    }
}

impl Session<Publishing> {
    /// Sends a request over the connection, whose task reads the response.
    async fn request(&self, request: &Request, what: &'static str) -> Result<Vec<u8>, ConnectError> {
        let (sender, response) = oneshot::channel();
        {
            let mut state = self.state();
            if state.transport.is_none() {
                let reason = state.lost.as_ref().map_or("the connection has ended", |lost| &lost.error.message);
                return Err(ConnectError::Io(io::Error::new(io::ErrorKind::NotConnected, reason.to_owned())));
            }
            state.protocol.correlation += 1;
            let correlation = state.protocol.correlation;
            request.write(&mut state.write_buffer.bytes, correlation);
            state.protocol.requests.insert(correlation, sender);
        }
        self.notify_work();
        match response.await {
            Ok((code::OK, rest)) => Ok(rest),
            Ok((code, _)) => Err(ConnectError::Refused(Refusal { what, code })),
            Err(_) => {
                let reason = "the connection was lost before the response";
                Err(ConnectError::Io(io::Error::new(io::ErrorKind::ConnectionAborted, reason)))
            }
        }
    }

    /// Declares a publisher. Returns the last id that the server has of it, or 0 where it has the publisher already.
    async fn declare(&self, number: u8) -> Result<u64, ConnectError> {
        let (stream, may_be_declared) = {
            let mut state = self.state();
            let publisher = &mut state.protocol.publishers[usize::from(number)];
            (publisher.stream.clone(), std::mem::replace(&mut publisher.may_be_declared, true))
        };
        let reference = self.protocol.reference.as_deref().unwrap_or_default();
        match self.request(&Request::declare_publisher(number, reference, &stream), PUBLISHER).await {
            // The response to an earlier request came too late. Otherwise the server has an alarm.
            Err(ConnectError::Refused(Refusal { code: code::PRECONDITION_FAILED, .. })) if may_be_declared => {
                return Ok(0);
            }
            Err(refused @ ConnectError::Refused(_)) => {
                self.state().protocol.publishers[usize::from(number)].may_be_declared = false;
                return Err(refused);
            }
            declared => drop(declared?),
        }
        match reference {
            "" => Ok(0),
            reference => {
                let query = Request::query_publisher_sequence(reference, &stream);
                Ok(Reader::new(&self.request(&query, "the publisher's sequence").await?, "sequence").u64()?)
            }
        }
    }

    /// Publishes what the publisher has kept, or what another one has, before anything else.
    fn declared(&self, number: u8, last: u64, kept: Option<Pending>) {
        let mut guard = self.state();
        let state = &mut *guard;
        let publisher = &mut state.protocol.publishers[usize::from(number)];
        if let Some(kept) = kept {
            state.protocol.pending += kept.unconfirmed();
            publisher.pending = kept;
        }
        for frame in publisher.pending.kept() {
            publish_again(&mut state.write_buffer.bytes, frame, number);
        }
        publisher.pending.begin_after(last);
        publisher.lost = None;
        drop(guard);
        self.notify_work();
        self.notify_capacity();
    }

    /// Has publishers declared again, on whichever node leads their streams.
    fn report_lost(&self, streams: Vec<String>) {
        if !streams.is_empty() {
            // Without a receiver, the trial is over.
            let _ = self.protocol.lost.send(LostPublishers { number: self.protocol.number, streams });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::broker::rabbitmq_stream::connect;
    use crate::measure::{Acks, Conditions, SubjectKind};
    use crate::net::transport::Transport;

    #[tokio::test]
    async fn what_a_node_does_not_confirm_holds_nothing_up_once_it_is_lost() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (conditions, acks) = (Conditions::default(), Acks::new(Clock::start(), 1, false));
        let (lost, mut reports) = unbounded_channel();
        let publishing = Publishing {
            address: address.to_string(),
            held_up: Subject::new(&conditions, SubjectKind::Node, "node"),
            number: 0,
            reference: None,
            recorder: acks.recorder(),
            clock: acks.clock(),
            confirm_timeout: None,
            resend: false,
            lost,
        };
        let connection = publishing.start(connect::Session::over(Transport::Plain(ours.unwrap())));
        connection.with_state(|state| {
            state.publishers.push(Publisher::undeclared("orders", PartitionIndex::UNKNOWN, false));
            (state.pending, state.unanswered_since) = (1, Instant::now().checked_sub(UNANSWERED));
        });
        connection.look_for_answers();
        let lasting = || conditions.lasting().iter().map(|one| one.kind).collect::<Vec<_>>();
        assert_eq!(lasting(), [ConditionKind::Unanswered]);
        drop(theirs);
        assert_eq!(reports.recv().await.unwrap().streams, ["orders"]);
        assert_eq!(lasting(), []);
    }
}
