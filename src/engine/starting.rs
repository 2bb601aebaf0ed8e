//! A trial's producers and consumers: made, and started as tasks.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::EngineError;
use super::closing::Closing;
use super::consuming::consume;
use super::pacer::Pacer;
use super::producing::{WindowRule, closed_loop, in_rounds, open_loop};
use super::quota::Quota;
use super::rounds::Rounds;
use super::sampler::POLL;
use super::sender::{Sender, Sent, Shared, TraceHeaderMode};
use super::trial::{CONTROL_TIMEOUT, Running};
use super::trial_window::TrialWindow;
use crate::broker::{Broker, Producer, Progress, Subscription};
use crate::load::{KeySource, SendSchedule};
use crate::measure::{Errors, SubscriptionIndex};
use crate::pipeline::Pipeline;
use crate::scenario::{Load, Placement, Producers};

/// How many producers or consumers are made at the same time.
const AT_ONCE: usize = 256;

impl Running<'_> {
    /// Makes all consumers at once: each may have to wait for its group. One that is ready begins to receive, as its group
    /// may need it to before it lets the next one in.
    pub async fn consumers<B: Broker>(
        &self,
        broker: &B,
        stop: watch::Receiver<bool>,
        mut pipeline: Option<&mut Pipeline>,
    ) -> Result<JoinSet<Errors>, EngineError> {
        let mut tasks = JoinSet::new();
        let (Some(consumers), Some(arrivals)) = (&self.scenario.consumers, &self.arrivals) else { return Ok(tasks) };
        let places = (0..consumers.groups).flat_map(|group| {
            let members = move |topic| (0..consumers.members).map(move |member| (group, topic, member));
            (0..self.topics.len()).flat_map(members)
        });
        if let Some(pipeline) = &mut pipeline {
            pipeline.start();
        }
        let joining = places.map(|(group, topic, member)| async move {
            let subscription = Subscription {
                group: self.group(group, topic),
                topic: self.topics[topic].clone(),
                from: consumers.from,
                members: consumers.members,
                member,
                properties: consumers.properties.clone(),
                progress: self.progress(),
            };
            Ok::<_, EngineError>((SubscriptionIndex { group, topic }, member, broker.consumer(&subscription).await?))
        });
        let mut joined = stream::iter(joining).buffer_unordered(AT_ONCE);
        while let Some((place, member, consumer)) = joined.try_next().await? {
            let recorder = arrivals.recorder(place);
            match &pipeline {
                None => tasks.spawn(consume(consumer, recorder, self.acks.clock(), stop.clone())),
                Some(pipeline) => tasks.spawn(pipeline.instance(member, consumer, recorder)),
            };
        }
        drop(joined);
        // The load begins with a group that is complete; one that is not by then misses nothing.
        let deadline = Instant::now() + CONTROL_TIMEOUT;
        while pipeline.as_ref().is_some_and(|pipeline| !pipeline.is_assigned()) && Instant::now() < deadline {
            tokio::time::sleep(POLL).await;
        }
        Ok(tasks)
    }

    /// A group of its own for each topic: its members share one topic's partitions and nothing else.
    fn group(&self, group: usize, topic: usize) -> String {
        let named = self.scenario.pipeline.as_ref().and_then(|pipeline| pipeline.group.clone());
        named.unwrap_or_else(|| format!("{}-{group}-{topic}", self.identity.run_id))
    }

    fn progress(&self) -> Progress {
        match &self.scenario.pipeline {
            None => Progress::Uncommitted,
            Some(pipeline) if pipeline.group.is_some() => Progress::Kept,
            Some(_) => Progress::OfTheTrial,
        }
    }

    /// Makes all producers, in the order of their producer_indices.
    pub async fn producers<B: Broker>(&self, broker: &B) -> Result<Vec<B::Producer>, EngineError> {
        let count = self.scenario.producers.count;
        let making = (0..count)
            .map(|producer_index| broker.producer(producer_index, &self.topics[self.topic_of(producer_index)]));
        Ok(stream::iter(making).buffered(AT_ONCE).try_collect().await?)
    }

    /// How much the scenario lets all producers send together.
    pub fn quota(&self) -> Quota {
        let settings = &self.scenario.producers;
        let quota = Quota::new(&self.scenario.run.stop, self.payload_size());
        let round = (settings.count * settings.batch) as u64;
        if settings.round_barrier { quota.in_rounds_of(round) } else { quota }
    }

    /// Which of the topics the producer in `producer_index` writes to.
    pub fn topic_of(&self, producer_index: usize) -> usize {
        let Producers { count, placement, .. } = self.scenario.producers;
        match placement {
            Placement::Blocks => producer_index / (count / self.topics.len()),
            Placement::RoundRobin => producer_index % self.topics.len(),
        }
    }

    /// Starts one task per producer; each leaves its producer to be closed.
    pub fn start<P: Producer>(
        &self,
        producers: Vec<P>,
        trial_window: &Arc<TrialWindow>,
        quota: Quota,
        pacer: Option<&Arc<Pacer>>,
    ) -> (JoinSet<Sent>, Closing<P>) {
        let settings = &self.scenario.producers;
        let quota = Arc::new(quota);
        let rounds = Arc::new(Rounds::new(settings.count, settings.batch, quota.clone(), trial_window.clone()));
        let shared = Arc::new(Shared {
            acks: self.acks.clone(),
            trial_window: trial_window.clone(),
            quota,
            payloads: self.payloads.clone(),
            envelope: self.envelope(),
            run_tag: self.identity.tag,
            producers: settings.count as u64,
        });
        let rule = WindowRule {
            in_flight: settings.in_flight as u64,
            batch: settings.batch as u64,
            confirm: settings.confirm,
        };
        let (mut tasks, closing) = (JoinSet::new(), Closing::new());
        for (producer_index, producer) in producers.into_iter().enumerate() {
            let keys = KeySource::new(settings.keys, producer_index, settings.count, self.scenario.payload.seed);
            let sender = Sender::new(producer, producer_index, shared.clone(), closing.clone(), keys);
            match (&self.scenario.load, pacer) {
                (Load::Open(schedule), Some(pacer)) => {
                    let send_schedule = SendSchedule::new(schedule, producer_index, settings.count);
                    tasks.spawn(open_loop(sender, rule, send_schedule, pacer.clone()))
                }
                _ if settings.round_barrier => tasks.spawn(in_rounds(sender, rule, rounds.clone())),
                _ => tasks.spawn(closed_loop(sender, rule)),
            };
        }
        (tasks, closing)
    }

    /// The size that all payloads share, if they do.
    fn payload_size(&self) -> Option<usize> {
        (self.payloads.smallest() == self.payloads.largest()).then(|| self.payloads.largest())
    }

    /// Messages carry an envelope only where somebody opens it, and in the payload only where that is free to.
    fn envelope(&self) -> TraceHeaderMode {
        match &self.scenario.consumers {
            None => TraceHeaderMode::None,
            Some(_) if self.scenario.payload.fits_trace_header() => TraceHeaderMode::InPayload,
            Some(_) => TraceHeaderMode::Beside,
        }
    }
}
