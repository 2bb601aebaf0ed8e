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
    /// Writes the batch to sink number `index`, and returns how many of its rows now have an outcome there; `None` if it was
    /// abandoned because its partitions have been revoked. The run's deadline ends the task that waits here.
    pub async fn deliver(&self, index: usize, outlet: &mut Outlet, batch: &Batch) -> Option<u64> {
        let begin_ns = self.clock.now_ns();
        let _occupied = Occupied { delivery: self, index, begin_ns };
        let mut backoff = BACKOFF;
        loop {
            if batch.generation != self.generation.current() {
                return None;
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
            let accounted = written.rows + written.duplicates + written.refused.len() as u64;
            self.account(index, written, batch, begin_ns);
            return Some(accounted);
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
        sink.time.per_batch.record(now_ns - begin_ns);
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
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::measure::FailureClass;
    use std::collections::BTreeMap;

    use crate::pipeline::sink::RowCount;

    /// A sink that fails, or never answers.
    struct Broken {
        answers: bool,
    }

    impl Sink for Broken {
        fn connect(&mut self) -> BoxFuture<'_, Result<(), SinkError>> {
            match self.answers {
                true => async { Err(SinkError::disconnected(FailureClass::ConnectionLost, "gone")) }.boxed(),
                false => std::future::pending().boxed(),
            }
        }

        fn write<'a>(&'a mut self, _batch: &'a Batch) -> BoxFuture<'a, Result<Written, SinkError>> {
            std::future::pending().boxed()
        }

        fn prove(&mut self) -> BoxFuture<'_, Result<(), SinkError>> {
            std::future::pending().boxed()
        }

        fn durability(&mut self) -> BoxFuture<'_, Result<BTreeMap<String, String>, SinkError>> {
            unreachable!("it is not asked")
        }

        fn row_count(&mut self) -> BoxFuture<'_, Result<Option<RowCount>, SinkError>> {
            std::future::pending().boxed()
        }

        fn is_empty(&mut self) -> BoxFuture<'_, Result<bool, SinkError>> {
            std::future::pending().boxed()
        }

        fn remove_rows(&mut self) -> BoxFuture<'_, Result<(), SinkError>> {
            std::future::pending().boxed()
        }
    }

    #[tokio::test]
    async fn a_writer_that_waits_for_a_dead_sink_is_occupied_with_it() {
        for answers in [true, false] {
            let figures = Arc::new(Mutex::new(Figures::for_sinks(1)));
            let delivery = Delivery { clock: Clock::start(), figures, generation: Generation::default() };
            let mut outlet = Outlet { sink: Box::new(Broken { answers }), connected: false };
            let batch = Batch::of(&["{}"], &[]);
            let limit = Duration::from_millis(5);
            assert!(tokio::time::timeout(limit, delivery.deliver(0, &mut outlet, &batch)).await.is_err());
            let sink = &delivery.lock().sinks[0];
            let found = (sink.time.total_ns > 0, sink.last_tried_ns > 0, sink.last_written_ns);
            assert_eq!(found, (true, true, 0), "answers: {answers}");
        }
    }
}
