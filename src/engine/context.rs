//! What every phase of a trial knows: the scenario, the topics, and where outcomes and arrivals are recorded.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::TrialIdentity;
use super::observer::TopicProgress;
use crate::broker::{Durability, Topic};
use crate::load::PayloadPool;
use crate::measure::host::WallClock;
use crate::measure::{Acks, Arrivals, Clock, Conditions, Verification};
use crate::scenario::{Load, Placement, ProducerMode, Scenario};

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
    /// The state of the wall clock that gave the trial's epoch.
    pub wall_clock: WallClock,
    pub topics: Vec<Topic>,
    /// Messages that topics of the scenario's own names had been written to before, by their end offsets; `None` where the
    /// topics are new or the broker does not tell.
    pub messages_before: Option<u64>,
    pub durability: Durability,
    pub acks: Acks,
    pub conditions: Conditions,
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

    /// Index of the topic that a producer writes to, by its number among the producers of all shares.
    pub fn topic_of(&self, producer: usize) -> usize {
        topic_of(self.scenario, self.topics.len(), producer)
    }

    /// Where each topic is, in their order: as far as this process writes to it.
    pub fn progress_by_topic(&self) -> Vec<TopicProgress> {
        let begun = |topic: &Topic| TopicProgress { name: topic.name.clone(), ..TopicProgress::default() };
        let mut topics: Vec<TopicProgress> = self.topics.iter().map(begun).collect();
        for (producer_index, window) in self.acks.windows().iter().enumerate() {
            let topic = &mut topics[self.topic_of(self.scenario.first_producer() + producer_index)];
            topic.submitted += window.submitted();
            topic.resolved += window.resolved();
        }
        topics
    }

    /// Which of the producers on its topic a producer is, by its number among the producers of all shares.
    pub fn place_of(&self, producer: usize) -> usize {
        place_of(self.scenario, self.topics.len(), producer)
    }

    /// What is added to a time of this trial's clock to get a time as trace headers carry it. Shares of a scenario have clocks of
    /// their own, so the times in their headers count from 1970.
    pub fn header_offset_ns(&self) -> u64 {
        header_offset_ns(self.scenario, self.acks.clock())
    }
}

/// As [`TrialContext::topic_of`], of so many topics.
pub(super) fn topic_of(scenario: &Scenario, topics: usize, producer: usize) -> usize {
    match scenario.producers.placement {
        Placement::Blocks => producer / (scenario.all_producers() / topics),
        Placement::RoundRobin => producer % topics,
    }
}

/// As [`TrialContext::place_of`], with so many topics.
pub(super) fn place_of(scenario: &Scenario, topics: usize, producer: usize) -> usize {
    match scenario.producers.placement {
        Placement::Blocks => producer % (scenario.all_producers() / topics),
        Placement::RoundRobin => producer / topics,
    }
}

/// As [`TrialContext::header_offset_ns`].
pub(super) fn header_offset_ns(scenario: &Scenario, clock: Clock) -> u64 {
    if scenario.part.is_some() { clock.epoch_unix_ns() } else { 0 }
}
