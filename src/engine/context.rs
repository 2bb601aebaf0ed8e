//! What every phase of a trial knows: the scenario, the topics, and where outcomes and arrivals are recorded.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::TrialIdentity;
use super::observer::TopicProgress;
use crate::broker::{Durability, Topic};
use crate::load::PayloadPool;
use crate::measure::{Acks, Arrivals, Verification};
use crate::scenario::{Load, Placement, ProducerMode, Producers, Scenario};

/// How long connecting, preparing and closing may each take.
pub(super) const CONTROL_TIMEOUT: Duration = Duration::from_secs(20);

/// How long the broker may take to tell what its acknowledgements mean. Without an answer it is unknown.
pub(super) const DURABILITY_TIMEOUT: Duration = Duration::from_secs(5);

/// How many producers or consumers are made at the same time.
pub(super) const AT_ONCE: usize = 256;

/// A trial whose topics are prepared.
pub(super) struct TrialContext<'a> {
    pub scenario: &'a Scenario,
    pub identity: &'a TrialIdentity,
    pub started_at: SystemTime,
    pub topics: Vec<Topic>,
    /// Messages that topics of the scenario's own names had been written to before, by their end offsets; `None` where the
    /// topics are new or the broker does not tell.
    pub messages_before: Option<u64>,
    pub durability: Durability,
    pub acks: Acks,
    pub arrivals: Option<Arrivals>,
    pub payloads: Arc<PayloadPool>,
}

impl TrialContext<'_> {
    pub fn is_open_loop(&self) -> bool {
        matches!(self.scenario.load, Load::Open(_))
    }

    /// When producers send, relative to the pipeline's work; `None` without a pipeline.
    pub fn producer_mode(&self) -> Option<ProducerMode> {
        self.scenario.pipeline.as_ref().map(|pipeline| pipeline.producer_mode)
    }

    pub fn verification(&self) -> Option<&Verification> {
        self.arrivals.as_ref().and_then(|arrivals| arrivals.verification())
    }

    /// Index of the topic that a producer writes to.
    pub fn topic_of(&self, producer_index: usize) -> usize {
        let Producers { count, placement, .. } = self.scenario.producers;
        match placement {
            Placement::Blocks => producer_index / (count / self.topics.len()),
            Placement::RoundRobin => producer_index % self.topics.len(),
        }
    }

    /// Where each topic is, in their order.
    pub fn progress_by_topic(&self) -> Vec<TopicProgress> {
        let begun = |topic: &Topic| TopicProgress { name: topic.name.clone(), ..TopicProgress::default() };
        let mut topics: Vec<TopicProgress> = self.topics.iter().map(begun).collect();
        for (producer_index, window) in self.acks.windows().iter().enumerate() {
            let topic = &mut topics[self.topic_of(producer_index)];
            topic.submitted += window.submitted();
            topic.resolved += window.resolved();
        }
        topics
    }

    /// Which of the producers on its topic a producer is.
    pub fn place_of(&self, producer_index: usize) -> usize {
        let Producers { count, placement, .. } = self.scenario.producers;
        match placement {
            Placement::Blocks => producer_index % (count / self.topics.len()),
            Placement::RoundRobin => producer_index / self.topics.len(),
        }
    }
}
