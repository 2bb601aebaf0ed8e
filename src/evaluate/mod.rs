//! Turns the outcome of a trial into its record: every figure of a record is computed here, and the verdict from those figures.

mod assemble;
mod backlog;
pub mod comparison;
mod defaults;
mod environment;
mod figures;
mod outage;
mod pipeline;
#[cfg(test)]
mod simulation;
mod sink;
mod threshold;
mod until;
mod used;
pub mod verdict;

pub use assemble::{assemble, assemble_failed, series_row};
pub use environment::environment;
pub use until::is_enough;
