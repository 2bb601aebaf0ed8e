//! The load: payloads, keys and intended times, as pure functions of a seed and a clock.
//!
//! Everything that costs time is done before the load starts ([`PayloadPool::build`]); what runs per message neither
//! allocates nor formats. A scenario with the same seeds gives the same payloads, keys and times.
//!
//! - [`PayloadPool`] holds ready-made payloads, one generator family per file in `payload`; [`LiveFields`] are the
//!   parts of a template that only the moment of sending can fill in.
//! - [`KeySource`] draws the keys of one producer, and [`TombstoneSource`] its messages without a payload.
//! - [`WorkTimes`] draws how long a consumer pretends to work on each message.
//! - [`SendSchedule`] computes when one producer's messages are due, from the closed form of a
//!   [`Schedule`](crate::scenario::Schedule).

mod curve;
mod digits;
mod draft;
mod error;
mod keys;
mod live;
mod part;
mod payload;
mod pool;
mod random;
mod schedule;
mod send_schedule;
mod tombstones;
mod work;

pub use error::LoadError;
pub use keys::KeySource;
pub use live::LiveFields;
pub use part::{Part, PartKind};
pub use pool::{PayloadPlace, PayloadPool};
pub use send_schedule::{SendSchedule, due_by};
pub use tombstones::TombstoneSource;
pub use work::WorkTimes;
