//! One trial from first to last: prepare ▸ warm up ▸ measure ▸ drain ▸ verify.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::catch_up::CatchUp;
use super::collector::Collector;
use super::course::Course;
use super::look::Look;
use super::observer::{Observer, Phase};
use super::outcome::{End, Ledger, Outcome, Times};
use super::pacer::Pacer;
use super::sender::Attempted;
use super::{EngineError, TrialIdentity};
use crate::broker::{Broker, Setup, Topic};
use crate::load::PayloadPool;
use crate::measure::host::{self, HostSampler};
use crate::measure::{Acks, Arrivals, Clock, ENVELOPE_BYTES, Errors, Verification};
use crate::pipeline::Pipeline;
use crate::scenario::{Feed, Load, Scenario};

/// How long connecting, preparing and closing may each take.
pub(super) const CONTROL_TIMEOUT: Duration = Duration::from_secs(20);

/// Between starting the tasks and the first intended message.
const RUN_UP: Duration = Duration::from_millis(20);

/// How long after its last intended time an open loop may still send what is due: a wake-up's lateness, many times over.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Runs one trial on broker `B`.
///
/// `interrupted` turns true when the user wants the load to end: what was measured until then is drained and kept.
///
/// # Errors
/// When the trial could not begin: bad payloads, or a broker that cannot be reached or prepared. Once the load has begun,
/// everything that goes wrong is part of the outcome.
pub async fn run<B: Broker>(
    scenario: &Scenario,
    identity: &TrialIdentity,
    interrupted: watch::Receiver<bool>,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    observer.phase(Phase::Prepare);
    host::reset_peak_memory();
    let started_at = SystemTime::now();
    // Where the envelope travels beside the payload, its checksum is over all of it.
    let overlaid = if scenario.payload.has_room_for_envelope() { ENVELOPE_BYTES } else { 0 };
    let payloads = Arc::new(PayloadPool::build(&scenario.payload, overlaid)?);
    let clock = Clock::start();
    let open = matches!(scenario.load, Load::Open(_));
    let consumers = scenario.consumers.as_ref();
    let verification = consumers
        .filter(|consumers| consumers.verify)
        .map(|consumers| Arc::new(Verification::new(scenario.producers.count, consumers.groups)));
    let acks = Acks::verified(clock, scenario.producers.count, open, verification.clone());
    let arrivals =
        consumers.map(|consumers| Arrivals::new(clock, identity.tag, consumers.groups, verification.clone()));
    let broker = B::connect(setup(scenario, identity, &acks, &payloads)).await?;
    let topics = topics(scenario, identity);
    let created = match broker.prepare(&topics).await {
        Ok(created) => created,
        Err(error) => {
            // The error at hand says more than one about closing.
            let _ = broker.close(Vec::new()).await;
            return Err(error.into());
        }
    };
    let trial = Running { scenario, identity, topics, acks, arrivals, payloads, open };
    let result = trial.run(&broker, &created, interrupted, observer).await;
    let remove = if scenario.topology.keep { Vec::new() } else { created };
    let closed = broker.close(remove).await;
    let mut outcome = result?;
    outcome.started_at = started_at;
    outcome.close_error = closed.err().map(|error| error.to_string());
    Ok(outcome)
}

/// A trial that is prepared.
pub(super) struct Running<'a> {
    pub scenario: &'a Scenario,
    pub identity: &'a TrialIdentity,
    pub topics: Vec<Topic>,
    pub acks: Acks,
    pub arrivals: Option<Arrivals>,
    pub payloads: Arc<PayloadPool>,
    pub open: bool,
}

impl Running<'_> {
    async fn run<B: Broker>(
        self,
        broker: &B,
        created: &[String],
        interrupted: watch::Receiver<bool>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, EngineError> {
        let starts = self.starts(broker, created).await;
        let (stop_consumers, consumers_stop) = watch::channel(false);
        let clock = self.acks.clock();
        let feed = self.scenario.pipeline.as_ref().map(|pipeline| pipeline.feed);
        let mut pipeline = match &self.scenario.pipeline {
            Some(config) => {
                let pipeline = Pipeline::begin(config, &self.topics[0].name, clock);
                Some(pipeline.await.map_err(EngineError::Pipeline)?)
            }
            None => None,
        };
        let mut consumers = JoinSet::new();
        if feed != Some(Feed::Beforehand) {
            consumers = self.consumers(broker, consumers_stop.clone(), pipeline.as_mut()).await?;
        }
        let producers = if feed == Some(Feed::None) { Vec::new() } else { self.producers(broker).await? };

        let limits = &self.scenario.run;
        let load_start_ns = clock.now_ns() + RUN_UP.as_nanos() as u64;
        let course = Arc::new(Course::new(self.acks.clone(), load_start_ns, limits.warm_up, limits.stop.duration));
        let pacer = self.open.then(|| Arc::new(Pacer::start(clock, self.scenario.producers.count)));
        let tasks = self.start(producers, &course, pacer.as_ref());
        let collector = Collector::new(self.acks.clone(), self.arrivals.clone(), self.open, load_start_ns);
        let mut look =
            Look::begin(collector, broker, observer, pipeline, &self.topics[0], clock.instant(load_start_ns));

        let load = self.load(tasks, &course, pacer.as_deref(), interrupted.clone(), &mut look).await?;
        // A signal ends the load, and the user waits for the end of the rest.
        let longest = if load.end == End::Interrupted { limits.drain_deadline } else { limits.catch_up_deadline };
        let mut catch_up = CatchUp::begin(&self, broker, &starts, feed != Some(Feed::Beforehand), longest);
        let finished = |pipeline: &Pipeline| (look.collector.acknowledged(), pipeline.finished());
        let at_load_end = look.pipeline.as_ref().filter(|_| feed == Some(Feed::Together)).map(finished);
        let mut deadline = Instant::now() + limits.drain_deadline;
        look.observer.phase(Phase::Drain);
        while self.acks.in_flight() > 0 && Instant::now() < deadline {
            look.wait(Phase::Drain).await;
        }
        let usage = load.usage.usage();
        let mut last_phase = Phase::Drain;
        if look.pipeline.is_some() {
            (last_phase, deadline) = match feed {
                Some(Feed::None) => {
                    let longest = limits.stop.duration.unwrap_or(limits.drain_deadline);
                    (Phase::Measure, Instant::now() + longest)
                }
                Some(Feed::Beforehand) => {
                    consumers = self.consumers(broker, consumers_stop, look.pipeline.as_mut()).await?;
                    (Phase::Verify, Instant::now() + limits.drain_deadline)
                }
                _ => (Phase::Verify, deadline),
            };
            look.observer.phase(last_phase);
            look.look(if last_phase == Phase::Measure { Phase::Measure } else { Phase::Drain });
            // A signal ends the load; a second wait ends by it only where that was no load.
            let stop = || feed == Some(Feed::None) && *interrupted.borrow();
            let mut patience = catch_up.patience();
            while !self.is_worked_off(&mut look).await && !stop() {
                let goes_on = match feed {
                    Some(Feed::None) => Instant::now() < deadline,
                    _ => patience.goes_on(self.worked(&look)),
                };
                if !goes_on {
                    break;
                }
                look.wait(last_phase).await;
            }
            if feed == Some(Feed::None) {
                // What has been taken is still written.
                deadline = deadline.max(Instant::now() + limits.drain_deadline);
            }
        } else if self.arrivals.is_some() {
            last_phase = Phase::Verify;
            look.observer.phase(Phase::Verify);
            look.look(Phase::Drain);
            catch_up.wait(&mut look).await;
        }
        catch_up.end().await;
        stop_consumers.send_replace(true);
        if let Some(pipeline) = &look.pipeline {
            pipeline.finish(deadline);
        }
        let receive_errors = join(consumers).await;
        let lag = look.measure_lag().await;
        let standing = look.standing();
        let totals = look.collector.close(last_phase, broker, standing, look.observer);
        let arrived = self.arrivals.as_ref().map(Arrivals::groups).unwrap_or_default();
        // Instances do not ask while their writers are busy.
        let groups = catch_up.outcome(arrived, feed.is_none());
        let pipeline = match look.pipeline {
            Some(pipeline) => Some(pipeline.outcome(lag, at_load_end).await),
            None => None,
        };
        let end = if feed == Some(Feed::None) && *interrupted.borrow() { End::Interrupted } else { load.end };
        Ok(Outcome {
            end,
            started_at: SystemTime::UNIX_EPOCH,
            open_loop: self.open,
            ledger: Ledger::settle(load.attempted, &totals.outcomes, self.acks.in_flight()),
            due: self.due(&course, load.ended_ns),
            times: Times {
                load_start_ns,
                measure_start_ns: course.measure_start_ns,
                load_ended_ns: load.ended_ns,
                load_end_ns: limits.stop.duration.map(|_| course.load_end_ns),
            },
            totals,
            groups,
            receive_errors,
            pipeline,
            lag: pacer.map(|pacer| pacer.lag()),
            usage,
            identity: broker.identity(),
            close_error: None,
        })
    }

    /// Keeps the load going until every producer has ended.
    async fn load<B: Broker>(
        &self,
        mut tasks: JoinSet<Attempted>,
        course: &Course,
        pacer: Option<&Pacer>,
        mut interrupted: watch::Receiver<bool>,
        look: &mut Look<'_, B>,
    ) -> Result<LoadEnd, EngineError> {
        let clock = course.clock();
        let at = |offset_ns| Instant::from_std(clock.instant(offset_ns));
        let grace = if self.open { CATCH_UP } else { Duration::ZERO };
        let limited = self.scenario.run.stop.duration.is_some();
        let load_ends = if limited { at(course.load_end_ns) + grace } else { Instant::now() };
        let mut phase = if self.scenario.run.warm_up.is_zero() { Phase::Measure } else { Phase::WarmUp };
        look.observer.phase(phase);
        let mut usage = HostSampler::begin();
        let mut attempted = Attempted::default();
        let mut end = End::Completed;
        let mut crash = None;
        let stop = || {
            course.stop();
            if let Some(pacer) = pacer {
                pacer.wake_all();
            }
        };
        loop {
            tokio::select! {
                finished = tasks.join_next() => match finished {
                    Some(Ok(one)) => attempted.add(one),
                    Some(Err(panic)) => {
                        crash = Some(panic.to_string());
                        stop();
                    }
                    None => break,
                },
                () = tokio::time::sleep_until(at(course.measure_start_ns)), if phase == Phase::WarmUp => {
                    look.look(phase);
                    phase = Phase::Measure;
                    usage = HostSampler::begin();
                    look.observer.phase(phase);
                }
                () = look.is_due() => look.look(phase),
                () = tokio::time::sleep_until(load_ends), if limited && !course.is_stopped() => stop(),
                Ok(_) = interrupted.wait_for(|interrupted| *interrupted), if end == End::Completed => {
                    end = End::Interrupted;
                    stop();
                }
            }
        }
        look.look(phase);
        match crash {
            Some(crash) => Err(EngineError::Crashed(crash)),
            None => Ok(LoadEnd { end, attempted, usage, ended_ns: clock.now_ns() }),
        }
    }

    /// What the pipeline has done so far, in messages received and finished: it only grows.
    fn worked<B: Broker>(&self, look: &Look<'_, B>) -> u64 {
        let received = self.arrivals.as_ref().map_or(0, Arrivals::received);
        received + look.pipeline.as_ref().map_or(0, Pipeline::finished)
    }

    /// Whether the pipeline has nothing left to do: it has finished all that this trial sent, or, where others send or
    /// receive too, all that is there for it.
    async fn is_worked_off<B: Broker>(&self, look: &mut Look<'_, B>) -> bool {
        let (Some(config), Some(arrivals)) = (&self.scenario.pipeline, &self.arrivals) else { return true };
        if look.pipeline.as_ref().is_some_and(|pipeline| pipeline.in_hand() > 0) {
            return false;
        }
        if config.feed != Feed::None && config.group.is_none() {
            // What was given back to the group is received twice: the broker knows whether something is left.
            return arrivals.received() >= look.collector.acknowledged()
                && !look.is_known_to_be_behind()
                && look.measure_lag().await.is_none_or(|lag| lag == 0);
        }
        !look.is_known_to_be_behind() && look.measure_lag().await == Some(0)
    }

    /// How many measured messages the schedule wanted out before the load ended.
    fn due(&self, course: &Course, ended_ns: u64) -> Option<u64> {
        let Load::Open(schedule) = &self.scenario.load else { return None };
        // Where nobody sends, nothing is due.
        if self.scenario.pipeline.as_ref().is_some_and(|pipeline| pipeline.feed == Feed::None) {
            return None;
        }
        let until = |at_ns: u64| schedule.count_until(Duration::from_nanos(at_ns - course.load_start_ns));
        let due = until(ended_ns.min(course.load_end_ns)) - until(course.measure_start_ns.min(ended_ns));
        Some(self.scenario.run.stop.messages.map_or(due, |messages| due.min(messages)))
    }
}

/// How the load came to its end.
struct LoadEnd {
    end: End,
    attempted: Attempted,
    usage: HostSampler,
    ended_ns: u64,
}

async fn join(consumers: JoinSet<Errors>) -> Errors {
    let mut errors = Errors::default();
    for one in consumers.join_all().await {
        errors.merge(&one);
    }
    errors
}

fn setup(scenario: &Scenario, identity: &TrialIdentity, acks: &Acks, payloads: &Arc<PayloadPool>) -> Setup {
    Setup {
        config: scenario.broker.clone(),
        acks: acks.clone(),
        payloads: payloads.clone(),
        run_id: identity.run_id.clone(),
        headers: scenario.producers.headers.clone(),
        producers: scenario.producers.count,
        in_flight: scenario.producers.in_flight.saturating_mul(scenario.producers.count),
        timeout: CONTROL_TIMEOUT,
    }
}

/// `name` for a single topic, else `name0`, `name1`, …; unique to the trial unless the scenario names them.
fn topics(scenario: &Scenario, identity: &TrialIdentity) -> Vec<Topic> {
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
