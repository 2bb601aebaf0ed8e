//! The broker's end of one connection: it takes messages and acknowledges them at the scripted time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};

use super::group::Message;
use super::script::{MessageFaults, Script};
use super::topic::Delivery;
use crate::broker::{FailureClass, Outgoing};
use crate::measure::{AckBatch, AckRecorder, Clock, PartitionIndex, SendTag};

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

/// A message that is acknowledged later.
struct Pending {
    due_ns: u64,
    delivery: Arc<Delivery>,
    send_tag: SendTag,
    counted_in: PartitionIndex,
    payload_bytes: usize,
    faults: MessageFaults,
    message: Option<Message>,
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

    /// Takes a batch: each message will be acknowledged, failed or ignored, by its faults.
    pub fn accept(&self, batch: &[Outgoing<'_>], delivery: &Arc<Delivery>) {
        let delivered = delivery.has_consumers();
        if self.script.takes_time() {
            self.enqueue(batch, delivery, delivered);
            return;
        }
        let mut acks = self.recorder.batch();
        if self.script.is_plain() && !delivered {
            for outgoing in batch {
                acks.to_partition(delivery.counted_in(outgoing));
                acks.acknowledged(outgoing.send_tag, outgoing.payload.len());
            }
            return;
        }
        for outgoing in batch {
            let message = delivered.then(|| Message::new(outgoing));
            acks.to_partition(delivery.counted_in(outgoing));
            settle(&mut acks, outgoing.send_tag, outgoing.payload.len(), self.script.deal(), message, delivery);
        }
    }

    fn enqueue(&self, batch: &[Outgoing<'_>], delivery: &Arc<Delivery>, delivered: bool) {
        let mut queue = self.queue.lock();
        let now_ns = self.clock.now_ns();
        let first_ns = *queue.first_ns.get_or_insert(now_ns);
        for outgoing in batch {
            let message = delivered.then(|| Message::new(outgoing));
            let faults = self.script.deal();
            let answered_ns = self.script.acknowledged_at(self.script.served_at(now_ns) - first_ns);
            let due_ns = first_ns + answered_ns + self.script.lateness().as_nanos() as u64;
            let pending = Pending {
                due_ns,
                delivery: delivery.clone(),
                send_tag: outgoing.send_tag,
                counted_in: delivery.counted_in(outgoing),
                payload_bytes: outgoing.payload.len(),
                faults,
                message,
            };
            // Nearly always at the end: only late answers have others before them.
            let index = queue.pending.iter().rposition(|other| other.due_ns <= due_ns).map_or(0, |before| before + 1);
            queue.pending.insert(index, pending);
        }
        drop(queue);
        self.changed.notify_one();
    }

    /// Ends the thread; what is queued stays unanswered.
    pub fn stop(&self) {
        self.queue.lock().stopped = true;
        self.changed.notify_one();
    }

    fn serve(&self) {
        let mut queue = self.queue.lock();
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
                queue = self.queue.lock();
                continue;
            }
            match queue.pending.front() {
                Some(next) => {
                    let due = self.clock.instant(next.due_ns);
                    self.changed.wait_until(&mut queue, due);
                }
                None => self.changed.wait(&mut queue),
            }
        }
    }

    fn answer(&self, ready: Vec<Pending>) {
        let mut acks = self.recorder.batch();
        for Pending { delivery, send_tag, counted_in, payload_bytes, faults, message, .. } in ready {
            acks.to_partition(counted_in);
            settle(&mut acks, send_tag, payload_bytes, faults, message, &delivery);
        }
    }
}

/// Delivers and answers a message according to its faults.
fn settle(
    acks: &mut AckBatch<'_>,
    send_tag: SendTag,
    payload_bytes: usize,
    faults: MessageFaults,
    message: Option<Message>,
    delivery: &Delivery,
) {
    if !faults.ignored
        && (!faults.failed || faults.stored)
        && let Some(message) = message
    {
        delivery.deliver(message, faults);
    }
    if faults.failed {
        acks.failed(send_tag, FailureClass::Injected, || "refused by the null broker's script".to_owned());
    } else if !faults.ignored {
        acks.acknowledged(send_tag, payload_bytes);
    }
}
