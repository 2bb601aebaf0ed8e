//! A member of a group whose members share partitions, by either of Kafka's two protocols.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::super::error::CallError;
use super::classic::Classic;
use super::enrolment::Enrolment;
use super::group_protocol::GroupProtocol;
use super::place::{Place, Revocation};
use super::server_assigned::ServerAssigned;

/// How long leaving may take.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// A member of a group.
pub struct Member {
    place: Arc<Place>,
    protocol: Protocol,
    task: AbortHandle,
}

enum Protocol {
    Classic(Arc<Classic>),
    Server(Arc<ServerAssigned>),
}

impl Member {
    /// Begins to join. `session_timeout`: of a classic group.
    pub fn join(enrolment: Enrolment, protocol: &GroupProtocol, session_timeout: Duration) -> Self {
        let place = Arc::new(Place::default());
        let (protocol, task) = match protocol {
            GroupProtocol::Classic(strategies) => {
                let member = Classic::new(enrolment, strategies.clone(), session_timeout, place.clone());
                let member = Arc::new(member);
                (Protocol::Classic(member.clone()), tokio::spawn(member.run()))
            }
            GroupProtocol::Server { assignor } => {
                let member = Arc::new(ServerAssigned::new(enrolment, assignor.clone(), place.clone()));
                (Protocol::Server(member.clone()), tokio::spawn(member.run()))
            }
        };
        Member { place, protocol, task: task.abort_handle() }
    }

    /// Waits until the group has assigned something, requests it back, or an error is to be reported.
    pub async fn changed(&self) {
        self.place.changed().await;
    }

    /// What the group has assigned since the last call.
    pub fn take_assigned(&self) -> Option<BTreeSet<u32>> {
        self.place.take_assigned()
    }

    /// Why the member could not join at its last attempt, or has lost its place.
    pub fn take_error(&self) -> Option<CallError> {
        self.place.take_error()
    }

    pub fn is_revocation_requested(&self) -> bool {
        self.place.is_revocation_requested()
    }

    /// The partitions that were requested are returned: nothing more is taken from them.
    pub fn return_requested(&self) -> Option<Revocation> {
        self.place.return_requested()
    }

    /// Leaves the group.
    pub async fn leave(self) {
        self.task.abort();
        let leave = async {
            match &self.protocol {
                Protocol::Classic(member) => member.leave().await,
                Protocol::Server(member) => member.leave().await,
            }
        };
        // A member that the group does not hear from is forgotten when its session ends.
        let _ = timeout(LEAVE_WITHIN, leave).await;
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.task.abort();
    }
}
