use std::collections::BTreeMap;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::*;
use crate::measure::FailureClass;
use crate::pipeline::sink::RowCount;

/// A sink that fails, never answers, or refuses rows.
struct Broken {
    answers: bool,
    /// Numbers of the rows that it refuses.
    refuses: Option<Vec<usize>>,
}

impl Sink for Broken {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), SinkError>> {
        if self.refuses.is_some() {
            async { Ok(()) }.boxed()
        } else if self.answers {
            async { Err(SinkError::disconnected(FailureClass::ConnectionLost, "gone")) }.boxed()
        } else {
            std::future::pending().boxed()
        }
    }

    fn write<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<WriteOutcome, SinkError>> {
        let Some(rows) = &self.refuses else { return std::future::pending().boxed() };
        let refusal = |row: &usize| RefusedRow { row: *row, class: FailureClass::Refused, message: "no".to_owned() };
        let refused: Vec<RefusedRow> = rows.iter().map(refusal).collect();
        let rows = (batch.rows.len() - refused.len()) as u64;
        async move { Ok(WriteOutcome { rows, refused, ..WriteOutcome::default() }) }.boxed()
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
        let mut connection = SinkConnection { sink: Box::new(Broken { answers, refuses: None }), connected: false };
        let batch = Batch::from_payloads(&["{}"], &[]);
        let limit = Duration::from_millis(5);
        assert!(tokio::time::timeout(limit, delivery.deliver(0, &mut connection, &batch)).await.is_err());
        let sink = &delivery.lock().sinks[0];
        let found = (sink.time.total_ns > 0, sink.last_tried_ns > 0, sink.last_written_ns);
        assert_eq!(found, (true, true, 0), "answers: {answers}");
    }
}

#[tokio::test]
async fn a_refused_row_has_no_latency() {
    for (refuses, taken) in [(vec![], 3), (vec![1], 2), (vec![2, 0], 1), (vec![0, 1, 2], 0)] {
        let figures = Arc::new(Mutex::new(Figures::for_sinks(1)));
        let delivery = Delivery { clock: Clock::start(), figures, generation: Generation::default() };
        let refused = refuses.len() as u64;
        let sink = Box::new(Broken { answers: true, refuses: Some(refuses) });
        let batch = Batch::from_payloads(&["{}", "{}", "{}"], &[]);
        let mut connection = SinkConnection { sink, connected: false };
        assert_eq!(delivery.deliver(0, &mut connection, &batch).await, Some(3));
        let sink = &delivery.lock().sinks[0];
        assert_eq!((sink.latency.histogram().len(), sink.written, sink.refused()), (taken, taken, refused));
    }
}

#[test]
fn batches_of_the_warm_up_are_no_evidence_for_a_percentile() {
    let figures = Arc::new(Mutex::new(Figures::for_sinks(1)));
    let delivery = Delivery { clock: Clock::start(), figures, generation: Generation::default() };
    for measured in [false, false, true] {
        let mut batch = Batch::from_payloads(&["{}", "{}"], &[]);
        batch.rows.iter_mut().for_each(|row| row.measured = measured);
        delivery.account(0, WriteOutcome { rows: 2, ..WriteOutcome::default() }, &batch, 0);
    }
    let sink = &delivery.lock().sinks[0];
    assert_eq!((sink.time.per_batch.histogram().len(), sink.latency.histogram().len(), sink.moments), (3, 2, 1));
}
