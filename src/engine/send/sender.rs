//! Hands the messages of one producer to its client, counts them, and closes the producers once their messages have been answered.

use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::message_source::{BatchSize, MessageSource};
use super::window::{FirstSent, Quota, TrialWindow};
use crate::broker::{CLOSE_TIMEOUT, FailureClass, Outgoing, Producer};
use crate::measure::{Acks, Window};
use crate::net::backoff::Backoff;

/// What all producers of a trial have in common.
pub struct SenderShared {
    pub acks: Acks,
    pub trial_window: Arc<TrialWindow>,
    pub quota: Arc<Quota>,
}

/// What one producer has handed to the client, by whether it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempted {
    pub measured: u64,
    pub warm_up: u64,
}

impl Attempted {
    pub fn add(&mut self, other: Attempted) {
        self.measured += other.measured;
        self.warm_up += other.warm_up;
    }

    pub fn all(self) -> u64 {
        self.measured + self.warm_up
    }
}

/// What became of one producer's part of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub producer_index: usize,
    pub attempted: Attempted,
    /// Measured messages that the schedule had due for this producer until the load ended; `None` in a closed loop.
    pub due: Option<u64>,
}

impl Sent {
    /// The counts of the producers' windows, in the order of their indices, also of producers that still send or have crashed. While
    /// they send it may be a batch of each behind. What was due is not known.
    pub fn by_windows(acks: &Acks) -> Vec<Self> {
        let of = |(producer_index, window): (usize, &Window)| {
            // In this order: a message counts for the warm-up before it counts as submitted.
            let submitted = window.submitted();
            let warm_up = window.warm_up().min(submitted);
            Sent { producer_index, attempted: Attempted { measured: submitted - warm_up, warm_up }, due: None }
        };
        acks.windows().iter().enumerate().map(of).collect()
    }
}

/// One producer at work.
pub struct Sender<P> {
    producer: P,
    producer_index: usize,
    shared: Arc<SenderShared>,
    closing: Closing<P>,
    messages: MessageSource,
    attempted: Attempted,
    /// The pause of a closed loop after a batch of which everything was refused.
    refusals: Backoff,
    /// Memory for the next batch: empty between batches.
    outgoing: Vec<Outgoing<'static>>,
}

impl<P: Producer> Sender<P> {
    pub fn new(
        producer: P,
        producer_index: usize,
        shared: Arc<SenderShared>,
        closing: Closing<P>,
        messages: MessageSource,
    ) -> Self {
        Sender {
            producer,
            producer_index,
            shared,
            closing,
            messages,
            attempted: Attempted::default(),
            refusals: Backoff::REFUSED,
            outgoing: Vec::new(),
        }
    }

    pub fn producer_index(&self) -> usize {
        self.producer_index
    }

    pub fn shared(&self) -> &Arc<SenderShared> {
        &self.shared
    }

    /// Ends the producer: what was handed over, of `due` measured messages.
    pub fn end(mut self, due: Option<u64>) -> Sent {
        self.producer.finish();
        self.closing.add(self.producer);
        Sent { producer_index: self.producer_index, attempted: self.attempted, due }
    }

    /// Sends `count` messages that are all intended now, as in a closed loop. If all of them are refused, pauses: the next ones
    /// would be, too, as fast as the processor allows.
    ///
    /// # Errors
    /// When the load was stopped before the client had taken all of them.
    pub async fn send_now(&mut self, count: usize, now_ns: u64, measured: bool) -> Result<(), Stopped> {
        self.note_first(self.shared.trial_window.load_start_ns, now_ns);
        if self.send(std::iter::repeat_n((now_ns, measured), count), now_ns).await? == Offered::Refused {
            tokio::select! {
                () = self.refusals.pause() => {}
                () = self.shared.trial_window.stopped() => {}
            }
        } else {
            self.refusals.succeeded();
        }
        Ok(())
    }

    /// Sends one message for each of `intended`: its time in nanoseconds since the trial's epoch, and whether it counts.
    ///
    /// # Errors
    /// When the load was stopped before the client had taken all of them.
    pub async fn send_due(&mut self, intended: &[(u64, bool)], now_ns: u64) -> Result<(), Stopped> {
        self.note_first(intended.first().map_or(now_ns, |(due_ns, _)| *due_ns), now_ns);
        self.send(intended.iter().copied(), now_ns).await.map(drop)
    }

    /// Notes when this producer's first message is handed over.
    #[inline]
    fn note_first(&self, due_ns: u64, sent_ns: u64) {
        if self.attempted.all() == 0 {
            self.shared.trial_window.note_first(FirstSent { sent_ns, due_ns });
        }
    }

    /// Makes a batch, counts it and hands it to the client, in as many pieces as it wants.
    async fn send(&mut self, intended: impl Iterator<Item = (u64, bool)>, now_ns: u64) -> Result<Offered, Stopped> {
        let shared = &self.shared;
        let window = shared.acks.window(self.producer_index);
        let mut outgoing = recycle(std::mem::take(&mut self.outgoing));
        let BatchSize { measured, payload_bytes } = self.messages.make(intended, now_ns, &mut outgoing);
        self.attempted.measured += measured;
        let of_warm_up = outgoing.len() as u64 - measured;
        if of_warm_up > 0 {
            self.attempted.warm_up += of_warm_up;
            // Before they count as handed over, so that a checkpoint never takes them for measured ones.
            window.set_warm_up(self.attempted.warm_up);
        }
        window.submit(outgoing.len() as u64);
        shared.quota.spend(if measured > 0 { payload_bytes } else { 0 });

        let (offered, rest) = offer(&mut self.producer, &shared.acks, &shared.trial_window, &outgoing).await;
        withdraw(rest, &mut self.attempted, window);
        self.outgoing = recycle(outgoing);
        offered
    }
}

/// Takes back messages that the client did not accept: they were not attempted.
fn withdraw(rest: &[Outgoing<'_>], attempted: &mut Attempted, window: &Window) {
    if rest.is_empty() {
        return;
    }
    let withdrawn = rest.len() as u64;
    let measured = rest.iter().filter(|outgoing| outgoing.send_tag.measured()).count() as u64;
    attempted.measured -= measured;
    attempted.warm_up -= withdrawn - measured;
    window.set_warm_up(attempted.warm_up);
    window.withdraw(withdrawn);
}

/// An empty vector for another batch's borrows with the memory of the last one: collecting in place keeps it.
fn recycle<'a>(mut used: Vec<Outgoing<'_>>) -> Vec<Outgoing<'a>> {
    used.clear();
    used.into_iter().map(|_| -> Outgoing<'a> { unreachable!("the vector was cleared") }).collect()
}

/// The load was stopped while the client had no room, or because it takes no message any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offered {
    /// The client took messages, or refused them for their size.
    Taken,
    /// The client refused all messages, whatever they are.
    Refused,
}

/// Hands `batch` over, in as many pieces as the client wants. Returns what was not handled, which is nothing unless the load is
/// stopped. A client that takes no message any more ends the load.
async fn offer<'b, 'm, P: Producer>(
    producer: &mut P,
    acks: &Acks,
    trial_window: &TrialWindow,
    batch: &'b [Outgoing<'m>],
) -> (Result<Offered, Stopped>, &'b [Outgoing<'m>]) {
    let mut rest = batch;
    let (mut taken, mut refused) = (false, false);
    while let Some(first) = rest.first() {
        let refusal = tokio::select! {
            biased;
            count = producer.submit(rest) => match count {
                Ok(count) => {
                    rest = &rest[count..];
                    taken = true;
                    continue;
                }
                Err(refusal) => refusal,
            },
            () = trial_window.stopped() => return (Err(Stopped), rest),
        };
        refused |= refusal.class != FailureClass::TooLarge;
        trial_window.count_refusal();
        acks.reject(first.send_tag, refusal.class, || refusal.message);
        rest = &rest[1..];
        if let Some(reason) = producer.fatal_error() {
            trial_window.fail(reason);
            return (Err(Stopped), rest);
        }
    }
    let offered = if refused && !taken { Offered::Refused } else { Offered::Taken };
    (Ok(offered), rest)
}

/// Collects the producers of a trial.
pub struct Closing<P>(Arc<Mutex<Vec<P>>>);

impl<P> Clone for Closing<P> {
    fn clone(&self) -> Self {
        Closing(self.0.clone())
    }
}

impl<P: Producer> Closing<P> {
    pub fn new() -> Self {
        Closing(Arc::default())
    }

    pub fn add(&self, producer: P) {
        self.0.lock().push(producer);
    }

    /// Closes all producers, as far as there is time.
    pub async fn close(self) {
        let producers = std::mem::take(&mut *self.0.lock());
        // Those that are late are dropped.
        let _ = timeout(CLOSE_TIMEOUT, join_all(producers.into_iter().map(Producer::close))).await;
    }
}
