//! Starts a producing client and its two tasks beside the senders. One keeps it up to date: topics, their leaders, identities, and messages that have
//! waited for too long. The other, of a client that sends in transactions, tells the coordinator of partitions, and ends one transaction
//! after the other.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::time::{sleep, sleep_until, timeout};

use super::super::codec::compression::Compression;
use super::super::config::KafkaNativeOptions;
use super::super::error::{CallError, describe, failure_class};
use super::super::net::cluster::{Cluster, MAX_FRUITLESS, Metadata};
use super::accumulator::{Partition, TopicRoutes};
use super::client::{Client, Messages, Node};
use super::producer_batch::ProducerBatch;
use super::request;
use super::sender::serve;
use super::transactions::{Due, INVALID_STATE, TRANSACTION_ABORTABLE, Transactions};
use crate::broker::kafka_cluster::{self, USUAL_BATCH_BYTES};
use crate::broker::{BrokerError, FailureClass, SubmitError};
use crate::measure::host::tasks::watched;
use crate::measure::{AckRecorder, ConditionKind};

/// How often the task looks for messages that have waited for too long.
const SWEEP: Duration = Duration::from_millis(500);

/// Metadata is asked for at least so often (`metadata.max.age.ms`), …
const METADATA_AGE: Duration = Duration::from_secs(300);

/// … and not more often than this.
const METADATA_PAUSE: Duration = Duration::from_millis(100);

/// Metadata that is asked for again so soon has not helped.
const METADATA_RECENT: Duration = Duration::from_secs(1);

/// How long a node may not know of a topic that is to be written to, and the pause before it is asked again.
const TOPIC_PATIENCE: Duration = Duration::from_secs(20);
const TOPIC_PAUSE: Duration = Duration::from_millis(100);

/// Starts a client of `cluster`. `transactional_id`: of its transactions, if it sends in them.
///
/// # Errors
/// When it is to be idempotent, and the broker gives it no identity.
pub async fn start(
    cluster: Arc<Cluster>,
    options: KafkaNativeOptions,
    messages: Messages,
    transactional_id: &str,
) -> Result<Arc<Client>, CallError> {
    let (transactions, identity) = match options.transactions {
        Some(of_options) => {
            let (begun, identity) = Transactions::begin(cluster.clone(), transactional_id, of_options).await?;
            (Some(Arc::new(begun)), Some(identity))
        }
        None if options.is_idempotent() => (None, Some(cluster.new_identity().await?)),
        None => (None, None),
    };
    let client = Arc::new(Client::new(cluster, options, messages, identity, transactions));
    client.maintenance_task.get_or_init(|| tokio::spawn(maintain(client.clone())).abort_handle());
    if let Some(transactions) = client.transactions() {
        let task = tokio::spawn(end_transactions(client.clone(), transactions.clone()));
        transactions.task.get_or_init(|| task.abort_handle());
    }
    Ok(client)
}

/// Keeps a client up to date. Never returns.
async fn maintain(client: Arc<Client>) {
    let recorder = client.acks.recorder();
    let mut updated = Instant::now();
    let mut fruitless = 0;
    loop {
        // Sooner if metadata is old, or partitions need another identity.
        let _ = timeout(SWEEP, client.maintenance_due.notified()).await;
        sweep(&client, &recorder);
        client.renew_broken().await;
        let age = updated.elapsed();
        if age >= METADATA_AGE || (client.is_outdated.load(Ordering::Relaxed) && age >= METADATA_PAUSE) {
            // A node may not hear of an election, as one that the others cannot reach.
            fruitless = if age < METADATA_RECENT { fruitless + 1 } else { 0 };
            if fruitless == MAX_FRUITLESS {
                fruitless = 0;
                client.cluster.ask_another().await;
            }
            updated = Instant::now();
            client.update_metadata().await;
        }
    }
}

/// Fails messages that have waited for too long, and finds partitions that need another identity.
fn sweep(client: &Client, recorder: &AckRecorder) {
    let (now, mut expired) = (Instant::now(), Vec::new());
    for partition in client.partitions() {
        if partition.expire(&client.limits, now, &mut expired) {
            client.renew(&partition);
        }
    }
    request::expired(client, recorder, expired);
}

impl Client {
    /// The routes to a topic, whose leaders are known once. `limit`: the largest batch that it takes, in bytes, if that is known.
    ///
    /// # Errors
    /// When the cluster does not know the topic.
    pub async fn topic(
        self: &Arc<Self>,
        name: &str,
        begin: usize,
        limit: Option<usize>,
    ) -> Result<Arc<TopicRoutes>, BrokerError> {
        if let Some(topic) = self.topics.lock().get(name) {
            return Ok(topic.clone());
        }
        let topic_error = |reason| BrokerError::Topic { topic: name.to_owned(), action: "written to", reason };
        let deadline = Instant::now() + TOPIC_PATIENCE;
        let (metadata, partitions) = loop {
            let metadata = self.cluster.metadata(&[name]).await.map_err(|error| topic_error(error.to_string()))?;
            match metadata.topics.get(name).map_or(0, |found| found.leaders.len()) {
                0 if Instant::now() >= deadline => return Err(topic_error("it does not exist".to_owned())),
                // A node may hear of a new topic, and of its partitions, after the one that has created it.
                0 => sleep(TOPIC_PAUSE).await,
                partitions => break (metadata, partitions),
            }
        };
        let mut topics = self.topics.lock();
        let topic =
            topics.entry(name.to_owned()).or_insert_with(|| self.routes(name, partitions, begin, limit)).clone();
        drop(topics);
        self.apply(&metadata, &[name]);
        Ok(topic)
    }

    fn routes(&self, name: &str, partitions: usize, begin: usize, limit: Option<usize>) -> Arc<TopicRoutes> {
        let limit = match self.options.compression {
            Compression::None => limit,
            // The topic's limit is one of compressed batches, whose size is not known before they are full.
            _ if self.options.batch_bytes == USUAL_BATCH_BYTES as u64 => limit.map(kafka_cluster::within),
            // The scenario relies on compression.
            _ => None,
        };
        let limit = limit.unwrap_or(usize::MAX);
        let routes = TopicRoutes::new(name, partitions, begin, self.identity(), limit);
        if self.transactions().is_some() {
            routes.partitions.iter().for_each(|partition| partition.leave_transaction());
        }
        Arc::new(routes)
    }

    /// Gives partitions the leaders that the cluster names. `asked`: the topics that it was asked for.
    fn apply(self: &Arc<Self>, metadata: &Metadata, asked: &[&str]) {
        let topics: Vec<Arc<TopicRoutes>> = self.topics.lock().values().cloned().collect();
        for topic in topics {
            let conditions = &self.connector.conditions;
            let Some(found) = metadata.topics.get(&*topic.name) else {
                let words = "the metadata does not name it";
                let gone = |partition: &Arc<Partition>| partition.hold_up(conditions, ConditionKind::TopicGone, words);
                topic.partitions.iter().filter(|_| asked.contains(&&*topic.name)).for_each(gone);
                continue;
            };
            for (partition, leader) in topic.partitions.iter().zip(&found.leaders) {
                let leader = leader.and_then(|id| Some((id, metadata.nodes.get(&id)?)));
                if leader.is_none() {
                    self.is_outdated.store(true, Ordering::Relaxed);
                    partition.hold_up(conditions, ConditionKind::WaitingForLeader, "the metadata names no leader");
                } else if let Some(held_up) = partition.held_up() {
                    held_up.end_only(ConditionKind::WaitingForLeader);
                }
                let leader = leader.map(|(id, address)| self.node(id, address).ready.clone());
                partition.set_leader(leader, self.limits.linger);
            }
        }
        self.nodes.lock().retain(|id, (node, _)| {
            let is_named = metadata.nodes.contains_key(id);
            if !is_named {
                node.retire();
                // Topics of which this metadata does not tell may have partitions there.
                self.refresh();
            }
            is_named
        });
    }

    fn node(self: &Arc<Self>, id: i32, address: &str) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        if let Some((node, _)) = nodes.get(&id) {
            *node.address.lock() = address.to_owned();
            return node.clone();
        }
        let node = Arc::new(Node::new(address.to_owned()));
        let task = tokio::spawn(watched("connection", 0, serve(node.clone(), self.clone()))).abort_handle();
        nodes.insert(id, (node.clone(), task));
        node
    }

    /// Asks for the leaders of its topics' partitions.
    async fn update_metadata(self: &Arc<Self>) {
        let names: Vec<String> = self.topics.lock().keys().cloned().collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        // Before the question: what is seen from here on, the answer may not know.
        self.is_outdated.store(false, Ordering::Relaxed);
        match self.cluster.metadata(&names).await {
            Ok(metadata) => self.apply(&metadata, &names),
            Err(error) => {
                self.is_outdated.store(true, Ordering::Relaxed);
                *self.last_error.lock() = Some(error.to_string());
            }
        }
    }

    /// Gets another identity for the partitions that need one.
    async fn renew_broken(&self) {
        let broken = std::mem::take(&mut *self.broken.lock());
        for partition in broken {
            // It may have been noticed twice.
            if !partition.needs_identity() {
                continue;
            }
            match self.cluster.new_identity().await {
                Ok(identity) => partition.renew(identity),
                // The next look finds it broken still.
                Err(error) => *self.last_error.lock() = Some(error.to_string()),
            }
        }
    }
}

/// Ends the transactions of a client.
struct TransactionTask {
    client: Arc<Client>,
    transactions: Arc<Transactions>,
    recorder: AckRecorder,
    /// Whether the coordinator was told of a partition of the open transaction, and whether it has confirmed one.
    is_asked: bool,
    is_begun: bool,
}

/// How a transaction ended.
enum TransactionOutcome {
    Committed(Duration),
    Aborted(SubmitError),
}

/// Ends each transaction and begins the next, until the task is aborted.
pub async fn end_transactions(client: Arc<Client>, transactions: Arc<Transactions>) {
    let recorder = client.acks.recorder();
    let mut task = TransactionTask { client, transactions, recorder, is_asked: false, is_begun: false };
    for number in 0.. {
        task.await_end().await;
        let is_aborted = task.transactions.options.aborts(number);
        let ended = task.end(is_aborted).await;
        task.settle(ended);
        task.begin_next();
    }
}

impl TransactionTask {
    /// Waits until the open transaction is to be ended.
    async fn await_end(&mut self) {
        loop {
            self.add_partitions().await;
            match self.transactions.due() {
                Due::Now => return,
                Due::Unknown => self.transactions.changed().await,
                Due::At(moment) => {
                    tokio::select! {
                        () = self.transactions.changed() => {}
                        () = sleep_until(moment.into()) => {}
                    }
                }
            }
        }
    }

    /// Tells the coordinator of the partitions that have got their first message, which are sent from then on.
    async fn add_partitions(&mut self) {
        let partitions = std::mem::take(&mut *self.transactions.new_partitions.lock());
        let Some(identity) = self.client.identity().filter(|_| !partitions.is_empty()) else { return };
        if self.transactions.failure().is_some() {
            return;
        }
        self.is_asked = true;
        match self.transactions.add_partitions(identity, &partitions).await {
            Ok(()) => {
                self.is_begun = true;
                partitions.iter().for_each(|partition| partition.enter_transaction());
            }
            Err(error) => {
                self.transactions.fail(error.class(), error.to_string());
            }
        }
    }

    /// What is to be aborted on purpose is written before, as where a producer finds out at the end that its work is void.
    async fn end(&mut self, is_aborted: bool) -> TransactionOutcome {
        self.flush().await;
        if let Some(failure) = self.transactions.failure() {
            return self.abort(failure).await;
        }
        // Without a partition it has no message.
        let asked = self.client.identity().filter(|_| self.is_asked);
        let Some(identity) = asked else { return TransactionOutcome::Committed(Duration::ZERO) };
        let begin = Instant::now();
        match self.transactions.end(identity, !is_aborted).await {
            Err(CallError::Refused(code @ TRANSACTION_ABORTABLE, message)) if !is_aborted => {
                self.abort(SubmitError { class: failure_class(code), message: describe(code, message.as_deref()) })
                    .await
            }
            Err(error) => self.give_up(&error),
            Ok(()) if is_aborted => TransactionOutcome::Aborted(SubmitError {
                class: FailureClass::Aborted,
                message: "the scenario aborts a share of the transactions".to_owned(),
            }),
            Ok(()) => TransactionOutcome::Committed(begin.elapsed()),
        }
    }

    /// Sends what waits for a batch, and waits until every message of the transaction is written, has failed, or is abandoned.
    async fn flush(&mut self) {
        for partition in self.client.partitions() {
            partition.flush();
        }
        loop {
            // Created before the look, so that a notification in between is not missed.
            let client = self.client.clone();
            let settled = client.settled();
            self.add_partitions().await;
            if self.transactions.failure().is_some() {
                self.abandon();
            }
            if self.client.traffic.is_idle() {
                return;
            }
            tokio::select! {
                () = settled => {}
                () = self.transactions.changed() => {}
            }
        }
    }

    /// What was not sent yet is not sent any more.
    fn abandon(&self) {
        let partitions = self.client.partitions();
        let abandoned: Vec<ProducerBatch> = partitions.iter().flat_map(|partition| partition.abandon()).collect();
        if abandoned.is_empty() {
            return;
        }
        for batch in abandoned {
            self.transactions.keep(&batch.sent);
            self.client.release(batch);
        }
        self.client.notify_capacity();
    }

    /// A later transaction is written with a new epoch: sequences have gaps, and what may still be on its way is refused.
    async fn abort(&mut self, failure: SubmitError) -> TransactionOutcome {
        let message = format!("its transaction was aborted: {}", failure.message);
        let aborted = TransactionOutcome::Aborted(SubmitError { message, ..failure });
        let Some(identity) = self.client.identity().filter(|_| self.client.fatal().is_none()) else { return aborted };
        if self.is_asked {
            match self.transactions.end(identity, false).await {
                // It knows of no partition, so it has nothing to abort.
                Err(CallError::Refused(INVALID_STATE, _)) if !self.is_begun => {}
                Err(error) => return self.give_up(&error),
                Ok(()) => {}
            }
        }
        match self.transactions.next_identity(identity).await {
            Ok(identity) => self.client.set_identity(identity),
            Err(error) => return self.give_up(&error),
        }
        aborted
    }

    /// No other transaction can begin.
    fn give_up(&self, error: &CallError) -> TransactionOutcome {
        let reason = format!("a transaction could not be ended: {error}");
        self.client.end(error.class(), reason);
        TransactionOutcome::Aborted(SubmitError {
            class: error.class(),
            message: format!("its transaction was aborted: {error}"),
        })
    }

    /// The outcome of each message that was written.
    fn settle(&self, ended: TransactionOutcome) {
        let written = std::mem::take(&mut *self.transactions.written.lock());
        let is_measured =
            self.transactions.has_lost_measured() || written.runs().iter().any(|run| run.first.measured());
        let mut acks = self.recorder.batch();
        let committed = match ended {
            TransactionOutcome::Committed(took) => {
                written.runs().iter().for_each(|run| acks.acknowledged_run(run));
                Some(took)
            }
            TransactionOutcome::Aborted(SubmitError { class, message }) => {
                written.send_tags().for_each(|send_tag| acks.failed(send_tag, class, || message.clone()));
                None
            }
        };
        if is_measured {
            acks.transaction_ended(committed);
        }
    }

    fn begin_next(&mut self) {
        (self.is_asked, self.is_begun) = (false, false);
        self.client.partitions().iter().for_each(|partition| partition.leave_transaction());
        self.transactions.begin_next(self.client.fatal().is_some());
    }
}
