//! What held messages up in all shares. A condition that several shares saw at one time is one: its times are not added.

use super::{KeptShare, sections};
use crate::record::Condition;

/// Subjects of a condition that are named.
const MAX_NAMES: usize = 8;

/// The conditions of all shares, in the order in which they began, each by the time of its share's own load.
pub(super) fn merged_conditions(shares: &[KeptShare]) -> Vec<Condition> {
    let mut all: Vec<Seen> = shares.iter().flat_map(seen_by).collect();
    all.sort_by_key(|seen| seen.condition.begin_ns);
    let mut merged: Vec<Seen> = Vec::new();
    for seen in all {
        match merged.iter_mut().find(|earlier| earlier.lasts_when_begins(&seen.condition)) {
            Some(earlier) => earlier.add(seen),
            None => merged.push(seen),
        }
    }
    merged.into_iter().map(|seen| seen.condition).collect()
}

/// A condition that one share saw, or several at one time. Times are in nanoseconds since the load began.
struct Seen {
    condition: Condition,
    /// When it ended, or until when it lasted at least.
    until_ns: u64,
    /// Begin and end of what lay in the measured window.
    in_window: (u64, u64),
}

fn seen_by(share: &KeptShare) -> impl Iterator<Item = Seen> {
    let began_ns = share.record.start.as_ref().and_then(|start| u64::try_from(start.began_at.as_nanosecond()).ok());
    let (begin_ns, end_ns) = sections::window_of(share);
    let since_load = |began_ns| (begin_ns.saturating_sub(began_ns), end_ns.saturating_sub(began_ns));
    let window = began_ns.map_or((0, u64::MAX), since_load);
    share.record.conditions.iter().map(move |condition| Seen {
        until_ns: condition.end_ns.unwrap_or(condition.begin_ns.saturating_add(condition.lasted_ns)),
        in_window: (condition.begin_ns.max(window.0), condition.end_ns.unwrap_or(u64::MAX).min(window.1)),
        condition: condition.clone(),
    })
}

impl Seen {
    /// Whether the same condition begins, in another share, before this one has ended.
    fn lasts_when_begins(&self, later: &Condition) -> bool {
        let Condition { kind, subject, end_ns, .. } = &self.condition;
        (*kind, *subject) == (later.kind, later.subject) && end_ns.is_none_or(|end_ns| later.begin_ns <= end_ns)
    }

    /// Adds what another share saw of it. Together, they saw it for no longer than from the first begin to the last end.
    fn add(&mut self, other: Seen) {
        self.until_ns = self.until_ns.max(other.until_ns);
        self.in_window = (self.in_window.0.min(other.in_window.0), self.in_window.1.max(other.in_window.1));
        let longest_in_window_ns = self.in_window.1.saturating_sub(self.in_window.0);
        let (sum, other) = (&mut self.condition, other.condition);
        let longest_ns = self.until_ns.saturating_sub(sum.begin_ns);
        sum.lasted_ns = sum.lasted_ns.saturating_add(other.lasted_ns).min(longest_ns);
        sum.in_window_ns = sum.in_window_ns.saturating_add(other.in_window_ns).min(longest_in_window_ns);
        sum.end_ns = sum.end_ns.zip(other.end_ns).map(|(one, other)| one.max(other));
        if other.subjects_max > sum.subjects_max {
            (sum.subjects_max, sum.subjects) = (other.subjects_max, other.subjects);
        }
        for name in other.names {
            if sum.names.len() < MAX_NAMES && !sum.names.contains(&name) {
                sum.names.push(name);
            }
        }
        if sum.words.is_empty() {
            sum.words = other.words;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distributed::merge::made_up::share;
    use crate::measure::{ConditionKind, SubjectKind};

    const SECOND: u64 = 1_000_000_000;

    /// Between these seconds of a load whose window lasts from the second to the twelfth.
    fn throttled(begin: u64, end: Option<u64>, name: &str) -> Condition {
        let until = end.unwrap_or(15);
        Condition {
            kind: ConditionKind::Throttled,
            subject: SubjectKind::Node,
            subjects_max: 1,
            subjects: Some(3),
            names: vec![name.to_owned()],
            words: String::new(),
            begin_ns: begin * SECOND,
            end_ns: end.map(|end| end * SECOND),
            lasted_ns: (until - begin) * SECOND,
            in_window_ns: until.min(12).saturating_sub(begin.max(2)) * SECOND,
        }
    }

    fn merged(of_shares: [Vec<Condition>; 2]) -> Vec<Condition> {
        let mut shares = [share(1, 2, 0, 10 * SECOND, 1.0), share(2, 2, 0, 10 * SECOND, 1.0)];
        for (share, conditions) in shares.iter_mut().zip(of_shares) {
            share.record.share.as_mut().unwrap().window_begin_unix_ns += 2 * SECOND;
            share.record.conditions = conditions;
        }
        merged_conditions(&shares)
    }

    #[test]
    fn a_condition_that_all_shares_saw_lasted_once() {
        let one = merged([vec![throttled(1, Some(6), "a")], vec![throttled(1, Some(5), "b")]]);
        let names = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(one, [Condition { names, ..throttled(1, Some(6), "a") }]);
        let bridged =
            merged([vec![throttled(3, Some(5), "a"), throttled(7, Some(9), "a")], vec![throttled(4, Some(8), "a")]]);
        assert_eq!(bridged, [throttled(3, Some(9), "a")]);
        let until_the_end = merged([vec![throttled(3, None, "a")], vec![throttled(5, Some(6), "a")]]);
        assert_eq!(until_the_end, [throttled(3, None, "a")]);
    }

    #[test]
    fn conditions_at_other_times_or_of_other_kinds_are_several() {
        let (first, second) = (throttled(3, Some(5), "a"), throttled(6, Some(9), "a"));
        assert_eq!(merged([vec![second.clone()], vec![first.clone()]]), [first.clone(), second]);
        let denied = Condition { kind: ConditionKind::Denied, ..first.clone() };
        assert_eq!(merged([vec![first.clone()], vec![denied.clone()]]), [first, denied]);
    }
}
