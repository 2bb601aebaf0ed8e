//! The consumer task of a group that pretends to work: it takes a message, works on it, and takes the next one. What it has not taken
//! stays with the client, as with a program that really works.

use std::future::poll_fn;
use std::pin::pin;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::consume::{close, note};
use super::pace::Pace;
use crate::broker::Consumer;
use crate::measure::{ArrivalRecorder, Clock, Errors};
use crate::net::backoff::Backoff;

/// As [`consume`](super::consume::consume), at this pace. A message arrives when the consumer begins with it.
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
