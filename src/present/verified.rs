//! What consumers verified, group by group, and what the words mean.

use super::above_zero;
use crate::record::readable::{count, duration, rate};
use crate::record::{GroupTask, GroupVerification, Verification, WorkDistribution};

/// A shorter time to catch up is not shown: messages in flight when the load ends take about as long.
pub const SHOWN_CATCH_UP_NS: u64 = 1_000_000_000;

/// What verification can find, and what it means.
const FOUND: [(&str, &str); 11] = [
    ("lost", "acknowledged and never received, though the group read past them"),
    ("unread", "not received when the wait for consumers ended; the broker may have them"),
    ("removed", "gone by the broker's own rules before the group read them"),
    (
        "undecided",
        "not known: the verifier's memory was exceeded, only all shares together tell, or the broker may have removed it",
    ),
    ("not acknowledged but stored", "received, though they had failed or had no outcome"),
    ("duplicated", "received again, and the broker did not announce it"),
    ("redelivered", "received again, as the broker announced"),
    ("reordered", "received after a later message of the same producer and partition"),
    ("corrupt", "the payload is not what was sent"),
    ("foreign", "not of this trial: another run or program writes to these topics"),
    ("without a check of their order", "the memory for it was exceeded"),
];

/// A sentence for each group, and what the words mean that are in them.
pub fn verified(found: &Verification) -> Vec<String> {
    // Older records have the sums of all groups alone.
    let sum = GroupVerification {
        received: found.received,
        lost: found.lost,
        unread: found.unread,
        removed: found.removed,
        undecided: found.undecided,
        not_acknowledged_but_stored: found.not_acknowledged_but_stored,
        duplicated: found.duplicated,
        redelivered: found.redelivered,
        reordered: found.reordered,
        corrupt: found.corrupt,
        ..GroupVerification::default()
    };
    let groups = if found.groups.is_empty() { std::slice::from_ref(&sum) } else { &found.groups };
    let sentence = |group: &GroupVerification| {
        let name = if groups.len() > 1 { format!("group {}: ", group.title()) } else { String::new() };
        format!("{name}{}{}", group.task.as_ref().map(task).unwrap_or_default(), verified_by(group, found))
    };
    let mut sentences: Vec<String> = groups.iter().map(sentence).collect();
    let elsewhere = [found.foreign, found.order_unchecked];
    let told = above_zero(&[(elsewhere[0], FOUND[9].0), (elsewhere[1], FOUND[10].0)]);
    if !told.is_empty() {
        sentences.push(told.join(", "));
    }
    let numbers = numbers(&sum).into_iter().chain(elsewhere);
    let explained = FOUND.iter().zip(numbers).filter(|(_, number)| *number > 0);
    sentences.extend(explained.map(|((word, meaning), _)| format!("{word}: {meaning}")));
    sentences
}

/// What can be found in a group, in the order of [`FOUND`].
fn numbers(group: &GroupVerification) -> [u64; 9] {
    [
        group.lost,
        group.unread,
        group.removed,
        group.undecided,
        group.not_acknowledged_but_stored,
        group.duplicated,
        group.redelivered,
        group.reordered,
        group.corrupt,
    ]
}

fn verified_by(group: &GroupVerification, found: &Verification) -> String {
    let named: Vec<(u64, &str)> = numbers(group).into_iter().zip(FOUND.map(|(name, _)| name)).collect();
    let listed = above_zero(&named);
    if group.received == 0 && listed.is_empty() {
        return received(group);
    }
    let mut text = match (listed.is_empty(), found.unordered) {
        // What was not verified may be wrong.
        (true, _) if found.saturated => "nothing wrong was found".to_owned(),
        (true, 0) if found.order_unchecked > 0 => {
            "each exactly once and whole; not all were checked for order".to_owned()
        }
        (true, 0) => "each exactly once, in order and whole".to_owned(),
        (true, _) => "each exactly once and whole; the broker promises no order".to_owned(),
        (false, _) => format!("{}; otherwise as sent", listed.join(", ")),
    };
    if let (Some(consumer_lag), Some(catch_up_ns)) = (group.consumer_lag_at_load_end, group.catch_up_ns)
        && consumer_lag > 0
        && catch_up_ns >= SHOWN_CATCH_UP_NS
    {
        let caught_up = duration(catch_up_ns as f64);
        text += &format!("; {} behind when the load ended, caught up after {caught_up}", count(consumer_lag));
    }
    if found.saturated {
        text += "; memory exceeded, so these are lower bounds";
    }
    format!("{}: {text}", received(group))
}

/// How many of the messages that arrived for the first time were measured.
fn received(group: &GroupVerification) -> String {
    let GroupVerification { received, consumed, duplicated, redelivered, corrupt, .. } = group;
    let warm_up = received
        .saturating_sub(consumed.saturating_add(*duplicated).saturating_add(*redelivered).saturating_add(*corrupt));
    match (*consumed, warm_up) {
        (0, _) | (_, 0) => format!("{} received", count(*received)),
        (measured, warm_up) => {
            format!("{} received ({} measured, {} of the warm-up)", count(*received), count(measured), count(warm_up))
        }
    }
}

/// What a group was told to do, in brackets.
fn task(task: &GroupTask) -> String {
    let work = task.work_mean_ns.map(|mean_ns| {
        let law = match task.work_distribution {
            None | Some(WorkDistribution::Fixed) => "",
            Some(WorkDistribution::Exponential) => "exponential ",
            Some(WorkDistribution::Lognormal) => "lognormal ",
            Some(WorkDistribution::Pareto) => "Pareto ",
        };
        format!("{} of {law}work on each", duration(mean_ns as f64))
    });
    let limit = task.rate_limit_per_second.map(|limit| format!("at most {}/s", rate(limit)));
    let start = task.start_after_ns.map(|after_ns| format!("from {} on", duration(after_ns as f64)));
    format!("({}) ", [work, limit, start].into_iter().flatten().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_verified_is_not_called_whole() {
        let of_one = |found: Verification| verified(&Verification { received: 5, ..found }).remove(0);
        assert_eq!(of_one(Verification::default()), "5 received: each exactly once, in order and whole");
        assert_eq!(verified(&Verification::default()), ["0 received"]);
        let unchecked = Verification { order_unchecked: 2, ..Verification::default() };
        assert_eq!(of_one(unchecked), "5 received: each exactly once and whole; not all were checked for order");
        let saturated = Verification { saturated: true, ..Verification::default() };
        assert!(of_one(saturated).starts_with("5 received: nothing wrong was found; memory exceeded"));
    }
}
