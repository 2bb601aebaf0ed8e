//! The receiving side of a trial, by what the scenario asks for: nothing, consumers that are verified, or a pipeline.
//!
//! Consumers join before the load; after it they catch up, or the pipeline works off what is left; then they are stopped, and
//! their account is drawn up.

mod catch_up;
mod consume;
mod join;
mod removed;

use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use self::catch_up::CatchUp;
pub(super) use self::catch_up::Patience;
#[cfg(test)]
pub(super) use self::consume::Pace;
use self::join::{LateGroups, Members};
pub(super) use self::join::{StartSignal, subscription};
use super::EngineError;
use super::collector::Totals;
use super::interruption::{InterruptiblePhase, Interruption};
use super::observer::Phase;
use super::outcome::{End, GroupOutcome, PartOutcome};
use super::prepare::TrialContext;
use super::sampler::Sampler;
use crate::broker::{Broker, ConsumerAnswers, RemovalRule, Topic};
use crate::measure::{Arrivals, Errors};
use crate::pipeline::{self, Pipeline};
use crate::scenario::ProducerMode;

/// How long databases are asked for their counts after the second signal.
const LAST_ANSWER: Duration = Duration::from_millis(500);

/// Consumers before and during the load.
pub(super) struct Receiving<'a, B> {
    context: &'a TrialContext<'a>,
    broker: &'a B,
    starts: Vec<Vec<u64>>,
    members: Members<'a, B>,
    late: LateGroups<'a>,
}

/// Consumers after the load.
pub(super) struct AfterLoad<'a, B> {
    receiving: Receiving<'a, B>,
    catch_up: CatchUp<'a, B>,
    /// Messages acknowledged, and finished by the pipeline, when the load ended.
    at_load_end: Option<(u64, u64)>,
    /// Until when the pipeline may write what it has taken.
    deadline: Instant,
    last_phase: Phase,
    /// Why consumers that were to join after the load began could not.
    failure: Option<String>,
}

/// What all consumers received.
pub(super) struct Received {
    /// Errors that consumers met, and why some crashed.
    pub errors: Errors,
    pub crashes: Vec<String>,
    pub totals: Totals,
    pub groups: Vec<GroupOutcome>,
    pub removal_rules: Vec<RemovalRule>,
    /// What consumers answered to messages, where they answer each by itself.
    pub consumer_answers: Option<ConsumerAnswers>,
    pub part: Option<PartOutcome>,
    pub pipeline: Option<pipeline::Outcome>,
    /// Why some consumers could not join.
    pub failure: Option<String>,
}

impl<'a, B: Broker> Receiving<'a, B> {
    /// Opens the pipeline's sinks and has the consumers join, but for those that begin late or are to find a backlog.
    pub async fn before_load(
        context: &'a TrialContext<'a>,
        broker: &'a B,
        created: &[Topic],
        signals: &InterruptiblePhase,
    ) -> Result<(Self, Option<Pipeline>), EngineError> {
        let starts = catch_up::starts(context, broker, created).await;
        let mut pipeline = match &context.scenario.pipeline {
            Some(config) => {
                let Topic { name, partitions, .. } = &context.topics[0];
                let opening = Pipeline::begin(config, name, *partitions, context.acks.clock());
                Some(opening.await.map_err(EngineError::Pipeline)?)
            }
            None => None,
        };
        let members = Members::new(context, broker);
        members.check()?;
        let joining = join_before_load(context, &members, pipeline.as_mut());
        let late = signals.unless_over(joining).await.ok_or(EngineError::Interrupted)??;
        Ok((Receiving { context, broker, starts, members, late }, pipeline))
    }

    /// What lets groups begin that begin late.
    pub fn start_signal(&self) -> StartSignal {
        self.late.signal()
    }

    /// Does `work`, while groups join whose time has come.
    pub async fn alongside<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.late.alongside(work).await
    }

    /// Notes how far consumers are behind, and begins to wait for them.
    pub fn load_ended(mut self, end: End, sampler: &Sampler<'_, B>) -> AfterLoad<'a, B> {
        let (limits, mode) = (&self.context.scenario.run, self.context.producer_mode());
        // A user who has ended the load waits for the rest.
        let longest = if end == End::Interrupted { limits.drain_deadline } else { limits.catch_up_deadline };
        let consuming = |group| mode != Some(ProducerMode::Backlog) && !self.late.is_waiting(group);
        let starts = std::mem::take(&mut self.starts);
        let catch_up = CatchUp::begin(self.context, self.broker, starts, consuming, longest);
        self.late.signal().open();
        let finished = |pipeline: &Pipeline| (sampler.collector.acknowledged(), pipeline.finished_own());
        let concurrent = mode == Some(ProducerMode::Concurrent);
        AfterLoad {
            at_load_end: sampler.pipeline.as_ref().filter(|_| concurrent).map(finished),
            deadline: Instant::now() + limits.drain_deadline,
            receiving: self,
            catch_up,
            last_phase: Phase::Drain,
            failure: None,
        }
    }
}

/// Has the consumers join that begin before the load, and registers the others.
async fn join_before_load<'a, B: Broker>(
    context: &'a TrialContext<'a>,
    members: &Members<'a, B>,
    pipeline: Option<&mut Pipeline>,
) -> Result<LateGroups<'a>, EngineError> {
    let (mut early, mut late) = (Vec::new(), Vec::new());
    match (pipeline, &context.scenario.consumers) {
        (Some(pipeline), _) if context.producer_mode() != Some(ProducerMode::Backlog) => {
            members.join_pipeline(pipeline).await?;
        }
        (None, Some(consumers)) => {
            for (number, group) in consumers.groups.iter().enumerate() {
                match consumers.backlog {
                    Some(_) => late.push((number, None)),
                    None if group.start_after.is_zero() => early.push(number),
                    None => late.push((number, Some(group.start_after))),
                }
            }
        }
        _ => {}
    }
    members.join(&early).await?;
    LateGroups::register(members, context.acks.clock(), late).await
}

impl<B: Broker> AfterLoad<'_, B> {
    /// Waits until consumers have received, or the pipeline has written, everything that is there for them: also where some cannot join, as the
    /// load has been measured. Returns whether a signal ended the wait.
    pub async fn after_load(
        &mut self,
        sampler: &mut Sampler<'_, B>,
        signals: &InterruptiblePhase,
        interruption: &Interruption,
    ) -> bool {
        match self.receiving.context.producer_mode() {
            Some(ProducerMode::None) => self.work_off_for_a_time(sampler, || interruption.is_requested()).await,
            Some(mode) => self.work_off(mode, sampler, signals).await,
            None if self.receiving.context.arrivals.is_some() => {
                self.begin_phase(Phase::Verify, sampler);
                let joined = self.join_late(sampler, signals).await;
                self.note_failure(joined);
                self.catch_up.wait(sampler, signals).await;
                signals.is_over()
            }
            None => false,
        }
    }

    fn note_failure(&mut self, joined: Result<(), EngineError>) {
        self.failure = joined.err().map(|error| format!("consumers could not join after the load had begun: {error}"));
    }

    /// Waits until the groups have joined that began late. A signal ends the wait.
    async fn join_late(
        &mut self,
        sampler: &mut Sampler<'_, B>,
        signals: &InterruptiblePhase,
    ) -> Result<(), EngineError> {
        let mut joined = pin!(self.receiving.late.joined());
        loop {
            tokio::select! {
                joined = &mut joined => return joined,
                () = signals.over() => return Ok(()),
                () = sampler.wait(Phase::Verify) => {}
            }
        }
    }

    /// Does `work`, while groups join whose time has come.
    pub async fn alongside<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.receiving.late.alongside(work).await
    }

    fn begin_phase(&mut self, phase: Phase, sampler: &mut Sampler<'_, B>) {
        self.last_phase = phase;
        sampler.observer.phase(phase);
        sampler.sample(if phase == Phase::Measure { Phase::Measure } else { Phase::Drain });
    }

    /// The pipeline works off what other programs have written, for as long as the scenario sets. This is the first phase that
    /// a signal can end, for nothing was sent before.
    async fn work_off_for_a_time(&mut self, sampler: &mut Sampler<'_, B>, stop: impl Fn() -> bool) -> bool {
        let limits = &self.receiving.context.scenario.run;
        self.deadline = Instant::now() + limits.stop.duration.unwrap_or(limits.drain_deadline);
        self.begin_phase(Phase::Measure, sampler);
        while !self.is_worked_off(sampler).await && !stop() && Instant::now() < self.deadline {
            sampler.wait(Phase::Measure).await;
        }
        // What was taken is still written.
        let last = Instant::now() + limits.drain_deadline;
        self.deadline = if stop() { last } else { self.deadline.max(last) };
        stop()
    }

    /// The pipeline works off what this trial has sent, as long as it makes progress.
    async fn work_off(
        &mut self,
        mode: ProducerMode,
        sampler: &mut Sampler<'_, B>,
        signals: &InterruptiblePhase,
    ) -> bool {
        if mode == ProducerMode::Backlog {
            // A signal that ends this ends the wait for the backlog as well: the load is still recorded.
            if let Some(pipeline) = &mut sampler.pipeline
                && let Some(joined) = signals.unless_over(self.receiving.members.join_pipeline(pipeline)).await
            {
                self.note_failure(joined);
            }
            self.deadline = Instant::now() + self.receiving.context.scenario.run.drain_deadline;
        }
        self.begin_phase(Phase::Verify, sampler);
        let mut patience = self.catch_up.patience();
        while !self.is_worked_off(sampler).await
            && !signals.is_over()
            && patience.goes_on(self.worked(sampler), Instant::now())
        {
            sampler.wait(Phase::Verify).await;
        }
        if signals.is_over() {
            self.deadline = Instant::now();
        }
        signals.is_over()
    }

    /// Messages that the pipeline has received and finished so far: it only grows.
    fn worked(&self, sampler: &Sampler<'_, B>) -> u64 {
        let received = self.receiving.context.arrivals.as_ref().map_or(0, Arrivals::received);
        received + sampler.pipeline.as_ref().map_or(0, Pipeline::finished)
    }

    /// Whether the pipeline has finished all that this trial sent, or, if other programs send or receive too, everything that is
    /// there for it.
    async fn is_worked_off(&self, sampler: &mut Sampler<'_, B>) -> bool {
        let context = self.receiving.context;
        let (Some(config), Some(arrivals)) = (&context.scenario.pipeline, &context.arrivals) else { return true };
        if sampler.pipeline.as_ref().is_some_and(|pipeline| pipeline.in_hand() > 0) {
            return false;
        }
        if config.producer_mode != ProducerMode::None && config.group.is_none() {
            // Messages that were returned to the group are received twice: only the broker knows whether some are left.
            return arrivals.received() >= sampler.collector.acknowledged()
                && !sampler.is_known_to_be_behind()
                && sampler.measure_consumer_lag().await.is_none_or(|consumer_lag| consumer_lag == 0);
        }
        !sampler.is_known_to_be_behind() && sampler.measure_consumer_lag().await == Some(0)
    }

    /// Stops the consumers and draws up their account.
    pub async fn finish(
        mut self,
        mut sampler: Sampler<'_, B>,
        signals: &InterruptiblePhase,
        interruption: &Interruption,
    ) -> Received {
        let _ = interruption.finish(self.catch_up.end(), LAST_ANSWER).await;
        let consumers = self.receiving.members.stop();
        if let Some(pipeline) = &sampler.pipeline {
            pipeline.finish(self.deadline);
        }
        let (errors, crashes) = consume::ended(consumers, sampler.pipeline.as_ref(), signals, interruption).await;
        let _ = interruption.finish(self.catch_up.ask_what_is_removed(), LAST_ANSWER).await;
        let consumer_lag = if interruption.is_urgent() { None } else { sampler.measure_consumer_lag().await };
        let (totals, pipeline) = sampler.close(self.last_phase);
        let arrived = self.receiving.context.arrivals.as_ref().map(Arrivals::groups).unwrap_or_default();
        // Instances of a pipeline do not ask for messages while their writers are busy, and those that could not join ask for none.
        let idle = self.receiving.context.producer_mode().is_none() && self.failure.is_none();
        let groups = self.catch_up.outcome(arrived, idle);
        let (mut part, removal_rules) = (self.catch_up.part(&groups), self.catch_up.removals.rules());
        if let Some(part) = part.as_mut().filter(|_| self.failure.is_some()) {
            // They would show messages as lost that were offered to no consumer.
            part.messages = None;
        }
        let pipeline = match pipeline {
            Some(pipeline) => {
                let given_up = interruption.given_up(LAST_ANSWER);
                Some(pipeline.outcome(consumer_lag, self.at_load_end, given_up).await)
            }
            None => None,
        };
        let consumer_answers = self.receiving.members.answers();
        let failure = self.failure;
        Received { errors, crashes, totals, groups, removal_rules, consumer_answers, part, pipeline, failure }
    }
}
