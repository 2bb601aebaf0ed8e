//! The consumer task: receives messages and records them until it is stopped.
//!
//! In a group that pretends to work, or is limited to a rate, it takes a message, works on it, and takes the next one. Messages that it has not taken
//! stay with the client, as with a program that really works. When it begins with a message is computed, not taken from when a timer woke: it takes
//! what is there up to [`LEAD_NS`] before, so that its work takes as long as it is told although timers are late. It never begins with a message before it
//! has found it, so a consumer that waited for a message makes up for nothing.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::broker::{CLOSE_TIMEOUT, Consumer, ReceiveError};
use crate::engine::interruption::{InterruptiblePhase, Interruption};
use crate::load::WorkTimes;
use crate::measure::{ArrivalRecorder, Clock, Errors};
use crate::net::backoff::Backoff;
use crate::pipeline::Pipeline;

/// How long to wait for consumers after the second signal.
const LAST_RECEIPT: Duration = Duration::from_secs(1);

/// How often it is checked that a consumer is connected: a client that connects again by itself says nothing meanwhile.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// Receives until `stop` is cancelled, then leaves the group. Goes on after errors, and returns them.
pub async fn consume<C: Consumer>(
    mut consumer: C,
    mut recorder: ArrivalRecorder,
    clock: Clock,
    stop: CancellationToken,
) -> Errors {
    let mut errors = Errors::default();
    let mut pause = Backoff::RECEIVE;
    let mut check = interval(CHECK_EVERY);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let round = async {
            pause.wait().await;
            consumer.ready().await
        };
        let ready = tokio::select! {
            ready = round => ready,
            () = stop.cancelled() => break,
            _ = check.tick() => {
                if !consumer.is_connected() {
                    recorder.failed();
                }
                continue;
            }
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
fn note(
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
async fn close(consumer: impl Consumer) {
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
    loop {
        let round = async {
            pause.wait().await;
            let ready = consumer.ready().await;
            let now_ns = clock.now_ns();
            pace.found_at(now_ns);
            let take_ns = pace.next_ns().saturating_sub(LEAD_NS);
            if take_ns > now_ns {
                sleep_until(Instant::from_std(clock.instant(take_ns))).await;
            }
            ready
        };
        let ready = tokio::select! {
            ready = round => ready,
            () = stop.cancelled() => break,
        };
        let taken = ready.and_then(|()| {
            let most = pace.due_by(clock.now_ns() + LEAD_NS);
            let mut batch = recorder.batch();
            let mut beginning = pace.begin();
            consumer.take_some(most, |message| {
                batch.arrived_at(beginning.next_message());
                batch.received(message);
            })
        });
        note(taken, &mut errors, &recorder, &mut pause, clock);
        tokio::task::coop::consume_budget().await;
    }
    close(consumer).await;
    errors
}

/// How long before it begins with a message a consumer that works may take it, in nanoseconds. The runtime's timers have steps of a millisecond,
/// and a thread may be late besides.
const LEAD_NS: u64 = 5_000_000;

/// Most messages that such a consumer takes at once.
const MAX_AT_ONCE: u64 = 1024;

/// What the consumers of one group share: at most so many messages per second.
pub struct RateLimit {
    interval_ns: f64,
    /// When the next message may begin, in nanoseconds since the trial's epoch.
    next_ns: Mutex<f64>,
}

impl RateLimit {
    /// Of `rate` messages per second.
    pub fn new(rate: f64) -> Self {
        RateLimit { interval_ns: 1e9 / rate, next_ns: Mutex::new(0.0) }
    }
}

/// One consumer's times, in nanoseconds since the trial's epoch.
pub struct Pace {
    work: Option<WorkTimes>,
    limit: Option<Arc<RateLimit>>,
    /// When the consumer has finished what it has taken.
    free_ns: u64,
}

impl Pace {
    pub fn new(work: Option<WorkTimes>, limit: Option<Arc<RateLimit>>) -> Self {
        Pace { work, limit, free_ns: 0 }
    }

    /// The consumer has found at `now_ns` that a message is there.
    pub fn found_at(&mut self, now_ns: u64) {
        self.free_ns = self.free_ns.max(now_ns);
    }

    /// When the consumer may begin with its next message.
    pub fn next_ns(&self) -> u64 {
        let limit_ns = self.limit.as_ref().map_or(0, |limit| *limit.next_ns.lock() as u64);
        self.free_ns.max(limit_ns)
    }

    /// About how many messages the consumer begins with by `until_ns`; at least one.
    pub fn due_by(&self, until_ns: u64) -> usize {
        let work_ns = self.work.as_ref().map_or(0, WorkTimes::mean_ns);
        let interval_ns = self.limit.as_ref().map_or(0, |limit| limit.interval_ns as u64);
        let further = until_ns.saturating_sub(self.next_ns()) / work_ns.max(interval_ns).max(1);
        (1 + further).min(MAX_AT_ONCE) as usize
    }

    /// Begins with messages that the client hands over at once. The others of the group wait meanwhile.
    pub fn begin(&mut self) -> Beginning<'_> {
        let Pace { work, limit, free_ns } = self;
        let limit = limit.as_ref().map(|limit| (limit.interval_ns, limit.next_ns.lock()));
        Beginning { work: work.as_mut(), limit, free_ns }
    }
}

/// The times of messages that are handed over at once.
pub struct Beginning<'a> {
    work: Option<&'a mut WorkTimes>,
    limit: Option<(f64, MutexGuard<'a, f64>)>,
    free_ns: &'a mut u64,
}

impl Beginning<'_> {
    /// When the consumer begins with the next message.
    #[inline]
    pub fn next_message(&mut self) -> u64 {
        let mut begin_ns = *self.free_ns;
        if let Some((interval_ns, next_ns)) = &mut self.limit {
            let begin = next_ns.max(begin_ns as f64);
            **next_ns = begin + *interval_ns;
            begin_ns = begin as u64;
        }
        *self.free_ns = begin_ns + self.work.as_mut().map_or(0, |work| work.next_ns());
        begin_ns
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/engine/receive/consume.rs"]
mod tests;
