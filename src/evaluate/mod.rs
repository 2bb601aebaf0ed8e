//! From what a trial measured to its record: every figure of a record is made here, and the verdict from all the others.

mod assemble;
mod environment;
mod pipeline;
#[cfg(test)]
mod simulation;
mod threshold;
pub mod verdict;

pub use assemble::{assemble, assemble_failed, series_row};
pub use environment::environment;
pub use threshold::evaluate;
