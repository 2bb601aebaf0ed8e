//! The first phase: builds payloads and recorders, connects, creates the topics, and asks what an acknowledgement means. What comes of it is what
//! every other phase knows: the scenario, the topics, and where outcomes and arrivals are recorded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::timeout;

use super::fault_log::FaultLog;
use super::interruption::Interruption;
use super::observer::TopicProgress;
use super::topics::{CONTROL_TIMEOUT, Creation, DURABILITY_TIMEOUT};
use super::{EngineError, TrialIdentity, topics};
use crate::broker::{Broker, BrokerError, Durability, Setup, Topic, registry};
use crate::load::PayloadPool;
use crate::measure::host::WallClock;
use crate::measure::{
    Acks, Arrivals, Clock, Conditions, PartitionNames, SubjectKind, TRACE_HEADER_BYTES, Verification,
};
use crate::scenario::{Content, Load, Payload, Placement, ProducerMode, Scenario, SchemaContent, SchemaId};
use crate::schemas::PayloadSchema;

/// How many producers or consumers are made at the same time.
pub(super) const AT_ONCE: usize = 256;

/// Topics of which the messages are counted that they have before the trial.
const COUNTED_TOPICS: usize = 100;

/// A trial whose topics are prepared.
pub(super) struct TrialContext<'a> {
    pub scenario: &'a Scenario,
    pub identity: &'a TrialIdentity,
    pub started_at: SystemTime,
    /// The state of the wall clock that gave the trial's epoch.
    pub wall_clock: WallClock,
    pub topics: Vec<Topic>,
    /// Messages that topics of the scenario's own names had been written to before, by their end offsets; `None` where the
    /// topics are new or the broker does not tell.
    pub messages_before: Option<u64>,
    pub durability: Durability,
    pub acks: Acks,
    pub conditions: Conditions,
    /// What faults did so far.
    pub faults: FaultLog,
    pub arrivals: Option<Arrivals>,
    pub payloads: Arc<PayloadPool>,
    pub payload_schema: Option<PayloadSchema>,
}

impl TrialContext<'_> {
    pub fn is_open_loop(&self) -> bool {
        matches!(self.scenario.load, Load::Open(_))
    }

    /// When producers send, relative to the pipeline's work; `None` without a pipeline.
    pub fn producer_mode(&self) -> Option<ProducerMode> {
        self.scenario.pipeline.as_ref().map(|pipeline| pipeline.producer_mode)
    }

    pub fn verification(&self) -> Option<&Verification> {
        self.arrivals.as_ref().and_then(|arrivals| arrivals.verification())
    }

    /// Index of the topic that a producer writes to, by its number among the producers of all shares.
    pub fn topic_of(&self, producer: usize) -> usize {
        topic_of(self.scenario, self.topics.len(), producer)
    }

    /// Where each topic is, in their order: as far as this process writes to it.
    pub fn progress_by_topic(&self) -> Vec<TopicProgress> {
        let begun = |topic: &Topic| TopicProgress { name: topic.name.clone(), ..TopicProgress::default() };
        let mut topics: Vec<TopicProgress> = self.topics.iter().map(begun).collect();
        for (producer_index, window) in self.acks.windows().iter().enumerate() {
            let topic = &mut topics[self.topic_of(self.scenario.first_producer() + producer_index)];
            topic.submitted += window.submitted();
            topic.resolved += window.resolved();
        }
        topics
    }
}

/// As [`TrialContext::topic_of`], of so many topics.
pub(super) fn topic_of(scenario: &Scenario, topics: usize, producer: usize) -> usize {
    match scenario.producers.placement {
        Placement::Blocks => producer / (scenario.all_producers() / topics),
        Placement::RoundRobin => producer % topics,
    }
}

/// Which of the producers on its topic a producer is, by its number among the producers of all shares, with so many topics.
pub(super) fn place_of(scenario: &Scenario, topics: usize, producer: usize) -> usize {
    match scenario.producers.placement {
        Placement::Blocks => producer % (scenario.all_producers() / topics),
        Placement::RoundRobin => producer / topics,
    }
}

/// What is added to a time of a trial's clock to get a time as trace headers carry it. Shares of a scenario have clocks of their own, so the times in
/// their headers count from 1970.
pub(super) fn header_offset_ns(scenario: &Scenario, clock: Clock) -> u64 {
    if scenario.part.is_some() { clock.epoch_unix_ns() } else { 0 }
}

/// A trial that can begin.
pub(super) struct Prepared<'a, B> {
    pub context: TrialContext<'a>,
    pub broker: B,
    /// The topics that this trial created.
    pub created: Vec<Topic>,
    /// The settings of topics, as far as the broker tells them.
    pub settings: Vec<BTreeMap<String, String>>,
}

/// Connects to the broker, and creates the topics that do not exist or takes them as they are. `conditions`: where the client reports what
/// holds it up.
pub(super) async fn prepare<'a, B: Broker>(
    scenario: &'a Scenario,
    identity: &'a TrialIdentity,
    interruption: &Interruption,
    conditions: &Conditions,
) -> Result<Prepared<'a, B>, EngineError> {
    let started_at = UNIX_EPOCH + Duration::from_nanos(identity.now_unix_ns());
    // A trace header beside the payload has a checksum of the whole payload.
    let overlaid = if scenario.payload.fits_trace_header() { TRACE_HEADER_BYTES } else { 0 };
    let registering = payload_of(&scenario.payload);
    let (payload, payload_schema) =
        interruption.phase().unless_over(registering).await.ok_or(EngineError::Interrupted)??;
    let payloads = Arc::new(PayloadPool::build(&payload, overlaid)?);
    let (acks, arrivals) = records_of(scenario, identity);
    let wall_clock = WallClock::now();
    let of_broker = EngineError::from_broker::<B>;
    let setup = Setup {
        conditions: conditions.clone(),
        ..setup::<B>(scenario, identity, &acks, &payloads).map_err(of_broker)?
    };
    let connecting = B::connect(setup);
    let connected = interruption.phase().unless_over(connecting).await.ok_or(EngineError::Interrupted)?;
    let broker = connected.map_err(of_broker)?;
    // A signal does not end this: the engine must know which topics were created.
    let mut creation = Creation::default();
    let prepared = prepare_topics(scenario, identity, &broker, interruption, &mut creation).await;
    let created = creation.created;
    let topics = match prepared {
        Ok(topics) => topics,
        Err(error) => {
            // Any other error while closing would hide the cause.
            let closed = topics::close(broker, &created).await;
            return Err(of_broker(topics::with_leftovers(error, closed)));
        }
    };
    let partitions = topics.iter().map(|topic| u64::from(topic.partitions)).sum();
    conditions.expect(SubjectKind::Partition, partitions);
    conditions.expect(SubjectKind::ConsumedPartition, partitions);
    conditions.expect(SubjectKind::Topic, topics.len() as u64);
    let durability = timeout(DURABILITY_TIMEOUT, broker.durability(&topics)).await.unwrap_or_default();
    let settings = timeout(DURABILITY_TIMEOUT, broker.topic_settings(&topics)).await.unwrap_or_default();
    let found = topics.iter().filter(|topic| scenario.topology.name.is_some() && !created.contains(topic));
    let counting = messages_in(&broker, found.take(COUNTED_TOPICS));
    let messages_before = timeout(DURABILITY_TIMEOUT, counting).await.unwrap_or_default();
    Ok(Prepared {
        context: TrialContext {
            scenario,
            identity,
            started_at,
            wall_clock,
            topics,
            messages_before,
            durability,
            acks,
            conditions: conditions.clone(),
            faults: FaultLog::default(),
            arrivals,
            payloads,
            payload_schema,
        },
        broker,
        created,
        settings,
    })
}

/// The payload with the id of its schema, which a registry may know.
async fn payload_of(payload: &Payload) -> Result<(Cow<'_, Payload>, Option<PayloadSchema>), EngineError> {
    let Content::Schema(content) = &payload.content else { return Ok((Cow::Borrowed(payload), None)) };
    let registry = match &content.id {
        SchemaId::Known(id) => {
            let schema_type = content.codec.schema_type;
            let schema = PayloadSchema { schema_type, id: *id, subject: None, version: None };
            return Ok((Cow::Borrowed(payload), Some(schema)));
        }
        SchemaId::Asked(registry) => registry,
    };
    let schema = registry.find(&content.codec).await.map_err(EngineError::Schema)?;
    let content = Content::Schema(SchemaContent { id: SchemaId::Known(schema.id), ..content.clone() });
    Ok((Cow::Owned(Payload { content, ..payload.clone() }), Some(schema)))
}

/// The trial's topics, once they exist. What this process has created is in `creation`, also after an error.
async fn prepare_topics<B: Broker>(
    scenario: &Scenario,
    identity: &TrialIdentity,
    broker: &B,
    interruption: &Interruption,
    creation: &mut Creation,
) -> Result<Vec<Topic>, BrokerError> {
    let topics = topics_of(scenario, identity);
    if scenario.topology.existing {
        return topics::find_all(broker, &topics).await;
    }
    if !scenario.makes_topics() {
        let until_load = identity.begins_at_unix_ns().unwrap_or(0).saturating_sub(identity.now_unix_ns());
        topics::await_created(broker, &topics, Duration::from_nanos(until_load), interruption).await?;
        return Ok(topics);
    }
    match topics::create(broker, &topics, creation).await {
        Ok(()) => Ok(topics),
        Err(error) => Err(topics::find_unanswered(broker, scenario.topology.is_named_by_run(), creation, error).await),
    }
}

/// What the outcomes of the trial's messages are recorded in, and what their arrivals are; both read one clock, which starts now.
fn records_of(scenario: &Scenario, identity: &TrialIdentity) -> (Acks, Option<Arrivals>) {
    let clock = Clock::shifted(identity.clock_shift_ns);
    let consumers = scenario.consumers.as_ref();
    let verification = consumers
        .filter(|consumers| consumers.verify)
        .map(|consumers| consumers.groups.len())
        .map(|groups| Verification::for_process(scenario.all_producers(), groups, scenario.first_producer()))
        .map(Arc::new);
    let open_loop = matches!(scenario.load, Load::Open(_));
    let partitions = partitions_of(scenario, identity);
    let acks = Acks::verified(clock, scenario.producers.count, open_loop, verification.clone(), partitions);
    let (offset_ns, timed) = (header_offset_ns(scenario, clock), scenario.timed_producers());
    let arrivals = consumers.map(|consumers| {
        Arrivals::across_processes(clock, offset_ns, timed, identity.tag, consumers.groups.len(), verification)
    });
    (acks, arrivals)
}

/// The partitions that have figures of their own; `None`: there is one only.
fn partitions_of(scenario: &Scenario, identity: &TrialIdentity) -> Option<PartitionNames> {
    let topology = &scenario.topology;
    // How many partitions existing topics have is found later.
    let is_alone = topology.topics * topology.partitions as usize == 1 && !topology.existing;
    let topics: Vec<Arc<str>> = topics_of(scenario, identity).into_iter().map(|topic| topic.name.into()).collect();
    let topic =
        |producer: usize| topics[topic_of(scenario, topics.len(), scenario.first_producer() + producer)].clone();
    (!is_alone).then(|| PartitionNames::new((0..scenario.producers.count).map(topic)))
}

/// How many messages topics have been written to, by their end offsets; `None` without topics, or where the broker does not tell.
async fn messages_in<B: Broker>(broker: &B, topics: impl Iterator<Item = &Topic>) -> Option<u64> {
    let mut sum = None;
    for topic in topics {
        let ends: u64 = broker.end_offsets(topic)?.await?.into_iter().sum();
        sum = Some(sum.unwrap_or(0) + ends);
    }
    sum
}

/// What the broker is given to connect with.
///
/// # Errors
/// When its own table cannot be read.
pub(super) fn setup<B: Broker>(
    scenario: &Scenario,
    identity: &TrialIdentity,
    acks: &Acks,
    payloads: &Arc<PayloadPool>,
) -> Result<Setup<B::Options>, BrokerError> {
    let options = registry::options::<B>(scenario.broker.options.clone());
    let first_producer = scenario.first_producer();
    let producers = first_producer..first_producer + scenario.producers.count;
    Ok(Setup {
        config: scenario.broker.clone(),
        options: options.map_err(|error| BrokerError::Configuration(error.to_string()))?,
        acks: acks.clone(),
        conditions: Conditions::default(),
        payloads: payloads.clone(),
        run_id: identity.run_id.clone(),
        header_sets: scenario.producers.header_sets.clone(),
        topic_config: scenario.topology.config.clone(),
        producers: scenario.producers.count,
        first_producer,
        places_on_topics: producers.map(|number| place_of(scenario, scenario.topology.topics, number)).collect(),
        groups: scenario.consumers.as_ref().map_or(0, |consumers| consumers.groups.len()),
        in_flight: scenario.producers.in_flight.saturating_mul(scenario.producers.count),
        timeout: CONTROL_TIMEOUT,
    })
}

/// `name` for a single topic, else `name0`, `name1`, …; unique to the trial unless the scenario names them.
pub(super) fn topics_of(scenario: &Scenario, identity: &TrialIdentity) -> Vec<Topic> {
    let topology = &scenario.topology;
    let base = topology.name.clone().unwrap_or_else(|| format!("{}-", identity.run_id));
    let name = |index: usize| match (&topology.name, topology.topics) {
        (Some(_), 1) => base.clone(),
        _ => format!("{base}{index}"),
    };
    (0..topology.topics)
        .map(|index| Topic { name: name(index), partitions: topology.partitions, replication: topology.replication })
        .collect()
}
