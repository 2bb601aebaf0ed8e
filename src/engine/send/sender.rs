//! One producer's task: a loop that decides when to send, and the handing over of messages to its client, which counts them.
//!
//! - Open loop: a producer sends what its schedule has due, regardless of what the broker answers.
//! - Closed loop: a producer sends as fast as its window allows.
//! - Rounds: every producer sends one batch, and the next round begins when all batches are acknowledged.

use std::sync::Arc;

use parking_lot::Mutex;

use super::message_source::{BatchSize, MessageSource};
use super::pacer::{Pace, WakeUp};
use super::window::{FirstSent, Quota, Rounds, TrialWindow, WindowRule};
use crate::broker::{FailureClass, Outgoing, Producer};
use crate::load::SendSchedule;
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
    /// What all of these producers have handed over.
    pub fn sum(sent: &[Sent]) -> Self {
        let attempted = || sent.iter().map(|sent| sent.attempted);
        let measured = attempted().map(|attempted| attempted.measured).sum();
        Attempted { measured, warm_up: attempted().map(|attempted| attempted.warm_up).sum() }
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

/// Sends each message when it is due. Messages that are late go out at once, each with its own intended time.
pub async fn run_open<P: Producer>(
    mut sender: Sender<P>,
    rule: WindowRule,
    send_schedule: SendSchedule,
    pace: Arc<Pace>,
) -> Sent {
    let shared = sender.shared.clone();
    let trial_window: &TrialWindow = &shared.trial_window;
    let window = shared.acks.window(sender.producer_index);
    let mut due = Due::new(send_schedule, rule.batch as usize);
    loop {
        let mut now_ns = trial_window.clock().now_ns();
        let next_ns = due.next_ns(trial_window);
        if !trial_window.is_open(next_ns) {
            break;
        }
        if next_ns > now_ns {
            let earliest_ns = due.wake_up.woken_ns + pace.wake_interval_ns();
            let alarm_ns = next_ns.max(earliest_ns).min(trial_window.load_end_ns);
            due.wake_up = pace.sleep_until(alarm_ns, trial_window).await;
            continue;
        }
        due.gather(&shared, now_ns);
        if due.messages.is_empty() {
            // The quota is used up: later messages of the schedule are not due.
            return sender.end(Some(due.measured));
        }
        let needed = rule.needed(window.submitted(), due.messages.len() as u64);
        if window.resolved() < needed {
            if !window.resolved_reaches(needed, shared.acks.stopped()).await {
                break;
            }
            now_ns = trial_window.clock().now_ns();
        }
        if sender.send_due(&due.messages, now_ns).await.is_err() {
            break;
        }
        tokio::task::coop::consume_budget().await;
    }
    due.count_rest(trial_window);
    sender.end(Some(due.measured))
}

/// What a producer's schedule has due.
struct Due {
    send_schedule: SendSchedule,
    most: usize,
    /// The batch to be sent: intended times since the trial's epoch, and whether the messages are measured.
    messages: Vec<(u64, bool)>,
    /// Measured messages that were due, sent or not.
    measured: u64,
    /// The last one.
    wake_up: WakeUp,
}

impl Due {
    fn new(send_schedule: SendSchedule, most: usize) -> Self {
        let (messages, wake_up) = (Vec::with_capacity(most), WakeUp::default());
        Due { send_schedule, most, messages, measured: 0, wake_up }
    }

    /// Intended time of the next message.
    fn next_ns(&self, trial_window: &TrialWindow) -> u64 {
        trial_window.load_start_ns.saturating_add(self.send_schedule.peek())
    }

    /// Makes a batch of messages that are due by `now_ns`; an empty one when the quota is used up.
    fn gather(&mut self, shared: &SenderShared, now_ns: u64) {
        let trial_window: &TrialWindow = &shared.trial_window;
        let WakeUp { alarm_ns, woken_ns } = self.wake_up;
        let mut delays = trial_window.wake_up_delays();
        self.messages.clear();
        while self.messages.len() < self.most {
            let intended_ns = self.next_ns(trial_window);
            if intended_ns > now_ns || intended_ns >= trial_window.load_end_ns {
                break;
            }
            let measured = trial_window.is_measured(intended_ns);
            if measured && shared.quota.take(1) == 0 {
                break;
            }
            self.messages.push((intended_ns, measured));
            if measured && intended_ns <= woken_ns {
                delays.timers.record(woken_ns.saturating_sub(intended_ns.max(alarm_ns)));
                delays.all.record(woken_ns - intended_ns);
            }
            self.measured += u64::from(measured);
            self.send_schedule.advance();
        }
    }

    /// Counts what was due before the load ended, or was stopped, and was not sent.
    fn count_rest(&mut self, trial_window: &TrialWindow) {
        let ended_ns = trial_window.load_end_ns.min(trial_window.clock().now_ns());
        let since_load_start = |at_ns: u64| at_ns.saturating_sub(trial_window.load_start_ns);
        self.send_schedule.skip_until(since_load_start(trial_window.measure_start_ns.min(ended_ns)));
        self.measured += self.send_schedule.skip_until(since_load_start(ended_ns));
    }
}

/// Sends as fast as the window allows.
pub async fn run_closed<P: Producer>(mut sender: Sender<P>, rule: WindowRule) -> Sent {
    let shared = sender.shared.clone();
    let trial_window: &TrialWindow = &shared.trial_window;
    let window = shared.acks.window(sender.producer_index);
    trial_window.begun().await;
    loop {
        let needed = rule.needed(window.submitted(), rule.batch);
        if !window.resolved_reaches(needed, shared.acks.stopped()).await {
            break;
        }
        let now_ns = trial_window.clock().now_ns();
        if !trial_window.is_open(now_ns) {
            break;
        }
        let measured = trial_window.is_measured(now_ns);
        let count = if measured { shared.quota.take(rule.batch) } else { rule.batch };
        if count == 0 || sender.send_now(count as usize, now_ns, measured).await.is_err() {
            break;
        }
        // Where nothing ever waits (a broker in this process), other tasks must still get their turn.
        tokio::task::coop::consume_budget().await;
    }
    sender.end(None)
}

/// Sends a batch in every round, then waits for its acknowledgements and for all other producers.
pub async fn run_rounds<P: Producer>(mut sender: Sender<P>, rule: WindowRule, rounds: Arc<Rounds>) -> Sent {
    let shared = sender.shared.clone();
    let window = shared.acks.window(sender.producer_index);
    let mut finished = 0;
    shared.trial_window.begun().await;
    loop {
        let round = rounds.next(finished).await;
        if !round.go {
            break;
        }
        finished = round.number;
        let now_ns = shared.trial_window.clock().now_ns();
        let measured = shared.trial_window.is_measured(round.begin_ns);
        if sender.send_now(rule.batch as usize, now_ns, measured).await.is_err() {
            break;
        }
        if !window.resolved_reaches(window.submitted(), shared.acks.stopped()).await {
            break;
        }
        tokio::task::coop::consume_budget().await;
    }
    sender.end(None)
}

/// The producers of a trial that have ended, to be closed once their messages have been answered.
pub type Closing<P> = Arc<Mutex<Vec<P>>>;

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

    /// Ends the producer: what was handed over, of `due` measured messages.
    fn end(mut self, due: Option<u64>) -> Sent {
        self.producer.finish();
        self.closing.lock().push(self.producer);
        Sent { producer_index: self.producer_index, attempted: self.attempted, due }
    }

    /// Sends `count` messages that are all intended now, as in a closed loop. If all of them are refused, pauses: the next ones
    /// would be as well, as fast as the processor allows.
    ///
    /// # Errors
    /// When the load was stopped before the client had taken all of them.
    async fn send_now(&mut self, count: usize, now_ns: u64, measured: bool) -> Result<(), Stopped> {
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
    async fn send_due(&mut self, intended: &[(u64, bool)], now_ns: u64) -> Result<(), Stopped> {
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
struct Stopped;

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offered {
    /// The client took messages, or refused them for their size.
    Taken,
    /// The client refused all messages, regardless of their contents.
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
