//! Turns the outcome of a trial into its record: every figure of a record is computed here, and the verdict from those figures.

mod assemble;
mod ceiling;
pub mod comparison;
mod environment;
mod faults;
mod outage;
mod pipeline;
mod probe;
mod sections;
#[cfg(test)]
#[path = "../../tests/unit/evaluate/simulation.rs"]
mod simulation;
mod spread;
mod threshold;
pub mod verdict;

pub use assemble::{assemble, assemble_failed, evaluate};
pub use ceiling::{ceiling_machine, ceiling_shape, ceiling_trial, mention_ceiling};
pub use environment::environment;
pub use probe::{ProbeJudgement, judge_probe};
pub use sections::series_row;
pub use spread::listed_consumers;
pub use threshold::{is_enough, not_known};
