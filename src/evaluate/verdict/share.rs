//! Findings on a load that was to begin at a set time, and on a share of a scenario.

use super::finding::{Finding, note};
use super::{Evidence, limits};
use crate::record::ReasonKind::*;
use crate::record::readable::duration;

pub(super) fn findings(evidence: &Evidence<'_>) -> Vec<Finding> {
    let late = evidence.start.filter(|start| start.late_ns > limits::LATE_START_NS).map(|start| {
        let late = duration(start.late_ns as f64);
        note(
            LateStart,
            format!("The load began {late} after the time that was set for it."),
            "Set `--start-at` later, so that every process has connected by then.",
            &[("late_ns", start.late_ns as f64)],
        )
    });
    let one_share = evidence.share.map(|share| {
        note(
            OneShare,
            format!("This is share {} of {}: the figures are of its producers and consumers only.", share.number, share.count),
            "Put all shares together with `brokermark merge`: only then is it known what was lost, and whether thresholds hold.",
            &[("share", share.number as f64), ("shares", share.count as f64)],
        )
    });
    late.into_iter().chain(one_share).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sound;
    use crate::record::{ReasonKind, Start};

    #[test]
    fn a_share_is_noted_and_its_verification_is_left_to_the_merge() {
        let share = sound::share();
        let verdict = sound::judged(|record, _, _| {
            record.share = Some(share);
            record.verification.iter_mut().for_each(|found| found.undecided = 1_000);
        });
        assert!(verdict.valid, "{verdict:#?}");
        assert_eq!(verdict.notes.iter().map(|note| note.kind).collect::<Vec<_>>(), [ReasonKind::OneShare]);
    }

    #[test]
    fn a_late_start_is_noted() {
        let start = |late_ns| {
            sound::notes(|record, _, _| {
                let at = record.started_at;
                record.start = Some(Start { planned_at: at, began_at: at, late_ns });
            })
        };
        assert_eq!(start(40_000_000), []);
        assert_eq!(start(1_500_000_000), [ReasonKind::LateStart]);
    }
}
