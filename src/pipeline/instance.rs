//! One instance: a member of the group that receives, fills batches, parses them, hands them to its writers and commits.
//!
//! While a full batch waits for a writer, the instance takes no messages.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::batch::{Batch, Messages, Parser, Row, Unparsable};
use super::commit::{Commits, InstanceProgress};
use super::writer::{Delivery, Done, SinkConnection, Writers};
use super::{Order, PipelineShared};
use crate::broker::{CLOSE_TIMEOUT, Consumer, Offsets, ReceiveError, UNORDERED_PARTITION};
use crate::measure::{ArrivalRecorder, Errors};
use crate::net::backoff::Backoff;
use crate::scenario::{CommitPolicy, Parse};

/// How long writes may continue after the group has requested the partitions back.
const REVOKE_WITHIN: Duration = Duration::from_secs(10);

/// How often an instance reports its progress.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// One member at work.
pub struct Instance<C> {
    consumer: C,
    recorder: ArrivalRecorder,
    shared: Arc<PipelineShared>,
    number: usize,
    parser: Option<Parser>,
    delivery: Delivery,
    open: Batch,
    /// When the open batch is closed at the latest.
    closes: Option<Instant>,
    next_number: u64,
    /// Whether there has been a message.
    begun: bool,
    writers: Writers,
    spare: Vec<Batch>,
    commits: Commits,
    errors: Errors,
    pause: Backoff,
}

impl<C: Consumer> Instance<C> {
    pub fn new(
        consumer: C,
        recorder: ArrivalRecorder,
        shared: Arc<PipelineShared>,
        number: usize,
        connections: Vec<Vec<SinkConnection>>,
    ) -> Self {
        let parser = match shared.config.parse {
            Parse::Json => Some(Parser::new(shared.columns.clone(), shared.config.timestamp.clone())),
            Parse::None => None,
        };
        let figures = shared.figures[number].clone();
        let delivery = Delivery { clock: shared.clock, figures, generation: Default::default() };
        Instance {
            consumer,
            recorder,
            number,
            parser,
            writers: Writers::start(connections, shared.config.sinks_run, &delivery),
            delivery,
            open: Batch::default(),
            closes: None,
            next_number: 0,
            begun: false,
            spare: Vec::new(),
            commits: Commits::default(),
            errors: Errors::default(),
            pause: Backoff::RECEIVE,
            shared,
        }
    }

    /// Works until the order to finish; returns the errors of receiving.
    pub async fn work(mut self, mut orders: watch::Receiver<Order>) -> Errors {
        let mut report = tokio::time::interval(REPORT_EVERY);
        loop {
            if self.consumer.offsets().is_some_and(|offsets| offsets.is_revocation_requested()) {
                self.revoke(&mut orders).await;
            }
            self.commit(false).await;
            let may_take = !self.writers.are_blocked();
            let begin_ns = self.shared.clock.now_ns();
            let (pause, closes) = (self.pause, self.closes.filter(|_| may_take));
            let next = async {
                pause.wait().await;
                self.consumer.ready().await
            };
            let (mut ready, mut done) = (None, None);
            tokio::select! {
                biased;
                _ = orders.wait_for(|order| matches!(order, Order::Finish(_))) => break,
                one = self.writers.step() => done = one,
                () = sleep_until(closes.unwrap_or_else(Instant::now)), if closes.is_some() => {}
                // Before the consumer, which may always be ready.
                _ = report.tick() => self.report_progress(),
                result = next, if may_take => ready = Some(result),
            }
            self.count_wait(may_take, begin_ns);
            if let Some(done) = done {
                self.settle(done);
            }
            if let Some(ready) = ready {
                self.take(ready);
            }
            if self.closes.is_some_and(|closes| closes <= Instant::now()) {
                self.close();
            }
            tokio::task::coop::consume_budget().await;
        }
        self.end(orders).await
    }

    /// Finishes the messages that were taken, commits them, and leaves the group.
    async fn end(mut self, mut orders: watch::Receiver<Order>) -> Errors {
        let Order::Finish(deadline) = *orders.borrow() else { return self.errors };
        self.close();
        tokio::select! {
            () = self.work_off(deadline) => {}
            _ = orders.changed() => {}
        }
        // Batches that are still being written are neither waited for nor committed.
        for done in self.writers.end().await {
            self.settle(done);
        }
        self.commit(true).await;
        self.report_progress();
        self.shared.assignment.ended(self.number);
        // One that is late is dropped.
        let _ = timeout(CLOSE_TIMEOUT, self.consumer.close()).await;
        self.errors
    }

    /// Counts the time since `begin_ns` as waiting for messages or for writers.
    fn count_wait(&mut self, may_take: bool, begin_ns: u64) {
        let spent_ns = self.shared.clock.now_ns() - begin_ns;
        match may_take {
            // There is nothing to measure before the first message.
            true if self.begun => self.open.fetch_ns += spent_ns,
            true => {}
            false => self.delivery.lock().blocked.total_ns += spent_ns,
        }
    }

    /// Takes the messages that have arrived.
    fn take(&mut self, ready: Result<(), ReceiveError>) {
        let begin_ns = self.shared.clock.now_ns();
        let mut closed = Vec::new();
        let taken = ready.and_then(|()| self.fill(&mut closed));
        let spent_ns = self.shared.clock.now_ns() - begin_ns;
        self.open.fetch_ns += spent_ns;
        if self.open.rows.is_empty() {
            self.closes = None;
        } else if self.closes.is_none() || !closed.is_empty() {
            self.closes = Some(Instant::now() + self.shared.config.linger);
        }
        for batch in closed {
            self.read(batch);
        }
        match taken {
            Ok(()) => self.pause.succeeded(),
            Err(ReceiveError { class, message }) => {
                self.errors.record(class, self.shared.clock.now_ns(), || message);
                self.recorder.failed();
                self.pause.failed();
            }
        }
    }

    /// Copies what arrives into the open batch; batches that are full go to `closed`.
    fn fill(&mut self, closed: &mut Vec<Batch>) -> Result<(), ReceiveError> {
        let (open, spare, size) = (&mut self.open, &mut self.spare, self.shared.config.batch);
        let mut arrivals = self.recorder.batch();
        let broker_timestamp = self.shared.config.broker_timestamp;
        let epoch_unix_ns = self.shared.clock.epoch_unix_ns() as i64;
        let mut messages = 0;
        let taken = self.consumer.take(|message| {
            messages += 1;
            let trace_header = arrivals.received(message);
            let received_ns = arrivals.now_ns();
            open.push(message.payload, |range| {
                let intended_ns = match trace_header {
                    Some(trace_header) => Some(trace_header.intended_ns as i64),
                    None if broker_timestamp => {
                        let unix_ns = message.details.timestamp_unix_ns();
                        unix_ns.map(|unix_ns| (unix_ns as i64).saturating_sub(epoch_unix_ns))
                    }
                    None => None,
                };
                let measured = trace_header.is_none_or(|trace_header| trace_header.measured);
                let own = trace_header.is_some();
                Row::new(message.partition, message.offset, range, intended_ns, (measured, own), received_ns)
            });
            if open.rows.len() >= size || open.is_full_of_bytes() {
                closed.push(std::mem::replace(open, spare.pop().unwrap_or_default()));
            }
        });
        // An error may come behind messages.
        self.begun |= messages > 0;
        self.shared.received.fetch_add(messages, Ordering::Relaxed);
        taken.map(drop)
    }

    /// Closes the open batch, however little is in it.
    fn close(&mut self) {
        self.closes = None;
        if !self.open.rows.is_empty() {
            let batch = std::mem::replace(&mut self.open, self.spare.pop().unwrap_or_default());
            self.read(batch);
        }
    }

    /// Parses a closed batch and hands it to the writers.
    fn read(&mut self, mut batch: Batch) {
        batch.number = self.next_number;
        batch.generation = self.delivery.generation.current();
        self.next_number += 1;
        for (partition, first, next) in partitions(&batch) {
            self.commits.begin(batch.number, partition, first, next);
        }
        self.parse(&mut batch);
        if self.shared.config.commit == CommitPolicy::OnReceipt {
            self.commits.finish(batch.number);
        }
        if self.shared.config.sinks.is_empty() || batch.rows.is_empty() {
            self.settle(Done { batch, written: true, accounted: Vec::new() });
        } else {
            self.writers.push(batch);
        }
    }

    /// Parses a closed batch, which removes the messages that cannot be parsed, and records it.
    fn parse(&mut self, batch: &mut Batch) {
        let clock = self.shared.clock;
        let messages = batch.messages();
        let first_ns = batch.rows.first().map_or(0, |row| row.received_ns);
        let last_ns = batch.rows.last().map_or(0, |row| row.received_ns);
        let mut unparsable: Vec<(Unparsable, String)> = Vec::new();
        let begin_ns = clock.now_ns();
        if let Some(parser) = &mut self.parser {
            parser.parse(batch, clock.epoch_unix_ns(), |row, class| {
                unparsable.push((class, format!("at offset {} of partition {}", row.offset, row.partition)));
            });
        }
        batch.closed_ns = clock.now_ns();
        let left = batch.messages();
        self.shared.finish(Messages { all: messages.all - left.all, foreign: messages.foreign - left.foreign });
        let mut figures = self.delivery.lock();
        figures.parse.record(batch.closed_ns - begin_ns);
        figures.record_batch(messages, first_ns, last_ns, batch);
        for (class, place) in unparsable {
            figures.count_unparsable(class, last_ns, || place);
        }
    }

    /// Nothing more is done with the batch.
    fn settle(&mut self, Done { mut batch, written, accounted }: Done) {
        let messages = batch.messages();
        self.shared.finish(messages);
        if written && batch.generation == self.delivery.generation.current() {
            self.commits.finish(batch.number);
        } else {
            // Its partitions were revoked before it could be committed: the group reads it again, also where it was written.
            let mut figures = self.delivery.lock();
            figures.abandon(messages);
            for (sink, accounted) in figures.sinks.iter_mut().zip(accounted) {
                sink.repeated += accounted;
            }
        }
        if self.spare.len() <= self.shared.config.writers {
            batch.clear();
            self.spare.push(batch);
        }
    }

    /// Finishes the messages that were taken, until `deadline` at most.
    async fn work_off(&mut self, deadline: Instant) {
        while !self.writers.are_idle() {
            match timeout_at(deadline, self.writers.step()).await {
                Ok(Some(done)) => self.settle(done),
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    /// Returns the partitions to the group, after the messages taken from them are finished and committed, or abandoned.
    async fn revoke(&mut self, orders: &mut watch::Receiver<Order>) {
        self.close();
        let is_committed = self.shared.config.commit == CommitPolicy::OnReceipt;
        if !is_committed {
            tokio::select! {
                () = self.work_off(Instant::now() + REVOKE_WITHIN) => {}
                _ = orders.wait_for(|order| matches!(order, Order::Finish(_))) => {}
            }
        }
        self.commit(true).await;
        // Where a commit precedes the write, no other member receives the messages again: they are still written.
        if !is_committed {
            // Writers that are still at it end at their next attempt.
            self.delivery.generation.end();
            let abandoned = self.writers.abandon_waiting();
            self.shared.finish(abandoned);
            self.delivery.lock().abandon(abandoned);
        }
        self.commits.clear();
        if let Some(offsets) = self.consumer.offsets() {
            offsets.revoke().await;
        }
        self.report_progress();
    }

    async fn commit(&mut self, confirmed: bool) {
        // On the way only what is new is committed; a confirmed commit repeats all of it.
        let next = if confirmed { self.commits.done() } else { self.commits.due() };
        let Some(offsets) = self.consumer.offsets().filter(|_| !next.is_empty()) else { return };
        let begin_ns = self.shared.clock.now_ns();
        let committed = offsets.commit(&next, confirmed).await;
        let now_ns = self.shared.clock.now_ns();
        let mut figures = self.delivery.lock();
        figures.commit.record(now_ns - begin_ns);
        if let Err(ReceiveError { class, message }) = committed {
            figures.commit_errors.record(class, now_ns, || message);
        }
    }

    /// Reports which partitions this instance has, and the first message of each that is not done.
    fn report_progress(&mut self) {
        let open = |partition| self.open.rows.iter().find(|row| row.partition == partition).map(|row| row.offset);
        let not_done =
            |(partition, next)| (partition, self.commits.open_from(partition).or_else(|| open(partition)).or(next));
        let progress = match self.consumer.offsets().map(Offsets::assigned) {
            None => InstanceProgress { is_assigned: true, partitions: None },
            Some(assigned) => InstanceProgress {
                is_assigned: assigned.is_some(),
                partitions: assigned.map(|partitions| partitions.into_iter().map(not_done).collect()),
            },
        };
        self.shared.assignment.report(self.number, progress, Instant::now());
    }
}

/// Of each partition in the batch, the offset of its first message and the one after its last. Messages of a partition come
/// in its order.
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

#[cfg(test)]
#[path = "../../tests/unit/pipeline/instance.rs"]
mod tests;
