//! What became of single messages over all shares.

use std::sync::Arc;

use super::{KeptShare, MergeError, saturating_sum};
use crate::measure::{MergedGroup, MessageSets, merge_groups};
use crate::record::{GroupVerification, Verification};

/// The verification of all shares; `None`: nothing was verified. What arrived is added; what is missing follows from the messages that
/// each share kept.
pub(super) fn verification(shares: &[KeptShare]) -> Result<Option<Verification>, MergeError> {
    let Some(first) = shares.iter().find_map(|share| share.record.verification.as_ref()) else { return Ok(None) };
    let messages: Option<Vec<Arc<MessageSets>>> = shares.iter().map(|share| share.messages.clone()).collect();
    let Some(messages) = messages else {
        let without = shares.iter().find(|share| share.messages.is_none()).map_or("", |share| share.origin.as_str());
        let reason = "its messages.json is missing, without which it is not known what was lost".to_owned();
        return Err(MergeError::Damaged { origin: without.to_owned(), reason });
    };
    let groups =
        merge_groups(&messages).map_err(|reason| MergeError::Damaged { origin: shares[0].origin.clone(), reason })?;
    let of_shares = || shares.iter().filter_map(|share| share.record.verification.as_ref());
    let total = |count: fn(&Verification) -> u64| saturating_sum(of_shares().map(count));
    let mut sum = Verification {
        unordered: total(|found| found.unordered),
        order_unchecked: total(|found| found.order_unchecked),
        foreign: total(|found| found.foreign),
        saturated: groups.iter().any(|group| group.account.saturated),
        ..Verification::default()
    };
    for (number, merged) in groups.iter().enumerate().take(first.groups.len()) {
        let found: Vec<&GroupVerification> = of_shares().filter_map(|found| found.groups.get(number)).collect();
        add(&mut sum, group(&found, merged));
    }
    Ok(Some(sum))
}

fn group(found: &[&GroupVerification], MergedGroup { account, repeated }: &MergedGroup) -> GroupVerification {
    let total = |count: fn(&GroupVerification) -> u64| saturating_sum(found.iter().map(|group| count(group)));
    let received_something = found.iter().filter(|group| group.received > 0);
    GroupVerification {
        group: found[0].group,
        task: found[0].task.clone(),
        received: total(|group| group.received),
        consumed: total(|group| group.consumed),
        lost: account.lost,
        unread: account.unread,
        undecided: account.undecided,
        not_acknowledged_but_stored: account.not_acknowledged_but_stored,
        // Two shares took the same message for its first delivery.
        duplicated: total(|group| group.duplicated).saturating_add(*repeated),
        redelivered: total(|group| group.redelivered),
        reordered: total(|group| group.reordered),
        corrupt: total(|group| group.corrupt),
        consumer_lag_at_load_end: None,
        catch_up_ns: received_something.filter_map(|group| group.catch_up_ns).max().filter(|_| account.unread == 0),
    }
}

fn add(sum: &mut Verification, group: GroupVerification) {
    sum.received = sum.received.saturating_add(group.received);
    sum.lost = sum.lost.saturating_add(group.lost);
    sum.unread = sum.unread.saturating_add(group.unread);
    sum.undecided = sum.undecided.saturating_add(group.undecided);
    sum.not_acknowledged_but_stored = sum.not_acknowledged_but_stored.saturating_add(group.not_acknowledged_but_stored);
    sum.duplicated = sum.duplicated.saturating_add(group.duplicated);
    sum.redelivered = sum.redelivered.saturating_add(group.redelivered);
    sum.reordered = sum.reordered.saturating_add(group.reordered);
    sum.corrupt = sum.corrupt.saturating_add(group.corrupt);
    sum.groups.push(group);
}
