//! How the trials of both sets ran, which decides what is a unit of chance.

use std::f64::consts::SQRT_2;

use serde::Serialize;

use super::side::Side;
use super::{Bounds, KeptTrial, Pair};
use crate::record::Status;
use crate::statistics;

/// Runs a side from which on the runs themselves show what differs between them: of fewer, no order of them is rarer than 1 in 20.
const MIN_RUNS: usize = 4;

/// What a comparison takes for a unit of chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// The trials of both sides ran in turn: a pair of neighbours.
    InTurn,
    /// Each side has several runs: a run.
    SeveralRuns,
    /// Each side has one run, or few: a trial, and what differs between runs is taken from elsewhere.
    SingleRuns,
}

/// In turn if, at every point, the completed trials in the order of their begin are one of each set, two by two. Such neighbours met
/// the machine in the same state, so each is compared with the other of its pair, and the sides keep only pairs of valid trials.
pub(super) fn of(pairs: &mut [Pair<'_>]) -> Design {
    if let Some(neighbours) = pairs.iter().map(valid_neighbours).collect::<Option<Vec<_>>>() {
        for ((a, b), neighbours) in pairs.iter_mut().zip(neighbours) {
            (a.trials, b.trials) = neighbours.into_iter().unzip();
        }
        return Design::InTurn;
    }
    match pairs.iter().all(|(a, b)| a.runs().min(b.runs()) >= MIN_RUNS) {
        true => Design::SeveralRuns,
        false => Design::SingleRuns,
    }
}

impl Design {
    /// Compares a figure of both sides, by this unit.
    pub(super) fn compare(
        self,
        (a, of_a): (&Side<'_>, &[f64]),
        (b, of_b): (&Side<'_>, &[f64]),
        bounds: Bounds,
    ) -> Option<statistics::Comparison> {
        match self {
            Design::InTurn => statistics::compare(of_a, of_b, statistics::Design::Paired),
            Design::SeveralRuns => {
                let centres = |side: &Side<'_>, figures| statistics::run_centres(&side.logarithms_by_run(figures));
                statistics::compare(&centres(a, of_a), &centres(b, of_b), statistics::Design::Independent)
            }
            Design::SingleRuns => {
                let runs = [a.logarithms_by_run(of_a), b.logarithms_by_run(of_b)];
                let spread = statistics::spread_of_runs(&runs, bounds.between_runs.ln_1p());
                statistics::compare(of_a, of_b, statistics::Design::Separate { spread })
            }
        }
    }

    /// The smallest change, as a share, that can be told at all with one run a side; `None` where only the trials decide.
    pub(super) fn least_change(self, bounds: Bounds) -> Option<f64> {
        (self == Design::SingleRuns).then(|| statistics::least_change(bounds.between_runs.ln_1p() * SQRT_2))
    }
}

/// Neighbours that are both valid; without any valid trial, all neighbours. `None` where trials did not run in turn, or where valid
/// ones have no valid neighbour.
fn valid_neighbours<'a>((a, b): &Pair<'a>) -> Option<Vec<(&'a KeptTrial, &'a KeptTrial)>> {
    let neighbours = neighbours(a, b)?;
    if a.valid + b.valid == 0 {
        return Some(neighbours);
    }
    let is_valid = |trial: &KeptTrial| trial.record.verdict.valid;
    let valid: Vec<_> = neighbours.into_iter().filter(|(of_a, of_b)| is_valid(of_a) && is_valid(of_b)).collect();
    (!valid.is_empty()).then_some(valid)
}

fn neighbours<'a>(a: &Side<'a>, b: &Side<'a>) -> Option<Vec<(&'a KeptTrial, &'a KeptTrial)>> {
    let of_a = a.ended.iter().map(|trial| (*trial, false));
    let mut begun: Vec<_> = of_a.chain(b.ended.iter().map(|trial| (*trial, true))).collect();
    begun.sort_by_key(|(trial, is_b)| (trial.record.started_at, *is_b));
    // Two single trials are always neighbours, which says nothing.
    if begun.len() <= 2 {
        return None;
    }
    let is_complete = |trial: &KeptTrial| trial.record.status == Status::Completed;
    let neighbours = begun.chunks(2).map(|pair| match pair {
        [(of_a, false), (of_b, true)] | [(of_b, true), (of_a, false)] => Some((*of_a, *of_b)),
        _ => None,
    });
    let complete: Vec<_> = neighbours.collect::<Option<Vec<_>>>()?;
    let complete: Vec<_> = complete.into_iter().filter(|(of_a, of_b)| is_complete(of_a) && is_complete(of_b)).collect();
    (!complete.is_empty()).then_some(complete)
}
