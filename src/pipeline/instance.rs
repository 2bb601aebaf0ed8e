//! One instance: a member of the group that receives, fills batches, parses them, hands them to its writers and commits.
//!
//! It never takes more than its writers can be given: while a full batch waits for one, nothing is taken.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::batch::{Batch, Row};
use super::commit::Commits;
use super::figures::Figures;
use super::parse::{Parser, Unparsable};
use super::retry::{Delivery, Outlet};
use super::writer::{self, Done};
use super::{Order, PipelineProgress, Shared};
use crate::broker::{Consumer, ReceiveError, UNORDERED_PARTITION};
use crate::measure::{ArrivalRecorder, Errors};
use crate::net::backoff::Backoff;
use crate::scenario::{CommitPolicy, Parse};

/// How long writes may take on after the group has asked for the partitions.
const RELEASE: Duration = Duration::from_secs(10);

/// How often an instance says where it stands.
const STANDING: Duration = Duration::from_millis(100);

/// One member at work.
pub struct Instance<C> {
    consumer: C,
    recorder: ArrivalRecorder,
    shared: Arc<Shared>,
    number: usize,
    parser: Option<Parser>,
    delivery: Delivery,
    figures: Arc<Mutex<Figures>>,
    open: Batch,
    /// When the open batch is closed at the latest.
    closes: Option<Instant>,
    next_number: u64,
    /// Whether there has been a message.
    begun: bool,
    /// Closed, and not yet taken by a writer.
    full: VecDeque<Batch>,
    /// In the hands of writers.
    outstanding: usize,
    spare: Vec<Batch>,
    commits: Commits,
    errors: Errors,
    pause: Backoff,
}

impl<C: Consumer> Instance<C> {
    pub fn new(consumer: C, recorder: ArrivalRecorder, shared: Arc<Shared>, number: usize) -> Self {
        let figures = shared.figures[number].clone();
        let parser = match shared.config.parse {
            Parse::Json => Some(Parser::new(shared.columns.clone(), shared.config.timestamp.clone())),
            Parse::None => None,
        };
        Instance {
            consumer,
            recorder,
            number,
            parser,
            delivery: Delivery { clock: shared.clock, figures: figures.clone(), generation: Default::default() },
            figures,
            open: Batch::default(),
            closes: None,
            next_number: 0,
            begun: false,
            full: VecDeque::new(),
            outstanding: 0,
            spare: Vec::new(),
            commits: Commits::default(),
            errors: Errors::default(),
            pause: Backoff::RECEIVE,
            shared,
        }
    }

    /// Works until it is told to finish; returns the errors it met while receiving.
    pub async fn work(mut self, writers: Vec<Vec<Outlet>>, mut orders: watch::Receiver<Order>) -> Errors {
        let (queue, next) = mpsc::channel(1);
        let next = Arc::new(tokio::sync::Mutex::new(next));
        let (finished, mut done) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for outlets in writers {
            let order = self.shared.config.sinks_run;
            tasks.spawn(writer::work(next.clone(), finished.clone(), outlets, order, self.delivery.clone()));
        }
        drop(finished);
        let mut stands = tokio::time::interval(STANDING);
        loop {
            if self.consumer.is_asked_to_let_go() {
                self.let_go(&queue, &mut done, &mut orders).await;
            }
            self.commit(false);
            let may_take = self.full.is_empty();
            let begin_ns = self.shared.clock.now_ns();
            let pause = self.pause;
            let round = async {
                pause.wait().await;
                self.consumer.ready().await
            };
            let mut ready = None;
            let mut taker = None;
            let mut ended = None;
            let closes = self.closes;
            tokio::select! {
                biased;
                _ = orders.wait_for(|order| matches!(order, Order::Finish(_))) => break,
                Some(one) = done.recv(), if self.outstanding > 0 => ended = Some(one),
                permit = queue.reserve(), if !may_take => taker = permit.ok(),
                () = sleep_until(closes.unwrap_or_else(Instant::now)), if closes.is_some() && may_take => {}
                // Before what may always be ready.
                _ = stands.tick() => self.stand(),
                result = round, if may_take => ready = Some(result),
            }
            let spent_ns = self.shared.clock.now_ns() - begin_ns;
            match may_take {
                // Before the first message there is nothing to measure yet.
                true if self.begun => self.open.fetch_ns += spent_ns,
                true => {}
                false => self.lock_figures().blocked.total_ns += spent_ns,
            }
            if let Some(one) = ended {
                self.finish(one);
            }
            if let Some(permit) = taker
                && let Some(batch) = self.full.pop_front()
            {
                self.outstanding += 1;
                permit.send(batch);
            }
            if let Some(ready) = ready {
                self.take(ready);
            }
            if self.closes.is_some_and(|closes| closes <= Instant::now()) {
                self.close();
            }
            tokio::task::coop::consume_budget().await;
        }
        let Order::Finish(deadline) = *orders.borrow() else { return self.errors };
        self.close();
        tokio::select! {
            () = self.work_off(&queue, &mut done, deadline) => {}
            _ = orders.changed() => {}
        }
        // What is still being written now is not waited for, and not committed.
        tasks.shutdown().await;
        while let Ok(one) = done.try_recv() {
            self.finish(one);
        }
        self.commit(true);
        self.stand();
        self.errors
    }

    /// Takes what is there.
    fn take(&mut self, ready: Result<(), ReceiveError>) {
        let begin_ns = self.shared.clock.now_ns();
        let (size, linger) = (self.shared.config.batch, self.shared.config.linger);
        let (open, full, spare) = (&mut self.open, &mut self.full, &mut self.spare);
        let closed_before = full.len();
        let taken = ready.and_then(|()| {
            let mut arrivals = self.recorder.batch();
            self.consumer.take(|message| {
                let envelope = arrivals.received(message);
                let received_ns = arrivals.now_ns();
                open.push(message.payload, |range| {
                    let intended_ns = envelope.map(|envelope| envelope.intended_ns as i64);
                    let measured = envelope.is_none_or(|envelope| envelope.measured);
                    Row::new(message.partition, message.offset, range, intended_ns, measured, received_ns)
                });
                if open.rows.len() >= size || open.is_full_of_bytes() {
                    full.push_back(std::mem::replace(open, spare.pop().unwrap_or_default()));
                }
            })
        });
        let spent_ns = self.shared.clock.now_ns() - begin_ns;
        self.open.fetch_ns += spent_ns;
        let closed = self.full.len() - closed_before;
        for _ in 0..closed {
            // In their order: each goes back to the end, parsed.
            if let Some(batch) = self.full.pop_front() {
                self.read(batch);
            }
        }
        match self.open.rows.is_empty() {
            true => self.closes = None,
            false if self.closes.is_none() || closed > 0 => self.closes = Some(Instant::now() + linger),
            false => {}
        }
        match taken {
            Ok(messages) => {
                self.begun |= messages > 0;
                self.shared.received.fetch_add(messages as u64, Ordering::Relaxed);
                self.pause.succeeded();
            }
            Err(ReceiveError { class, message }) => {
                self.errors.record(class, self.shared.clock.now_ns(), || message);
                self.recorder.failed();
                self.pause.failed();
            }
        }
    }

    /// Closes the open batch, however little is in it.
    fn close(&mut self) {
        self.closes = None;
        if !self.open.rows.is_empty() {
            let batch = std::mem::replace(&mut self.open, self.spare.pop().unwrap_or_default());
            self.read(batch);
        }
    }

    /// Reads the fields of a full batch, and puts it where writers find it.
    fn read(&mut self, mut batch: Batch) {
        batch.number = self.next_number;
        batch.generation = self.delivery.generation.current();
        self.next_number += 1;
        for (partition, first, next) in partitions(&batch) {
            self.commits.begin(batch.number, partition, first, next);
        }
        let messages = batch.rows.len() as u64;
        let first_ns = batch.rows.first().map_or(0, |row| row.received_ns);
        let last_ns = batch.rows.last().map_or(0, |row| row.received_ns);
        let mut unparsable: Vec<(Unparsable, String)> = Vec::new();
        let begin_ns = self.shared.clock.now_ns();
        if let Some(parser) = &mut self.parser {
            parser.parse(&mut batch, self.shared.clock.epoch_unix_ns(), |row, class| {
                unparsable.push((class, format!("at offset {} of partition {}", row.offset, row.partition)));
            });
        }
        batch.closed_ns = self.shared.clock.now_ns();
        {
            let figures = &mut *self.figures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            figures.consumed += messages;
            figures.batches += 1;
            if figures.first_received_ns == 0 {
                figures.first_received_ns = first_ns;
            }
            figures.last_received_ns = figures.last_received_ns.max(last_ns);
            figures.fetch.record(batch.fetch_ns);
            figures.parse.record(batch.closed_ns - begin_ns);
            for (class, place) in unparsable.iter_mut() {
                figures.count_unparsable(*class, last_ns, || std::mem::take(place));
            }
            for row in batch.rows.iter().filter(|row| row.measured) {
                if let Some(intended_ns) = row.intended_ns {
                    let latency_ns = (row.received_ns as i64).saturating_sub(intended_ns).max(0) as u64;
                    figures.receipt.record(latency_ns);
                    figures.latest.record(latency_ns);
                }
            }
        }
        self.shared.finished.fetch_add(unparsable.len() as u64, Ordering::Release);
        if self.shared.config.commit == CommitPolicy::OnReceipt {
            self.commits.finish(batch.number);
        }
        if self.shared.config.sinks.is_empty() || batch.rows.is_empty() {
            self.settle(batch, true);
        } else {
            self.full.push_back(batch);
        }
    }

    fn finish(&mut self, done: Done) {
        self.outstanding -= 1;
        self.settle(done.batch, done.written);
    }

    /// Nothing more is done with the batch.
    fn settle(&mut self, mut batch: Batch, written: bool) {
        let rows = batch.rows.len() as u64;
        self.shared.finished.fetch_add(rows, Ordering::Release);
        if written && batch.generation == self.delivery.generation.current() {
            self.commits.finish(batch.number);
        }
        if !written {
            self.lock_figures().abandoned += rows;
        }
        if self.spare.len() <= self.shared.config.writers {
            batch.clear();
            self.spare.push(batch);
        }
    }

    /// Finishes what has been taken, as far as there is time.
    async fn work_off(
        &mut self,
        queue: &mpsc::Sender<Batch>,
        done: &mut mpsc::UnboundedReceiver<Done>,
        deadline: Instant,
    ) {
        while !self.full.is_empty() || self.outstanding > 0 {
            let step = async {
                tokio::select! {
                    biased;
                    Some(one) = done.recv(), if self.outstanding > 0 => (Some(one), None),
                    permit = queue.reserve(), if !self.full.is_empty() => (None, permit.ok()),
                    else => (None, None),
                }
            };
            match timeout_at(deadline, step).await {
                Ok((Some(one), _)) => self.finish(one),
                Ok((None, Some(permit))) => {
                    if let Some(batch) = self.full.pop_front() {
                        self.outstanding += 1;
                        permit.send(batch);
                    }
                }
                Ok((None, None)) | Err(_) => return,
            }
        }
    }

    /// Lets the partitions go, after what has been taken from them is finished and committed, or given up.
    async fn let_go(
        &mut self,
        queue: &mpsc::Sender<Batch>,
        done: &mut mpsc::UnboundedReceiver<Done>,
        orders: &mut watch::Receiver<Order>,
    ) {
        self.close();
        if self.shared.config.commit == CommitPolicy::OnReceipt {
            // Nobody will read it again: it is still written.
            self.commit(true);
            self.commits.clear();
            self.consumer.let_go();
            return self.stand();
        }
        tokio::select! {
            () = self.work_off(queue, done, Instant::now() + RELEASE) => {}
            _ = orders.wait_for(|order| matches!(order, Order::Finish(_))) => {}
        }
        self.commit(true);
        // Writers that are still at it end at their next attempt.
        self.delivery.generation.end();
        let abandoned: u64 = self.full.drain(..).map(|batch| batch.rows.len() as u64).sum();
        self.shared.finished.fetch_add(abandoned, Ordering::Release);
        self.lock_figures().abandoned += abandoned;
        self.commits.clear();
        self.consumer.let_go();
        self.stand();
    }

    fn commit(&mut self, confirmed: bool) {
        // On the way it is enough to say what is new; what is confirmed has to be all of it.
        let done = if confirmed { self.commits.done() } else { self.commits.due() };
        if done.is_empty() {
            return;
        }
        let begin_ns = self.shared.clock.now_ns();
        let committed = self.consumer.commit(&done, confirmed);
        let now_ns = self.shared.clock.now_ns();
        let mut figures = self.lock_figures();
        figures.commit.record(now_ns - begin_ns);
        if let Err(ReceiveError { class, message }) = committed {
            figures.commit_errors.record(class, now_ns, || message);
        }
    }

    /// Says which partitions are this instance's and up to where they are done.
    fn stand(&mut self) {
        let joined = self.consumer.has_joined();
        let open = |partition| self.open.rows.iter().find(|row| row.partition == partition).map(|row| row.offset);
        let until =
            |(partition, next)| (partition, self.commits.open_from(partition).or_else(|| open(partition)).or(next));
        let partitions = self.consumer.partitions().map(|partitions| partitions.into_iter().map(until).collect());
        let mut progress = self.shared.progress[self.number].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *progress = PipelineProgress { joined, partitions };
    }

    fn lock_figures(&self) -> std::sync::MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Of each partition in the batch, where it begins and goes on. Messages of a partition come in its order.
fn partitions(batch: &Batch) -> Vec<(u32, u64, u64)> {
    let mut partitions: Vec<(u32, u64, u64)> = Vec::new();
    let mut latest = 0;
    for row in batch.rows.iter().filter(|row| row.partition != UNORDERED_PARTITION) {
        // Mostly the same partition as the row before.
        if partitions.get(latest).is_none_or(|(partition, ..)| *partition != row.partition) {
            latest =
                partitions.iter().position(|(partition, ..)| *partition == row.partition).unwrap_or(partitions.len());
            if latest == partitions.len() {
                partitions.push((row.partition, row.offset, 0));
            }
        }
        partitions[latest].2 = row.offset + 1;
    }
    partitions
}
