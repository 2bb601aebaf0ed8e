//! A member of a group whose members share partitions, by either of Kafka's two protocols. Properties of consumers choose the protocol, by
//! the names that librdkafka has for them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::super::error::CallError;
use super::assignors::Strategy;
use super::classic::Classic;
use super::membership::{AssignmentMailbox, MemberConfig, Revocation};
use super::server_assigned::ServerAssigned;
use crate::measure::{Subject, SubjectKind};

/// How long leaving may take.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// A member of a group.
pub struct Member {
    mailbox: Arc<AssignmentMailbox>,
    protocol: Protocol,
    task: AbortHandle,
}

enum Protocol {
    Classic(Arc<Classic>),
    Server(Arc<ServerAssigned>),
}

impl Member {
    /// Begins to join. `session_timeout`: of a classic group.
    pub fn join(config: MemberConfig, protocol: &GroupProtocol, session_timeout: Duration) -> Self {
        let conditions = &config.cluster.connector.conditions;
        let group = Subject::new(conditions, SubjectKind::Group, &config.group);
        let mailbox = Arc::new(AssignmentMailbox::for_group(group));
        let (protocol, task) = match protocol {
            GroupProtocol::Classic(strategies) => {
                let member = Classic::new(config, strategies.clone(), session_timeout, mailbox.clone());
                let member = Arc::new(member);
                (Protocol::Classic(member.clone()), tokio::spawn(member.run()))
            }
            GroupProtocol::Server { assignor } => {
                let member = Arc::new(ServerAssigned::new(config, assignor.clone(), mailbox.clone()));
                (Protocol::Server(member.clone()), tokio::spawn(member.run()))
            }
        };
        Member { mailbox, protocol, task: task.abort_handle() }
    }

    /// Waits until the group has assigned something, requests it back, or an error is to be reported.
    pub async fn changed(&self) {
        self.mailbox.changed().await;
    }

    /// What the group has assigned since the last call.
    pub fn take_assigned(&self) -> Option<BTreeSet<u32>> {
        self.mailbox.take_assigned()
    }

    /// Why the member could not join at its last attempt, or has lost its place.
    pub fn take_error(&self) -> Option<CallError> {
        self.mailbox.take_error()
    }

    pub fn is_revocation_requested(&self) -> bool {
        self.mailbox.is_revocation_requested()
    }

    /// The partitions that were requested are returned: nothing more is taken from them.
    pub fn return_requested(&self) -> Option<Revocation> {
        self.mailbox.return_requested()
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

/// The properties of consumers that this client has.
pub const PROPERTIES: &[&str] = &[PROTOCOL, REMOTE_ASSIGNOR, STRATEGY];

const PROTOCOL: &str = "group.protocol";
const REMOTE_ASSIGNOR: &str = "group.remote.assignor";
const STRATEGY: &str = "partition.assignment.strategy";

/// How a group shares partitions among its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupProtocol {
    /// One of the members does, by a strategy that all of them offer. These are offered, best first.
    Classic(Vec<Strategy>),
    /// The server does (KIP-848), by the assignor of this name or by the one that it prefers.
    Server { assignor: Option<String> },
}

impl GroupProtocol {
    /// As `consumers.properties` ask for it.
    ///
    /// # Errors
    /// When a property or its value is unknown, or does not go with another one.
    pub fn read(properties: &[(String, String)]) -> Result<Self, String> {
        if let Some((key, _)) = properties.iter().find(|(key, _)| !PROPERTIES.contains(&key.as_str())) {
            return Err(format!(
                "`consumers.properties.\"{key}\"` is librdkafka's: remove it, or write `client = \"librdkafka\"`"
            ));
        }
        let value = |wanted| properties.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str());
        match value(PROTOCOL) {
            None | Some("classic") => {
                if value(REMOTE_ASSIGNOR).is_some() {
                    return Err(format!(
                        "`{REMOTE_ASSIGNOR}` goes with `\"{PROTOCOL}\" = \"consumer\"`: set both, or none"
                    ));
                }
                value(STRATEGY).map_or_else(|| Ok(Strategy::DEFAULT.to_vec()), strategies).map(GroupProtocol::Classic)
            }
            Some("consumer") => {
                if value(STRATEGY).is_some() {
                    return Err(format!(
                        "with `\"{PROTOCOL}\" = \"consumer\"`, the server shares partitions out: remove `{STRATEGY}`"
                    ));
                }
                Ok(GroupProtocol::Server { assignor: value(REMOTE_ASSIGNOR).map(str::to_owned) })
            }
            Some(other) => Err(format!("`{PROTOCOL}` is \"classic\" or \"consumer\", not \"{other}\"")),
        }
    }
}

/// From their names, with commas between them.
fn strategies(names: &str) -> Result<Vec<Strategy>, String> {
    let mut strategies = Vec::new();
    for name in names.split(',').map(str::trim) {
        let known = || Strategy::ALL.map(Strategy::name).join(", ");
        let strategy = Strategy::by_name(name);
        strategies.push(strategy.ok_or_else(|| format!("`{STRATEGY}` has \"{name}\", and can be {}", known()))?);
    }
    // Its members keep partitions while they join again, which those of the others do not.
    if strategies.contains(&Strategy::CooperativeSticky) && strategies.len() > 1 {
        let name = Strategy::CooperativeSticky.name();
        return Err(format!("`{STRATEGY}`: \"{name}\" does not go with other strategies, write it alone"));
    }
    Ok(strategies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(properties: &[(&str, &str)]) -> Result<GroupProtocol, String> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        GroupProtocol::read(&properties.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn properties_have_the_names_and_values_of_librdkafka() {
        let classic = |strategies: &[Strategy]| Ok(GroupProtocol::Classic(strategies.to_vec()));
        let server = |assignor: Option<&str>| Ok(GroupProtocol::Server { assignor: assignor.map(str::to_owned) });
        assert_eq!(read(&[]), classic(&[Strategy::Range, Strategy::RoundRobin]));
        assert_eq!(read(&[(STRATEGY, "roundrobin, range")]), classic(&[Strategy::RoundRobin, Strategy::Range]));
        assert_eq!(read(&[(STRATEGY, "cooperative-sticky")]), classic(&[Strategy::CooperativeSticky]));
        assert_eq!(read(&[(PROTOCOL, "consumer")]), server(None));
        assert_eq!(read(&[(PROTOCOL, "consumer"), (REMOTE_ASSIGNOR, "range")]), server(Some("range")));
    }

    #[test]
    fn what_is_unknown_or_does_not_go_together_is_refused() {
        for (properties, reason) in [
            (&[("fetch.min.bytes", "1")][..], "client = \"librdkafka\""),
            (&[(PROTOCOL, "streams")], "not \"streams\""),
            (&[(REMOTE_ASSIGNOR, "range")], "group.protocol"),
            (&[(PROTOCOL, "consumer"), (STRATEGY, "range")], "remove `partition.assignment.strategy`"),
            (&[(STRATEGY, "sticky")], "range, roundrobin, cooperative-sticky"),
            (&[(STRATEGY, "cooperative-sticky,range")], "alone"),
        ] {
            let error = read(properties).unwrap_err();
            assert!(error.contains(reason), "{properties:?}: {error}");
        }
    }
}
