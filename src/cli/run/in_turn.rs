//! `--against`: two scenarios in one run, whose trials take turns.

use clap::{Args, ValueHint};

use super::RunArguments;
use crate::cli::compare::parse_tolerance;
use crate::scenario::{Plan, ScenarioError, Setting};
use crate::secrets::mask_override;

#[derive(Debug, Args)]
pub struct AgainstArguments {
    /// Run this scenario in turn with the first one (A B, B A, …), and compare both at the end
    #[arg(long, value_name = "SCENARIO", value_hint = ValueHint::FilePath, conflicts_with = "resume")]
    pub against: Option<String>,
    /// Run in turn with the same scenario in which this key is overridden
    #[arg(long = "against-set", value_name = "KEY=VALUE", conflicts_with = "resume")]
    pub against_overrides: Vec<String>,
    /// With --against or --against-set: a change for the worse beyond this share is a regression (exit code 3) [default: 5%]
    #[arg(long, value_name = "SHARE", conflicts_with = "resume", value_parser = parse_tolerance)]
    pub tolerance: Option<f64>,
}

impl AgainstArguments {
    pub fn is_wanted(&self) -> bool {
        self.against.is_some() || !self.against_overrides.is_empty()
    }
}

impl RunArguments {
    /// The scenario that takes turns: its own file or that of the first, with the settings of both and those of its own.
    ///
    /// # Errors
    /// For everything in it that is not right.
    pub fn other_plan(&self) -> Result<Plan, ScenarioError> {
        let AgainstArguments { against, against_overrides, tolerance: _ } = &self.against;
        let of_option =
            |one: &String| Setting { typed: format!("--against-set {}", mask_override(one)), assignment: one.clone() };
        let settings: Vec<Setting> = against_overrides.iter().map(of_option).collect();
        self.source.with(against.as_deref(), &settings).load()
    }
}

/// Why two plans cannot take turns.
pub fn disagreement(one: &Plan, other: &Plan) -> Option<String> {
    if one.until.is_some() || other.until.is_some() {
        return Some(
            "`sweep.until` ends each side after another number of trials: set `sweep.trials` instead".to_owned(),
        );
    }
    (!places(one).eq(places(other))).then(|| {
        format!(
            "the scenarios have {} and {} trials: give both the same [sweep] with the same number of points and trials",
            one.trials.len(),
            other.trials.len()
        )
    })
}

/// The order of the trials, each as its side (0 or 1) and its position in the plan: A B, B A, A B, … of each point. Each pair meets
/// the machine in one state, and what drifts evenly is the same for both sides over four trials of a point.
pub fn order(plan: &Plan) -> Vec<(usize, usize)> {
    let places: Vec<(usize, u32)> = places(plan).collect();
    alternating(&places)
}

fn alternating(places: &[(usize, u32)]) -> Vec<(usize, usize)> {
    let pair = |(position, (point_index, trial)): (usize, &(usize, u32))| {
        let first = (point_index + *trial as usize + 1) % 2;
        [(first, position), (1 - first, position)]
    };
    places.iter().enumerate().flat_map(pair).collect()
}

/// Points and trials in the order of the plan.
fn places(plan: &Plan) -> impl Iterator<Item = (usize, u32)> {
    plan.trials.iter().map(|trial| (trial.point_index, trial.trial))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_that_begins_alternates_at_each_point() {
        assert_eq!(alternating(&[(0, 1), (0, 2), (0, 3)]), [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]);
        let interleaved = alternating(&[(0, 1), (1, 1), (0, 2), (1, 2)]);
        assert_eq!(interleaved, [(0, 0), (1, 0), (1, 1), (0, 1), (1, 2), (0, 2), (0, 3), (1, 3)]);
    }
}
