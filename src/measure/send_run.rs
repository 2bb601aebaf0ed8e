//! Messages that were sent together, in one entry: what is known of each of them follows from the first one.

use super::send_tag::SendTag;

/// Messages of one producer with consecutive numbers that were sent at the same moment, as late as each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendRun {
    pub first: SendTag,
    /// At least 1.
    pub messages: u32,
    /// Of all of them.
    pub payload_bytes: u32,
}

impl SendRun {
    /// Adds a message, if it is the next one. Returns whether it is.
    #[inline]
    fn takes(&mut self, send_tag: SendTag, payload_bytes: u32) -> bool {
        if send_tag != self.first.plus(self.messages) {
            return false;
        }
        let Some(all_bytes) = self.payload_bytes.checked_add(payload_bytes) else { return false };
        self.messages += 1;
        self.payload_bytes = all_bytes;
        true
    }

    /// Those of its messages.
    pub fn send_tags(self) -> impl Iterator<Item = SendTag> {
        (0..self.messages).map(move |number| self.first.plus(number))
    }
}

/// Messages in the order in which they were sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SendRuns {
    runs: Vec<SendRun>,
    messages: usize,
}

impl SendRuns {
    #[inline]
    pub fn push(&mut self, send_tag: SendTag, payload_bytes: u32) {
        self.messages += 1;
        if self.runs.last_mut().is_none_or(|last| !last.takes(send_tag, payload_bytes)) {
            self.runs.push(SendRun { first: send_tag, messages: 1, payload_bytes });
        }
    }

    /// Appends all of `others`.
    pub fn append(&mut self, others: &SendRuns) {
        self.messages += others.messages;
        self.runs.extend_from_slice(&others.runs);
    }

    /// How many messages they are.
    #[inline]
    pub fn messages(&self) -> usize {
        self.messages
    }

    #[inline]
    pub fn runs(&self) -> &[SendRun] {
        &self.runs
    }

    /// Those of all messages.
    pub fn send_tags(&self) -> impl Iterator<Item = SendTag> {
        self.runs.iter().flat_map(|run| run.send_tags())
    }

    pub fn clear(&mut self) {
        self.runs.clear();
        self.messages = 0;
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<SendRun>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Producers that send a few messages at a time, in any order, some of them measured, with payloads of any size.
        #[test]
        fn every_message_comes_back(sent in proptest::collection::vec((0..3_usize, 1..5_u64, 0..3_u64, any::<bool>(), 0..=u32::MAX / 2), 0..40)) {
            let mut next = [0; 3];
            let (mut runs, mut all, mut bytes) = (SendRuns::default(), Vec::new(), 0);
            for (producer, messages, moment, measured, payload_bytes) in sent {
                for _ in 0..messages {
                    let send_tag = SendTag::new(producer, next[producer], moment * 1_000, 0, measured);
                    next[producer] += 1;
                    runs.push(send_tag, payload_bytes);
                    all.push(send_tag);
                    bytes += u64::from(payload_bytes);
                }
            }
            prop_assert_eq!(runs.messages(), all.len());
            prop_assert_eq!(runs.runs().iter().map(|run| u64::from(run.payload_bytes)).sum::<u64>(), bytes);
            prop_assert_eq!(runs.send_tags().collect::<Vec<_>>(), all);
        }
    }

    #[test]
    fn messages_that_were_sent_together_take_one_entry() {
        let mut runs = SendRuns::default();
        (0..500).for_each(|number| runs.push(SendTag::new(1, number, 100, 0, true), 10));
        (500..700).for_each(|number| runs.push(SendTag::new(1, number, 200, 0, true), 10));
        let entries: Vec<_> = runs.runs().iter().map(|run| (run.messages, run.payload_bytes)).collect();
        assert_eq!(entries, [(500, 5_000), (200, 2_000)]);
    }
}
