//! What a producer has sent and awaits an answer for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::kept::{Kept, KeptEntry};
use crate::broker::pulsar::traffic::EntrySizes;
use crate::measure::{PartitionIndex, SendTag};

/// A message without a receipt: its send tag and payload size.
pub type Unanswered = (SendTag, u32);

/// The frame of each entry.
pub type Frames = VecDeque<Box<[u8]>>;

/// An entry that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry {
    /// Of its first message.
    pub sequence_id: u64,
    pub messages: u32,
    pub sizes: EntrySizes,
}

/// A producer's messages without a receipt, oldest first.
pub struct Sent {
    /// Where they are counted.
    pub counted_in: PartitionIndex,
    /// Each entry, and when it was handed over.
    pub entries: VecDeque<(Entry, Instant)>,
    pub messages: VecDeque<Unanswered>,
    /// When the broker closed the producer.
    pub closed: Option<Instant>,
    /// Where its entries go when it is closed, and each entry's frame.
    pub resend: Option<(Arc<Kept>, Frames)>,
}

impl Sent {
    /// Of a producer whose messages are counted there, without a message. `kept`: where its entries go when it is closed.
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
