//! The share groups of a trial: their settings, their members, how far they are, and their end.

use std::collections::BTreeMap;
use std::sync::Arc;

use kafka_protocol::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequestGroup, DescribeShareGroupOffsetsRequestTopic,
};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::{DescribeShareGroupOffsetsRequest, IncrementalAlterConfigsRequest};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::super::codec::shares::read_group_lags;
use super::super::config::{Isolation, KafkaNativeOptions};
use super::super::error::CallError;
use super::super::group::groups::Groups;
use super::super::group::membership::{AssignmentMailbox, Member};
use super::super::net::admin::{Admin, End, EndsQuery, text};
use super::super::net::cluster::{Coordinator, name_of};
use super::answers::{AnswerChoice, GroupAnswers};
use super::consumer::ShareConsumer;
use super::link::ShareLink;
use super::member::{ShareIdentity, ShareMember};
use super::options::ShareGroupOptions;
use crate::broker::{BrokerError, ConsumerAnswers, Progress, Subscription, Topic};
use crate::measure::{Subject, SubjectKind};
use crate::scenario::StartFrom;

/// The versions of requests that are used here.
const ALTER_CONFIGS: i16 = 1;
/// The first has the same request as the second, whose response tells the lag.
const DESCRIBE_OFFSETS: (i16, i16) = (0, 1);

/// A group as a resource that has settings (`ConfigResource.Type`), and what is done to a setting (`AlterConfigOp.OpType`).
const GROUP_RESOURCE: i8 = 32;
const SET: i8 = 0;
const DELETE: i8 = 1;

/// Settings of a group (`GroupConfig.java` of Apache Kafka).
const OFFSET_RESET: &str = "share.auto.offset.reset";
const ISOLATION: &str = "share.isolation.level";
const LOCK: &str = "share.record.lock.duration.ms";

/// The share groups of a trial.
pub struct ShareGroups {
    admin: Arc<Admin>,
    options: ShareGroupOptions,
    isolation: Isolation,
    known: Mutex<BTreeMap<String, Arc<ShareGroup>>>,
}

/// What the members of a group have in common.
#[derive(Default)]
struct ShareGroup {
    /// Name of its topic.
    topic: String,
    answers: Arc<GroupAnswers>,
    /// Whether its settings are made.
    configured: OnceCell<()>,
}

impl ShareGroups {
    /// `None`: the options have no share groups.
    pub fn new(admin: Arc<Admin>, options: &KafkaNativeOptions) -> Option<Self> {
        let (isolation, known) = (options.isolation, Mutex::default());
        Some(ShareGroups { admin, options: options.share_group?, isolation, known })
    }

    /// A member of a group, which has its place there.
    ///
    /// # Errors
    /// When the scenario asks for what cannot be, or the group or the broker refuses.
    pub async fn consumer(&self, subscription: &Subscription) -> Result<ShareConsumer, BrokerError> {
        let Subscription { group: name, topic, from, .. } = subscription;
        refusal(subscription).map_or(Ok(()), |reason| Err(BrokerError::Configuration(reason)))?;
        let new = || Arc::new(ShareGroup { topic: topic.name.clone(), ..ShareGroup::default() });
        let group = self.known.lock().entry(name.clone()).or_insert_with(new).clone();
        let configured = group.configured.get_or_try_init(async || self.configure(name, Some(*from)).await).await;
        configured.map_err(|error| BrokerError::Topic {
            topic: topic.name.clone(),
            action: "consumed",
            reason: format!("the settings of the group '{name}' cannot be made: {error}"),
        })?;
        let identity = Arc::new(ShareIdentity {
            admin: self.admin.clone(),
            group: name.clone(),
            topic: topic.name.clone(),
            member_id: format!("{:032x}", rand::random::<u128>()),
        });
        let subject = Subject::new(&self.admin.cluster.connector.conditions, SubjectKind::Group, name);
        let mailbox = Arc::new(AssignmentMailbox::for_group(subject));
        let member = Arc::new(ShareMember::new(identity.clone(), mailbox.clone()));
        let member = Member::begin(mailbox, member.clone().run(), async move { member.leave().await });
        let link = Arc::new(ShareLink::new(identity, self.options, group.answers.clone()));
        let mut consumer = ShareConsumer::new(link, member, AnswerChoice::new(self.options));
        consumer.begun(self.admin.timeout).await?;
        Ok(consumer)
    }

    /// Makes the settings of a group; without a begin, removes them.
    async fn configure(&self, group: &str, from: Option<StartFrom>) -> Result<(), CallError> {
        let is_set = from.is_some();
        let begin = if from == Some(StartFrom::Latest) { "latest" } else { "earliest" };
        let isolation = match self.isolation {
            Isolation::ReadCommitted => "read_committed",
            Isolation::ReadUncommitted => "read_uncommitted",
        };
        let lock = self.options.lock_duration.map(|lock| (LOCK, lock.as_millis().to_string()));
        let settings = [(OFFSET_RESET, begin.to_owned()), (ISOLATION, isolation.to_owned())].into_iter().chain(lock);
        let setting = |(name, value): (&str, String)| {
            AlterableConfig::default()
                .with_name(text(name))
                .with_config_operation(if is_set { SET } else { DELETE })
                .with_value(is_set.then(|| text(&value)))
        };
        let resource = AlterConfigsResource::default()
            .with_resource_type(GROUP_RESOURCE)
            .with_resource_name(text(group))
            .with_configs(settings.map(setting).collect());
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let response = self.admin.cluster.call(&request, ALTER_CONFIGS).await?;
        let mut results = response.responses.iter();
        results.try_for_each(|result| CallError::check_told(result.error_code, result.error_message.as_ref()))
    }

    /// Whether a group has messages of `topic` that it has not done with: they are delivered, perhaps again. A broker of Kafka 4.1 does not tell.
    pub async fn will_redeliver(&self, topic: &Topic) -> bool {
        let groups: Vec<String> = {
            let known = self.known.lock();
            known.iter().filter(|(_, group)| group.topic == topic.name).map(|(name, _)| name.clone()).collect()
        };
        let partitions: Vec<u32> = (0..topic.partitions).collect();
        let (end, isolation) = (End::Latest, self.isolation);
        let query = EndsQuery { topic: &topic.name, partitions: &partitions, end, isolation };
        let Ok(ends) = self.admin.ends(&query).await else { return true };
        for group in groups {
            let Ok(lags) = self.lags(&group, topic).await else { return true };
            if ends.iter().any(|(partition, end)| *end > 0 && lags.get(partition) != Some(&0)) {
                return true;
            }
        }
        false
    }

    /// How many messages of each partition the group has not done with (KIP-1226).
    async fn lags(&self, group: &str, topic: &Topic) -> Result<BTreeMap<u32, i64>, CallError> {
        let coordinator = Coordinator::new(self.admin.cluster.clone(), group, self.admin.timeout);
        let asked = DescribeShareGroupOffsetsRequestTopic::default()
            .with_topic_name(name_of(&topic.name))
            .with_partitions((0..topic.partitions as i32).collect());
        let asked = DescribeShareGroupOffsetsRequestGroup::default()
            .with_group_id(coordinator.group())
            .with_topics(Some(vec![asked]));
        let request = DescribeShareGroupOffsetsRequest::default().with_groups(vec![asked]);
        let (known, with_lag) = DESCRIBE_OFFSETS;
        let (code, lags) = read_group_lags(&coordinator.call_newer(&request, known, with_lag).await?)?;
        CallError::check(code).map(|()| lags)
    }

    /// What the members of all groups have answered.
    pub fn answers(&self) -> ConsumerAnswers {
        let mut sum =
            ConsumerAnswers { acknowledge: self.options.acknowledge.name().to_owned(), ..ConsumerAnswers::default() };
        self.known.lock().values().for_each(|group| sum += group.answers.counts());
        sum
    }

    /// Removes the groups, whose members have left, and their settings.
    ///
    /// # Errors
    /// The first one, when the broker refuses or does not answer. It goes on after one.
    pub async fn remove(&self, groups: &Groups) -> Result<(), BrokerError> {
        let known = std::mem::take(&mut *self.known.lock());
        let mut result = Ok(());
        for name in known.into_keys() {
            let removed = groups.remove_named(&name).await;
            let unset = self.configure(&name, None).await;
            let left =
                |error: CallError| BrokerError::Client(format!("settings of group '{name}' were not removed: {error}"));
            result = result.and(removed).and(unset.map_err(left));
        }
        result
    }
}

/// What share groups cannot do for a subscription.
fn refusal(subscription: &Subscription) -> Option<String> {
    if let Some((key, _)) = subscription.properties.first() {
        return Some(format!(
            "`consumers.properties.\"{key}\"` is of groups whose members have partitions of their own: remove it, or \
                             `broker.kafka.share_group`"
        ));
    }
    if subscription.progress != Progress::Uncommitted {
        return Some(
            "a pipeline commits offsets, which a share group does not have: remove `broker.kafka.share_group`"
                .to_owned(),
        );
    }
    subscription.is_divided.then(|| {
        "the members of a share group are in one process, which knows what they have accepted: remove `broker.kafka.share_group`, or run the \
         scenario in one process".to_owned()
    })
}
