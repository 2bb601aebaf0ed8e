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

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::broker::murmur3::murmur3;
use crate::broker::{ClientError, Outgoing, Producer, Setup, SubmitError, Telemetry};
use crate::limits::TRACE_HEADER_BYTES;
use crate::load::PayloadPool;
use crate::measure::host::tasks::watched;
use crate::measure::{AckRecorder, ConditionKind, Conditions, PartitionIndex, SendTag, Subject, SubjectKind};

/// A message on its way to the crate, which may keep it.
#[derive(Debug, Clone)]
pub struct OwnedMessage {
    /// A payload of the trial's pool is not copied.
    pub payload: Bytes,
    pub key: Option<Bytes>,
    /// The headers that several messages have, apart from the trace header.
    pub headers: Arc<[(String, String)]>,
    /// The engine's own header, where the payload cannot carry it.
    pub trace_header: Option<[u8; TRACE_HEADER_BYTES]>,
}

/// A sender of the crate, to one partition.
pub trait SendOne: Send + 'static {
    /// Whether the broker acknowledges messages in the order in which they were sent. If not, each receipt is looked at as it comes: in
    /// order, a late one would make all behind it look late.
    const RECEIPTS_IN_ORDER: bool;

    /// Whether the broker divides topics into partitions, which figures are told of.
    const HAS_PARTITIONS: bool;

    type Error: Into<ClientError> + Send;

    /// Resolves when the broker has acknowledged the message, or refused it. Without acknowledgements, it is ready at once.
    type Receipt: Future<Output: Send> + Send + Unpin + 'static;

    /// Hands one message to the crate; resolves when the crate has taken it. It is never dropped before.
    ///
    /// # Errors
    /// When the crate does not take it.
    fn send(&mut self, message: OwnedMessage) -> impl Future<Output = Result<Self::Receipt, Self::Error>> + Send;

    /// Reads a receipt.
    ///
    /// # Errors
    /// When the broker has not stored the message.
    fn outcome(receipt: <Self::Receipt as Future>::Output) -> Result<(), Self::Error>;

    /// The partition of a key. Messages without a key go to the partitions in turn, a batch at a time.
    fn partition_of_key(&self, key: &[u8], partitions: usize) -> usize {
        murmur3(key, 0) as usize % partitions
    }

    /// The messages that the engine submitted together were handed over.
    fn end_batch(&mut self) {}

    /// No message will follow: what is held back goes out.
    fn flush(&mut self) -> impl Future<Output = ()> + Send {
        ready(())
    }
}

/// What the queued producers of a trial share.
pub struct ProducerQueues {
    pool: Arc<PayloadPool>,
    /// The whole pool: a payload is a slice of it.
    pool_bytes: Bytes,
    header_sets: Vec<Arc<[(String, String)]>>,
    /// Where it is reported what holds producers up.
    conditions: Conditions,
    /// One for each of the scenario's connections.
    recorders: Vec<Arc<AckRecorder>>,
    /// How long producers waited for their queues since it was last asked, in nanoseconds, summed over them.
    waited_ns: AtomicU64,
}

/// Owns the pool for as long as a slice of it is used.
struct PoolOwner(Arc<PayloadPool>);

impl AsRef<[u8]> for PoolOwner {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl ProducerQueues {
    pub fn new<Options>(setup: &Setup<Options>) -> Arc<Self> {
        let pool = setup.payloads.clone();
        Arc::new(ProducerQueues {
            pool_bytes: Bytes::from_owner(PoolOwner(pool.clone())),
            pool,
            header_sets: setup.header_sets.iter().map(|headers| headers.clone().into()).collect(),
            conditions: setup.conditions.clone(),
            recorders: (0..setup.config.connections).map(|_| Arc::new(setup.acks.recorder())).collect(),
            waited_ns: AtomicU64::new(0),
        })
    }

    /// Starts a producer's task. `number` is that of the producer; it has a sender for each partition, at least one.
    pub fn start<S: SendOne>(self: &Arc<Self>, number: usize, topic: &str, senders: Vec<S>) -> QueuedProducer {
        let failure = Arc::new(OnceLock::new());
        let recorder = self.recorders[number % self.recorders.len()].clone();
        let held_up = |partition: usize| match senders.len() {
            1 => Subject::new(&self.conditions, SubjectKind::Topic, topic),
            _ => Subject::new(&self.conditions, SubjectKind::Partition, &format!("{topic}-{partition}")),
        };
        let receipts = Receipts::<S> {
            waiting: if S::RECEIPTS_IN_ORDER {
                Waiting::InOrder(VecDeque::new())
            } else {
                Waiting::AnyOrder(FuturesUnordered::new())
            },
            partitions: (0..senders.len())
                .map(|partition| recorder.partition(topic, S::HAS_PARTITIONS.then_some(partition as u32)))
                .collect(),
            held_up: (0..senders.len()).map(held_up).collect(),
            recorder,
            failure: failure.clone(),
        };
        // One batch waits while another is sent: the crate's own queues hold back what is too much.
        let (batches, handed_over) = mpsc::channel(1);
        // Producers begin at different partitions, so that these fill evenly.
        let turn = number % senders.len();
        let task = tokio::spawn(watched("sender", 0, run(senders, turn, handed_over, receipts)));
        QueuedProducer { shared: self.clone(), batches: Some(batches), failure, task }
    }

    /// What the producers have to tell since the last call.
    pub fn telemetry(&self) -> Telemetry {
        Telemetry { queue_full_ns: self.waited_ns.swap(0, Ordering::Relaxed), ..Telemetry::default() }
    }

    fn owned(&self, message: &Outgoing<'_>) -> OwnedMessage {
        let payload = match self.pool.place(message.payload) {
            Some(place) => self.pool_bytes.slice(place.begin()..place.begin() + place.size()),
            None => Bytes::copy_from_slice(message.payload),
        };
        let header_set = message.attributes.map_or(0, |attributes| attributes.header_set as usize);
        OwnedMessage {
            payload,
            key: message.key.map(Bytes::copy_from_slice),
            headers: self.header_sets[header_set].clone(),
            trace_header: message.trace_header.copied(),
        }
    }
}

/// A sender to one topic. Its task ends with it.
pub struct QueuedProducer {
    shared: Arc<ProducerQueues>,
    /// `None` when no more will be sent.
    batches: Option<mpsc::Sender<Vec<Item>>>,
    failure: Arc<OnceLock<ClientError>>,
    task: JoinHandle<()>,
}

struct Item {
    message: OwnedMessage,
    send_tag: SendTag,
}

impl Producer for QueuedProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        if let Some(failure) = self.failure.get() {
            return Err(failure.submitting());
        }
        let ended = || ClientError::lost("the producer's task has ended").submitting();
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
        let item = |outgoing: &Outgoing<'_>| Item { message: self.shared.owned(outgoing), send_tag: outgoing.send_tag };
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

/// Sends what is handed over, and records each outcome as it comes. `turn` is the partition that messages without keys go to, until the end
/// of a batch.
async fn run<S: SendOne>(
    mut senders: Vec<S>,
    mut turn: usize,
    mut handed_over: mpsc::Receiver<Vec<Item>>,
    mut receipts: Receipts<S>,
) {
    while let Some(batch) = receipts.record_during(handed_over.recv()).await {
        for Item { message, send_tag } in batch {
            let partition = match &message.key {
                Some(key) if senders.len() > 1 => senders[0].partition_of_key(key, senders.len()),
                _ => turn,
            };
            let payload_bytes = message.payload.len();
            match receipts.record_during(senders[partition].send(message)).await {
                Ok(receipt) => receipts.waiting.push(Awaited { receipt, partition, send_tag, payload_bytes }),
                Err(error) => receipts.record_refused(partition, send_tag, error.into()),
            }
        }
        senders.iter_mut().for_each(SendOne::end_batch);
        turn = (turn + 1) % senders.len();
    }
    // The senders live until the last receipt has come: a crate's producer ends its messages with itself.
    for sender in &mut senders {
        receipts.record_during(sender.flush()).await;
    }
    while !receipts.waiting.is_empty() {
        receipts.record().await;
    }
}

/// A message that was sent, with what its receipt resolves to, or will.
struct Awaited<R> {
    receipt: R,
    partition: usize,
    send_tag: SendTag,
    payload_bytes: usize,
}

impl<R: Future + Unpin> Future for Awaited<R> {
    type Output = Awaited<R::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Awaited { partition, send_tag, payload_bytes, .. } = *self;
        let receipt = Pin::new(&mut self.receipt).poll(context);
        receipt.map(|receipt| Awaited { receipt, partition, send_tag, payload_bytes })
    }
}

/// The messages that wait for their receipts.
enum Waiting<R> {
    InOrder(VecDeque<Awaited<R>>),
    AnyOrder(FuturesUnordered<Awaited<R>>),
}

impl<R: Future + Unpin> Waiting<R> {
    fn push(&mut self, awaited: Awaited<R>) {
        match self {
            Waiting::InOrder(waiting) => waiting.push_back(awaited),
            Waiting::AnyOrder(waiting) => waiting.push(awaited),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Waiting::InOrder(waiting) => waiting.is_empty(),
            Waiting::AnyOrder(waiting) => waiting.is_empty(),
        }
    }

    /// The next receipt; pending also if no message waits.
    fn poll_receipt(&mut self, context: &mut Context<'_>) -> Poll<Awaited<R::Output>> {
        match self {
            Waiting::InOrder(waiting) => {
                let Some(first) = waiting.front_mut() else { return Poll::Pending };
                let receipt = Pin::new(first).poll(context);
                if receipt.is_ready() {
                    waiting.pop_front();
                }
                receipt
            }
            Waiting::AnyOrder(waiting) => match waiting.poll_next_unpin(context) {
                Poll::Ready(Some(receipt)) => Poll::Ready(receipt),
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            },
        }
    }
}

/// Awaits receipts and records them.
struct Receipts<S: SendOne> {
    waiting: Waiting<S::Receipt>,
    recorder: Arc<AckRecorder>,
    /// The recorder's index of each partition.
    partitions: Vec<PartitionIndex>,
    /// Each partition, as what can be held up.
    held_up: Vec<Subject>,
    /// The first failure after which no message can succeed.
    failure: Arc<OnceLock<ClientError>>,
}

impl<S: SendOne> Receipts<S> {
    /// Records what comes until `future` resolves.
    async fn record_during<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                () = self.record() => {}
                output = &mut future => return output,
            }
        }
    }

    /// Records the next receipt, and all that are there behind it. Never resolves if no message waits. Cancel-safe.
    async fn record(&mut self) {
        poll_fn(|context| {
            let Poll::Ready(first) = self.waiting.poll_receipt(context) else { return Poll::Pending };
            let recorder = self.recorder.clone();
            let mut acks = recorder.batch();
            let mut next = Poll::Ready(first);
            while let Poll::Ready(Awaited { receipt, partition, send_tag, payload_bytes }) = next {
                match S::outcome(receipt) {
                    Ok(()) => {
                        acks.to_partition(self.partitions[partition]);
                        acks.acknowledged(send_tag, payload_bytes);
                        self.held_up[partition].end();
                    }
                    Err(error) => {
                        let failure: ClientError = error.into();
                        acks.failed(send_tag, failure.class, || failure.message.clone());
                        self.note(partition, failure);
                    }
                }
                next = self.waiting.poll_receipt(context);
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Records a message that the crate did not take.
    fn record_refused(&self, partition: usize, send_tag: SendTag, failure: ClientError) {
        self.recorder.batch().failed(send_tag, failure.class, || failure.message.clone());
        self.note(partition, failure);
    }

    fn note(&self, partition: usize, failure: ClientError) {
        self.held_up[partition].begin(ConditionKind::from_failure(failure.class), &failure.message);
        if failure.lasting {
            // The first one is the reason.
            let _ = self.failure.set(failure);
        }
    }
}
