//! What the task of a node does next: it fetches, sends answers, or ends the session.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::answers::{Answer, Answers};

/// The member's session with a node.
pub(super) struct NodeState {
    /// The number of its task.
    pub(super) session: u64,
    pub(super) partitions: BTreeSet<u32>,
    pub(super) answers: Answers,
    /// Deliveries that the consumer has not answered.
    pub(super) held: usize,
}

/// A request to a node.
pub(super) enum Step {
    Fetch(Uuid, BTreeSet<u32>, Answers),
    Acknowledge(Uuid, Answers),
    End(Uuid, Answers),
}

impl Step {
    /// What to do at a node now; `node` is `None` when the member has no session with it any more. `is_explicit`: answers have requests of their own.
    pub(super) fn next(topic: Uuid, node: Option<&mut NodeState>, is_closing: bool, is_explicit: bool) -> Option<Self> {
        let Some(NodeState { partitions, answers, held, .. }) = node else {
            return Some(Step::End(topic, Answers::new()));
        };
        let is_answered = *held == 0;
        // What is renewed is accepted afterwards.
        let has_renewals = || answers.values().flatten().any(|stretch| stretch.answer == Answer::Renew);
        if (is_closing || partitions.is_empty() && is_answered) && !has_renewals() {
            return Some(Step::End(topic, std::mem::take(answers)));
        }
        // A fetch would have the node deliver of what it answers.
        let has_strays = || answers.keys().any(|partition| !partitions.contains(partition));
        if !answers.is_empty() && (is_explicit || is_answered && has_strays()) {
            return Some(Step::Acknowledge(topic, std::mem::take(answers)));
        }
        is_answered.then(|| Step::Fetch(topic, partitions.clone(), std::mem::take(answers)))
    }

    /// Only the answers, and the end of the session.
    pub(super) fn into_last(self) -> Self {
        match self {
            Step::Fetch(topic, _, answers) | Step::Acknowledge(topic, answers) | Step::End(topic, answers) => {
                Step::End(topic, answers)
            }
        }
    }
}
