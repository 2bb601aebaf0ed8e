use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use super::*;
use crate::broker::Received;
use crate::measure::{Arrivals, Clock, FailureClass, NoDetails, SubscriptionIndex};
use crate::pipeline::Figures;
use crate::pipeline::commit::Assignment;
use crate::scenario;

/// Hands over two messages, and an error behind them.
struct Failing;

impl Consumer for Failing {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        Ok(())
    }

    fn take_some(&mut self, _most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        for offset in 0..2 {
            each(Received {
                payload: b"{}",
                trace_header: None,
                partition: 0,
                offset,
                redelivered: false,
                details: &NoDetails,
            });
        }
        Err(ReceiveError { class: FailureClass::ConnectionLost, message: "the broker is gone".to_owned() })
    }
}

#[test]
fn messages_before_an_error_are_in_hand_until_they_are_finished() {
    let clock = Clock::start();
    let shared = Arc::new(PipelineShared {
        clock,
        config: scenario::Pipeline { parse: Parse::None, ..scenario::Pipeline::default() },
        columns: Vec::new(),
        databases: Vec::new(),
        figures: vec![Arc::new(Mutex::new(Figures::for_sinks(0)))],
        assignment: Assignment::new(1, 1),
        received: AtomicU64::new(0),
        finished: AtomicU64::new(0),
        finished_foreign: AtomicU64::new(0),
    });
    let recorder = Arrivals::new(clock, 0, 1, None).recorder(SubscriptionIndex { group: 0, topic: 0 }, 0);
    let mut instance = Instance::new(Failing, recorder, shared.clone(), 0, Vec::new());
    let counts = || (shared.received.load(Ordering::Relaxed), shared.finished.load(Ordering::Relaxed));
    instance.take(Ok(()));
    assert_eq!(counts(), (2, 0));
    instance.close();
    assert_eq!(counts(), (2, 2));
    assert_eq!(instance.errors.iter().count(), 1);
}
