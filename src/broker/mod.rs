//! What a message broker is to the engine: three small traits, the words they share, and the registry of kinds.
//!
//! The engine is generic over [`Broker`] and chosen once per trial, so nothing here is boxed or called dynamically
//! per message. Admission and acknowledgement are separate, because that is how fast clients work:
//! [`Producer::submit`] resolves when the client has *accepted* messages; each message's outcome arrives later, at an
//! [`AckRecorder`](crate::measure::AckRecorder), with the [`SendTag`] the message was submitted with.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::load::PayloadPool;
use crate::measure::{Acks, SendTag};
pub use crate::measure::{FailureClass, Received, UNORDERED_PARTITION};
pub use crate::scenario::TRACE_HEADER_NAME;
use crate::scenario::{BrokerConfig, StartFrom};

#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(any(feature = "pulsar", feature = "rabbitmq-stream"))]
mod murmur3;
#[cfg(feature = "nsq")]
pub mod nsq;
pub mod null;
#[cfg(feature = "pulsar")]
pub mod pulsar;
#[cfg(feature = "rabbitmq-stream")]
pub mod rabbitmq_stream;
pub mod registry;
#[cfg(feature = "sls")]
pub mod sls;

/// A client of one kind of broker, connected for one trial.
pub trait Broker: Sized + Send + Sync + 'static {
    /// Its name and abilities, known without connecting.
    const DESCRIPTOR: registry::Descriptor;

    type Producer: Producer;
    type Consumer: Consumer;

    /// Connects `setup.config.connections` client instances and proves that the broker answers.
    ///
    /// # Errors
    /// When no address answers, the name does not resolve, credentials are refused, or a property is unknown.
    fn connect(setup: Setup) -> impl Future<Output = Result<Self, BrokerError>> + Send;

    /// Makes the topics that do not exist yet and returns the names of those it made: only they may be deleted.
    ///
    /// # Errors
    /// When a topic exists with another shape than asked for, or cannot be made.
    fn prepare(&self, topics: &[Topic]) -> impl Future<Output = Result<Vec<String>, BrokerError>> + Send;

    /// A sender bound to one topic. `producer_index` numbers the trial's producers from 0 and picks the connection.
    fn producer(
        &self,
        producer_index: usize,
        topic: &Topic,
    ) -> impl Future<Output = Result<Self::Producer, BrokerError>> + Send;

    /// A member of a consumer group; resolves when it is ready to receive, so that nothing sent later can be missed.
    fn consumer(&self, subscription: &Subscription)
    -> impl Future<Output = Result<Self::Consumer, BrokerError>> + Send;

    /// What the client library and the broker say of themselves.
    fn identity(&self) -> BrokerInfo;

    /// For each partition of `topic`, the offset that the next message to be written there will have; `None`: the broker has no
    /// offsets, or did not answer in time.
    fn end_offsets(&self, topic: &Topic) -> impl Future<Output = Option<Vec<u64>>> + Send {
        let _ = topic;
        std::future::ready(None)
    }

    /// What the client library has seen of its own queues and of the broker's answers since the last call.
    fn telemetry(&self) -> Telemetry {
        Telemetry::default()
    }

    /// Gives up what is still in flight (its outcome stays unresolved), deletes `created` topics and disconnects.
    fn close(self, created: Vec<String>) -> impl Future<Output = Result<(), BrokerError>> + Send;
}

/// A logical sender: one task of the engine owns it.
pub trait Producer: Send + 'static {
    /// Hands messages to the client in order; resolves when it has accepted at least the first, with how many it took.
    ///
    /// Cancel-safe: dropped before it resolves, it has taken none. Every accepted message's outcome is reported
    /// exactly once to an [`AckRecorder`](crate::measure::AckRecorder).
    ///
    /// # Errors
    /// When the *first* message is refused; it will have no other outcome. The rest were not looked at.
    fn submit(&mut self, batch: &[Outgoing<'_>]) -> impl Future<Output = Result<usize, SubmitError>> + Send;
}

/// A member of a group: one task of the engine owns it.
pub trait Consumer: Send + 'static {
    /// Resolves when messages are there to be taken. Cancel-safe: it takes none.
    ///
    /// # Errors
    /// When receiving failed; a later call may succeed.
    fn ready(&mut self) -> impl Future<Output = Result<(), ReceiveError>> + Send;

    /// Hands messages that are there to `each`, without waiting, and returns how many there were. Their arrival is the
    /// moment at which the first of them is handed over, so all of them must be here by then: what is fetched from
    /// elsewhere after that is for the next call.
    ///
    /// # Errors
    /// When receiving failed after as many messages as were handed over.
    fn take(&mut self, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError>;

    /// Says of each partition that all messages before the offset are done: a member that starts anew begins there. With
    /// `confirmed` it waits, for a few seconds at most, until the broker has taken note. Only of members with
    /// [`Progress::Kept`] or [`Progress::OfTheTrial`], and of brokers with the capability `offsets`.
    ///
    /// # Errors
    /// When the broker did not take note.
    fn commit(&mut self, done: &[(u32, u64)], confirmed: bool) -> Result<(), ReceiveError> {
        let _ = (done, confirmed);
        Ok(())
    }

    /// The partitions that the group has given to this member, each with the offset of the next message it will take, where
    /// that is known by now; `None`: the broker has no offsets.
    fn partitions(&mut self) -> Option<Vec<(u32, Option<u64>)>> {
        None
    }

    /// Whether the group has decided which partitions this member has, be it none.
    fn has_joined(&self) -> bool {
        true
    }

    /// Whether the group wants this member's partitions back. Until [`Consumer::let_go`] the group waits; what is taken from
    /// them and not committed by then, another member will take again. Only of members that commit.
    fn is_asked_to_let_go(&self) -> bool {
        false
    }

    /// Lets the partitions go that the group wants back.
    fn let_go(&mut self) {}
}

/// What a broker is given to connect with.
pub struct Setup {
    pub config: BrokerConfig,
    /// Where outcomes go; one [`AckRecorder`](crate::measure::AckRecorder) for each thread or task that learns of them.
    pub acks: Acks,
    /// Every payload of the trial. A payload for which [`PayloadPool::holds`] is true need not be copied as long as
    /// this handle is kept.
    pub payloads: Arc<PayloadPool>,
    /// Names of client ids and groups begin with it; unique to the trial.
    pub run_id: String,
    /// Attached to every message, the same for all.
    pub headers: Vec<(String, String)>,
    /// Producers of the trial.
    pub producers: usize,
    /// Most messages that all producers together may have in flight.
    pub in_flight: usize,
    /// How long an answer is waited for while connecting, preparing and closing.
    pub timeout: Duration,
}

/// A topic as the scenario describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub name: String,
    pub partitions: u32,
    pub replication: u32,
}

/// One consumer's place: a member of `group`, on `topic`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub group: String,
    pub topic: Topic,
    pub from: StartFrom,
    /// Members of this group on this topic, and which of them this is.
    pub members: usize,
    pub member: usize,
    /// The scenario's `consumers.properties`.
    pub properties: Vec<(String, String)>,
    pub progress: Progress,
}

/// What becomes of a group's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nobody asks for it.
    Unsaid,
    /// Its members commit, and it is removed with the trial.
    OfTheTrial,
    /// Its members commit, and another run goes on from there.
    Kept,
}

/// A message on its way out.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    pub payload: &'a [u8],
    pub key: Option<&'a [u8]>,
    /// The engine's own header, where the payload cannot carry it (see [`crate::measure::TraceHeader`]).
    pub envelope: Option<&'a [u8]>,
    pub stamp: SendTag,
}

/// Names and versions for the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerInfo {
    /// The client library and its version, `librdkafka 2.12.1`.
    pub client: String,
    /// What the broker says of itself, if it does.
    pub broker: Option<String>,
    /// The endpoint runs in this process, so no throughput of it means anything.
    pub embedded: bool,
}

/// The client library's view of its queues and of the broker. `None`: the library does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Telemetry {
    /// Most messages seen waiting in the client's queues.
    pub queue_messages: Option<u64>,
    /// Broker round trip in nanoseconds: 50th and 99th percentile of the library's last window.
    pub round_trip_p50_ns: Option<u64>,
    pub round_trip_p99_ns: Option<u64>,
    /// Time for which producers were kept waiting because the client's queue was full, all together, in nanoseconds.
    pub queue_full_ns: u64,
    /// What crossed the wire since the last call, where brokermark's own client sends it.
    pub wire: Option<Wire>,
}

/// What crossed the wire on the way to the broker. Bytes are of messages that the broker took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wire {
    /// Requests sent, repeated ones included.
    pub requests: u64,
    /// Requests that are to be sent again, because the broker or the network failed in a way that may pass.
    pub retried: u64,
    /// Requests that the broker refused because a quota was used up.
    pub quota_refusals: u64,
    /// What messages weigh before they are encoded, as the broker's own clients count it.
    pub raw_bytes: u64,
    /// Encoded, before compression.
    pub body_bytes: u64,
    /// As they were sent.
    pub sent_bytes: u64,
}

impl Wire {
    /// Both together.
    pub fn plus(self, other: Wire) -> Wire {
        Wire {
            requests: self.requests + other.requests,
            retried: self.retried + other.retried,
            quota_refusals: self.quota_refusals + other.quota_refusals,
            raw_bytes: self.raw_bytes + other.raw_bytes,
            body_bytes: self.body_bytes + other.body_bytes,
            sent_bytes: self.sent_bytes + other.sent_bytes,
        }
    }
}

/// A message the client would not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SubmitError {
    pub class: FailureClass,
    pub message: String,
}

/// Receiving failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ReceiveError {
    pub class: FailureClass,
    pub message: String,
}

/// Why a broker could not be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokerError {
    #[error("{broker} at {address} cannot be reached: {reason}")]
    Unreachable { broker: &'static str, address: String, reason: String },
    #[error("{broker} at {address} refused the credentials: {reason}")]
    Authorisation { broker: &'static str, address: String, reason: String },
    #[error("{broker} does not accept this configuration: {reason}")]
    Configuration { broker: &'static str, reason: String },
    #[error(
        "topic '{topic}' exists with {found}, but the scenario asks for {wanted}: change `topology`, or name another topic"
    )]
    TopicMismatch { topic: String, found: String, wanted: String },
    #[error("topic '{topic}' cannot be {action}: {reason}")]
    Topic { topic: String, action: &'static str, reason: String },
    #[error("{broker}: {reason}")]
    Client { broker: &'static str, reason: String },
}
