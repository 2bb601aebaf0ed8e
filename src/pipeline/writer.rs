//! An instance's writers: each takes batches from the instance's queue and writes them to all sinks, in order or in parallel.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use super::batch::Batch;
use super::retry::{Delivery, Outlet};
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
    /// Starts one writer for each of `outlets`.
    pub fn start(outlets: Vec<Vec<Outlet>>, order: SinksRun, delivery: &Delivery) -> Self {
        let (queue, next) = mpsc::channel(1);
        let next = Arc::new(Mutex::new(next));
        let (finished, done) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for outlets in outlets {
            tasks.spawn(work(next.clone(), finished.clone(), outlets, order, delivery.clone()));
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

    /// Abandons the batches that wait; returns how many rows that were.
    pub fn abandon_waiting(&mut self) -> u64 {
        self.waiting.drain(..).map(|batch| batch.rows.len() as u64).sum()
    }

    /// Ends all writers, whatever they are writing; returns the batches that they have finished.
    pub async fn end(&mut self) -> Vec<Done> {
        self.tasks.shutdown().await;
        std::iter::from_fn(|| self.done.try_recv().ok()).collect()
    }
}

/// Works until the instance ends.
async fn work(
    queue: Arc<Mutex<mpsc::Receiver<Batch>>>,
    done: mpsc::UnboundedSender<Done>,
    mut outlets: Vec<Outlet>,
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
                let mut each = Vec::with_capacity(outlets.len());
                for (index, outlet) in outlets.iter_mut().enumerate() {
                    let is_abandoned = each.contains(&None);
                    each.push(if is_abandoned { None } else { delivery.deliver(index, outlet, &batch).await });
                }
                each
            }
            SinksRun::InParallel => {
                let all = outlets.iter_mut().enumerate();
                join_all(all.map(|(index, outlet)| delivery.deliver(index, outlet, &batch))).await
            }
        };
        let written = each.iter().all(Option::is_some);
        let accounted = each.into_iter().map(Option::unwrap_or_default).collect();
        if done.send(Done { batch, written, accounted }).is_err() {
            return;
        }
    }
}
