//! Whether both sets' trials ran in turn.

use super::side::Side;
use super::{KeptTrial, Pair};
use crate::statistics::Design;

/// Paired if, at every point, the completed trials in the order of their begin are one of each set, two by two. Such neighbours met
/// the machine in the same state, so each is compared with the other of its pair, and the sides keep only pairs of valid trials.
pub(super) fn of(pairs: &mut [Pair<'_>]) -> Design {
    let Some(neighbours) = pairs.iter().map(valid_neighbours).collect::<Option<Vec<_>>>() else {
        return Design::Independent;
    };
    for ((a, b), neighbours) in pairs.iter_mut().zip(neighbours) {
        (a.trials, b.trials) = neighbours.into_iter().unzip();
    }
    Design::Paired
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
    let of_a = a.completed.iter().map(|trial| (*trial, false));
    let mut begun: Vec<_> = of_a.chain(b.completed.iter().map(|trial| (*trial, true))).collect();
    begun.sort_by_key(|(trial, is_b)| (trial.record.started_at, *is_b));
    // Two single trials are always neighbours, which says nothing.
    if begun.len() <= 2 {
        return None;
    }
    let neighbours = begun.chunks(2).map(|pair| match pair {
        [(of_a, false), (of_b, true)] | [(of_b, true), (of_a, false)] => Some((*of_a, *of_b)),
        _ => None,
    });
    neighbours.collect()
}
