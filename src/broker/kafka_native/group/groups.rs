//! The groups of a trial: makes their members, knows what members of a group have in common, and removes groups of the trial.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kafka_protocol::messages::{DeleteGroupsRequest, DeleteGroupsResponse};
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use super::super::config::{Isolation, KafkaNativeOptions};
use super::super::consume::consumer::KafkaNativeConsumer;
use super::super::consume::start_offset::{Positions, StartOffsets};
use super::super::error::{CallError, GROUP_ID_NOT_FOUND};
use super::super::net::admin::{Admin, End, EndsQuery};
use super::super::net::cluster::Coordinator;
use super::assignors::Strategy;
use super::committed::Committed;
use super::member::{GroupProtocol, Member};
use super::membership::MemberConfig;
use crate::broker::kafka_options::{Assignment, DIVIDED, joins_no_group};
use crate::broker::{BrokerError, Progress, Subscription};
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
        if Assignment::of(self.options.assignment, subscription) == Assignment::Manual {
            let partitions = (*member..topic.partitions as usize).step_by(*members).map(|one| one as u32);
            return KafkaNativeConsumer::with_partitions(start_offsets, partitions.collect(), isolation).await;
        }
        let cannot = |reason: String| BrokerError::Topic { topic: topic.name.clone(), action: "consumed", reason };
        if *from == StartFrom::Latest {
            let begun = known.begin_at_latest(&start_offsets, topic.partitions, *progress == Progress::Kept).await;
            begun.map_err(cannot)?;
        }
        let config = MemberConfig {
            cluster: self.admin.cluster.clone(),
            group: group.clone(),
            topic: topic.name.clone(),
            instance_id: self.options.static_members.then(|| format!("member-{member}")),
            committed: start_offsets.committed.clone(),
            timeout: self.admin.timeout,
        };
        let member = Member::join(config, &protocol, self.options.session_timeout());
        let mut consumer = KafkaNativeConsumer::in_group(start_offsets, member, isolation);
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
        if Assignment::of(self.options.assignment, subscription) == Assignment::Manual {
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
            self.remove_one(&group)
                .await
                .map_err(|error| BrokerError::Client(format!("group '{group}' was not removed: {error}")))?;
        }
        Ok(())
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
