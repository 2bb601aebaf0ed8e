//! A member of a subscription on one topic or on all its partitions.

use std::sync::Arc;

use prost::Message as _;
use tokio::sync::Notify;

use super::codec::entry;
use super::codec::frame::Frame;
use super::codec::proto::{Ack, CloseConsumer, Flow, FromBroker, Kind, MessageId, Redeliver, Subscribe, ToBroker};
use super::config::SubscriptionType;
use super::connection::{Connection, ConsumerId, DeliveryQueue};
use super::partition_producer::Client;
use super::retry::{BACKOFF, Retry, persist};
use crate::broker::fraction::FractionSampler;
use crate::broker::{ClientError, Consumer, FailureClass, ReceiveError, Received};
use crate::limits::shrink_unpacked;
use crate::scenario::StartFrom;

/// Individual acknowledgements that go out in one command.
const ACKS: usize = 1000;

/// Whose consumer it is.
#[derive(Debug, Clone)]
pub struct Membership {
    pub subscription: String,
    pub kind: SubscriptionType,
    pub consumer_name: String,
    pub from: StartFrom,
    /// Number of its connection among those to the same broker.
    pub index: usize,
}

/// A member of a subscription: one task of the engine owns it.
pub struct TopicConsumer {
    shared: Arc<Client>,
    membership: Arc<Membership>,
    parts: Vec<Part>,
    /// The part whose messages are taken next.
    turn: usize,
    arrived: Arc<Notify>,
    /// Memory for decompression.
    unpacked: Vec<u8>,
}

/// A consumer of the wire: on a topic or a partition.
struct Part {
    topic: Arc<str>,
    /// Number of the partition.
    partition: u32,
    state: State,
    /// Frames from the delivery queue, of which those before `handed_over` were handed over. Without any, memory that the queue gets
    /// back.
    frames: Vec<u8>,
    handed_over: usize,
    acks: Vec<MessageId>,
    /// Entries to be delivered again, and which they are.
    negative_acks: Vec<MessageId>,
    negative: FractionSampler,
}

enum State {
    Open(Open),
    Opening(Retry<Open>),
    /// Closed for good, for a reason that was reported.
    Dead,
}

pub(super) struct Open {
    connection: Arc<Connection>,
    consumer: ConsumerId,
    delivery_queue: Arc<DeliveryQueue>,
    kind: SubscriptionType,
    /// Messages taken for which the broker has not been given new permits.
    taken: u32,
}

impl TopicConsumer {
    /// Subscribes to all `topics`, the partitions of one.
    ///
    /// # Errors
    /// When the broker does not let it.
    pub async fn open(shared: Arc<Client>, membership: Membership, topics: Vec<Arc<str>>) -> Result<Self, ClientError> {
        let (membership, arrived) = (Arc::new(membership), Arc::new(Notify::new()));
        let mut parts = Vec::with_capacity(topics.len());
        for (partition, topic) in topics.into_iter().enumerate() {
            let open = persist(shared.pool.timeout(), || open(&shared, &membership, &topic, &arrived)).await?;
            let state = State::Open(open);
            parts.push(Part {
                topic,
                partition: partition as u32,
                state,
                frames: Vec::new(),
                handed_over: 0,
                acks: Vec::new(),
                negative_acks: Vec::new(),
                negative: FractionSampler::new(shared.options.negative_acks),
            });
        }
        Ok(TopicConsumer { shared, membership, parts, turn: 0, arrived, unpacked: Vec::new() })
    }
}

impl Consumer for TopicConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        loop {
            for part in &mut self.parts {
                part.refresh()?;
            }
            // From the one after the last, so that each part has its turn.
            let waiting = |part: &Part| matches!(&part.state, State::Open(open) if open.delivery_queue.is_waiting() || !part.frames.is_empty());
            let count = self.parts.len();
            if let Some(turn) = (0..count).map(|step| (self.turn + step) % count).find(|at| waiting(&self.parts[*at])) {
                self.turn = turn;
                return Ok(());
            }
            self.arrived.notified().await;
        }
    }

    /// An entry is handed over whole: the broker is given one acknowledgement for it.
    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        // From one part only: more messages may arrive for the others meanwhile.
        let next = (self.turn + 1) % self.parts.len();
        let part = &mut self.parts[std::mem::replace(&mut self.turn, next)];
        let taken = part.take(most, &self.shared, &mut self.unpacked, &mut each);
        shrink_unpacked(&mut self.unpacked);
        taken.map_err(|failure| {
            let closed = matches!(&part.state, State::Open(open) if !open.connection.has_consumer(open.consumer));
            if closed {
                part.reopen(&self.shared, &self.membership, &self.arrived, failure.clone());
            }
            failure.receiving()
        })
    }

    fn is_connected(&self) -> bool {
        self.parts.iter().all(|part| matches!(part.state, State::Open(_)))
    }
}

impl Part {
    /// Replaces the consumer if it was opened again meanwhile.
    fn refresh(&mut self) -> Result<(), ReceiveError> {
        let State::Opening(retry) = &mut self.state else { return Ok(()) };
        match retry.now() {
            None => Ok(()),
            Some(Ok(open)) => {
                self.state = State::Open(open);
                Ok(())
            }
            Some(Err(failure)) => {
                self.state = State::Dead;
                Err(failure.receiving())
            }
        }
    }

    fn reopen(
        &mut self,
        shared: &Arc<Client>,
        membership: &Arc<Membership>,
        arrived: &Arc<Notify>,
        reason: ClientError,
    ) {
        // The broker delivers again what was not handed over.
        (self.handed_over, self.frames) = (0, cleared(std::mem::take(&mut self.frames)));
        let (shared, membership, topic) = (shared.clone(), membership.clone(), self.topic.clone());
        let delivery_queue_arrived = arrived.clone();
        self.state = State::Opening(Retry::start(reason, BACKOFF, arrived.clone(), move || {
            let (shared, membership, topic) = (shared.clone(), membership.clone(), topic.clone());
            let arrived = delivery_queue_arrived.clone();
            async move { open(&shared, &membership, &topic, &arrived).await }
        }));
    }

    /// Takes frames from the delivery queue, unless there are some that were not handed over.
    fn fetch(&mut self) -> Result<(), ClientError> {
        let State::Open(open) = &self.state else { return Ok(()) };
        if !self.frames.is_empty() && !open.delivery_queue.is_closed() {
            return Ok(());
        }
        // What a closed consumer has not acknowledged is delivered again.
        let contents = open.delivery_queue.take(cleared(std::mem::take(&mut self.frames)));
        (self.handed_over, self.frames) = (0, contents.frames);
        contents.closed.map_or(Ok(()), Err)
    }

    /// Hands over the messages that have arrived, until `most` are taken.
    fn take(
        &mut self,
        most: usize,
        shared: &Client,
        unpacked: &mut Vec<u8>,
        each: &mut impl FnMut(Received<'_>),
    ) -> Result<usize, ClientError> {
        self.fetch()?;
        let State::Open(open) = &mut self.state else { return Ok(0) };
        let mut frames = &self.frames[self.handed_over..];
        let (mut count, mut permits) = (0, 0);
        let mut damaged = None;
        // The connection has decoded each frame, so that only its entry can be damaged.
        let mut has_more = false;
        while let Ok(Some((frame, size))) = Frame::first(frames, usize::MAX >> 1) {
            has_more = count >= most;
            if has_more {
                break;
            }
            frames = &frames[size..];
            let Some(message) = FromBroker::decode(frame.command).ok().and_then(|command| command.message) else {
                continue;
            };
            let redelivered = message.redelivery_count() > 0;
            let held = match entry::read(frame.rest, self.partition, redelivered, unpacked, each) {
                Ok(messages) => {
                    count += messages;
                    messages
                }
                Err(error) => {
                    damaged = Some(ClientError { class: FailureClass::Other, ..ClientError::lost(error.to_string()) });
                    entry::count(frame.rest)
                }
            };
            permits = u32::saturating_add(permits, u32::try_from(held).unwrap_or(u32::MAX));
            if !redelivered && self.negative.takes_next() {
                self.negative_acks.push(message.message_id);
            } else {
                self.acks.push(message.message_id);
            }
        }
        open.acknowledge(&mut self.acks, &mut self.negative_acks);
        open.give_back(permits, shared);
        self.handed_over = self.frames.len() - frames.len();
        if !has_more {
            (self.handed_over, self.frames) = (0, cleared(std::mem::take(&mut self.frames)));
        }
        match damaged {
            None => Ok(count),
            Some(failure) => Err(failure),
        }
    }
}

/// The memory of `frames`, without them.
fn cleared(mut frames: Vec<u8>) -> Vec<u8> {
    frames.clear();
    frames
}

impl Open {
    /// Acknowledges what was taken, and asks for the rest again.
    fn acknowledge(&self, acks: &mut Vec<MessageId>, negative_acks: &mut Vec<MessageId>) {
        let cumulative = self.kind.is_cumulative();
        // A broken connection shows in the delivery_queue; the broker will deliver again what it has no acknowledgement for.
        let send = |command: ToBroker| drop(self.connection.send(&command));
        let ack = |message_id: Vec<MessageId>| {
            let ack = Ack { consumer_id: self.consumer, ack_type: cumulative.into(), message_id };
            ToBroker { kind: Kind::Ack.into(), ack: Some(Box::new(ack)), ..ToBroker::default() }
        };
        match acks.last() {
            Some(last) if cumulative => send(ack(vec![*last])),
            _ => acks.chunks(ACKS).for_each(|some| send(ack(some.to_vec()))),
        }
        acks.clear();
        if !negative_acks.is_empty() {
            let redeliver = Redeliver { consumer_id: self.consumer, message_ids: std::mem::take(negative_acks) };
            let redeliver = Some(Box::new(redeliver));
            send(ToBroker { kind: Kind::Redeliver.into(), redeliver, ..ToBroker::default() });
        }
    }

    /// Lets the broker send as many messages again as were taken.
    fn give_back(&mut self, permits: u32, shared: &Client) {
        self.taken = self.taken.saturating_add(permits);
        if self.taken >= shared.options.receiver_queue.div_ceil(2) {
            // As above.
            drop(self.connection.send(&flow(self.consumer, self.taken)));
            self.taken = 0;
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.connection.remove_consumer(self.consumer);
    }
}

fn flow(consumer_id: ConsumerId, message_permits: u32) -> ToBroker {
    let flow = Flow { consumer_id, message_permits };
    ToBroker { kind: Kind::Flow.into(), flow: Some(flow), ..ToBroker::default() }
}

fn close_consumer(consumer_id: ConsumerId, request_id: u64) -> ToBroker {
    let close = CloseConsumer { consumer_id, request_id };
    ToBroker { kind: Kind::CloseConsumer.into(), close_consumer: Some(close), ..ToBroker::default() }
}

/// Subscribes to one topic.
pub(super) async fn open(
    shared: &Client,
    membership: &Membership,
    topic: &str,
    arrived: &Arc<Notify>,
) -> Result<Open, ClientError> {
    let connection = shared.pool.connection_for(topic, membership.index).await?;
    let (consumer, delivery_queue) = connection.add_consumer(arrived.clone());
    // From here on, dropping it takes the delivery_queue away again.
    let open = Open { connection: connection.clone(), consumer, delivery_queue, kind: membership.kind, taken: 0 };
    let subscribed = connection
        .request(shared.pool.timeout(), |request_id| {
            let subscribe = Subscribe {
                topic: topic.to_owned(),
                subscription: membership.subscription.clone(),
                sub_type: membership.kind as i32,
                consumer_id: consumer,
                request_id,
                consumer_name: Some(membership.consumer_name.clone()),
                durable: Some(true),
                initial_position: Some((membership.from == StartFrom::Earliest).into()),
            };
            ToBroker { kind: Kind::Subscribe.into(), subscribe: Some(Box::new(subscribe)), ..ToBroker::default() }
        })
        .await;
    if let Err(failure) = subscribed {
        if failure.class == FailureClass::Timeout {
            // The broker may still subscribe it, and it would take messages away from other consumers.
            let _ = connection.send(&close_consumer(consumer, connection.next_request()));
        }
        return Err(failure);
    }
    connection.send(&flow(consumer, shared.options.receiver_queue))?;
    Ok(open)
}
