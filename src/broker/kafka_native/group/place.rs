//! A member's place in its group: what the task that speaks with the group has assigned or requests back, until the consumer takes it.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::error::CallError;

/// Between the task that speaks with the group and the consumer that reads.
#[derive(Default)]
pub struct Place {
    state: Mutex<State>,
    /// Wakes the consumer.
    changed: Notify,
    /// Wakes the task: the consumer has returned partitions.
    returned: Notify,
}

#[derive(Default)]
struct State {
    /// Until the consumer takes it.
    assigned: Option<BTreeSet<u32>>,
    /// Until the consumer has returned them.
    requested: Option<Revocation>,
    error: Option<CallError>,
}

/// Which partitions a group requests back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revocation {
    /// All: the group decides again, or has lost the member.
    All,
    /// All but these, which the member goes on to read.
    AllBut(BTreeSet<u32>),
}

impl Place {
    /// From now on, these are the member's partitions.
    pub fn assign(&self, partitions: BTreeSet<u32>) {
        self.state.lock().assigned = Some(partitions);
        self.changed.notify_one();
    }

    /// Reports why the member is not in the group.
    pub fn fail(&self, error: CallError) {
        self.state.lock().error = Some(error);
        self.changed.notify_one();
    }

    /// Requests partitions back from the consumer.
    pub fn request_back(&self, revocation: Revocation) {
        self.state.lock().requested = Some(revocation);
        self.changed.notify_one();
    }

    /// Waits until the consumer has returned what was requested.
    pub async fn returned(&self) {
        loop {
            // Created before the look, so that a notification in between is not missed.
            let returned = self.returned.notified();
            if self.state.lock().requested.is_none() {
                return;
            }
            returned.await;
        }
    }

    /// Waits until the group has assigned something, requests it back, or an error is to be reported.
    pub async fn changed(&self) {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.lock();
                if state.assigned.is_some() || state.requested.is_some() || state.error.is_some() {
                    return;
                }
            }
            changed.await;
        }
    }

    /// What was assigned since the last call.
    pub fn take_assigned(&self) -> Option<BTreeSet<u32>> {
        self.state.lock().assigned.take()
    }

    /// Why the member was not in the group since the last call.
    pub fn take_error(&self) -> Option<CallError> {
        self.state.lock().error.take()
    }

    pub fn is_revocation_requested(&self) -> bool {
        self.state.lock().requested.is_some()
    }

    /// The consumer takes nothing more from the partitions that were requested. Returns which these are.
    pub fn return_requested(&self) -> Option<Revocation> {
        let mut state = self.state.lock();
        let requested = state.requested.take()?;
        // It was not taken before it was requested back.
        state.assigned = None;
        drop(state);
        self.returned.notify_one();
        Some(requested)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// A return that the task has not looked at yet does not count for the next request.
    #[tokio::test]
    async fn a_request_is_open_until_the_consumer_has_answered_it_and_no_other() {
        let place = Place::default();
        let kept = Revocation::AllBut([1].into());
        place.assign([1, 2].into());
        place.request_back(kept.clone());
        assert_eq!(place.return_requested(), Some(kept));
        assert_eq!((place.return_requested(), place.take_assigned()), (None, None));
        place.request_back(Revocation::All);
        assert!(place.returned().now_or_never().is_none());
        assert_eq!(place.return_requested(), Some(Revocation::All));
        place.returned().await;
    }
}
