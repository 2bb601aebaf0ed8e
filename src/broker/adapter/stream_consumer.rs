//! A consumer from the crate's streams of messages.

use std::collections::VecDeque;
use std::future::{Future, poll_fn, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{FutureExt, Stream, StreamExt};

use crate::broker::{ClientError, Consumer, Details, ReceiveError, Received};
use crate::limits::TRACE_HEADER_BYTES;

/// Most messages of one call: all of them get the time of its beginning.
const MAX_BATCH: usize = 1000;

/// How long the broker may take for the last acknowledgements and to close a consumer.
const CLOSING: Duration = Duration::from_secs(5);

/// A message of the crate. What it carries beside its payload, it tells as [`Details`].
pub trait Delivery: Details + Send + Sync {
    fn payload(&self) -> &[u8];

    /// The engine's own header, where the payload does not carry it.
    fn trace_header(&self) -> Option<[u8; TRACE_HEADER_BYTES]> {
        None
    }

    /// Its number on a broker that numbers the messages of a partition.
    fn offset(&self) -> u64 {
        0
    }

    /// Whether the broker says that it delivers the message again.
    fn is_redelivered(&self) -> bool {
        false
    }
}

/// A consumer of the crate, on one partition: a queue, a subscription, a stream. It is the stream of its messages, which ends when the
/// crate does not connect again.
pub trait Deliveries: Stream<Item = Result<Self::Delivery, Self::Error>> + Send + Unpin + 'static {
    type Delivery: Delivery;
    type Error: Into<ClientError> + Send;

    /// Acknowledges a message that the engine has taken, and all before it if `is_cumulative`. The call may be dropped before its end; then
    /// the message is acknowledged again.
    fn acknowledge(
        &mut self,
        delivery: &Self::Delivery,
        is_cumulative: bool,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Whether the crate has a connection, as far as it tells: it may connect again by itself.
    fn is_connected(&self) -> bool {
        true
    }

    fn close(self) -> impl Future<Output = ()> + Send
    where
        Self: Sized,
    {
        ready(())
    }
}

/// A member of a group: one task of the engine owns it.
///
/// Messages are acknowledged before the engine waits for the next ones, that is after its consumer has done its work on them.
pub struct StreamConsumer<D: Deliveries> {
    /// One for each partition; `None`: the crate has ended it.
    partitions: Vec<Option<D>>,
    /// Whether an acknowledgement is one of all messages of its partition before it.
    is_cumulative: bool,
    /// The partition that is asked first.
    turn: usize,
    /// The message that [`Consumer::ready`] has seen.
    first: Option<Arrival<D>>,
    /// Messages that the engine has taken and the crate does not have the acknowledgements of.
    taken: VecDeque<Arrival<D>>,
    /// An error that came behind messages: the next call reports it.
    failure: Option<ReceiveError>,
}

struct Arrival<D: Deliveries> {
    delivery: D::Delivery,
    partition: usize,
}

impl<D: Deliveries> StreamConsumer<D> {
    /// From the consumers of the partitions, in their order. `is_cumulative`: whether the last message of a partition is acknowledged for
    /// all that were taken with it, or each of them.
    pub fn new(partitions: Vec<D>, is_cumulative: bool) -> Self {
        let partitions = partitions.into_iter().map(Some).collect();
        StreamConsumer { partitions, is_cumulative, turn: 0, first: None, taken: VecDeque::new(), failure: None }
    }

    /// The next message that has arrived, of the partitions in turn.
    fn poll_arrival(&mut self, context: &mut Context<'_>) -> Poll<Result<Arrival<D>, ReceiveError>> {
        let count = self.partitions.len();
        for step in 0..count {
            let partition = (self.turn + step) % count;
            let Some(deliveries) = &mut self.partitions[partition] else { continue };
            let Poll::Ready(arrived) = deliveries.poll_next_unpin(context) else { continue };
            // From the one after it next time, so that each has its turn.
            self.turn = (partition + 1) % count;
            return Poll::Ready(match arrived {
                Some(Ok(delivery)) => Ok(Arrival { delivery, partition }),
                Some(Err(error)) => Err(error.into().receiving()),
                None => {
                    // The crate's users have to notice it as well.
                    self.partitions[partition] = None;
                    Err(ClientError::lost("the client library has ended the consumer").receiving())
                }
            });
        }
        Poll::Pending
    }

    /// Acknowledges what the engine has taken, in the order of arrival. Cancel-safe: the next call goes on with what is left.
    async fn acknowledge(&mut self) -> Result<(), ReceiveError> {
        while let Some(Arrival { delivery, partition }) = self.taken.front() {
            let has_later = || self.taken.iter().skip(1).any(|later| later.partition == *partition);
            let acknowledged = match &mut self.partitions[*partition] {
                Some(deliveries) if !self.is_cumulative || !has_later() => {
                    let acknowledged = deliveries.acknowledge(delivery, self.is_cumulative).await;
                    acknowledged.map_err(|error| error.into().receiving())
                }
                _ => Ok(()),
            };
            // The broker delivers it again if the acknowledgement failed.
            self.taken.pop_front();
            acknowledged?;
        }
        Ok(())
    }
}

impl<D: Deliveries> Consumer for StreamConsumer<D> {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        self.acknowledge().await?;
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.first.is_none() {
            self.first = Some(poll_fn(|context| self.poll_arrival(context)).await?);
        }
        Ok(())
    }

    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let begin = self.taken.len();
        self.taken.extend(self.first.take());
        while self.taken.len() - begin < most.min(MAX_BATCH)
            && let Some(arrived) = poll_fn(|context| self.poll_arrival(context)).now_or_never()
        {
            match arrived {
                Ok(arrival) => self.taken.push_back(arrival),
                Err(error) => {
                    self.failure = Some(error);
                    break;
                }
            }
        }
        // Only now: all of them get the time at which the first one is handed over.
        for Arrival { delivery, partition } in self.taken.range(begin..) {
            each(Received {
                payload: delivery.payload(),
                trace_header: delivery.trace_header().as_ref().map(<[u8; _]>::as_slice),
                partition: *partition as u32,
                offset: delivery.offset(),
                redelivered: delivery.is_redelivered(),
                details: delivery,
            });
        }
        Ok(self.taken.len() - begin)
    }

    fn is_connected(&self) -> bool {
        self.partitions.iter().all(|partition| partition.as_ref().is_some_and(Deliveries::is_connected))
    }

    async fn close(mut self) {
        let closing = async {
            // What is not acknowledged is delivered again to another member, which the trial does not have any more.
            let _ = self.acknowledge().await;
            for deliveries in self.partitions.into_iter().flatten() {
                deliveries.close().await;
            }
        };
        let _ = tokio::time::timeout(CLOSING, closing).await;
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/adapter/stream_consumer.rs"]
mod tests;
