//! One connection's far end: takes messages and acknowledges them when the script says.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::delivery::{Delivery, Message};
use super::script::{Fate, Script};
use crate::broker::{FailureClass, Outgoing};
use crate::measure::{AckBatch, AckRecorder, Clock, SendTag};

/// Acknowledges at once while the script takes no time, else from a queue on a thread of its own.
pub struct Server {
    script: Arc<Script>,
    recorder: AckRecorder,
    clock: Clock,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    pending: VecDeque<Pending>,
    /// When the first message came, in nanoseconds since the trial's epoch.
    first_ns: Option<u64>,
    stopped: bool,
}

/// A message whose acknowledgement waits for its time, or a producer's end.
struct Pending {
    due_ns: u64,
    delivery: Arc<Delivery>,
    message: Option<(SendTag, usize, Fate, Option<Message>)>,
}

impl Server {
    pub fn start(script: Arc<Script>, recorder: AckRecorder, clock: Clock) -> Arc<Self> {
        let takes_time = script.takes_time();
        let server = Arc::new(Server { script, recorder, clock, queue: Mutex::default(), changed: Condvar::new() });
        if takes_time {
            let served = server.clone();
            thread::spawn(move || served.serve());
        }
        server
    }

    /// Takes a batch: each message will be acknowledged, failed or ignored, as its fate is.
    pub fn accept(&self, batch: &[Outgoing<'_>], delivery: &Arc<Delivery>) {
        let delivered = delivery.is_heard();
        if self.script.takes_time() {
            self.enqueue(batch, delivery, delivered);
            return;
        }
        let mut acks = self.recorder.batch();
        if self.script.is_plain() && !delivered {
            for outgoing in batch {
                acks.acknowledged(outgoing.stamp, outgoing.payload.len());
            }
            return;
        }
        for outgoing in batch {
            let message = delivered.then(|| Message::new(outgoing));
            settle(&mut acks, outgoing.stamp, outgoing.payload.len(), self.script.deal(), message, delivery);
        }
    }

    fn enqueue(&self, batch: &[Outgoing<'_>], delivery: &Arc<Delivery>, delivered: bool) {
        let mut queue = self.lock();
        let now_ns = self.clock.now_ns();
        let first_ns = *queue.first_ns.get_or_insert(now_ns);
        let due_ns = first_ns + self.script.acknowledged_at(now_ns - first_ns);
        for outgoing in batch {
            let message = delivered.then(|| Message::new(outgoing));
            let fate = self.script.deal();
            let message = Some((outgoing.stamp, outgoing.payload.len(), fate, message));
            let due_ns = due_ns + self.script.lateness().as_nanos() as u64;
            let pending = Pending { due_ns, delivery: delivery.clone(), message };
            // Nearly always at the end: only what is late has others come before it.
            let place = queue.pending.iter().rposition(|other| other.due_ns <= due_ns).map_or(0, |before| before + 1);
            queue.pending.insert(place, pending);
        }
        drop(queue);
        self.changed.notify_one();
    }

    /// What the producer's delivery still holds back may go, after all that it sent.
    pub fn producer_ends(&self, delivery: &Arc<Delivery>) {
        let mut queue = self.lock();
        if queue.pending.is_empty() || queue.stopped {
            delivery.let_go();
        } else {
            let due_ns = queue.pending.back().map_or(0, |last| last.due_ns);
            queue.pending.push_back(Pending { due_ns, delivery: delivery.clone(), message: None });
        }
    }

    /// Ends the thread; what is queued stays unanswered.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_one();
    }

    fn serve(&self) {
        let mut queue = self.lock();
        loop {
            if queue.stopped {
                return;
            }
            let now_ns = self.clock.now_ns();
            let due = queue.pending.partition_point(|pending| pending.due_ns <= now_ns);
            if due > 0 {
                let ready: Vec<Pending> = queue.pending.drain(..due).collect();
                drop(queue);
                self.answer(ready);
                queue = self.lock();
                continue;
            }
            queue = match queue.pending.front() {
                Some(next) => {
                    let wait = self.clock.instant(next.due_ns).saturating_duration_since(Instant::now());
                    let wait = wait.max(Duration::from_nanos(1));
                    self.changed.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn answer(&self, ready: Vec<Pending>) {
        let mut acks = self.recorder.batch();
        for Pending { delivery, message, .. } in ready {
            match message {
                Some((stamp, bytes, fate, message)) => settle(&mut acks, stamp, bytes, fate, message, &delivery),
                None => delivery.let_go(),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets a message meet its fate.
fn settle(
    acks: &mut AckBatch<'_>,
    stamp: SendTag,
    payload_bytes: usize,
    fate: Fate,
    message: Option<Message>,
    delivery: &Delivery,
) {
    if !fate.ignored
        && (!fate.failed || fate.stored)
        && let Some(message) = message
    {
        delivery.deliver(message, fate);
    }
    if fate.failed {
        acks.failed(stamp, FailureClass::Injected, || "refused by the null broker's script".to_owned());
    } else if !fate.ignored {
        acks.acknowledged(stamp, payload_bytes);
    }
}
