//! What is received by the crate.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::future::{BoxFuture, poll_immediate};
use futures_util::{FutureExt, Stream};
use lapin::message::Delivery as Arrived;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Consumer};

use super::config::{Acknowledge, RabbitmqOptions};
use super::connect::Link;
use crate::broker::adapter::{Deliveries, Delivery};
use crate::broker::fraction::is_sampled;
use crate::broker::{ClientError, Details, FailureClass, TRACE_HEADER_NAME};
use crate::limits::TRACE_HEADER_BYTES;
use crate::net::backoff::Backoff;

/// How the members of a group consume a queue.
pub struct Consuming {
    pub link: Arc<Link>,
    pub queue: String,
    pub options: RabbitmqOptions,
}

impl Consuming {
    /// # Errors
    /// When the queue is not there, or refuses the consumer.
    pub async fn open(&self) -> Result<(Channel, Consumer), ClientError> {
        let channel = self.link.channel().await?;
        channel.basic_qos(self.options.prefetch.get(), BasicQosOptions::default()).await?;
        let no_ack = self.options.acknowledge == Acknowledge::Automatic;
        let options = BasicConsumeOptions { no_ack, ..BasicConsumeOptions::default() };
        // The server chooses the tag.
        let consumer = channel.basic_consume(self.queue.as_str().into(), "".into(), options, FieldTable::default());
        let consumer = consumer.await?;
        Ok((channel, consumer))
    }

    /// Opens it again until `broker.rabbitmq.reconnect` is over: a queue has no leader for a while when its node is gone.
    async fn open_again(self: Arc<Self>) -> Result<(Channel, Consumer), ClientError> {
        let until = Instant::now() + self.options.reconnect;
        let mut backoff = Backoff::RECONNECT;
        loop {
            match self.open().await {
                Err(error) if !error.lasting && Instant::now() < until => backoff.pause().await,
                opened => return opened,
            }
        }
    }
}

/// A consumer of one queue.
pub struct RabbitmqDeliveries {
    consuming: Arc<Consuming>,
    state: State,
    /// How often it was opened again: a delivery belongs to the channel it came from.
    generation: u64,
    /// Messages that were delivered for the first time.
    first_deliveries: u64,
    /// Messages that the next command acknowledges, and the last of them.
    unacknowledged: (u16, u64),
}

#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each consumer, and each message would cost a look behind a pointer"
)]
enum State {
    Open(Channel, Consumer),
    Opening(BoxFuture<'static, Result<(Channel, Consumer), ClientError>>),
    Ended,
}

impl RabbitmqDeliveries {
    pub fn new(consuming: Consuming, (channel, consumer): (Channel, Consumer)) -> Self {
        RabbitmqDeliveries {
            consuming: Arc::new(consuming),
            state: State::Open(channel, consumer),
            generation: 0,
            first_deliveries: 0,
            unacknowledged: (0, 0),
        }
    }

    /// Whether this message goes back.
    fn requeues(&mut self, redelivered: bool) -> bool {
        let number = self.first_deliveries;
        self.first_deliveries += u64::from(!redelivered);
        !redelivered && is_sampled(number, self.consuming.options.requeue)
    }
}

/// A message, and how often its consumer had been opened again when it came.
#[derive(Debug)]
pub struct RabbitmqDelivery {
    message: Arrived,
    generation: u64,
}

impl Stream for RabbitmqDeliveries {
    type Item = Result<RabbitmqDelivery, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            match &mut this.state {
                State::Open(channel, consumer) => match ready!(Pin::new(consumer).poll_next(context)) {
                    Some(Ok(message)) => {
                        return Poll::Ready(Some(Ok(RabbitmqDelivery { message, generation: this.generation })));
                    }
                    Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                    None => {
                        // Otherwise an error has told it before.
                        let is_cancelled = channel.status().connected();
                        this.generation += 1;
                        this.unacknowledged = (0, 0);
                        this.state = State::Opening(this.consuming.clone().open_again().boxed());
                        if is_cancelled {
                            let words =
                                "the server has cancelled the consumer: its queue was deleted or has lost its node";
                            return Poll::Ready(Some(Err(ClientError::passing(FailureClass::UnknownTopic, words))));
                        }
                    }
                },
                State::Opening(opening) => match ready!(opening.poll_unpin(context)) {
                    Ok((channel, consumer)) => this.state = State::Open(channel, consumer),
                    Err(error) => {
                        this.state = State::Ended;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
                State::Ended => return Poll::Ready(None),
            }
        }
    }
}

impl Deliveries for RabbitmqDeliveries {
    type Delivery = RabbitmqDelivery;
    type Error = ClientError;

    async fn acknowledge(&mut self, delivery: &RabbitmqDelivery, is_cumulative: bool) -> Result<(), ClientError> {
        let Arrived { delivery_tag: tag, redelivered, .. } = delivery.message;
        if self.consuming.options.acknowledge == Acknowledge::Automatic || delivery.generation != self.generation {
            // The server delivers it again where its channel has gone.
            return Ok(());
        }
        let requeues = self.requeues(redelivered);
        let State::Open(channel, _) = &self.state else { return Ok(()) };
        // The crate takes a command when it is polled for the first time. To wait for the write would cost a change of threads each.
        let sent = if requeues {
            poll_immediate(pin!(channel.basic_nack(tag, BasicNackOptions { multiple: false, requeue: true }))).await
        } else if let Some(every) = self.consuming.options.acknowledge_every {
            let (count, _) = self.unacknowledged;
            if count + 1 < every.get() {
                self.unacknowledged = (count + 1, tag);
                return Ok(());
            }
            self.unacknowledged = (0, 0);
            poll_immediate(pin!(channel.basic_ack(tag, BasicAckOptions { multiple: true }))).await
        } else {
            poll_immediate(pin!(channel.basic_ack(tag, BasicAckOptions { multiple: is_cumulative }))).await
        };
        sent.unwrap_or(Ok(())).map_err(ClientError::from)
    }

    async fn close(self) {
        let State::Open(channel, _) = &self.state else { return };
        // What fails here is delivered again, to a consumer that the trial does not have any more.
        if let (1.., tag) = self.unacknowledged {
            let _ = channel.basic_ack(tag, BasicAckOptions { multiple: true }).await;
        }
        // Its response comes after what was sent before.
        let _ = channel.close(200, "the trial has ended".into()).await;
    }
}

impl Delivery for RabbitmqDelivery {
    fn payload(&self) -> &[u8] {
        &self.message.data
    }

    fn trace_header(&self) -> Option<[u8; TRACE_HEADER_BYTES]> {
        match self.message.properties.headers().as_ref()?.inner().get(TRACE_HEADER_NAME)? {
            AMQPValue::LongString(text) => BASE64.decode(text.as_bytes()).ok()?.try_into().ok(),
            _ => None,
        }
    }

    fn is_redelivered(&self) -> bool {
        self.message.redelivered
    }
}

impl Details for RabbitmqDelivery {
    fn timestamp_unix_ns(&self) -> Option<u64> {
        self.message.properties.timestamp().and_then(|seconds| seconds.checked_mul(1_000_000_000))
    }

    fn headers(&self) -> Vec<(String, Vec<u8>)> {
        let headers = self.message.properties.headers().iter().flat_map(|headers| headers.inner());
        let own = headers.filter(|(name, _)| name.as_str() != TRACE_HEADER_NAME);
        own.filter_map(|(name, value)| match value {
            AMQPValue::LongString(text) => Some((name.to_string(), text.as_bytes().to_vec())),
            _ => None,
        })
        .collect()
    }
}
