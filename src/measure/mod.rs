//! What is recorded per message, and what is concluded from it.

mod stamp;

pub use stamp::{MAX_LATENCY_NS, MAX_PRODUCERS, Stamp, TICK_NS};

#[derive(Clone)]
pub struct Acks;
