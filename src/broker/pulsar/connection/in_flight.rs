//! What a producer has sent and awaits an answer for; with `resend`, entries to be sent again, which it had sent when the broker closed
//! it or its connection broke; frames that have arrived for a consumer; and the counts of what all connections have sent.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::broker::{ClientError, Telemetry, Wire};
use crate::measure::{Distribution, PartitionIndex, SendTag};

/// A message without a receipt: its send tag and payload size.
pub type Unanswered = (SendTag, u32);

/// The frame of each entry.
pub type Frames = VecDeque<Box<[u8]>>;

/// An entry that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry {
    /// The number of its first message.
    pub sequence_id: u64,
    pub messages: u32,
    pub sizes: EntrySizes,
}

/// A producer's messages without a receipt, oldest first.
pub struct Sent {
    /// The partition in which they are counted.
    pub counted_in: PartitionIndex,
    /// Each entry, and when it was handed over.
    pub entries: VecDeque<(Entry, Instant)>,
    pub messages: VecDeque<Unanswered>,
    /// The time at which the broker closed the producer.
    pub closed: Option<Instant>,
    /// The place for its entries when it is closed, and each entry's frame.
    pub resend: Option<(Arc<Kept>, Frames)>,
}

impl Sent {
    /// The state of a producer that has sent nothing; its messages are counted in `counted_in`. `kept`: where its entries go when it is closed.
    pub fn new(counted_in: PartitionIndex, kept: Option<Arc<Kept>>) -> Self {
        let resend = kept.map(|kept| (kept, VecDeque::new()));
        Sent { counted_in, entries: VecDeque::new(), messages: VecDeque::new(), closed: None, resend }
    }

    /// Removes the oldest entries for which `is_due` holds, and appends their messages to `due`.
    pub fn expire(&mut self, due: &mut Vec<Unanswered>, is_due: impl Fn(Instant) -> bool) {
        while let Some((entry, sent)) = self.entries.front()
            && is_due(*sent)
        {
            due.extend(self.messages.drain(..entry.messages as usize));
            self.entries.pop_front();
            if let Some((_, frames)) = &mut self.resend {
                frames.pop_front();
            }
        }
    }

    /// Copies the frames of `entries`, which are sent now.
    pub fn keep(&mut self, mut frames: &[u8], entries: &[Entry]) {
        let Some((_, kept)) = &mut self.resend else { return };
        for entry in entries {
            let (frame, behind) = frames.split_at(entry.sizes.sent_bytes);
            kept.push_back(frame.into());
            frames = behind;
        }
    }

    /// Ends it. Returns the messages that fail: all without an answer, or none if they are to be sent again.
    pub fn end(&mut self) -> Vec<Unanswered> {
        let Some((kept, frames)) = &mut self.resend else { return self.messages.drain(..).collect() };
        let messages = &mut self.messages;
        kept.put(self.entries.drain(..).zip(frames.drain(..)).map(|((entry, since), frame)| KeptEntry {
            entry,
            since,
            messages: messages.drain(..entry.messages as usize).collect(),
            frame,
        }));
        Vec::new()
    }
}

/// An entry without an answer.
pub struct KeptEntry {
    pub entry: Entry,
    /// The time at which it was handed over first.
    pub since: Instant,
    pub messages: Vec<Unanswered>,
    /// The bytes that were sent.
    pub frame: Box<[u8]>,
}

/// A partition producer's entries to be sent again, oldest first.
pub struct Kept {
    entries: Mutex<Vec<KeptEntry>>,
    /// What the broker refused one of them with, for now, since this was last asked.
    refusal: Mutex<Option<ClientError>>,
    /// Notified when there are entries.
    pub returned: Arc<Notify>,
}

impl Kept {
    pub fn new(returned: Arc<Notify>) -> Self {
        Kept { entries: Mutex::default(), refusal: Mutex::default(), returned }
    }

    pub fn put(&self, entries: impl Iterator<Item = KeptEntry>) {
        self.entries.lock().extend(entries);
        self.returned.notify_one();
    }

    pub fn take(&self) -> Vec<KeptEntry> {
        mem::take(&mut *self.entries.lock())
    }

    /// Takes the entries that were handed over `send_timeout` ago or earlier.
    pub fn take_late(&self, send_timeout: Duration) -> Vec<KeptEntry> {
        self.entries.lock().extract_if(.., |entry| entry.since.elapsed() >= send_timeout).collect()
    }

    /// When the first entry was handed over, if there are any.
    pub fn oldest(&self) -> Option<Instant> {
        self.entries.lock().first().map(|entry| entry.since)
    }

    /// The broker refused an entry, which then is put here.
    pub fn refuse(&self, refusal: ClientError) {
        *self.refusal.lock() = Some(refusal);
    }

    pub fn take_refusal(&self) -> Option<ClientError> {
        self.refusal.lock().take()
    }
}

/// The frames that have arrived for a consumer.
pub struct DeliveryQueue {
    contents: Mutex<Contents>,
    arrived: Arc<Notify>,
}

/// The messages that arrived.
#[derive(Default)]
pub struct Contents {
    /// Whole `Message` frames, one behind the other.
    pub frames: Vec<u8>,
    /// The reason why no more frames will arrive.
    pub closed: Option<ClientError>,
}

impl DeliveryQueue {
    /// `arrived` is notified when messages arrive.
    pub fn new(arrived: Arc<Notify>) -> Self {
        DeliveryQueue { contents: Mutex::default(), arrived }
    }

    /// Adds a frame. [`DeliveryQueue::announce`] wakes the consumer.
    pub fn put(&self, frame: &[u8]) {
        self.lock().frames.extend_from_slice(frame);
    }

    pub fn announce(&self) {
        self.arrived.notify_one();
    }

    /// Closes the queue and drops its frames: the broker will deliver them again.
    pub fn close(&self, failure: ClientError) {
        *self.lock() = Contents { frames: Vec::new(), closed: Some(failure) };
        self.arrived.notify_one();
    }

    /// Whether there are frames to take, or the queue was closed.
    pub fn is_waiting(&self) -> bool {
        let contents = self.lock();
        !contents.frames.is_empty() || contents.closed.is_some()
    }

    /// Whether no more frames will arrive.
    pub fn is_closed(&self) -> bool {
        self.lock().closed.is_some()
    }

    /// Takes all frames and leaves the empty `spare` for the next ones. Also returns why the queue was closed, if it was.
    pub fn take(&self, spare: Vec<u8>) -> Contents {
        let mut contents = self.lock();
        Contents { frames: mem::replace(&mut contents.frames, spare), closed: contents.closed.take() }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock()
    }
}

/// The sizes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntrySizes {
    /// The bytes of its messages' payloads.
    pub payload_bytes: usize,
    /// The bytes of its body without compression, and as it is.
    pub body_bytes: usize,
    pub sent_bytes: usize,
}

/// Counts since the last look.
#[derive(Default)]
pub struct Traffic {
    /// Entries sent.
    requests: AtomicU64,
    /// Entries sent again.
    retried: AtomicU64,
    answered: Mutex<Answered>,
    /// Answers to messages that await none any more.
    unmatched: AtomicU64,
}

#[derive(Default)]
struct Answered {
    wire: Wire,
    round_trips: Distribution,
}

impl Traffic {
    pub fn count_sent(&self, entries: usize) {
        self.requests.fetch_add(entries as u64, Ordering::Relaxed);
    }

    pub fn count_retried(&self, entries: usize) {
        self.retried.fetch_add(entries as u64, Ordering::Relaxed);
        self.count_sent(entries);
    }

    pub fn count_unmatched(&self, answers: u64) {
        self.unmatched.fetch_add(answers, Ordering::Relaxed);
    }

    /// Counts entries that the broker has taken, each with the time at which it was handed over.
    pub fn count_taken(&self, entries: impl Iterator<Item = (EntrySizes, Instant)>) {
        let now = Instant::now();
        let mut answered = self.answered.lock();
        let Answered { wire, round_trips } = &mut *answered;
        for (sizes, sent) in entries {
            wire.raw_bytes += sizes.payload_bytes as u64;
            wire.body_bytes += sizes.body_bytes as u64;
            wire.sent_bytes += sizes.sent_bytes as u64;
            round_trips.record(now.saturating_duration_since(sent).as_nanos() as u64);
        }
    }

    /// What was counted since the last call.
    pub fn take(&self) -> Telemetry {
        let mut answered = self.answered.lock();
        let requests = self.requests.swap(0, Ordering::Relaxed);
        let retried = self.retried.swap(0, Ordering::Relaxed);
        let wire = Wire { requests, retried, ..mem::take(&mut answered.wire) };
        Telemetry {
            unmatched_answers: self.unmatched.swap(0, Ordering::Relaxed),
            wire: Some(wire),
            ..Telemetry::take_round_trips(&mut answered.round_trips)
        }
    }
}
