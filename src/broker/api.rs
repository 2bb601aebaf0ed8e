//! What a message broker is to the engine: a few small traits, and the types that they share.
//!
//! The engine is generic over [`Broker`], which is chosen once per trial: nothing is boxed or called dynamically for each
//! message. Admission and acknowledgement are separate, because that is how fast clients work:
//! [`Producer::submit`] resolves when the client has *accepted* messages; each message's outcome arrives later, at an
//! [`AckRecorder`](crate::measure::AckRecorder), with the [`SendTag`] the message was submitted with.

use std::collections::BTreeMap;
use std::future::{Future, Ready, ready};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::error::{BrokerError, ClientError, ReceiveError, SubmitError};
use super::info::{BrokerInfo, ConsumerAnswers, Created, Durability, Removal, Telemetry, Topic, Unready};
use super::offsets::{NoOffsets, Offsets};
use crate::limits::TRACE_HEADER_BYTES;
use crate::load::PayloadPool;
use crate::measure::{Acks, Conditions, Received, SendTag};
use crate::scenario::{BrokerConfig, Contradiction, Descriptor, Need, Scenario, StartFrom};

/// Opens the connection of this number, which carries no messages.
pub type OpenIdle = Arc<dyn Fn(usize) -> BoxFuture<'static, Result<KeptOpen, ClientError>> + Send + Sync>;

/// Keeps a connection alive, and resolves with why it ended. Dropped, it closes the connection.
pub type KeptOpen = BoxFuture<'static, ClientError>;

/// A client of one kind of broker, connected for one trial.
pub trait Broker: Sized + Send + Sync + 'static {
    /// Its name and abilities, known without connecting.
    const DESCRIPTOR: Descriptor;

    /// Its own table, `[broker.<kind>]`.
    type Options: BrokerOptions;
    type Producer: Producer;
    type Consumer: Consumer;

    /// Why this client cannot do what a configuration asks for, in words that name the key in backticks. Asked before anything connects.
    fn refusal(config: &BrokerConfig, options: &Self::Options) -> Option<String> {
        let _ = (config, options);
        None
    }

    /// Why topics with these settings do not take the messages of the scenario. Asked before anything connects, with the settings that the
    /// scenario gives to topics, and once more with those that topics have.
    fn contradiction(scenario: &Scenario, settings: &BTreeMap<String, String>) -> Option<Contradiction> {
        let _ = (scenario, settings);
        None
    }

    /// The command of the broker's own tools that gives what is needed, if there is one. For `brokermark doctor`.
    fn remedy(need: Need<'_>, config: &BrokerConfig, options: &Self::Options) -> Option<String> {
        let _ = (need, config, options);
        None
    }

    /// Connects `setup.config.connections` client instances and proves that the broker answers.
    ///
    /// # Errors
    /// When no address answers, the name does not resolve, credentials are refused, or a property is unknown.
    fn connect(setup: Setup<Self::Options>) -> impl Future<Output = Result<Self, BrokerError>> + Send;

    /// Creates a topic unless it exists. A failed call leaves nothing behind, unless the broker's answer was lost.
    ///
    /// # Errors
    /// When it cannot be created.
    fn create_topic(&self, topic: &Topic) -> impl Future<Output = Result<Created, BrokerError>> + Send {
        async { only(self.create_topics(slice::from_ref(topic)).await) }
    }

    /// The topic as it is; `None`: it does not exist. Nothing is created. A topic that ends with the client exists only for this client.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn find_topic(&self, topic: &Topic) -> impl Future<Output = Result<Option<Topic>, BrokerError>> + Send {
        async { only(self.find_topics(slice::from_ref(topic)).await) }
    }

    /// Whether [`Broker::find_topic`] finds a topic as soon as it was created. Otherwise a process that uses topics of another one creates them too.
    fn finds_created(&self) -> bool {
        Self::DESCRIPTOR.capabilities.existing_topics
    }

    /// Deletes a topic that this trial, or another process for it, has created. A topic that is gone already is not an error.
    ///
    /// # Errors
    /// When the broker refuses or does not answer.
    fn delete_topic(&self, topic: &Topic) -> impl Future<Output = Result<(), BrokerError>> + Send {
        async { only(self.delete_topics(slice::from_ref(topic)).await) }
    }

    /// The most topics that the engine gives to one call of the methods below. More than 1 where one request of the protocol is about many:
    /// such a broker has these instead of the three methods above. Each default is made of the other one.
    const TOPICS_PER_REQUEST: usize = 1;

    /// [`Broker::create_topic`] for several topics, with a result for each, in their order.
    fn create_topics(&self, topics: &[Topic]) -> impl Future<Output = Vec<Result<Created, BrokerError>>> + Send {
        async { join_all(topics.iter().map(|topic| self.create_topic(topic).boxed())).await }
    }

    /// [`Broker::find_topic`] for several topics, with a result for each, in their order.
    fn find_topics(&self, topics: &[Topic]) -> impl Future<Output = Vec<Result<Option<Topic>, BrokerError>>> + Send {
        async { join_all(topics.iter().map(|topic| self.find_topic(topic).boxed())).await }
    }

    /// [`Broker::delete_topic`] for several topics, with a result for each, in their order.
    fn delete_topics(&self, topics: &[Topic]) -> impl Future<Output = Vec<Result<(), BrokerError>>> + Send {
        async { join_all(topics.iter().map(|topic| self.delete_topic(topic).boxed())).await }
    }

    /// The first of these topics, all of which were created or found, that cannot be written to and read yet. The engine asks again until
    /// there is none.
    ///
    /// # Errors
    /// When the broker does not answer.
    fn unready_topic(&self, topics: &[Topic]) -> impl Future<Output = Result<Option<Unready>, BrokerError>> + Send {
        let _ = topics;
        ready(Ok(None))
    }

    /// A sender bound to one topic. `producer_number` numbers the trial's producers from 0, those of other processes included, and picks
    /// the connection.
    fn producer(
        &self,
        producer_number: usize,
        topic: &Topic,
    ) -> impl Future<Output = Result<Self::Producer, BrokerError>> + Send;

    /// A member of a consumer group; resolves when it is ready to receive, so that nothing sent later can be missed.
    fn consumer(&self, subscription: &Subscription)
    -> impl Future<Output = Result<Self::Consumer, BrokerError>> + Send;

    /// Has the broker keep for a group what is sent from now on, although its first consumer joins only later, at the earliest message.
    /// Brokers whose groups read a stored log have nothing to do.
    ///
    /// # Errors
    /// When the broker refuses, or would not keep the messages.
    fn register(&self, subscription: &Subscription) -> impl Future<Output = Result<(), BrokerError>> + Send {
        let _ = subscription;
        ready(Ok(()))
    }

    /// Names and versions of the client library and of the broker.
    fn identity(&self) -> BrokerInfo;

    /// The broker's name and version in full, with what it tells only on request. A run does without: records of two clients of one
    /// broker name it alike.
    fn describe(&self) -> impl Future<Output = Option<String>> + Send {
        ready(self.identity().broker)
    }

    /// What an acknowledgement of a message on these topics means, as far as the broker tells.
    fn durability(&self, topics: &[Topic]) -> impl Future<Output = Durability> + Send {
        let _ = topics;
        ready(Durability::default())
    }

    /// The settings that [`Broker::contradiction`] asks for, of each of these topics, as far as the broker tells them.
    fn topic_settings(&self, topics: &[Topic]) -> impl Future<Output = Vec<BTreeMap<String, String>>> + Send {
        let _ = topics;
        ready(Vec::new())
    }

    /// For each partition of `topic`, the offset that the next message written there will have. The outer `None`: the broker
    /// has no offsets. The inner one: it did not answer in time.
    fn end_offsets(&self, topic: &Topic) -> Option<impl Future<Output = Option<Vec<u64>>> + Send> {
        let _ = topic;
        None::<Ready<Option<Vec<u64>>>>
    }

    /// Whether the broker will send members of the trial's groups messages of `topic` again, which they have not acknowledged. Then a group that
    /// has reached the end of the topic may still miss messages before it.
    fn will_redeliver(&self, topic: &Topic) -> impl Future<Output = bool> + Send {
        let _ = topic;
        ready(false)
    }

    /// What the broker has removed from `topic` by its own rules. Asked when consumers have ended and `groups`, by their names, did not
    /// receive everything. `None`: the broker does not tell, so that nothing counts as removed.
    fn removal(&self, topic: &Topic, groups: &[String]) -> impl Future<Output = Option<Removal>> + Send {
        let _ = (topic, groups);
        ready(None)
    }

    /// What consumers of the trial have answered to messages; `None`: they do not answer each by itself. Asked when they have ended.
    fn answers(&self) -> Option<ConsumerAnswers> {
        None
    }

    /// Whether consumers are not sent all messages, as the scenario's own settings ask. Then nothing can be verified.
    fn withholds_messages(&self) -> bool {
        false
    }

    /// Whether a message that the client sends again may be stored behind later ones of its producer, or one that the broker sends again may
    /// arrive behind them. Then a message that has not arrived may still come although a later one has.
    fn may_reorder(&self) -> bool {
        false
    }

    /// Whether members of a group take the messages of one partition in turn, so that one may have received a later message while those before
    /// it are on their way to another. Then neither a later message nor the end of the partition shows that the group was offered all before it.
    /// `false` where [`Broker::will_redeliver`] tells of every message that a member was given and is not done with.
    fn takes_turns(&self) -> bool {
        false
    }

    /// How connections that carry no messages are opened; `None`: its client has none.
    fn idle_connections(&self) -> Option<OpenIdle> {
        None
    }

    /// What the client library has seen of its own queues and of the broker's answers since the last call.
    fn telemetry(&self) -> Telemetry {
        Telemetry::default()
    }

    /// Abandons messages in flight (their outcome stays unresolved) and ends what writes. Topics are deleted after it: a message that is
    /// written later could create one again.
    fn stop(&self) -> impl Future<Output = ()> + Send {
        ready(())
    }

    /// Removes what the trial has left on the broker beside topics, such as groups and subscriptions, and disconnects.
    ///
    /// # Errors
    /// When something cannot be removed.
    fn close(self) -> impl Future<Output = Result<(), BrokerError>> + Send;
}

/// The result for a topic that was asked about alone.
fn only<R>(results: Vec<Result<R, BrokerError>>) -> Result<R, BrokerError> {
    let missing = || Err(BrokerError::Client("the response names no topic".to_owned()));
    results.into_iter().next().unwrap_or_else(missing)
}

/// A broker's own table. The registry reads and checks it, before anything connects and again for [`Broker::connect`].
pub trait BrokerOptions: DeserializeOwned + JsonSchema + Default + Send + Sync + 'static {
    /// Refuses settings that do not go together.
    ///
    /// # Errors
    /// A sentence that names the keys.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// A logical sender: one task of the engine owns it.
pub trait Producer: Send + 'static {
    /// Hands messages to the client in order; resolves when it has accepted at least the first, with how many it took.
    ///
    /// Cancel-safe: dropped before it resolves, it has taken none. Every accepted message's outcome is reported
    /// exactly once to an [`AckRecorder`](crate::measure::AckRecorder).
    ///
    /// # Errors
    /// When the *first* message is refused; it will have no other outcome. The other messages were not handled.
    fn submit(&mut self, batch: &[Outgoing<'_>]) -> impl Future<Output = Result<usize, SubmitError>> + Send;

    /// Why no later message can be accepted, if that is so. The engine asks after a refusal, and then ends the load.
    fn fatal_error(&self) -> Option<String> {
        None
    }

    /// No other message will be submitted: what is held back for more of them goes out now. The engine calls it before the drain.
    fn finish(&mut self) {}

    /// Ends this producer. The engine calls it after the drain: each of its messages has its outcome, or is abandoned.
    fn close(self) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        ready(())
    }
}

/// A member of a group: one task of the engine owns it.
pub trait Consumer: Send + 'static {
    /// Resolves when messages can be taken. Cancel-safe: it takes none. The engine may drop a call several times a second, and the next one goes on
    /// where it was: no time limit begins again with it.
    ///
    /// # Errors
    /// When receiving failed; a later call may succeed.
    fn ready(&mut self) -> impl Future<Output = Result<(), ReceiveError>> + Send;

    /// Hands the messages that have arrived to `each`, without waiting, and returns how many there were. Their time of
    /// arrival is taken when the first of them is handed over, and again after each 256 KiB. Messages that arrive after that belong to the
    /// next call.
    ///
    /// # Errors
    /// When receiving failed after as many messages as were handed over.
    fn take(&mut self, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        self.take_some(usize::MAX, each)
    }

    /// As [`Consumer::take`], but no more than `most` messages: the others stay with the client, whose own limits then hold the broker
    /// back. What the protocol delivers as one unit, as a batch is, is not divided.
    ///
    /// # Errors
    /// As [`Consumer::take`].
    fn take_some(&mut self, most: usize, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError>;

    /// Whether all its connections are up. A client that connects again by itself reports the loss once, and nothing until it has done so:
    /// what the broker has is not offered to it meanwhile.
    fn is_connected(&self) -> bool {
        true
    }

    /// This member's offsets; `None`: the broker has none.
    fn offsets(&mut self) -> Option<&mut impl Offsets> {
        None::<&mut NoOffsets>
    }

    /// Leaves the group.
    fn close(self) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        ready(())
    }
}

/// How long producers and consumers may take to close.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);

/// What a broker is given to connect with.
pub struct Setup<Options> {
    pub config: BrokerConfig,
    /// The broker's own table.
    pub options: Options,
    /// Where outcomes go: one [`AckRecorder`](crate::measure::AckRecorder) for each thread or task that receives them.
    pub acks: Acks,
    /// Where the client reports what holds messages up, for as long as it lasts.
    pub conditions: Conditions,
    /// Every payload of the trial. A payload for which [`PayloadPool::holds`] is true need not be copied as long as
    /// this handle is kept.
    pub payloads: Arc<PayloadPool>,
    /// Names of client ids and groups begin with it; unique to the trial.
    pub run_id: String,
    /// The headers of a message: those of the first list, unless its attributes name another one. There is at least one.
    pub header_sets: Vec<Vec<(String, String)>>,
    /// Settings of topics that are created.
    pub topic_config: Vec<(String, String)>,
    /// Producers of the trial in this process.
    pub producers: usize,
    /// How many producers other processes of the same trial have before these: what must be unique over all of them counts from here.
    pub first_producer: usize,
    /// For each producer of this process, which of the producers on its topic it is, from 0, those of other processes included.
    pub places_on_topics: Vec<usize>,
    /// Consumer groups of the trial. Each of several receives every message.
    pub groups: usize,
    /// Most messages that all producers together may have in flight.
    pub in_flight: usize,
    /// How long to wait for an answer while connecting, preparing and closing.
    pub timeout: Duration,
}

impl<Options> Setup<Options> {
    /// What every message has beside its own headers, on brokers that give all messages the same.
    pub fn headers(&self) -> &[(String, String)] {
        &self.header_sets[0]
    }
}

/// A member of `group`, on `topic`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    pub group: String,
    /// Which of the trial's groups it is, from 0.
    pub number: usize,
    pub topic: Topic,
    pub from: StartFrom,
    /// Members of this group on this topic, and which of them this is.
    pub members: usize,
    pub member: usize,
    /// Numbers the trial's consumers from 0, those of other processes included, and picks the connection, or the server that this one begins at.
    pub consumer_number: usize,
    /// Whether some of the members are in other processes.
    pub is_divided: bool,
    /// The scenario's `consumers.properties`.
    pub properties: Vec<(String, String)>,
    pub progress: Progress,
}

/// Whether a group commits its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Its members do not commit.
    Uncommitted,
    /// Its members commit, and it is removed with the trial.
    OfTheTrial,
    /// Its members commit, and another run continues from there.
    Kept,
}

/// A message to send.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    pub payload: &'a [u8],
    pub key: Option<&'a [u8]>,
    /// The engine's own header, where the payload cannot carry it (see [`crate::measure::TraceHeader`]).
    pub trace_header: Option<&'a [u8; TRACE_HEADER_BYTES]>,
    /// What few messages have: nothing of it costs the others anything.
    pub attributes: Option<&'a Attributes>,
    pub send_tag: SendTag,
}

// A batch is an array of these: a longer one would be slower to make and to read.
const _: () = assert!(size_of::<Outgoing<'_>>() <= 64);

/// What a message has beside its payload and key. A broker is given only what its
/// [`Capabilities`](crate::scenario::Capabilities) say that it honours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Which of [`Setup::header_sets`] it has.
    pub header_set: u32,
    /// The partition it is written to, regardless of its key; `None`: the client's choice.
    pub partition: Option<u32>,
    /// It has no payload, not even an empty one: `payload` is empty and is not sent.
    pub null_payload: bool,
}
