//! What members of a share group answer to the messages that they were delivered, and what of it the broker has confirmed.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::options::ShareGroupOptions;
use crate::broker::ConsumerAnswers;
use crate::broker::fraction::is_sampled;

/// An answer, by its number in a request (`AcknowledgeTypes` of `ShareAcknowledgeRequest.json`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// There is no message at the offset.
    Gap = 0,
    Accept = 1,
    Release = 2,
    Reject = 3,
    /// The lock begins again (KIP-1222).
    Renew = 4,
}

/// The same answer to successive offsets of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    pub first: i64,
    pub last: i64,
    pub answer: Answer,
}

impl Stretch {
    pub fn messages(&self) -> u64 {
        u64::try_from(self.last - self.first + 1).unwrap_or(0)
    }
}

/// Answers by partition, in the order of their messages.
pub type Answers = BTreeMap<u32, Vec<Stretch>>;

/// Adds an answer to the offsets from `first` to `last`.
pub fn append(stretches: &mut Vec<Stretch>, next: Stretch) {
    match stretches.last_mut() {
        Some(before) if before.answer == next.answer && before.last + 1 == next.first => before.last = next.last,
        _ => stretches.push(next),
    }
}

/// Chooses what a member answers.
pub struct AnswerChoice {
    options: ShareGroupOptions,
    /// Messages so far that had a chance of each.
    numbers: [u64; 4],
}

impl AnswerChoice {
    pub fn new(options: ShareGroupOptions) -> Self {
        AnswerChoice { options, numbers: [0; 4] }
    }

    /// The answer to the next message. `None`: none, so that its lock expires.
    #[inline]
    pub fn next(&mut self, deliveries: i16) -> Option<Answer> {
        let ShareGroupOptions { release, reject, renew, expire, .. } = self.options;
        if deliveries > 1 || release + reject + renew + expire == 0.0 {
            return Some(Answer::Accept);
        }
        let wanted = [
            (release, Some(Answer::Release)),
            (reject, Some(Answer::Reject)),
            (renew, Some(Answer::Renew)),
            (expire, None),
        ];
        // Each is a fraction of what those before it have left.
        let mut left = 1.0;
        for ((share, answer), number) in wanted.into_iter().zip(&mut self.numbers) {
            if share > 0.0 {
                let is_chosen = is_sampled(*number, (share / left).min(1.0));
                *number += 1;
                if is_chosen {
                    return answer;
                }
                left -= share;
            }
        }
        Some(Answer::Accept)
    }
}

/// What all members of a group in this process have answered.
#[derive(Default)]
pub struct GroupAnswers {
    state: Mutex<Answered>,
}

#[derive(Default)]
struct Answered {
    counts: ConsumerAnswers,
    /// Of each partition the offsets whose acceptance the broker has confirmed.
    accepted: BTreeMap<u32, Offsets>,
}

impl GroupAnswers {
    /// The broker has confirmed these answers.
    pub fn confirmed(&self, partition: u32, stretches: &[Stretch]) {
        let Answered { counts, accepted, .. } = &mut *self.state.lock();
        for stretch in stretches {
            let messages = stretch.messages();
            match stretch.answer {
                Answer::Gap => {}
                Answer::Accept => {
                    counts.accepted += messages;
                    accepted.entry(partition).or_default().insert(stretch.first, stretch.last);
                }
                Answer::Release => counts.released += messages,
                Answer::Reject => counts.rejected += messages,
                Answer::Renew => counts.renewed += messages,
            }
        }
    }

    /// The broker has refused these answers, or has not said what became of them.
    pub fn unconfirmed<'a>(&self, stretches: impl IntoIterator<Item = &'a Stretch>) {
        let messages: u64 = stretches.into_iter().filter(|one| one.answer != Answer::Gap).map(Stretch::messages).sum();
        self.state.lock().counts.unconfirmed += messages;
    }

    /// Messages were delivered for the `deliveries`th time.
    pub fn delivered(&self, deliveries: i16) {
        let most = &mut self.state.lock().counts.most_deliveries;
        *most = (*most).max(u64::try_from(deliveries).unwrap_or(0));
    }

    /// A message is left without an answer.
    pub fn left_to_expire(&self, messages: u64) {
        self.state.lock().counts.left_to_expire += messages;
    }

    /// Whether the broker has confirmed the acceptance of one of these messages before.
    pub fn has_accepted(&self, partition: u32, first: i64, last: i64) -> bool {
        self.state.lock().accepted.get(&partition).is_some_and(|accepted| accepted.overlap(first, last))
    }

    pub fn counts(&self) -> ConsumerAnswers {
        self.state.lock().counts.clone()
    }
}

/// A set of offsets, as stretches by their first.
#[derive(Default)]
struct Offsets(BTreeMap<i64, i64>);

impl Offsets {
    fn insert(&mut self, first: i64, last: i64) {
        let (mut first, mut last) = (first, last);
        // Those that begin no later than right after it, from the back.
        while let Some((begin, end)) =
            self.0.range(..=last.saturating_add(1)).next_back().map(|(begin, end)| (*begin, *end))
            && end.saturating_add(1) >= first
        {
            self.0.remove(&begin);
            (first, last) = (first.min(begin), last.max(end));
        }
        self.0.insert(first, last);
    }

    fn overlap(&self, first: i64, last: i64) -> bool {
        self.0.range(..=last).next_back().is_some_and(|(_, end)| *end >= first)
    }
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/kafka_native/share/answers.rs"]
mod tests;
