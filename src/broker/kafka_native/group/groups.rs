//! The groups of a trial: makes their members, knows what members of a group have in common, and removes groups of the trial. Properties of consumers
//! choose the protocol of a group, by the names that librdkafka has for them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use super::super::config::{Isolation, KafkaNativeOptions};
use super::super::consume::consumer::KafkaNativeConsumer;
use super::super::error::{CallError, GROUP_ID_NOT_FOUND};
use super::super::net::admin::{Admin, End, EndsQuery};
use super::super::net::cluster::Coordinator;
use super::assignors::Strategy;
use super::classic::Classic;
use super::committed::{Committed, Positions, StartOffsets};
use super::membership::{AssignmentMailbox, Member, MemberConfig};
use super::server_assigned::ServerAssigned;
use crate::broker::kafka_options::{Assignment, DIVIDED, joins_no_group};
use crate::broker::kafka_shares::MemberShares;
use crate::broker::{BrokerError, Progress, Subscription};
use crate::measure::{Subject, SubjectKind};
use crate::net::backoff::Backoff;
use crate::scenario::StartFrom;

/// Later versions encode lengths in another way.
const DELETE_GROUPS: i16 = 1;

const NON_EMPTY_GROUP: i16 = 68;

/// The groups of a trial.
pub struct Groups {
    pub admin: Arc<Admin>,
    options: KafkaNativeOptions,
    known: Mutex<BTreeMap<String, Arc<Group>>>,
    /// Groups that are removed with the trial.
    of_the_trial: Mutex<BTreeSet<String>>,
}

/// What the members of a group have in common.
#[derive(Default)]
struct Group {
    left_off: Arc<Mutex<Positions>>,
    /// Whether it is known where the group begins, if that is at the latest message.
    begun: OnceCell<()>,
    /// What its members have, by topic.
    shares: Mutex<BTreeMap<String, Arc<MemberShares>>>,
}

impl Groups {
    pub fn new(admin: Arc<Admin>, options: KafkaNativeOptions) -> Self {
        Groups { admin, options, known: Mutex::default(), of_the_trial: Mutex::default() }
    }

    /// A member of a group, which has its partitions if it does not commit.
    ///
    /// # Errors
    /// When the scenario asks for what cannot be, the group does not assign them in time, or it is not known where they begin.
    pub async fn consumer(&self, subscription: &Subscription) -> Result<KafkaNativeConsumer, BrokerError> {
        let Subscription { group, topic, from, members, member, progress, .. } = subscription;
        let protocol = self.protocol(subscription);
        let protocol = protocol.map_err(BrokerError::Configuration)?;
        let known = self.known.lock().entry(group.clone()).or_default().clone();
        if *progress == Progress::OfTheTrial {
            self.of_the_trial.lock().insert(group.clone());
        }
        let committed = || Arc::new(Committed::new(self.coordinator(group), &topic.name));
        let start_offsets = StartOffsets {
            admin: self.admin.clone(),
            topic: topic.name.clone(),
            committed: (*progress != Progress::Uncommitted).then(committed),
            left_off: known.left_off.clone(),
            end: match from {
                StartFrom::Earliest => End::Earliest,
                StartFrom::Latest => End::Latest,
            },
        };
        let isolation = self.options.isolation;
        if Assignment::new(self.options.assignment, subscription) == Assignment::Manual {
            let partitions = (*member..topic.partitions as usize).step_by(*members).map(|one| one as u32);
            return KafkaNativeConsumer::with_partitions(start_offsets, partitions.collect(), isolation).await;
        }
        let cannot = |reason: String| BrokerError::Topic { topic: topic.name.clone(), action: "consumed", reason };
        if *from == StartFrom::Latest {
            let begun = known.begin_at_latest(&start_offsets, topic.partitions, *progress == Progress::Kept).await;
            begun.map_err(cannot)?;
        }
        let shares = || {
            let conditions = self.admin.cluster.connector.conditions.clone();
            Arc::new(MemberShares::new(group, &topic.name, topic.partitions, *members, conditions))
        };
        let config = MemberConfig {
            member: *member,
            shares: known.shares.lock().entry(topic.name.clone()).or_insert_with(shares).clone(),
            cluster: self.admin.cluster.clone(),
            group: group.clone(),
            topic: topic.name.clone(),
            instance_id: self.options.static_members.then(|| format!("member-{member}")),
            committed: start_offsets.committed.clone(),
            timeout: self.admin.timeout,
        };
        let member = join(config, protocol, self.options.session_timeout());
        let mut consumer = KafkaNativeConsumer::new(start_offsets, isolation, Some(member));
        if *progress == Progress::Uncommitted {
            let late = || cannot(format!("the group {group} assigned nothing to this member in time"));
            // Where partitions are fewer, the group decides which members have none.
            let joined = consumer.joined(*members <= topic.partitions as usize);
            let joined = timeout(self.admin.timeout, joined).await.map_err(|_| late())?;
            joined.map_err(|error| cannot(error.message))?;
        }
        Ok(consumer)
    }

    /// How the group shares partitions out.
    fn protocol(&self, subscription: &Subscription) -> Result<GroupProtocol, String> {
        let Subscription { properties, progress, is_divided, .. } = subscription;
        let protocol = GroupProtocol::read(properties)?;
        if Assignment::new(self.options.assignment, subscription) == Assignment::Manual {
            return match properties.first() {
                None => Ok(protocol),
                Some((key, _)) => Err(joins_no_group(&format!("the property '{key}'"))),
            };
        }
        if *is_divided {
            return Err(DIVIDED.to_owned());
        }
        let is_server = matches!(protocol, GroupProtocol::Server { .. });
        if is_server && self.options.session_timeout.is_some() {
            return Err(
                "with `\"group.protocol\" = \"consumer\"`, the server decides how long a member may be silent: remove \
                        `broker.kafka.session_timeout`"
                    .to_owned(),
            );
        }
        if *progress == Progress::Uncommitted {
            return Ok(protocol);
        }
        if self.options.static_members {
            return Err("a pipeline's members leave their group with the run: remove `static_members`".to_owned());
        }
        if protocol == GroupProtocol::Classic(vec![Strategy::CooperativeSticky]) {
            return Err("a pipeline's members return all their partitions at once: remove `partition.assignment.strategy`, or set \
                        `\"group.protocol\" = \"consumer\"`"
                .to_owned());
        }
        Ok(protocol)
    }

    fn coordinator(&self, group: &str) -> Coordinator {
        Coordinator::new(self.admin.cluster.clone(), group, self.admin.timeout)
    }

    /// Removes the groups of the trial, whose members have left.
    ///
    /// # Errors
    /// When the coordinator of one refuses or does not answer.
    pub async fn remove(&self) -> Result<(), BrokerError> {
        let groups = std::mem::take(&mut *self.of_the_trial.lock());
        for group in groups {
            self.remove_named(&group).await?;
        }
        Ok(())
    }

    /// Removes a group of the trial, whose members have left.
    ///
    /// # Errors
    /// As [`Groups::remove`].
    pub async fn remove_named(&self, group: &str) -> Result<(), BrokerError> {
        let removed = self.remove_one(group).await;
        removed.map_err(|error| BrokerError::Client(format!("group '{group}' was not removed: {error}")))
    }

    async fn remove_one(&self, group: &str) -> Result<(), CallError> {
        let coordinator = self.coordinator(group);
        let request = DeleteGroupsRequest::default().with_groups_names(vec![coordinator.group()]);
        let code = |response: &DeleteGroupsResponse| response.results.first().map_or(0, |result| result.error_code);
        let (deadline, mut backoff) = (Instant::now() + self.admin.timeout, Backoff::RECEIVE);
        loop {
            let response = coordinator.call(&request, DELETE_GROUPS, code).await?;
            match code(&response) {
                0 | GROUP_ID_NOT_FOUND => return Ok(()),
                // A member that did not leave is forgotten when its session ends.
                NON_EMPTY_GROUP if Instant::now() < deadline => backoff.pause().await,
                code => return Err(CallError::Refused(code, None)),
            }
        }
    }
}

impl Group {
    /// The group begins at what is the latest message now, not when a member asks first. A group that is kept goes on at its committed
    /// offsets where it has any, and may have members elsewhere, so that nothing is committed for it.
    async fn begin_at_latest(
        &self,
        start_offsets: &StartOffsets,
        partitions: u32,
        is_kept: bool,
    ) -> Result<(), String> {
        let begin = async || {
            let partitions: Vec<u32> = (0..partitions).collect();
            let (topic, isolation) = (&start_offsets.topic, Isolation::ReadUncommitted);
            let query = EndsQuery { topic, partitions: &partitions, end: End::Latest, isolation };
            let ends = start_offsets.admin.ends_in_time(&query).await.map_err(|error| error.to_string())?;
            match start_offsets.committed.as_ref().filter(|_| !is_kept) {
                None => self.left_off.lock().extend(ends),
                Some(committed) => {
                    let ends: Vec<(u32, u64)> = ends.iter().map(|(one, end)| (*one, *end as u64)).collect();
                    committed.commit(&ends, true).await.map_err(|error| error.message)?;
                }
            }
            Ok(())
        };
        self.begun.get_or_try_init(begin).await.map(drop)
    }
}

/// Begins to join a group. `session_timeout`: of a classic group.
fn join(config: MemberConfig, protocol: GroupProtocol, session_timeout: Duration) -> Member {
    let conditions = &config.cluster.connector.conditions;
    let group = Subject::new(conditions, SubjectKind::Group, &config.group);
    let mailbox = Arc::new(AssignmentMailbox::for_group(group));
    match protocol {
        GroupProtocol::Classic(strategies) => {
            let member = Arc::new(Classic::new(config, strategies, session_timeout, mailbox.clone()));
            Member::begin(mailbox, member.clone().run(), async move { member.leave().await })
        }
        GroupProtocol::Server { assignor } => {
            let member = Arc::new(ServerAssigned::new(config, assignor, mailbox.clone()));
            Member::begin(mailbox, member.clone().run(), async move { member.leave().await })
        }
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
