//! A trial's consumers: makes them, waits for their groups, and starts a task for each.
//!
//! Some groups begin after the load: at their time, or when a backlog is there, and when the load has ended at the latest. The broker
//! keeps for them what is sent before.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::pending;
use std::mem;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{FutureExt, LocalBoxFuture, join_all, try_join_all};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::consume::{Pace, RateLimit, consume, work};
use crate::broker::{Broker, BrokerError, ConsumerAnswers, Progress, Subscription};
use crate::engine::EngineError;
use crate::engine::prepare::{AT_ONCE, TrialContext};
use crate::engine::sampler::POLL;
use crate::engine::topics::CONTROL_TIMEOUT;
use crate::load::WorkTimes;
use crate::measure::host::tasks::watched;
use crate::measure::{Clock, Errors, SubscriptionIndex};
use crate::pipeline::Pipeline;
use crate::scenario::Consumers;

/// The consumers of a trial, as far as they have joined.
pub(super) struct Members<'a, B> {
    context: &'a TrialContext<'a>,
    broker: &'a B,
    stop: CancellationToken,
    tasks: Arc<Mutex<JoinSet<Errors>>>,
}

impl<B> Clone for Members<'_, B> {
    fn clone(&self) -> Self {
        Members { stop: self.stop.clone(), tasks: self.tasks.clone(), ..*self }
    }
}

impl<'a, B: Broker> Members<'a, B> {
    /// None has joined yet.
    pub fn new(context: &'a TrialContext<'a>, broker: &'a B) -> Self {
        Members { context, broker, stop: CancellationToken::new(), tasks: Arc::default() }
    }

    /// The trial's consumers, if it has some.
    fn settings(&self) -> Option<&'a Consumers> {
        self.context.scenario.consumers.as_ref()
    }

    /// # Errors
    /// When the broker withholds messages that are to be verified.
    pub fn check(&self) -> Result<(), EngineError> {
        if self.broker.withholds_messages() && self.context.verification().is_some() {
            let reason = "consumers that do not receive every message cannot be verified: set `consumers.verify = false`, \
                          or leave the filters out";
            return Err(EngineError::from_broker::<B>(BrokerError::Configuration(reason.to_owned())));
        }
        Ok(())
    }

    /// Has the broker keep what is sent for `group`, until its consumers join.
    pub async fn register(&self, group: usize) -> Result<(), EngineError> {
        let Some(consumers) = self.settings() else { return Ok(()) };
        for topic in 0..self.context.topics.len() {
            let place = SubscriptionIndex { group, topic };
            let registered = self.broker.register(&subscription(self.context, consumers, place, 0)).await;
            registered.map_err(EngineError::from_broker::<B>)?;
        }
        Ok(())
    }

    /// Makes all consumers of `groups` at once: each may have to wait for its group. One that is ready begins to receive, as its
    /// group may need it to before it lets the next one in.
    pub async fn join(&self, groups: &[usize]) -> Result<(), EngineError> {
        let Some(consumers) = self.settings() else { return Ok(()) };
        let limits: Vec<_> = groups
            .iter()
            .map(|group| consumers.groups[*group].rate.map(|rate| Arc::new(RateLimit::new(rate))))
            .collect();
        let places = groups.iter().zip(limits).flat_map(|(group, limit)| {
            self.places(consumers, *group).map(move |(place, member)| (place, member, limit.clone()))
        });
        let joining = places.map(|(place, member, limit)| async move {
            let subscription = subscription(self.context, consumers, place, member);
            let consumer = self.broker.consumer(&subscription).await.map_err(EngineError::from_broker::<B>)?;
            Ok::<_, EngineError>((place, member, limit, consumer))
        });
        let mut joined = stream::iter(joining).buffer_unordered(AT_ONCE);
        while let Some((place, member, limit, consumer)) = joined.try_next().await? {
            let Some(arrivals) = &self.context.arrivals else { continue };
            let (recorder, clock, stop) =
                (arrivals.recorder(place, member), self.context.acks.clock(), self.stop.clone());
            let group = &consumers.groups[place.group];
            let of_group = place.topic * consumers.members_of(place.group) + member;
            let number = place.group * self.context.topics.len() * consumers.most_members() + of_group;
            if group.is_unpaced() {
                let task = consume(consumer, recorder, clock, stop);
                self.tasks.lock().spawn(watched("consumer", number, task));
            } else {
                let pace = Pace::new(group.work.as_ref().map(|work| WorkTimes::new(work, of_group as u64)), limit);
                let task = work(consumer, recorder, clock, stop, pace);
                self.tasks.lock().spawn(watched("consumer", number, task));
            }
        }
        Ok(())
    }

    /// As [`Members::join`], with the instances of `pipeline`, which are one group.
    pub async fn join_pipeline(&self, pipeline: &mut Pipeline) -> Result<(), EngineError> {
        let (Some(consumers), Some(arrivals)) = (self.settings(), &self.context.arrivals) else { return Ok(()) };
        pipeline.start();
        let joining = self.places(consumers, 0).map(|(place, member)| async move {
            let subscription = subscription(self.context, consumers, place, member);
            let consumer = self.broker.consumer(&subscription).await.map_err(EngineError::from_broker::<B>)?;
            Ok::<_, EngineError>((place, member, consumer))
        });
        let mut joined = stream::iter(joining).buffer_unordered(AT_ONCE);
        while let Some((place, member, consumer)) = joined.try_next().await? {
            let task = pipeline.instance(member, consumer, arrivals.recorder(place, member));
            self.tasks.lock().spawn(watched("consumer", member, task));
        }
        drop(joined);
        // The load begins with a group that is complete; one that is not by then misses nothing.
        let deadline = Instant::now() + CONTROL_TIMEOUT;
        while !pipeline.is_assigned() && Instant::now() < deadline {
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// What consumers have answered to messages, where they answer each by itself.
    pub fn answers(&self) -> Option<ConsumerAnswers> {
        self.broker.answers()
    }

    /// Has all consumers end, and returns their tasks.
    pub fn stop(&self) -> JoinSet<Errors> {
        self.stop.cancel();
        mem::take(&mut *self.tasks.lock())
    }

    /// The places of a group's members in this process, by topic.
    fn places(&self, consumers: &Consumers, group: usize) -> impl Iterator<Item = (SubscriptionIndex, usize)> + use<B> {
        let (topics, members): (Range<usize>, Range<usize>) =
            (0..self.context.topics.len(), 0..consumers.members_of(group));
        let places = topics
            .flat_map(move |topic| members.clone().map(move |member| (SubscriptionIndex { group, topic }, member)));
        places
            .filter(|(place, member)| self.context.scenario.has_consumer(group, place.topic, *member))
            .collect::<Vec<_>>()
            .into_iter()
    }
}

/// What the group's member asks the broker for.
pub(in crate::engine) fn subscription(
    context: &TrialContext<'_>,
    consumers: &Consumers,
    place: SubscriptionIndex,
    member: usize,
) -> Subscription {
    let pipeline = context.scenario.pipeline.as_ref();
    let named = pipeline.and_then(|pipeline| pipeline.group.clone());
    let progress = match pipeline {
        None => Progress::Uncommitted,
        Some(_) if named.is_some() => Progress::Kept,
        Some(_) => Progress::OfTheTrial,
    };
    let SubscriptionIndex { group, topic } = place;
    Subscription {
        // A group of its own for each topic: its members share one topic's partitions and nothing else.
        group: named.unwrap_or_else(|| format!("{}-{}-{topic}", context.identity.run_id, consumers.name_of(group))),
        number: group,
        topic: context.topics[place.topic].clone(),
        from: consumers.from,
        members: consumers.members_of(group),
        member,
        consumer_number: consumers.number_of(group, topic, context.topics.len()) + member,
        is_divided: context.scenario.is_divided(group, place.topic),
        properties: consumers.groups[place.group].properties.clone(),
        progress,
    }
}

/// Lets groups begin.
#[derive(Clone)]
pub struct StartSignal(Arc<watch::Sender<Gate>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Closed,
    /// The load begins at this time, in nanoseconds since the trial's epoch: groups begin so much later as they are told.
    LoadBegins(u64),
    /// All may begin.
    Open,
}

impl StartSignal {
    pub fn load_begins(&self, at_ns: u64) {
        self.0.send_replace(Gate::LoadBegins(at_ns));
    }

    pub fn open(&self) {
        self.0.send_replace(Gate::Open);
    }
}

/// The groups that begin late.
pub struct LateGroups<'a> {
    signal: StartSignal,
    /// Groups that have not begun.
    waiting: Rc<RefCell<BTreeSet<usize>>>,
    /// `None`: each has joined, or could not.
    joining: Option<LocalBoxFuture<'a, Result<(), EngineError>>>,
    failure: Option<EngineError>,
}

impl<'a> LateGroups<'a> {
    /// Has the broker keep messages for `groups`; each begins after its time, or, without one, when it is let.
    ///
    /// # Errors
    /// When the broker does not keep them.
    pub async fn register<B: Broker>(
        members: &Members<'a, B>,
        clock: Clock,
        groups: Vec<(usize, Option<Duration>)>,
    ) -> Result<Self, EngineError> {
        try_join_all(groups.iter().map(|(group, _)| members.register(*group).boxed_local())).await?;
        let gate = watch::Sender::new(Gate::Closed);
        let waiting: Rc<RefCell<BTreeSet<usize>>> =
            Rc::new(RefCell::new(groups.iter().map(|(group, _)| *group).collect()));
        let joining = groups.into_iter().map(|(group, after)| {
            let (members, waiting, gate) = (members.clone(), waiting.clone(), gate.subscribe());
            async move {
                passed(gate, clock, after).await;
                waiting.borrow_mut().remove(&group);
                members.join(&[group]).await
            }
            .boxed_local()
        });
        // One that cannot join keeps no other from joining.
        let joining = join_all(joining).map(|joined| joined.into_iter().collect::<Result<(), _>>()).boxed_local();
        let signal = StartSignal(Arc::new(gate));
        Ok(LateGroups { signal, waiting, joining: Some(joining), failure: None })
    }

    pub fn signal(&self) -> StartSignal {
        self.signal.clone()
    }

    /// Whether this group is still to begin.
    pub fn is_waiting(&self, group: usize) -> bool {
        self.waiting.borrow().contains(&group)
    }

    /// Does `work`, while groups join whose time has come.
    pub async fn alongside<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            done = work => done,
            never = async {
                self.join().await;
                pending().await
            } => never,
        }
    }

    async fn join(&mut self) {
        if let Some(joining) = &mut self.joining {
            self.failure = joining.await.err();
            self.joining = None;
        }
    }

    /// Lets all begin that have not, and waits until they have joined.
    ///
    /// # Errors
    /// When one could not join.
    pub async fn joined(&mut self) -> Result<(), EngineError> {
        self.signal.open();
        self.join().await;
        self.failure.take().map_or(Ok(()), Err)
    }
}

/// Resolves when a group that is to begin so long after the load may begin. A gate whose sender is gone stays closed.
async fn passed(mut gate: watch::Receiver<Gate>, clock: Clock, after: Option<Duration>) {
    let begun = gate.wait_for(|gate| *gate == Gate::Open || (after.is_some() && *gate != Gate::Closed));
    let Ok(state) = begun.await.map(|gate| *gate) else { return pending().await };
    if let (Gate::LoadBegins(at_ns), Some(after)) = (state, after) {
        let begin = Instant::from_std(clock.instant(at_ns) + after);
        tokio::select! {
            () = sleep_until(begin) => {}
            _ = gate.wait_for(|gate| *gate == Gate::Open) => {}
        }
    }
}
