//! How far a member of a group is in its partitions, on a broker that numbers their messages.

use std::future::Future;

use super::error::ReceiveError;

/// The offsets of a member of a group, on a broker that numbers the messages of a partition.
///
/// Only members with [`Progress::Kept`](super::Progress::Kept) or [`Progress::OfTheTrial`](super::Progress::OfTheTrial) commit, and revoke
/// partitions when the group requests it.
pub trait Offsets: Send {
    /// The partitions that are assigned to this member, each with the offset of the next message it will take, if that is
    /// known yet. `None`: the group has not decided, or has revoked the partitions and not assigned new ones.
    fn assigned(&mut self) -> Option<Vec<(u32, Option<u64>)>>;

    /// Commits, for each partition, the offset of the first message that is not done: the next member begins there. With
    /// `confirmed` it waits, for a few seconds at most, until the broker has confirmed it. The last commit of a member is a confirmed one:
    /// [`Consumer::close`](super::Consumer::close) reports nothing.
    ///
    /// # Errors
    /// When the broker refused the commit or did not confirm it, or has refused an earlier one that was not waited for.
    fn commit(&mut self, next: &[(u32, u64)], confirmed: bool)
    -> impl Future<Output = Result<(), ReceiveError>> + Send;

    /// Whether the group requests this member's partitions back. The group waits until [`Offsets::revoke`]. Another member
    /// will receive again what was taken from the partitions and not committed by then.
    fn is_revocation_requested(&self) -> bool;

    /// Returns the requested partitions to the group.
    fn revoke(&mut self) -> impl Future<Output = ()> + Send;
}

/// The offsets of a broker that has none: no value of this type exists.
pub enum NoOffsets {}

impl Offsets for NoOffsets {
    fn assigned(&mut self) -> Option<Vec<(u32, Option<u64>)>> {
        match *self {}
    }

    async fn commit(&mut self, _next: &[(u32, u64)], _confirmed: bool) -> Result<(), ReceiveError> {
        match *self {}
    }

    fn is_revocation_requested(&self) -> bool {
        match *self {}
    }

    async fn revoke(&mut self) {
        match *self {}
    }
}
