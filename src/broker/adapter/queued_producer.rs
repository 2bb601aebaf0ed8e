//! A producer from anything that sends one message at a time.
//!
//! What a crate's `send` returns is rarely cancel-safe: dropped while it waits, it may have taken the message. So no call of the engine
//! waits for it. A task owns the crate's sender; the engine's calls wait for a place in the task's queue, which can be given up.

use std::collections::VecDeque;
use std::future::{Future, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::owned_message::{Messages, OwnedMessage};
use crate::broker::{Outgoing, Producer, Setup, SubmitError};
use crate::measure::host::tasks::watched;
use crate::measure::{AckRecorder, FailureClass, PartitionIndex, SendTag};

/// Why a message was not sent or not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendError {
    pub class: FailureClass,
    pub message: String,
    /// No later message can succeed: the topic is gone, or the credentials are wrong.
    pub lasting: bool,
}

/// A sender of the crate, to one topic.
pub trait SendOne: Send + 'static {
    /// Whether the broker acknowledges messages in the order in which they were sent. If not, each receipt is looked at as it comes: in
    /// order, a late one would make all behind it look late.
    const RECEIPTS_IN_ORDER: bool;

    /// Resolves when the broker has acknowledged the message, with its partition where the client names it.
    type Receipt: Future<Output = Result<Option<u32>, SendError>> + Send + Unpin + 'static;

    /// Hands one message to the crate; resolves when the crate has taken it. It is never dropped before.
    ///
    /// # Errors
    /// When the crate does not take it.
    fn send(&mut self, message: OwnedMessage) -> impl Future<Output = Result<Self::Receipt, SendError>> + Send;

    /// The messages that the engine submitted together were handed over.
    fn end_batch(&mut self) {}

    /// No message will follow: what is held back goes out.
    fn flush(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

/// What the queued producers of a trial share.
pub struct ProducerQueues {
    messages: Messages,
    /// One for each of the scenario's connections.
    recorders: Vec<Arc<AckRecorder>>,
    /// How long producers waited for their queues, since it was last asked.
    waited_ns: AtomicU64,
}

impl ProducerQueues {
    pub fn new<Options>(setup: &Setup<Options>) -> Arc<Self> {
        let recorders = (0..setup.config.connections).map(|_| Arc::new(setup.acks.recorder())).collect();
        Arc::new(ProducerQueues { messages: Messages::new(setup), recorders, waited_ns: AtomicU64::new(0) })
    }

    /// Starts a producer's task. `connection` numbers the scenario's connections.
    pub fn start<S: SendOne>(self: &Arc<Self>, connection: usize, topic: &str, sender: S) -> QueuedProducer {
        let failure = Arc::new(OnceLock::new());
        let outcomes = Outcomes {
            recorder: self.recorders[connection % self.recorders.len()].clone(),
            topic: topic.to_owned(),
            partitions: Vec::new(),
            failure: failure.clone(),
        };
        // One batch waits while another is sent: the crate's own queues hold back what is too much.
        let (batches, handed_over) = mpsc::channel(1);
        let task = if S::RECEIPTS_IN_ORDER {
            tokio::spawn(watched("sender", 0, run(sender, handed_over, outcomes, VecDeque::new())))
        } else {
            tokio::spawn(watched("sender", 0, run(sender, handed_over, outcomes, FuturesUnordered::new())))
        };
        QueuedProducer { shared: self.clone(), batches: Some(batches), failure, task }
    }

    /// For how long producers waited for a place in their queues since the last call, summed over them, in nanoseconds.
    pub fn take_waited_ns(&self) -> u64 {
        self.waited_ns.swap(0, Ordering::Relaxed)
    }
}

/// A sender to one topic. Its task ends with it.
pub struct QueuedProducer {
    shared: Arc<ProducerQueues>,
    /// `None` when no more will be sent.
    batches: Option<mpsc::Sender<Vec<Item>>>,
    failure: Arc<OnceLock<SendError>>,
    task: JoinHandle<()>,
}

struct Item {
    message: OwnedMessage,
    send_tag: SendTag,
}

impl Producer for QueuedProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        if let Some(failure) = self.failure.get() {
            return Err(SubmitError { class: failure.class, message: failure.message.clone() });
        }
        let ended =
            || SubmitError { class: FailureClass::ConnectionLost, message: "the producer's task has ended".to_owned() };
        let batches = self.batches.as_ref().ok_or_else(ended)?;
        let place = match batches.try_reserve() {
            Ok(place) => place,
            Err(_) => {
                let full_since = Instant::now();
                let place = batches.reserve().await.map_err(|_| ended())?;
                self.shared.waited_ns.fetch_add(full_since.elapsed().as_nanos() as u64, Ordering::Relaxed);
                place
            }
        };
        // Nothing awaits from here on, so that a cancellation cannot split the batch.
        let item = |outgoing: &Outgoing<'_>| Item {
            message: self.shared.messages.owned(outgoing),
            send_tag: outgoing.send_tag,
        };
        place.send(batch.iter().map(item).collect());
        Ok(batch.len())
    }

    fn fatal_error(&self) -> Option<String> {
        self.failure.get().map(|failure| failure.message.clone())
    }

    fn finish(&mut self) {
        self.batches = None;
    }
}

impl Drop for QueuedProducer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Sends what is handed over, and records each outcome as it comes.
async fn run<S: SendOne, W: Waiting<S::Receipt>>(
    mut sender: S,
    mut handed_over: mpsc::Receiver<Vec<Item>>,
    mut outcomes: Outcomes,
    mut waiting: W,
) {
    while let Some(batch) = outcomes.record_during(&mut waiting, handed_over.recv()).await {
        for Item { message, send_tag } in batch {
            let payload_bytes = message.payload.len();
            match outcomes.record_during(&mut waiting, sender.send(message)).await {
                Ok(receipt) => waiting.push(Awaited { receipt, send_tag, payload_bytes }),
                Err(failure) => outcomes.record_refused(send_tag, failure),
            }
        }
        sender.end_batch();
    }
    outcomes.record_during(&mut waiting, sender.flush()).await;
    while !waiting.is_empty() {
        outcomes.record(&mut waiting).await;
    }
}

/// A message that was sent, until its receipt comes.
struct Awaited<R> {
    receipt: R,
    send_tag: SendTag,
    payload_bytes: usize,
}

/// What became of a message that was sent.
struct Outcome {
    result: Result<Option<u32>, SendError>,
    send_tag: SendTag,
    payload_bytes: usize,
}

impl<R: Future<Output = Result<Option<u32>, SendError>> + Unpin> Future for Awaited<R> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let Awaited { send_tag, payload_bytes, .. } = *self;
        Pin::new(&mut self.receipt).poll(context).map(|result| Outcome { result, send_tag, payload_bytes })
    }
}

/// The messages that wait for their receipts.
trait Waiting<R>: Send {
    fn push(&mut self, awaited: Awaited<R>);

    fn is_empty(&self) -> bool;

    /// The next outcome; pending also if no message waits.
    fn poll_outcome(&mut self, context: &mut Context<'_>) -> Poll<Outcome>;
}

type ReceiptResult = Result<Option<u32>, SendError>;

impl<R: Future<Output = ReceiptResult> + Send + Unpin> Waiting<R> for VecDeque<Awaited<R>> {
    fn push(&mut self, awaited: Awaited<R>) {
        self.push_back(awaited);
    }

    fn is_empty(&self) -> bool {
        VecDeque::is_empty(self)
    }

    fn poll_outcome(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        let Some(first) = self.front_mut() else { return Poll::Pending };
        let outcome = Pin::new(first).poll(context);
        if outcome.is_ready() {
            self.pop_front();
        }
        outcome
    }
}

impl<R: Future<Output = ReceiptResult> + Send + Unpin> Waiting<R> for FuturesUnordered<Awaited<R>> {
    fn push(&mut self, awaited: Awaited<R>) {
        FuturesUnordered::push(self, awaited);
    }

    fn is_empty(&self) -> bool {
        FuturesUnordered::is_empty(self)
    }

    fn poll_outcome(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        match self.poll_next_unpin(context) {
            Poll::Ready(Some(outcome)) => Poll::Ready(outcome),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

/// Records outcomes.
struct Outcomes {
    recorder: Arc<AckRecorder>,
    topic: String,
    /// The recorder's index of each partition that a receipt has named.
    partitions: Vec<Option<PartitionIndex>>,
    /// The first failure after which no message can succeed.
    failure: Arc<OnceLock<SendError>>,
}

impl Outcomes {
    /// Records what comes until `future` resolves.
    async fn record_during<R, T>(&mut self, waiting: &mut impl Waiting<R>, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                () = self.record(waiting) => {}
                output = &mut future => return output,
            }
        }
    }

    /// Records the next outcome, and all that are there behind it. Never resolves if no message waits. Cancel-safe.
    async fn record<R>(&mut self, waiting: &mut impl Waiting<R>) {
        poll_fn(|context| {
            let Poll::Ready(first) = waiting.poll_outcome(context) else { return Poll::Pending };
            let recorder = self.recorder.clone();
            let mut acks = recorder.batch();
            let mut next = Some(first);
            while let Some(Outcome { result, send_tag, payload_bytes }) = next {
                match result {
                    Ok(partition) => {
                        if let Some(partition) = partition {
                            acks.to_partition(self.partition(partition));
                        }
                        acks.acknowledged(send_tag, payload_bytes);
                    }
                    Err(failure) => {
                        acks.failed(send_tag, failure.class, || failure.message.clone());
                        self.note(failure);
                    }
                }
                next = match waiting.poll_outcome(context) {
                    Poll::Ready(outcome) => Some(outcome),
                    Poll::Pending => None,
                };
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Records a message that the crate did not take.
    fn record_refused(&self, send_tag: SendTag, failure: SendError) {
        self.recorder.batch().failed(send_tag, failure.class, || failure.message.clone());
        self.note(failure);
    }

    fn note(&self, failure: SendError) {
        if failure.lasting {
            // The first one is the reason.
            let _ = self.failure.set(failure);
        }
    }

    fn partition(&mut self, partition: u32) -> PartitionIndex {
        let position = partition as usize;
        if self.partitions.len() <= position {
            self.partitions.resize(position + 1, None);
        }
        *self.partitions[position].get_or_insert_with(|| self.recorder.partition(&self.topic, Some(partition)))
    }
}
