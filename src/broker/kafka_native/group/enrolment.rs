//! Who wants to be a member of which group.

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::protocol::StrBytes;

use super::super::error::{CallError, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID};
use super::super::net::cluster::Cluster;
use super::super::net::coordinator::Coordinator;
use super::committed::{Committed, Identity};

/// How long members may take to return their partitions: `max.poll.interval.ms` of both librdkafka and Kafka's own client.
pub const REBALANCE: Duration = Duration::from_secs(300);

/// What a member says of itself, whichever protocol its group has.
pub struct Enrolment {
    pub cluster: Arc<Cluster>,
    pub group: String,
    pub topic: String,
    /// Of a static member (KIP-345), which the group knows by this name after an absence.
    pub instance_id: Option<String>,
    /// Of a group that commits.
    pub committed: Option<Arc<Committed>>,
    /// How long a response may take.
    pub timeout: Duration,
}

impl Enrolment {
    /// Of the group, for requests that are answered at once.
    pub fn coordinator(&self) -> Coordinator {
        Coordinator::new(self.cluster.clone(), &self.group, self.timeout)
    }

    /// As requests have it.
    pub fn instance_id(&self) -> Option<StrBytes> {
        self.instance_id.clone().map(StrBytes::from_string)
    }

    /// From now on, what is committed is of this member.
    pub fn identify(&self, identity: Identity) {
        if let Some(committed) = &self.committed {
            committed.identify(identity);
        }
    }

    /// Names the static member whose place another one has.
    pub fn explain(&self, error: CallError) -> CallError {
        let (group, name) = (&self.group, self.instance_id.as_deref().unwrap_or_default());
        let explained = |code, reason| CallError::Refused(code, Some(reason));
        match error {
            CallError::Refused(code @ FENCED_INSTANCE_ID, _) => explained(
                code,
                format!(
                    "another client has joined the group '{group}' as its static member '{name}', and has its place now"
                ),
            ),
            CallError::Refused(code @ UNRELEASED_INSTANCE_ID, _) => explained(
                code,
                format!(
                    "the group '{group}' has a static member '{name}' already: end its client, or wait for its session's end"
                ),
            ),
            other => other,
        }
    }
}

/// As requests have it.
pub fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
