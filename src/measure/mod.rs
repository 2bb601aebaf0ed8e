//! What is recorded per message, and what the machine was doing meanwhile.
//!
//! Recording is arranged so that a message costs no allocation and no lock of its own: its [`Stamp`] travels through the
//! client library with it; the thread that learns of outcomes owns an [`AckRecorder`] and takes it once per
//! batch; a producer's [`Window`] opens by one atomic addition per run of outcomes. Once a second the engine collects
//! every recorder's [`Interval`] and merges their histograms.

mod acks;
mod arrivals;
mod budget;
mod clock;
mod envelope;
mod failure;
mod histogram;
pub mod host;
mod interval;
mod lanes;
mod receiving;
mod reception;
mod sequences;
mod stamp;
mod verification;
mod window;

pub use acks::{AckBatch, AckRecorder, Acks};
pub use arrivals::{Arrivals, GroupProgress, Place};
pub use budget::Budget;
pub use clock::Clock;
pub use envelope::{ENVELOPE_BYTES, Envelope, Opened};
pub use failure::FailureClass;
pub use histogram::{Distribution, HIGHEST_NS};
pub use interval::{ErrorTally, Errors, Interval, Tally};
pub use lanes::{LANE_BYTES, LANE_WITHOUT_ORDER, Lanes, Order};
pub use receiving::{ArrivalBatch, ArrivalRecorder};
pub use reception::{Arrived, Received, Reception};
pub use sequences::Mark;
pub use stamp::{MAX_PRODUCERS, Stamp, TICK_NS, UNKNOWN_SEQUENCE};
pub use verification::{GroupAccount, Span, Verification};
pub use window::Window;
