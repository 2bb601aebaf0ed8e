//! An instance's writers: each takes batches from the instance's queue and writes them to all sinks, in order or in parallel. A batch is
//! written again until the sink has it or the batch is outdated.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{self, mpsc};
use tokio::task::JoinSet;

use super::batch::{Batch, Generation, Messages};
use super::figures::Figures;
use super::sink::{RefusedRow, Sink, SinkError, WriteOutcome};
use crate::measure::Clock;
use crate::net::backoff::Backoff;
use crate::scenario::SinksRun;

/// A batch that a writer has finished.
pub struct Done {
    pub batch: Batch,
    /// Every sink has it; otherwise it was abandoned.
    pub written: bool,
    /// How many of its rows have an outcome, sink by sink.
    pub accounted: Vec<u64>,
}

/// The writers of one instance, and the batches that are on their way to the sinks.
pub struct Writers {
    queue: mpsc::Sender<Batch>,
    done: mpsc::UnboundedReceiver<Done>,
    tasks: JoinSet<()>,
    /// Batches that no writer has taken yet.
    waiting: VecDeque<Batch>,
    /// Batches that writers have.
    outstanding: usize,
}

impl Writers {
    /// Starts one writer for each of `connections`.
    pub fn start(connections: Vec<Vec<SinkConnection>>, order: SinksRun, delivery: &Delivery) -> Self {
        let (queue, next) = mpsc::channel(1);
        let next = Arc::new(sync::Mutex::new(next));
        let (finished, done) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for connections in connections {
            tasks.spawn(work(next.clone(), finished.clone(), connections, order, delivery.clone()));
        }
        Writers { queue, done, tasks, waiting: VecDeque::new(), outstanding: 0 }
    }

    pub fn push(&mut self, batch: Batch) {
        self.waiting.push_back(batch);
    }

    /// Whether all writers are busy and a batch waits.
    pub fn are_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub fn are_idle(&self) -> bool {
        self.waiting.is_empty() && self.outstanding == 0
    }

    /// Resolves when a writer has finished a batch, or, with `None`, has taken one. Cancel-safe.
    pub async fn step(&mut self) -> Option<Done> {
        tokio::select! {
            biased;
            Some(done) = self.done.recv(), if self.outstanding > 0 => {
                self.outstanding -= 1;
                Some(done)
            }
            Ok(permit) = self.queue.reserve(), if !self.waiting.is_empty() => {
                if let Some(batch) = self.waiting.pop_front() {
                    self.outstanding += 1;
                    permit.send(batch);
                }
                None
            }
            else => std::future::pending().await,
        }
    }

    /// Abandons the batches that wait; returns what was in them.
    pub fn abandon_waiting(&mut self) -> Messages {
        self.waiting.drain(..).fold(Messages::default(), |mut abandoned, batch| {
            abandoned += batch.messages();
            abandoned
        })
    }

    /// Ends all writers, also in the middle of a batch; returns the batches that they have finished.
    pub async fn end(&mut self) -> Vec<Done> {
        self.tasks.shutdown().await;
        std::iter::from_fn(|| self.done.try_recv().ok()).collect()
    }
}

/// Works until the instance ends.
async fn work(
    queue: Arc<sync::Mutex<mpsc::Receiver<Batch>>>,
    done: mpsc::UnboundedSender<Done>,
    mut connections: Vec<SinkConnection>,
    order: SinksRun,
    delivery: Delivery,
) {
    loop {
        let next = queue.lock().await.recv().await;
        let Some(batch) = next else { return };
        let waited_ns = delivery.clock.now_ns().saturating_sub(batch.closed_ns);
        delivery.lock().wait.record(waited_ns);
        let each: Vec<Option<u64>> = match order {
            SinksRun::InOrder => {
                let mut each = Vec::with_capacity(connections.len());
                for (index, connection) in connections.iter_mut().enumerate() {
                    let is_abandoned = each.contains(&None);
                    each.push(if is_abandoned { None } else { delivery.deliver(index, connection, &batch).await });
                }
                each
            }
            SinksRun::InParallel => {
                let all = connections.iter_mut().enumerate();
                join_all(all.map(|(index, connection)| delivery.deliver(index, connection, &batch))).await
            }
        };
        let written = each.iter().all(Option::is_some);
        let accounted = each.into_iter().map(Option::unwrap_or_default).collect();
        if done.send(Done { batch, written, accounted }).is_err() {
            return;
        }
    }
}

/// Between attempts to write to a database that does not respond.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));

/// What an instance's deliveries need: clock, figures, and the generation of its partitions.
#[derive(Clone)]
pub struct Delivery {
    pub clock: Clock,
    pub figures: Arc<Mutex<Figures>>,
    pub generation: Generation,
}

/// One connection to a sink, connected or not.
pub struct SinkConnection {
    pub sink: Box<dyn Sink>,
    pub connected: bool,
}

impl Delivery {
    /// Writes the batch to sink number `index`, and returns how many of its rows now have an outcome there; `None` if it was
    /// abandoned because its partitions have been revoked. The run's deadline ends the task that waits here.
    pub async fn deliver(&self, index: usize, connection: &mut SinkConnection, batch: &Batch) -> Option<u64> {
        let begin_ns = self.clock.now_ns();
        let _occupied = Occupied { delivery: self, index, begin_ns };
        let mut backoff = BACKOFF;
        loop {
            if batch.generation != self.generation.current() {
                return None;
            }
            let written = match self.attempt(connection, batch).await {
                Ok(written) => written,
                Err(error) if error.retriable => {
                    connection.connected &= !error.disconnected;
                    let at_ns = self.clock.now_ns();
                    {
                        let sink = &mut self.lock().sinks[index];
                        sink.errors.record(error.class, at_ns, || error.message);
                        sink.retries += 1;
                    }
                    backoff.pause().await;
                    continue;
                }
                // The sink refuses all of them for good.
                Err(SinkError { class, message, .. }) => {
                    let refusal = |row| RefusedRow { row, class, message: message.clone() };
                    let refused = (0..batch.rows.len()).map(refusal).collect();
                    WriteOutcome { refused, ..WriteOutcome::default() }
                }
            };
            let accounted = written.rows + written.duplicates + written.refused.len() as u64;
            self.account(index, written, batch, begin_ns);
            return Some(accounted);
        }
    }

    async fn attempt(&self, connection: &mut SinkConnection, batch: &Batch) -> Result<WriteOutcome, SinkError> {
        if !connection.connected {
            connection.sink.connect().await?;
            connection.connected = true;
        }
        connection.sink.write(batch).await
    }

    fn account(&self, index: usize, written: WriteOutcome, batch: &Batch, begin_ns: u64) {
        let now_ns = self.clock.now_ns();
        let sink = &mut self.lock().sinks[index];
        sink.time.per_batch.record(now_ns - begin_ns);
        sink.written += written.rows;
        sink.duplicates += written.duplicates;
        if written.rows > 0 {
            sink.last_written_ns = now_ns;
        }
        // A row that was refused was never written, so it has no latency.
        let mut refused: Vec<usize> = Vec::with_capacity(written.refused.len());
        for RefusedRow { row, class, message } in written.refused {
            sink.refused.record(class, now_ns, || message);
            refused.push(row);
        }
        refused.sort_unstable();
        let is_taken = |number: usize| refused.binary_search(&number).is_err();
        let mut is_timed = false;
        for (_, row) in batch.rows.iter().enumerate().filter(|(number, row)| row.measured && is_taken(*number)) {
            if let Some(latency_ns) = row.latency_ns(now_ns) {
                sink.latency.record(latency_ns);
                is_timed = true;
            }
        }
        sink.moments += u64::from(is_timed);
    }

    pub fn lock(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock()
    }
}

/// A writer that is occupied with a sink. However that ends, the time counts: a sink that takes nothing is the one that takes the
/// writers' time.
struct Occupied<'a> {
    delivery: &'a Delivery,
    index: usize,
    begin_ns: u64,
}

impl Drop for Occupied<'_> {
    fn drop(&mut self) {
        let now_ns = self.delivery.clock.now_ns();
        let sink = &mut self.delivery.lock().sinks[self.index];
        sink.time.total_ns += now_ns - self.begin_ns;
        sink.last_tried_ns = sink.last_tried_ns.max(now_ns);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/pipeline/writer.rs"]
mod tests;
