//! Whether both sets' trials ran in turn.

use super::Pair;
use crate::statistics::Design;

/// Paired if, at every point, the trials in the order of their begin are one of each set, two by two. Such neighbours met the
/// machine in the same state, so each is compared with the other of its pair.
pub(super) fn of(pairs: &[Pair<'_>]) -> Design {
    if pairs.iter().all(in_turn) { Design::Paired } else { Design::Independent }
}

fn in_turn((a, b): &Pair<'_>) -> bool {
    let begun_a = a.records().map(|record| (record.started_at, false));
    let mut begun: Vec<_> = begun_a.chain(b.records().map(|record| (record.started_at, true))).collect();
    begun.sort();
    // Two single trials are always neighbours, which says nothing.
    begun.len() > 2 && begun.chunks(2).all(|pair| matches!(pair, [(_, one), (_, other)] if one != other))
}
