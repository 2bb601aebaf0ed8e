//! A task that owns one of the crate's producers: it sends what it is handed, and records the receipts.
//!
//! The crate's `send_non_blocking` is not cancel-safe: dropped while it waits, it may have queued the message. So no call of
//! the engine waits for it; the engine's calls wait for the lane to take their messages, which can be given up.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use pulsar_rs::producer::{Message, SendFuture};
use pulsar_rs::{Producer, TokioExecutor};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::broker::pulsar::error::RequestError;
use crate::measure::{AckRecorder, PartitionIndex, SendTag};

/// A message on its way to the crate.
pub struct Item {
    pub message: Message,
    pub send_tag: SendTag,
    pub payload_bytes: usize,
}

/// Where one of the crate's producers is fed. Its task ends with it.
pub struct Lane {
    /// `None` when no more will be sent.
    batches: Option<mpsc::Sender<Vec<Item>>>,
    failure: Arc<OnceLock<RequestError>>,
    task: JoinHandle<()>,
}

impl Lane {
    /// Messages are counted in this partition.
    pub fn start(producer: Producer<TokioExecutor>, recorder: Arc<AckRecorder>, counted_in: PartitionIndex) -> Self {
        // One batch waits while another is sent: the crate's own queues hold back what is too much.
        let (batches, handed_over) = mpsc::channel(1);
        let failure = Arc::new(OnceLock::new());
        let receipts = Receipts { awaited: VecDeque::new(), recorder, counted_in, failure: failure.clone() };
        let task = tokio::spawn(send(producer, handed_over, receipts));
        Lane { batches: Some(batches), failure, task }
    }

    /// Why it takes no more, if that is so.
    pub fn failure(&self) -> Option<&RequestError> {
        self.failure.get()
    }

    /// Whether it takes a batch at once.
    pub fn has_room(&self) -> bool {
        self.batches.as_ref().is_some_and(|batches| batches.capacity() > 0)
    }

    /// Resolves when it takes a batch. Cancel-safe.
    ///
    /// # Errors
    /// When its task has ended.
    pub async fn room(&self) -> Result<mpsc::Permit<'_, Vec<Item>>, RequestError> {
        let ended = || RequestError::lost("the producer has ended");
        let batches = self.batches.as_ref().ok_or_else(ended)?;
        batches.reserve().await.map_err(|_| ended())
    }

    /// No more will be sent: what the crate holds back for more goes out.
    pub fn finish(&mut self) {
        self.batches = None;
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn send(
    mut producer: Producer<TokioExecutor>,
    mut handed_over: mpsc::Receiver<Vec<Item>>,
    mut receipts: Receipts,
) {
    while let Some(batch) = receipts.attend_during(handed_over.recv()).await {
        for Item { message, send_tag, payload_bytes } in batch {
            match receipts.attend_during(producer.send_non_blocking(message)).await {
                Ok(receipt) => receipts.awaited.push_back(Awaited { receipt, send_tag, payload_bytes }),
                Err(error) => receipts.fail(send_tag, RequestError::from(error)),
            }
        }
    }
    // An error only says that it does not batch.
    let _ = receipts.attend_during(producer.send_batch()).await;
    while !receipts.awaited.is_empty() {
        receipts.next().await;
    }
}

struct Awaited {
    receipt: SendFuture,
    send_tag: SendTag,
    payload_bytes: usize,
}

/// The receipts that are awaited, in the order in which the broker sends them: that of the messages.
struct Receipts {
    awaited: VecDeque<Awaited>,
    recorder: Arc<AckRecorder>,
    counted_in: PartitionIndex,
    failure: Arc<OnceLock<RequestError>>,
}

impl Receipts {
    /// Records receipts until `future` resolves.
    async fn attend_during<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                () = self.next() => {}
                output = &mut future => return output,
            }
        }
    }

    /// Records the next receipt, and all that are there behind it. Never resolves if none is awaited. Cancel-safe.
    async fn next(&mut self) {
        poll_fn(|context| {
            let Some(first) = self.awaited.front_mut() else { return Poll::Pending };
            let Poll::Ready(mut outcome) = Pin::new(&mut first.receipt).poll(context) else { return Poll::Pending };
            let mut acks = self.recorder.batch();
            acks.to_partition(self.counted_in);
            loop {
                let Some(Awaited { send_tag, payload_bytes, .. }) = self.awaited.pop_front() else { break };
                match outcome {
                    Ok(_) => acks.acknowledged(send_tag, payload_bytes),
                    Err(error) => {
                        let failure = RequestError::from(error);
                        acks.failed(send_tag, failure.class, || failure.message.clone());
                        note(&self.failure, failure);
                    }
                }
                let Some(next) = self.awaited.front_mut() else { break };
                let Poll::Ready(following) = Pin::new(&mut next.receipt).poll(context) else { break };
                outcome = following;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Records a message that the crate did not take.
    fn fail(&self, send_tag: SendTag, failure: RequestError) {
        self.recorder.batch().failed(send_tag, failure.class, || failure.message.clone());
        note(&self.failure, failure);
    }
}

/// Keeps the first failure after which no message can succeed.
fn note(failures: &OnceLock<RequestError>, failure: RequestError) {
    if failure.lasting {
        // The first one is the reason.
        let _ = failures.set(failure);
    }
}
