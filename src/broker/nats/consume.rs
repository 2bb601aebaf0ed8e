//! The members of groups, and what the crate receives: all but what is pulled from a stream.

use std::error::Error;
use std::iter;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::consumer::pull::{self, OrderedError, OrderedErrorKind};
use async_nats::jetstream::consumer::{
    self, Consumer as CrateConsumer, DeliverPolicy, FromConsumer, IntoConsumerConfig, PushConsumer, push,
};
use async_nats::jetstream::context::ConsumerInfoErrorKind;
use async_nats::jetstream::{self, Context as Jetstream};
use async_nats::{Client, ConnectError, ConnectErrorKind, HeaderValue, Message, ServerAddr, Subscriber};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures_util::future::{BoxFuture, pending};
use futures_util::{FutureExt, Stream, StreamExt};
use tokio::time::sleep;

use super::config::{Acknowledge, ConsumerType, NatsOptions};
use super::connect::Login;
use super::pull::PullConsumer;
use crate::broker::adapter::{Deliveries, Delivery, StreamConsumer, within};
use crate::broker::{
    BrokerError, ClientError, Consumer, Details, FailureClass, Progress, ReceiveError, Received, Setup, Subscription,
    TRACE_HEADER_NAME,
};
use crate::limits::TRACE_HEADER_BYTES;
use crate::net::tls;
use crate::scenario::StartFrom;

/// How often a member asks whether the consumer is there that pushes to it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How a consumer acknowledges a message of JetStream.
const ACK: Bytes = Bytes::from_static(b"+ACK");

impl From<ConnectError> for ClientError {
    fn from(error: ConnectError) -> Self {
        match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                ClientError::lasting(FailureClass::Authorisation, in_full(&error))
            }
            _ => ClientError::lost(in_full(&error)),
        }
    }
}

/// An error of the crate with its causes, which it does not show itself.
pub fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let words = next.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = next.source();
    }
    text
}

/// A member of a group.
pub enum NatsConsumer {
    Pull(Box<PullConsumer>),
    Crate(Box<StreamConsumer<NatsDeliveries>>),
}

impl Consumer for NatsConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        match self {
            NatsConsumer::Pull(pulling) => pulling.ready().await,
            NatsConsumer::Crate(receiving) => receiving.ready().await,
        }
    }

    fn take_some(&mut self, most: usize, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        match self {
            NatsConsumer::Pull(pulling) => pulling.take_some(most, each),
            NatsConsumer::Crate(receiving) => receiving.take_some(most, each),
        }
    }

    fn is_connected(&self) -> bool {
        match self {
            NatsConsumer::Pull(pulling) => pulling.is_connected(),
            NatsConsumer::Crate(receiving) => receiving.is_connected(),
        }
    }

    async fn close(self) {
        match self {
            NatsConsumer::Pull(pulling) => pulling.close().await,
            NatsConsumer::Crate(receiving) => receiving.close().await,
        }
    }
}

/// A member of a group, by the crate.
pub struct NatsDeliveries {
    source: Source,
    client: Client,
    policy: Acknowledge,
    /// How often the crate had connected when it was last seen to be connected, and whether a loss since then was told.
    connects: u64,
    loss_is_told: bool,
}

impl NatsDeliveries {
    pub fn new(source: Source, client: Client, policy: Acknowledge) -> Self {
        let connects = client.statistics().connects.load(Ordering::Relaxed);
        NatsDeliveries { source, client, policy, connects, loss_is_told: false }
    }

    /// A lost connection that was not reported yet. The crate connects again by itself and does not tell the subscription.
    fn untold_loss(&mut self) -> Option<ClientError> {
        let is_untold = if self.is_connected() {
            let connects = self.client.statistics().connects.load(Ordering::Relaxed);
            let was_lost = mem::replace(&mut self.connects, connects) < connects;
            !mem::take(&mut self.loss_is_told) && was_lost
        } else {
            !mem::replace(&mut self.loss_is_told, true)
        };
        let missed = match self.source {
            Source::Subject { .. } => ": messages that are sent before it is open again are not received",
            Source::Push(..) | Source::Ordered(_) => "",
        };
        is_untold.then(|| ClientError::lost(format!("the connection to nats-server was lost{missed}")))
    }

    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<NatsDelivery, ClientError>>> {
        let arrived = match &mut self.source {
            Source::Ordered(messages) => ready!(messages.poll_next_unpin(context)),
            // Without heartbeats, which members of a group cannot share, nothing is missed.
            Source::Push(messages, deleted) => match messages.poll_next_unpin(context) {
                Poll::Ready(arrived) => arrived
                    .map(|message| message.map_err(|error| OrderedError::with_source(OrderedErrorKind::Other, error))),
                Poll::Pending => {
                    let error = ready!(deleted.poll_unpin(context));
                    *deleted = pending().boxed();
                    return Poll::Ready(Some(Err(error)));
                }
            },
            Source::Subject { subscriber, .. } => {
                return Poll::Ready(ready!(subscriber.poll_next_unpin(context)).map(|message| Ok(message.into())));
            }
        };
        Poll::Ready(arrived.map(|message| {
            message.map(NatsDelivery::from).map_err(|error| {
                let class = match error.kind() {
                    OrderedErrorKind::ConsumerDeleted => FailureClass::UnknownTopic,
                    OrderedErrorKind::MissingHeartbeat => FailureClass::Timeout,
                    OrderedErrorKind::NoResponders => FailureClass::ConnectionLost,
                    _ => FailureClass::Refused,
                };
                ClientError::passing(class, in_full(&error))
            })
        }))
    }
}

/// Where its messages come from.
pub enum Source {
    /// With what resolves when the server has deleted the consumer: it does not tell those whom it pushes to.
    Push(Box<push::Messages>, BoxFuture<'static, ClientError>),
    Ordered(Box<pull::Ordered>),
    /// Without JetStream.
    Subject {
        subscriber: Subscriber,
        replies: bool,
    },
}

impl Source {
    /// What the server pushes to the members of a group.
    ///
    /// # Errors
    /// Those of the crate, in words.
    pub async fn pushed(
        context: &Jetstream,
        options: &NatsOptions,
        subscription: &Subscription,
    ) -> Result<Self, String> {
        let consumer: PushConsumer = create(context, subscription, durable(options, subscription)).await?;
        let deleted = deleted(consumer.clone()).boxed();
        Ok(Source::Push(Box::new(consumer.messages().await.map_err(|error| in_full(&error))?), deleted))
    }

    /// The messages of a stream in its order.
    ///
    /// # Errors
    /// Those of the crate in words, or that there can be no such member.
    pub async fn ordered(
        context: &Jetstream,
        options: &NatsOptions,
        subscription: &Subscription,
    ) -> Result<Self, String> {
        if subscription.members > 1 || subscription.progress != Progress::Uncommitted {
            return Err("an ordered consumer reads alone and keeps no progress: set `consumers.members = 1` \
                and remove `[pipeline]`, or set `broker.nats.consumer` to \"pull\""
                .to_owned());
        }
        let config = consumer::Config {
            deliver_policy: deliver_policy(subscription.from),
            max_batch: options.pull_batch.get().into(),
            ..consumer::Config::default()
        };
        let consumer: CrateConsumer<pull::OrderedConfig> = create(context, subscription, config).await?;
        Ok(Source::Ordered(Box::new(consumer.messages().await.map_err(|error| in_full(&error))?)))
    }
}

/// Creates a consumer of this type on the subscription's stream; the durable one of a group only once.
///
/// # Errors
/// Those of the crate in words.
pub async fn create<C: FromConsumer + IntoConsumerConfig>(
    context: &Jetstream,
    subscription: &Subscription,
    config: consumer::Config,
) -> Result<CrateConsumer<C>, String> {
    let config = C::try_from_consumer_config(config).map_err(|error| error.to_string())?;
    let created = context.create_consumer_on_stream(config, &subscription.topic.name).await;
    created.map_err(|error| in_full(&error))
}

/// The durable consumer of a group.
pub fn durable(options: &NatsOptions, subscription: &Subscription) -> consumer::Config {
    let name = name_for_server(&subscription.group);
    let is_pushed = options.consumer == ConsumerType::Push;
    consumer::Config {
        // The same for each member, in this process and in others.
        deliver_subject: is_pushed.then(|| format!("_INBOX.{}.{name}", subscription.topic.name)),
        deliver_group: is_pushed.then(|| name.clone()),
        durable_name: Some(name),
        deliver_policy: deliver_policy(subscription.from),
        ack_policy: options.ack_policy.into(),
        ack_wait: options.ack_wait.unwrap_or_default(),
        // The server refuses the limit where nothing is acknowledged.
        max_ack_pending: match options.ack_policy {
            Acknowledge::None => 0,
            Acknowledge::Explicit | Acknowledge::All => options.max_ack_pending.get().into(),
        },
        ..consumer::Config::default()
    }
}

/// Resolves when the server does not have the consumer any more.
async fn deleted(consumer: PushConsumer) -> ClientError {
    loop {
        sleep(LOOK_EVERY).await;
        if let Err(error) = consumer.get_info().await
            && matches!(error.kind(), ConsumerInfoErrorKind::NotFound | ConsumerInfoErrorKind::StreamNotFound)
        {
            let durable = &consumer.cached_info().name;
            return ClientError::passing(FailureClass::UnknownTopic, format!("the consumer {durable} was deleted"));
        }
    }
}

fn deliver_policy(from: StartFrom) -> DeliverPolicy {
    match from {
        StartFrom::Earliest => DeliverPolicy::All,
        StartFrom::Latest => DeliverPolicy::New,
    }
}

/// A message, with what JetStream tells of it.
#[derive(Debug)]
pub struct NatsDelivery {
    message: Message,
    sequence: u64,
    redelivered: bool,
    published_unix_ns: Option<u64>,
}

impl From<Message> for NatsDelivery {
    fn from(message: Message) -> Self {
        NatsDelivery { message, sequence: 0, redelivered: false, published_unix_ns: None }
    }
}

impl From<jetstream::Message> for NatsDelivery {
    fn from(stored: jetstream::Message) -> Self {
        let told = stored.info().ok().map(|info| {
            (info.stream_sequence, info.delivered > 1, u64::try_from(info.published.unix_timestamp_nanos()).ok())
        });
        let (sequence, redelivered, published_unix_ns) = told.unwrap_or_default();
        NatsDelivery { message: stored.message, sequence, redelivered, published_unix_ns }
    }
}

impl Stream for NatsDeliveries {
    type Item = Result<NatsDelivery, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.poll_message(context) {
            Poll::Pending => self.untold_loss().map_or(Poll::Pending, |loss| Poll::Ready(Some(Err(loss)))),
            arrived => arrived,
        }
    }
}

impl Deliveries for NatsDeliveries {
    type Delivery = NatsDelivery;
    type Error = ClientError;

    async fn acknowledge(&mut self, delivery: &NatsDelivery, _: bool) -> Result<(), ClientError> {
        let answer = match &self.source {
            Source::Subject { replies: true, .. } => Bytes::new(),
            Source::Push(..) if self.policy != Acknowledge::None => ACK,
            _ => return Ok(()),
        };
        let Some(reply) = delivery.message.reply.clone() else { return Ok(()) };
        self.client.publish(reply, answer).await.map_err(|error| ClientError::lost(in_full(&error)))
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    async fn close(self) {
        // Acknowledgements wait in the client.
        let _ = self.client.flush().await;
    }
}

impl Delivery for NatsDelivery {
    fn payload(&self) -> &[u8] {
        &self.message.payload
    }

    fn trace_header(&self) -> Option<[u8; TRACE_HEADER_BYTES]> {
        let header = self.message.headers.as_ref()?.get(TRACE_HEADER_NAME)?;
        BASE64.decode(header.as_str()).ok()?.try_into().ok()
    }

    fn offset(&self) -> u64 {
        self.sequence
    }

    fn is_redelivered(&self) -> bool {
        self.redelivered
    }
}

impl Details for NatsDelivery {
    fn timestamp_unix_ns(&self) -> Option<u64> {
        self.published_unix_ns
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let headers = self.message.headers.iter().flat_map(|headers| headers.iter());
        let own = headers.filter(|(name, _)| AsRef::<str>::as_ref(*name) != TRACE_HEADER_NAME);
        let value = |value: &HeaderValue| value.as_str().as_bytes().to_vec();
        own.flat_map(|(name, values)| values.iter().map(move |one| (name.to_string(), value(one)))).collect()
    }
}

/// Connects to `address`, or to another one of the scenario's if it does not answer.
pub async fn client(setup: &Setup<NatsOptions>, role: &str, address: String) -> Result<Client, BrokerError> {
    let Setup { config, options, timeout, .. } = setup;
    let refused = BrokerError::Configuration;
    let scheme = if config.security.tls.is_some() { "tls" } else { "nats" };
    let others = config.addresses.iter().filter(|other| **other != address);
    let servers = iter::once(&address).chain(others).map(|address| format!("{scheme}://{address}").parse());
    let servers: Result<Vec<ServerAddr>, _> = servers.collect();
    let servers = servers.map_err(|error| refused(format!("`broker.addresses`: {error}")))?;
    let login = Login::read(config, options).map_err(refused)?;
    let mut connecting = login
        .options()
        .map_err(refused)?
        .name(format!("{}-{role}", setup.run_id))
        .connection_timeout(*timeout)
        .subscription_capacity(options.pending_messages.get() as usize)
        .retain_servers_order();
    if let Some(tls) = tls::client_config(config.security.tls.as_ref()).map_err(refused)? {
        connecting = connecting.require_tls(true).tls_client_config((*tls).clone());
    }
    // The crate counts the time for each address alone.
    within(*timeout, connecting.connect(servers)).await.map_err(|failure| failure.at(&config.addresses.join(", ")))
}

/// Resolves when the server has handled what this connection has sent: it answers in order.
pub async fn round_trip(client: &Client) -> Result<(), String> {
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.map_err(|error| in_full(&error))?;
    client.publish(inbox, Bytes::new()).await.map_err(|error| in_full(&error))?;
    match answers.next().await {
        Some(_) => Ok(()),
        None => Err("the connection was closed".to_owned()),
    }
}

/// Names of durable consumers and queue groups without what the server does not accept in them.
pub fn name_for_server(group: &str) -> String {
    group.chars().map(|letter| if ".*>/\\ \t".contains(letter) { '_' } else { letter }).collect()
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/nats/consume.rs"]
pub(super) mod tests;
