//! A producing client: its partitions, the nodes that lead them, and what its tasks share. A node: which batches of the partitions that it leads it is
//! sent next.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::super::codec::batch::Headers;
use super::super::codec::compression::{Compression, PayloadChecksums};
use super::super::config::KafkaNativeOptions;
use super::super::error::CallError;
use super::super::net::cluster::Cluster;
use super::super::net::connect::Connector;
use super::accumulator::{Leader, Limits, Partition, TopicRoutes, Turn};
use super::producer_batch::{BufferPool, ProducerBatch, Traffic};
use super::transactions::{TRANSACTION_TIMEOUT, Transactions};
use crate::broker::{FailureClass, SubmitError};
use crate::load::{PayloadPlace, PayloadPool};
use crate::measure::{Acks, ConditionKind};

/// Producers wait while messages of more bytes have no outcome.
const MAX_BUFFERED_BYTES: usize = 256 << 20;

/// Producers that wait are woken when there is room for so much, not for each message.
const WAKE_BELOW_BYTES: usize = MAX_BUFFERED_BYTES - (16 << 20);

/// Smaller payloads cost less to copy than to refer to.
const MIN_SHARED_BYTES: usize = 512;

/// Time for the requests that end a transaction, once its messages have their outcomes.
const TRANSACTION_END: Duration = Duration::from_secs(10);

/// What messages of a trial are made of, and where their outcomes go.
pub struct Messages {
    pub headers: Vec<Headers>,
    pub payloads: Arc<PayloadPool>,
    pub acks: Acks,
}

/// A client, which several producers share.
pub struct Client {
    pub options: KafkaNativeOptions,
    pub limits: Limits,
    pub headers: Vec<Headers>,
    pub connector: Arc<Connector>,
    pub acks: Acks,
    /// Payloads of the trial, to which batches refer.
    pub payloads: Arc<PayloadPool>,
    pub checksums: PayloadChecksums,
    pub buffers: BufferPool,
    pub traffic: Traffic,
    pub cluster: Arc<Cluster>,
    pub topics: Mutex<BTreeMap<String, Arc<TopicRoutes>>>,
    pub nodes: Mutex<BTreeMap<i32, (Arc<Node>, AbortHandle)>>,
    /// Whether some leaders have changed or are not known. Kept for each client, because others ask for metadata of the cluster too.
    pub is_outdated: AtomicBool,
    /// Id and epoch of an idempotent producer.
    identity: Mutex<Option<(i64, i16)>>,
    /// Transactions in which it sends, if it does.
    transactions: Option<Arc<Transactions>>,
    /// Partitions that need another identity.
    pub broken: Mutex<Vec<Arc<Partition>>>,
    buffered_bytes: AtomicUsize,
    /// Signal for producers that wait for memory.
    capacity: Notify,
    /// Signal for the maintenance task: metadata is old, or partitions need another identity.
    pub maintenance_due: Notify,
    fatal: OnceLock<SubmitError>,
    pub last_error: Mutex<Option<String>>,
    pub maintenance_task: OnceLock<AbortHandle>,
}

impl Client {
    /// A client without topics. `identity`: of an idempotent producer; `transactions`: if it sends in them.
    pub fn new(
        cluster: Arc<Cluster>,
        options: KafkaNativeOptions,
        messages: Messages,
        identity: Option<(i64, i16)>,
        transactions: Option<Arc<Transactions>>,
    ) -> Self {
        // What waits for longer fails, and its transaction is aborted before the coordinator ends it and fences the producer.
        let most_delivery = options
            .transactions
            .map_or(Duration::MAX, |of| (TRANSACTION_TIMEOUT - TRANSACTION_END).saturating_sub(of.interval));
        let Messages { headers, payloads, acks } = messages;
        Client {
            limits: Limits {
                batch_bytes: options.batch_bytes as usize,
                linger: options.linger,
                delivery_timeout: options.delivery_timeout.min(most_delivery),
            },
            options,
            headers,
            connector: cluster.connector.clone(),
            acks,
            checksums: PayloadChecksums::new(&payloads, MIN_SHARED_BYTES),
            payloads,
            buffers: BufferPool::default(),
            traffic: Traffic::default(),
            cluster,
            topics: Mutex::default(),
            nodes: Mutex::default(),
            is_outdated: AtomicBool::new(false),
            identity: Mutex::new(identity),
            transactions,
            broken: Mutex::default(),
            buffered_bytes: AtomicUsize::new(0),
            capacity: Notify::new(),
            maintenance_due: Notify::new(),
            fatal: OnceLock::new(),
            last_error: Mutex::default(),
            maintenance_task: OnceLock::new(),
        }
    }

    /// The partitions of all its topics.
    pub fn partitions(&self) -> Vec<Arc<Partition>> {
        self.topics.lock().values().flat_map(|topic| &topic.partitions).cloned().collect()
    }

    /// The id and epoch of an idempotent producer.
    pub fn identity(&self) -> Option<(i64, i16)> {
        *self.identity.lock()
    }

    /// From now on, all that is sent has this id and epoch.
    pub fn set_identity(&self, identity: (i64, i16)) {
        *self.identity.lock() = Some(identity);
        self.partitions().iter().for_each(|partition| partition.renew(identity));
    }

    /// The transactions in which it sends, if it does.
    pub fn transactions(&self) -> Option<&Arc<Transactions>> {
        self.transactions.as_ref()
    }

    /// Resolves when messages have got their outcomes after this call.
    pub fn settled(&self) -> impl Future<Output = ()> {
        self.capacity.notified()
    }

    /// Waits until messages may be handed over.
    ///
    /// # Errors
    /// When none will be taken any more.
    pub async fn admit(&self) -> Result<(), SubmitError> {
        let mut waiting_since = None;
        loop {
            // Created before the look, so that a notification in between is not missed.
            let capacity = self.capacity.notified();
            if let Some(fatal) = self.fatal.get() {
                return Err(fatal.clone());
            }
            if self.buffered_bytes.load(Ordering::Relaxed) < MAX_BUFFERED_BYTES {
                if let Some(since) = waiting_since {
                    let waited = Instant::elapsed(&since);
                    self.traffic.queue_full_ns.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
                }
                return Ok(());
            }
            waiting_since.get_or_insert_with(Instant::now);
            capacity.await;
        }
    }

    /// The place of a payload to which its batch refers instead of copying it.
    #[inline]
    pub fn shared(&self, payload: &[u8]) -> Option<PayloadPlace> {
        if payload.len() < MIN_SHARED_BYTES || self.options.compression != Compression::None {
            return None;
        }
        self.payloads.place(payload)
    }

    /// Counts messages that are handed over.
    pub fn buffer(&self, messages: usize, payload_bytes: usize) {
        self.traffic.queued_messages.fetch_add(messages as u64, Ordering::Relaxed);
        self.buffered_bytes.fetch_add(payload_bytes, Ordering::Relaxed);
    }

    /// A batch has its outcome.
    pub fn release(&self, batch: ProducerBatch) {
        self.traffic.queued_messages.fetch_sub(batch.sent.messages() as u64, Ordering::Relaxed);
        self.buffered_bytes.fetch_sub(batch.payload_bytes, Ordering::Relaxed);
        self.buffers.deallocate(batch);
    }

    /// Wakes producers that wait for memory, if there is room for many of them.
    pub fn notify_capacity(&self) {
        if self.buffered_bytes.load(Ordering::Relaxed) < WAKE_BELOW_BYTES {
            self.capacity.notify_waiters();
        }
    }

    /// No message is taken any more.
    pub fn end(&self, class: FailureClass, message: String) {
        if class == FailureClass::Fenced {
            let hold_up = |partition: &Arc<Partition>| {
                partition.hold_up(&self.connector.conditions, ConditionKind::Fenced, &message);
            };
            self.partitions().iter().for_each(hold_up);
        }
        let fatal = self.fatal.get_or_init(|| SubmitError { class, message });
        if let Some(transactions) = &self.transactions {
            transactions.fail(fatal.class, fatal.message.clone());
        }
        self.capacity.notify_waiters();
    }

    pub fn fatal(&self) -> Option<&SubmitError> {
        self.fatal.get()
    }

    /// Remembers why a node cannot be reached.
    pub fn note_error(&self, address: &str, error: CallError) {
        match &error {
            CallError::Authorisation(reason) => {
                self.end(FailureClass::Authorisation, format!("{address} refused the credentials: {reason}"));
            }
            CallError::Unsupported(reason) => self.end(FailureClass::Refused, format!("{address}: {reason}")),
            _ => {}
        }
        *self.last_error.lock() = Some(format!("{address}: {}", error.beside(address)));
    }

    /// Remembers why a batch was refused: it may be what a message that waits for too long has waited for.
    pub fn note_refusal(&self, reason: String) {
        *self.last_error.lock() = Some(reason);
    }

    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }

    /// Asks for metadata again.
    pub fn refresh(&self) {
        self.is_outdated.store(true, Ordering::Relaxed);
        self.maintenance_due.notify_one();
    }

    /// Gets another identity for a partition; in a transaction, for all of them once it is aborted.
    pub fn renew(&self, partition: &Arc<Partition>) {
        if self.transactions.is_some() {
            return;
        }
        self.broken.lock().push(partition.clone());
        self.maintenance_due.notify_one();
    }

    /// Aborts the transaction that is open.
    pub async fn end_transactions(&self) {
        if let Some(transactions) = &self.transactions {
            transactions.abort(self.identity()).await;
        }
    }

    /// Ends all tasks: messages without an outcome stay without one.
    pub fn close(&self) {
        if let Some(maintenance_task) = self.maintenance_task.get() {
            maintenance_task.abort();
        }
        if let Some(transactions) = &self.transactions {
            transactions.close();
        }
        for (_, task) in std::mem::take(&mut *self.nodes.lock()).into_values() {
            task.abort();
        }
        // Partitions know their nodes, whose lists know partitions.
        for topic in std::mem::take(&mut *self.topics.lock()).into_values() {
            topic.partitions.iter().for_each(|partition| partition.set_leader(None, self.limits.linger));
        }
    }
}

/// Most bytes of the batches of a request, unless one has more: `max.request.size` of Kafka's own client.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// A node of the cluster.
pub struct Node {
    /// Where it is found now.
    pub address: Mutex<String>,
    /// Partitions that it leads, and that have something to send.
    pub ready: Arc<Leader>,
    /// Whether the metadata names it no longer.
    is_gone: AtomicBool,
}

impl Node {
    pub fn new(address: String) -> Self {
        Node { address: Mutex::new(address), ready: Arc::default(), is_gone: AtomicBool::new(false) }
    }

    /// The metadata names it no longer: its task ends when nothing is on its way.
    pub fn retire(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
        self.ready.wake();
    }

    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
    }

    /// The next batches to send, one of a partition at most. Those that are too old for it are added to `expired`.
    pub fn gather(&self, limits: &Limits, expired: &mut Vec<ProducerBatch>) -> Vec<(Arc<Partition>, ProducerBatch)> {
        let now = Instant::now();
        for partition in self.ready.take_lingered(now) {
            partition.stop_lingering(&self.ready, limits.linger, now);
        }
        let (mut batches, mut more) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        // Only those that are there now: a producer may add a partition again whose batch was taken, and a request has one batch of each.
        let mut left = self.ready.count();
        while bytes < MAX_REQUEST_BYTES && left > 0 {
            left -= 1;
            let Some(partition) = self.ready.next() else { break };
            match partition.take(&self.ready, limits, now, expired) {
                Turn::Batch(batch, has_more) => {
                    bytes += batch.encoded.len();
                    if has_more {
                        more.push(partition.clone());
                    }
                    batches.push((partition, batch));
                }
                Turn::Nothing => {}
                Turn::Later(moment) => self.ready.postpone(moment, partition),
                Turn::Elsewhere(leader) => leader.add(partition),
            }
        }
        self.ready.add_again(more);
        batches
    }

    /// Hands partitions on that another node leads now.
    pub fn hand_on(&self) {
        for partition in self.ready.take_all() {
            match partition.leader() {
                Some(leader) if !Arc::ptr_eq(&leader, &self.ready) => leader.add(partition),
                _ => self.ready.add_again([partition]),
            }
        }
    }
}
