//! How a batch reaches a sink: again and again, while the database is away, until it is in or nobody wants it any more.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::batch::{Batch, Generation};
use super::figures::Figures;
use super::sink::{Sink, SinkError, Written};
use crate::measure::Clock;
use crate::net::backoff::Backoff;

/// Between attempts to write to a database that does not respond.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(500));

/// Where one sink's figures are, and what its deliveries are told by.
#[derive(Clone)]
pub struct Delivery {
    pub clock: Clock,
    pub figures: Arc<Mutex<Figures>>,
    pub generation: Generation,
}

/// One connection to a sink, connected or not.
pub struct Outlet {
    pub sink: Box<dyn Sink>,
    pub connected: bool,
}

impl Delivery {
    /// Writes the batch to sink number `index`; false if it was given up because its partitions have been let go. The run's
    /// deadline ends the task that waits here.
    pub async fn deliver(&self, index: usize, outlet: &mut Outlet, batch: &Batch) -> bool {
        let begin_ns = self.clock.now_ns();
        let mut backoff = BACKOFF;
        loop {
            if batch.generation != self.generation.current() {
                return false;
            }
            let written = match self.attempt(outlet, batch).await {
                Ok(written) => written,
                Err(error) if error.retriable => {
                    outlet.connected &= !error.disconnected;
                    let at_ns = self.clock.now_ns();
                    {
                        let sink = &mut self.lock().sinks[index];
                        sink.errors.record(error.class, at_ns, || error.message);
                        sink.retries += 1;
                    }
                    backoff.pause().await;
                    continue;
                }
                // It will never take any of them.
                Err(error) => {
                    Written { refused: vec![(error.class, error.message); batch.rows.len()], ..Written::default() }
                }
            };
            self.account(index, written, batch, begin_ns);
            return true;
        }
    }

    async fn attempt(&self, outlet: &mut Outlet, batch: &Batch) -> Result<Written, SinkError> {
        if !outlet.connected {
            outlet.sink.connect().await?;
            outlet.connected = true;
        }
        outlet.sink.write(batch).await
    }

    fn account(&self, index: usize, written: Written, batch: &Batch, begin_ns: u64) {
        let now_ns = self.clock.now_ns();
        let sink = &mut self.lock().sinks[index];
        sink.time.record(now_ns - begin_ns);
        sink.written += written.rows;
        sink.duplicates += written.duplicates;
        for (class, message) in written.refused {
            sink.refused.record(class, now_ns, || message);
        }
        if written.rows > 0 {
            sink.last_written_ns = now_ns;
        }
        let taken = written.rows + written.duplicates > 0;
        for row in batch.rows.iter().filter(|row| taken && row.measured) {
            if let Some(intended_ns) = row.intended_ns {
                sink.latency.record((now_ns as i64).saturating_sub(intended_ns).max(0) as u64);
            }
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
