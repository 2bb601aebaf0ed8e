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
mod histogram;
pub mod host;
mod interval;
mod message_sets;
mod partitions;
mod reception;
mod send_tag;
mod sequences;
mod stored_set;
mod trace_header;
mod verification;
mod window;

pub use acks::{AckBatch, AckRecorder, Acks};
pub use arrivals::{ArrivalBatch, ArrivalRecorder, Arrivals, GroupLap, GroupProgress};
pub use budget::Budget;
pub use clock::Clock;
pub use condition::{Condition, ConditionKind, Conditions, Subject, SubjectKind};
pub use histogram::{BIN_NS, Bin, CompactDistribution, Distribution, Slowest, Timeline};
pub use interval::{
    ErrorTally, Errors, FailureClass, Interval, PartEnds, PartResponse, PartResponses, Tally, Transactions,
};
pub use message_sets::{GroupSets, MergedGroup, MessageSets, TopicSets, merge_groups};
pub use partitions::{
    Acknowledged, MAX_PARTITIONS, Order, PARTITION_BYTES, PartitionIndex, PartitionName, PartitionNames,
    PartitionTally, Partitions, UNORDERED_PARTITION,
};
pub use reception::{Arrived, ConsumerTally, Details, NoDetails, Received, Reception, SubscriptionIndex};
pub use send_tag::{MAX_PRODUCERS, SendRun, SendRuns, SendTag, TICK_NS, UNKNOWN_SEQUENCE};
pub use sequences::Mark;
pub use stored_set::StoredSet;
pub use trace_header::{Opened, TRACE_HEADER_BYTES, TraceHeader};
pub use verification::{GroupAccount, Span, Verification};
pub use window::Window;
