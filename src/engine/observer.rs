//! Who watches a trial while it runs: progress on a terminal, the interval log. The engine itself prints nothing.

use std::time::Duration;

use smallvec::SmallVec;

use super::Outcome;
use crate::measure::{Condition, Interval, Reception};

/// Time between samples, and how long the broker has to answer with a topic's end offsets.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Where a trial stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Connecting, making topics, starting producers and consumers.
    Prepare,
    WarmUp,
    Measure,
    /// The load has ended; outcomes are still awaited.
    Drain,
    /// Outcomes are known; consumers still receive.
    Verify,
}

/// What happened since the last sample: a second ago, or less in a short trial.
#[derive(Debug, Clone)]
pub struct Second {
    pub phase: Phase,
    /// When it began and ended, in nanoseconds since the load began; an interval that began before is cut off at 0.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// How long it would have lasted, had no phase ended.
    pub intended_length_ns: u64,
    /// Messages that the schedule had due, before chance in a Poisson process; `None` in a closed loop and after the window.
    pub due: Option<u64>,
    /// Messages handed over, acknowledged, failed and received, warm-up included.
    pub attempted: u64,
    pub acknowledged: u64,
    pub failed: u64,
    pub payload_bytes: u64,
    pub consumed: u64,
    /// What groups of consumers received: all of them, or those that are the furthest behind where there are many. One group is stored
    /// inline: an allocation for each second, kept until the end, would fragment the memory that checkpoints use for a short time.
    pub groups: SmallVec<[GroupSecond; 1]>,
    /// Messages that a pipeline was done with in the interval, and how many it was behind at its end.
    pub finished: Option<u64>,
    pub consumer_lag: Option<u64>,
    /// Messages without outcome at the end of the interval.
    pub in_flight: u64,
    /// Median and 99th percentile of the headline latency in the interval, if anything measured was acknowledged.
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
    /// Most messages the client library saw in its queues.
    pub queue_messages: Option<u64>,
    /// Processor time of this process in the interval, in cores.
    pub cpu_cores: f64,
    /// Resident memory of this process at the end of the interval; `None` where the system does not tell.
    pub memory_bytes: Option<u64>,
    /// The same of the broker's processes, and their resident memory at the end; `None` where they are not watched.
    pub broker_cores: Option<f64>,
    pub broker_memory_bytes: Option<u64>,
    /// Commands of faults that began in it.
    pub faults: Vec<String>,
}

/// What one group of consumers received in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupSecond {
    /// Its number, from 0.
    pub group: u32,
    /// First arrivals, warm-up included.
    pub consumed: u64,
    /// Messages that had been acknowledged and had not arrived at the end of the interval: of a part of a scenario, of its own producers
    /// and consumers, so that only the sum over all parts is one, and this may be negative. `None`: not known.
    pub consumer_lag: Option<i64>,
    /// Quantiles as in [`GroupLap`](crate::measure::GroupLap).
    pub end_to_end_p50_ns: Option<u64>,
    pub end_to_end_p99_ns: Option<u64>,
}

/// What producers did on one topic since the trial began, warm-up included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicProgress {
    pub name: String,
    /// Messages handed over, and those of them that have an outcome.
    pub submitted: u64,
    pub resolved: u64,
}

/// Follows a trial while it runs.
pub trait Observer: Send {
    /// The trial enters a phase.
    fn phase(&mut self, phase: Phase);

    /// Something that the user should know at once.
    fn warning(&mut self, _sentence: &str) {}

    /// A command of a fault has begun or ended, as a sentence.
    fn fault(&mut self, _sentence: &str) {}

    /// About once a second, before [`Observer::second`] where there is one: what holds messages up now.
    fn conditions(&mut self, _lasting: &[Condition]) {}

    /// About once a second while connections without messages are opened: so many of those that are wanted are ready, and so many have failed.
    fn idle_connections(&mut self, _ready: u64, _failed: u64, _wanted: u64) {}

    /// About once a second, and at the end of each phase of the load: the figures, and the histograms they come from.
    fn second(&mut self, second: &Second, outcomes: &Interval, arrivals: &Reception);

    /// Whether [`Observer::topics`] is to be told after every second.
    fn wants_topics(&self) -> bool {
        false
    }

    /// Where each topic is, in their order.
    fn topics(&mut self, _topics: &[TopicProgress]) {}

    /// Whether the trial so far should be handed to [`Observer::checkpoint`] now. Asked after every second.
    fn wants_checkpoint(&self) -> bool {
        false
    }

    /// The trial as if it had ended now.
    fn checkpoint(&mut self, _so_far: &Outcome) {}

    /// The trial has ended. Its topics are removed only then, which may take long.
    fn ended(&mut self, _outcome: &Outcome) {}
}
