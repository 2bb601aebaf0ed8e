//! The consumer task: takes what arrives and records it, until it is told to stop.

use tokio::sync::watch;

use crate::broker::{Consumer, ReceiveError};
use crate::measure::ArrivalRecorder;

/// Failures after which a consumer is given up: each is retried at once, and a broker that is gone for good must not
/// keep a task spinning for ever.
const MOST_ERRORS: usize = 1000;

/// Receives until `stop` says so; returns the errors it met, the first of them with its words.
pub async fn consume<C: Consumer>(
    mut consumer: C,
    mut recorder: ArrivalRecorder,
    mut stop: watch::Receiver<bool>,
) -> ConsumerErrors {
    let mut errors = ConsumerErrors::default();
    while errors.count < MOST_ERRORS {
        tokio::select! {
            ready = consumer.ready() => {
                let taken = ready.and_then(|()| {
                    let mut batch = recorder.batch();
                    consumer.take(|message| batch.received(message))
                });
                if let Err(error) = taken {
                    errors.add(error);
                }
            }
            _ = stop.wait_for(|stop| *stop) => break,
        }
        tokio::task::coop::consume_budget().await;
    }
    errors
}

/// What went wrong while receiving.
#[derive(Debug, Clone, Default)]
pub struct ConsumerErrors {
    pub count: usize,
    pub first: Option<ReceiveError>,
}

impl ConsumerErrors {
    fn add(&mut self, error: ReceiveError) {
        self.count += 1;
        self.first.get_or_insert(error);
    }

    /// Adds another consumer's.
    pub fn merge(&mut self, other: ConsumerErrors) {
        self.count += other.count;
        if self.first.is_none() {
            self.first = other.first;
        }
    }
}
