//! What is recorded per message, and what the machine was doing meanwhile.
//!
//! Recording is arranged so that a message costs no allocation and no lock of its own: its [`SendTag`] travels through the
//! client library with it; the thread that learns of outcomes owns an [`AckRecorder`] and takes it once per
//! batch; a producer's [`Window`] opens by one atomic addition per run of outcomes. Once a second the engine collects
//! every recorder's [`Interval`] and merges their histograms.

mod ack_batch;
mod ack_state;
mod acks;
mod arrival_state;
mod arrivals;
mod budget;
mod clock;
mod compact;
mod consumer_tally;
mod failure;
mod histogram;
pub mod host;
mod interval;
mod message_sets;
mod part_tally;
mod partition_tally;
mod partitions;
mod receiving;
mod reception;
mod send_run;
mod send_tag;
mod sequences;
mod stored_set;
mod timeline;
mod trace_header;
mod transactions;
mod verification;
mod window;

pub use ack_batch::AckBatch;
pub use acks::{AckRecorder, Acks};
pub use arrival_state::{GroupLap, GroupProgress};
pub use arrivals::Arrivals;
pub use budget::Budget;
pub use clock::Clock;
pub use compact::CompactDistribution;
pub use consumer_tally::{ConsumerTally, SubscriptionIndex};
pub use failure::FailureClass;
pub use histogram::Distribution;
pub use interval::{ErrorTally, Errors, Interval, Tally};
pub use message_sets::{GroupSets, MergedGroup, MessageSets, TopicSets, merge_groups};
pub use part_tally::{PartEnds, PartResponse, PartResponses};
pub use partition_tally::{
    Acknowledged, MAX_PARTITIONS, PartitionIndex, PartitionName, PartitionNames, PartitionTally,
};
pub use partitions::{Order, PARTITION_BYTES, Partitions, UNORDERED_PARTITION};
pub use receiving::{ArrivalBatch, ArrivalRecorder};
pub use reception::{Arrived, Details, NoDetails, Received, Reception};
pub use send_run::{SendRun, SendRuns};
pub use send_tag::{MAX_PRODUCERS, SendTag, TICK_NS, UNKNOWN_SEQUENCE};
pub use sequences::Mark;
pub use stored_set::StoredSet;
pub use timeline::{BIN_NS, Bin, Slowest, Timeline};
pub use trace_header::{Opened, TRACE_HEADER_BYTES, TraceHeader};
pub use transactions::Transactions;
pub use verification::{GroupAccount, Span, Verification};
pub use window::Window;
