//! A consumer from anything that messages are polled from.

use std::future::{Future, poll_fn, ready};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;

use crate::broker::{Consumer, ReceiveError, Received};

/// Most messages of one call: all of them get the time of its beginning.
const MAX_BATCH: usize = 1000;

/// How long the broker may take for the last acknowledgements and to close a consumer.
const CLOSING: Duration = Duration::from_secs(5);

/// A consumer of the crate.
pub trait Deliveries: Send + 'static {
    type Delivery: Send;

    /// The next message that has arrived.
    fn poll_delivery(&mut self, context: &mut Context<'_>) -> Poll<Result<Self::Delivery, ReceiveError>>;

    /// Shows a message to the engine.
    fn hand_over(&self, delivery: &Self::Delivery, each: &mut impl FnMut(Received<'_>));

    /// Acknowledges messages that the engine has taken, in the order of their arrival, and removes each from `taken` when the crate has
    /// its acknowledgement. The call may be dropped before its end; the next one goes on with what is left.
    fn acknowledge(&mut self, taken: &mut Vec<Self::Delivery>)
    -> impl Future<Output = Result<(), ReceiveError>> + Send;

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
    deliveries: D,
    /// The message that [`Consumer::ready`] has seen.
    first: Option<D::Delivery>,
    /// Messages that the engine has taken and the crate does not have the acknowledgements of.
    taken: Vec<D::Delivery>,
    /// An error that came behind messages: the next call reports it.
    failure: Option<ReceiveError>,
}

impl<D: Deliveries> StreamConsumer<D> {
    pub fn new(deliveries: D) -> Self {
        StreamConsumer { deliveries, first: None, taken: Vec::new(), failure: None }
    }
}

impl<D: Deliveries> Consumer for StreamConsumer<D> {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        self.deliveries.acknowledge(&mut self.taken).await?;
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.first.is_none() {
            self.first = Some(poll_fn(|context| self.deliveries.poll_delivery(context)).await?);
        }
        Ok(())
    }

    fn take(&mut self, each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        self.take_some(MAX_BATCH, each)
    }

    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let StreamConsumer { deliveries, first, taken, failure } = self;
        let begin = taken.len();
        taken.extend(first.take());
        while taken.len() - begin < most.min(MAX_BATCH)
            && let Some(arrived) = poll_fn(|context| deliveries.poll_delivery(context)).now_or_never()
        {
            match arrived {
                Ok(delivery) => taken.push(delivery),
                Err(error) => {
                    *failure = Some(error);
                    break;
                }
            }
        }
        // Only now: all of them get the time at which the first one is handed over.
        for delivery in &taken[begin..] {
            deliveries.hand_over(delivery, &mut each);
        }
        Ok(taken.len() - begin)
    }

    async fn close(self) {
        let StreamConsumer { mut deliveries, mut taken, .. } = self;
        let closing = async {
            // What is not acknowledged is delivered again to another member, which the trial does not have any more.
            let _ = deliveries.acknowledge(&mut taken).await;
            deliveries.close().await;
        };
        let _ = tokio::time::timeout(CLOSING, closing).await;
    }
}
