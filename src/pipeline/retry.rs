//! How a batch reaches a sink: it is written again until the sink has it or the batch is outdated.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::batch::{Batch, Generation};
use super::figures::Figures;
use super::sink::{Sink, SinkError, Written};
use crate::measure::Clock;
use crate::net::backoff::Backoff;

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
pub struct Outlet {
    pub sink: Box<dyn Sink>,
    pub connected: bool,
}

impl Delivery {
    /// Writes the batch to sink number `index`; false if it was abandoned because its partitions have been revoked. The
    /// run's deadline ends the task that waits here.
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
                // The sink refuses all of them for good.
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
            if let Some(latency_ns) = row.latency_ns(now_ns) {
                sink.latency.record(latency_ns);
            }
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock()
    }
}
