//! A writer: takes batches from its instance's queue and writes each to all sinks, in order or in parallel.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::{Mutex, mpsc};

use super::batch::Batch;
use super::retry::{Delivery, Outlet};
use crate::scenario::SinksRun;

/// A batch that a writer is done with.
pub struct Done {
    pub batch: Batch,
    /// Every sink has it; otherwise it was given up.
    pub written: bool,
}

/// Works until the instance ends.
pub async fn work(
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
        let written = match order {
            SinksRun::InOrder => {
                let mut written = true;
                for (index, outlet) in outlets.iter_mut().enumerate() {
                    written = written && delivery.deliver(index, outlet, &batch).await;
                }
                written
            }
            SinksRun::InParallel => {
                let all = outlets.iter_mut().enumerate();
                let each = all.map(|(index, outlet)| delivery.deliver(index, outlet, &batch));
                join_all(each).await.into_iter().all(|written| written)
            }
        };
        if done.send(Done { batch, written }).is_err() {
            return;
        }
    }
}
