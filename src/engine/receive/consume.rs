//! The consumer task: receives messages and records them until it is stopped.
//!
//! In a group that pretends to work, it takes a message, works on it, and takes the next one. Messages that it has not taken
//! stay with the client, as with a program that really works.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::pace::Pace;
use crate::broker::{CLOSE_TIMEOUT, Consumer, ReceiveError};
use crate::engine::interruption::{InterruptiblePhase, Interruption};
use crate::measure::{ArrivalRecorder, Clock, Errors};
use crate::net::backoff::Backoff;
use crate::pipeline::Pipeline;

/// How long to wait for consumers after the second signal.
const LAST_RECEIPT: Duration = Duration::from_secs(1);

/// Receives until `stop` is cancelled, then leaves the group. Goes on after errors, and returns them.
pub async fn consume<C: Consumer>(
    mut consumer: C,
    mut recorder: ArrivalRecorder,
    clock: Clock,
    stop: CancellationToken,
) -> Errors {
    let mut errors = Errors::default();
    let mut pause = Backoff::RECEIVE;
    loop {
        let round = async {
            pause.wait().await;
            consumer.ready().await
        };
        let ready = tokio::select! {
            ready = round => ready,
            () = stop.cancelled() => break,
        };
        let taken = ready.and_then(|()| {
            let mut batch = recorder.batch();
            consumer.take(|message| {
                batch.received(message);
            })
        });
        note(taken, &mut errors, &recorder, &mut pause, clock);
        tokio::task::coop::consume_budget().await;
    }
    close(consumer).await;
    errors
}

/// Notes how receiving went: after an error, the next attempt comes after a pause.
pub(super) fn note(
    taken: Result<usize, ReceiveError>,
    errors: &mut Errors,
    recorder: &ArrivalRecorder,
    pause: &mut Backoff,
    clock: Clock,
) {
    match taken {
        Ok(_) => pause.succeeded(),
        Err(ReceiveError { class, message }) => {
            errors.record(class, clock.now_ns(), || message);
            recorder.failed();
            pause.failed();
        }
    }
}

/// Leaves the group. A consumer that is late is dropped.
pub(super) async fn close(consumer: impl Consumer) {
    let _ = timeout(CLOSE_TIMEOUT, consumer.close()).await;
}

/// Waits until all consumers have ended; returns their errors, and the messages of those that crashed.
pub async fn ended(
    mut consumers: JoinSet<Errors>,
    pipeline: Option<&Pipeline>,
    wait: &InterruptiblePhase,
    interruption: &Interruption,
) -> (Errors, Vec<String>) {
    let mut met = Errors::default();
    let mut crashes = Vec::new();
    let mut hurried = false;
    let ending = async {
        loop {
            tokio::select! {
                ended = consumers.join_next() => match ended {
                    Some(Ok(errors)) => met.merge(&errors),
                    Some(Err(crash)) => crashes.push(crash.to_string()),
                    None => break,
                },
                () = wait.over(), if !hurried => {
                    hurried = true;
                    if let Some(pipeline) = pipeline {
                        pipeline.finish(Instant::now());
                    }
                }
            }
        }
    };
    // Those that do not end by then are dropped with the set.
    let _ = interruption.finish(ending, LAST_RECEIPT).await;
    (met, crashes)
}

/// As [`consume`], at this pace. A message arrives when the consumer begins with it.
pub async fn work<C: Consumer>(
    mut consumer: C,
    mut recorder: ArrivalRecorder,
    clock: Clock,
    stop: CancellationToken,
    mut pace: Pace,
) -> Errors {
    let mut errors = Errors::default();
    let mut pause = Backoff::RECEIVE;
    let mut has_paused = true;
    loop {
        let round = async {
            pause.wait().await;
            let (ready, has_waited) = with_waiting(consumer.ready()).await;
            if has_waited || has_paused {
                pace.waited_until(clock.now_ns());
            }
            sleep_until(Instant::from_std(clock.instant(pace.next_ns()))).await;
            ready
        };
        let ready = tokio::select! {
            ready = round => ready,
            () = stop.cancelled() => break,
        };
        let taken = ready.and_then(|()| {
            let most = pace.due_by(clock.now_ns());
            let mut batch = recorder.batch();
            let mut beginning = pace.begin();
            consumer.take_some(most, |message| {
                batch.arrived_at(beginning.next_message());
                batch.received(message);
            })
        });
        has_paused = taken.is_err();
        note(taken, &mut errors, &recorder, &mut pause, clock);
        tokio::task::coop::consume_budget().await;
    }
    close(consumer).await;
    errors
}

/// What `future` resolves to, and whether it did so only later.
async fn with_waiting<T>(future: impl Future<Output = T>) -> (T, bool) {
    let mut future = pin!(future);
    let mut has_waited = false;
    let resolved = poll_fn(|context| {
        let polled = future.as_mut().poll(context);
        has_waited |= polled.is_pending();
        polled
    });
    let value = resolved.await;
    (value, has_waited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::Received;
    use crate::measure::{Arrivals, FailureClass, SubscriptionIndex};

    /// Fails `failures` times, then reports that it was called again.
    struct Recovering {
        failures: usize,
        recovered: CancellationToken,
    }

    impl Consumer for Recovering {
        async fn ready(&mut self) -> Result<(), ReceiveError> {
            if self.failures > 0 {
                self.failures -= 1;
                return Err(ReceiveError {
                    class: FailureClass::ConnectionLost,
                    message: "the broker is gone".to_owned(),
                });
            }
            self.recovered.cancel();
            std::future::pending().await
        }

        fn take(&mut self, _each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
            Ok(0)
        }
    }

    #[tokio::test]
    async fn errors_are_counted_and_survived() {
        let clock = Clock::start();
        let arrivals = Arrivals::new(clock, 0, 1, None);
        let stop = CancellationToken::new();
        let consumer = Recovering { failures: 6, recovered: stop.clone() };
        let errors =
            consume(consumer, arrivals.recorder(SubscriptionIndex { group: 0, topic: 0 }, 0), clock, stop).await;
        let [(class, tally)] = errors.iter().collect::<Vec<_>>()[..] else { panic!("{errors:?}") };
        assert_eq!((class, tally.count), (FailureClass::ConnectionLost, 6));
        assert_eq!(arrivals.progress()[0].errors, 6, "what was not received meanwhile may not have been offered");
        assert_eq!(tally.first.as_ref().map(|(_, message)| message.as_str()), Some("the broker is gone"));
    }
}
