//! What is sent and when: payloads, keys and intended times, as pure functions of a seed and a clock.

mod pool;

pub use pool::PayloadPool;
