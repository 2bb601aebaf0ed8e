//! A publisher's messages without a confirmation, by publishing id.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::super::codec::code;
use crate::measure::SendTag;

/// Publishing ids have no gaps, so that an id is an index of the queue.
#[derive(Debug, Default)]
pub struct Pending {
    /// The id of the queue's front.
    first_id: u64,
    messages: VecDeque<Entry>,
    /// What was written, where it is to be written again after a loss.
    kept: Option<VecDeque<Kept>>,
    /// The first loss since the last confirmation.
    lost_since: Option<Instant>,
}

/// A frame, and the last id in it.
#[derive(Debug)]
struct Kept {
    last_id: u64,
    frame: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    send_tag: SendTag,
    bytes: u32,
    /// Shares the publishing id of the message after it: both are of one sub-entry.
    joined: bool,
    settled: bool,
}

/// A message whose outcome is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    pub send_tag: SendTag,
    pub bytes: u32,
    /// The protocol's: OK, or what it was refused with.
    pub code: u16,
}

impl Pending {
    /// Frames are kept until their messages have outcomes.
    pub fn keeping() -> Self {
        Pending { kept: Some(VecDeque::new()), ..Pending::default() }
    }

    /// Whether messages survive the loss of their connection.
    pub fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// The frame with the messages that were added last.
    #[inline]
    pub fn keep(&mut self, frame: &[u8]) {
        let last_id = self.next_id().wrapping_sub(1);
        if let Some(kept) = &mut self.kept {
            kept.push_back(Kept { last_id, frame: frame.to_vec() });
        }
    }

    /// The connection or the stream was lost.
    pub fn mark_lost(&mut self) {
        self.lost_since.get_or_insert_with(Instant::now);
    }

    /// Whether that was longer than `patience` ago, and nothing has had an outcome since.
    pub fn is_lost_for(&self, patience: Duration) -> bool {
        self.lost_since.is_some_and(|since| since.elapsed() >= patience)
    }

    /// The server has given an outcome: forgets frames whose messages have outcomes, and the loss.
    pub fn release(&mut self) {
        self.lost_since = None;
        self.forget_frames();
    }

    fn forget_frames(&mut self) {
        let Some(kept) = &mut self.kept else { return };
        while kept.front().is_some_and(|kept| kept.last_id < self.first_id) {
            kept.pop_front();
        }
    }

    /// The frames whose messages have no outcomes, in their order.
    pub fn kept(&self) -> impl Iterator<Item = &[u8]> {
        self.kept.iter().flatten().map(|kept| &kept.frame[..])
    }

    /// Messages without an outcome.
    pub fn unconfirmed(&self) -> usize {
        self.messages.iter().filter(|entry| !entry.settled).count()
    }

    /// Ids begin after `last`, which the server has.
    pub fn begin_after(&mut self, last: u64) {
        if self.messages.is_empty() {
            self.first_id = self.first_id.max(last.saturating_add(1));
        }
    }

    /// The id that the next message will have.
    #[inline]
    pub fn next_id(&self) -> u64 {
        self.first_id + self.messages.len() as u64
    }

    /// `joined`: the message after this one will have the id that both are confirmed by.
    #[inline]
    pub fn push(&mut self, send_tag: SendTag, bytes: usize, joined: bool) {
        self.messages.push_back(Entry { send_tag, bytes: bytes as u32, joined, settled: false });
    }

    /// Settles an id. Ignores an id that is unknown or already settled.
    #[inline]
    pub fn settle(&mut self, id: u64, code: u16, settled: &mut Vec<Settled>) {
        let Some(index) = id.checked_sub(self.first_id) else { return };
        let Ok(mut index) = usize::try_from(index) else { return };
        match self.messages.get_mut(index) {
            Some(entry) if !entry.settled && !entry.joined => {
                entry.settled = true;
                settled.push(Settled { send_tag: entry.send_tag, bytes: entry.bytes, code });
            }
            _ => return,
        }
        while let Some(before) = index.checked_sub(1)
            && let Some(entry) = self.messages.get_mut(before)
            && entry.joined
        {
            index = before;
            entry.settled = true;
            settled.push(Settled { send_tag: entry.send_tag, bytes: entry.bytes, code });
        }
        while self.messages.front().is_some_and(|entry| entry.settled) {
            self.messages.pop_front();
            self.first_id += 1;
        }
    }

    /// Removes the messages from the front for which `is_overdue` is true. Their confirmations will be ignored.
    pub fn take_overdue(&mut self, is_overdue: impl Fn(SendTag) -> bool, overdue: &mut Vec<Settled>) {
        while let Some(entry) = self.messages.front().filter(|entry| entry.settled || is_overdue(entry.send_tag)) {
            if !entry.settled {
                overdue.push(Settled { send_tag: entry.send_tag, bytes: entry.bytes, code: code::OK });
            }
            self.messages.pop_front();
            self.first_id += 1;
        }
        self.forget_frames();
    }

    /// Gives all of them one outcome.
    pub fn settle_all(&mut self, code: u16, settled: &mut Vec<Settled>) {
        self.first_id = self.next_id();
        for entry in self.messages.drain(..) {
            if !entry.settled {
                settled.push(Settled { send_tag: entry.send_tag, bytes: entry.bytes, code });
            }
        }
        self.release();
    }
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/rabbitmq_stream/connection/pending.rs"]
mod tests;
