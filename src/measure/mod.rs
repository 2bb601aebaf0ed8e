//! What is recorded per message, and what the machine was doing meanwhile.
//!
//! Recording is arranged so that a message costs no allocation and no lock of its own: its [`SendTag`] travels through the
//! client library with it; the thread that learns of outcomes owns an [`AckRecorder`] and takes it once per
//! batch; a producer's [`Window`] opens by one atomic addition per run of outcomes. Once a second the engine collects
//! every recorder's [`Interval`] and merges their histograms.

mod acks;
mod arrivals;
mod budget;
mod clock;
mod condition;
mod errors;
mod histogram;
pub mod host;
mod interval;
mod message_sets;
mod reception;
mod removed;
mod tags;
mod verification;

pub use acks::{AckBatch, AckRecorder, Acks};
pub use arrivals::{ArrivalBatch, ArrivalRecorder, Arrivals, GroupLap, GroupProgress};
pub use budget::Budget;
pub use clock::Clock;
pub use condition::{Condition, ConditionKind, Conditions, Subject, SubjectKind};
pub use errors::{ErrorTally, Errors, FailureClass};
pub use histogram::{
    Acknowledged, BIN_NS, Bin, CompactDistribution, Distribution, MAX_PARTITIONS, PartitionIndex, PartitionName,
    PartitionNames, PartitionTally, Slowest, Timeline,
};
pub use interval::{Interval, SegmentEnds, SegmentResponse, SegmentResponses, Tally, Transactions, Window};
pub use message_sets::{GroupSets, MergedGroup, MessageSets, StoredSet, TopicSets, merge_groups, unreached};
pub use reception::{
    Arrived, ConsumerTally, Details, NoDetails, Order, PARTITION_BYTES, Partitions, Received, Reception,
    SubscriptionIndex, UNORDERED_PARTITION,
};
pub use removed::Unreceivable;
pub use tags::{
    MAX_PRODUCERS, Opened, SendRun, SendRuns, SendTag, TICK_NS, TRACE_HEADER_BYTES, TraceHeader, UNKNOWN_SEQUENCE,
};
pub use verification::{GroupAccount, Mark, Span, Verification};
