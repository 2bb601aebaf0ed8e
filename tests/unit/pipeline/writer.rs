use std::collections::BTreeMap;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::*;
use crate::measure::FailureClass;
use crate::pipeline::sink::RowCount;

/// A sink that fails, or never answers.
struct Broken {
    answers: bool,
}

impl Sink for Broken {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), SinkError>> {
        if self.answers {
            async { Err(SinkError::disconnected(FailureClass::ConnectionLost, "gone")) }.boxed()
        } else {
            std::future::pending().boxed()
        }
    }

    fn write<'a>(&'a mut self, _batch: &'a Batch) -> BoxFuture<'a, Result<WriteOutcome, SinkError>> {
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
        let mut connection = SinkConnection { sink: Box::new(Broken { answers }), connected: false };
        let batch = Batch::from_payloads(&["{}"], &[]);
        let limit = Duration::from_millis(5);
        assert!(tokio::time::timeout(limit, delivery.deliver(0, &mut connection, &batch)).await.is_err());
        let sink = &delivery.lock().sinks[0];
        let found = (sink.time.total_ns > 0, sink.last_tried_ns > 0, sink.last_written_ns);
        assert_eq!(found, (true, true, 0), "answers: {answers}");
    }
}
