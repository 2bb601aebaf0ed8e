//! One trial from first to last: prepare ▸ warm up ▸ measure ▸ drain ▸ verify.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::catch_up::CatchUp;
use super::checkpoint::Checkpoints;
use super::collector::Collector;
use super::consuming;
use super::interruption::{InterruptiblePhase, Interruption};
use super::observer::{Observer, Phase};
use super::outcome::{End, Ledger, Outcome, Times};
use super::pacer::Pacer;
use super::sampler::{Rhythm, Sampler};
use super::sender::Sent;
use super::stall::StallWatch;
use super::trial_window::TrialWindow;
use super::{EngineError, TrialIdentity};
use crate::broker::{Broker, Setup, Topic};
use crate::load::{PayloadPool, due_by};
use crate::measure::host::{self, HostSampler, HostUsage};
use crate::measure::{Acks, Arrivals, Clock, TRACE_HEADER_BYTES, Verification};
use crate::pipeline::Pipeline;
use crate::scenario::{Load, ProducerMode, Scenario};

/// How long connecting, preparing and closing may each take.
pub(super) const CONTROL_TIMEOUT: Duration = Duration::from_secs(20);

/// Between starting the tasks and the first intended message.
const RUN_UP: Duration = Duration::from_millis(20);

/// How long after its last intended time an open loop may still send what is due: a wake-up's lateness, many times over.
const CATCH_UP: Duration = Duration::from_secs(1);

/// After the second signal, how long databases are asked and topics removed: a few seconds with the wait for consumers.
const LAST_ANSWER: Duration = Duration::from_millis(500);
const LAST_REMOVAL: Duration = Duration::from_secs(2);

/// Runs one trial on broker `B`.
///
/// `interruption`: what the user's signals end. What was measured until then is kept.
///
/// # Errors
/// When the trial could not begin: bad payloads, or a broker that cannot be reached or prepared. Once the load has begun,
/// everything that goes wrong is part of the outcome.
pub async fn run<B: Broker>(
    scenario: &Scenario,
    identity: &TrialIdentity,
    interruption: &Interruption,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    observer.phase(Phase::Prepare);
    host::reset_peak_memory();
    let started_at = SystemTime::now();
    // Where the envelope travels beside the payload, its checksum is over all of it.
    let overlaid = if scenario.payload.fits_trace_header() { TRACE_HEADER_BYTES } else { 0 };
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
    let preparation = interruption.phase();
    let broker = preparation
        .unless_over(B::connect(setup(scenario, identity, &acks, &payloads)))
        .await
        .ok_or(EngineError::Interrupted)??;
    let topics = topics(scenario, identity);
    // Not given up for a signal: it would not be known which topics are there.
    let mut created = Vec::new();
    if let Err(error) = broker.prepare(&topics, &mut created).await {
        // This error says more than one about closing.
        let _ = broker.close(created).await;
        return Err(error.into());
    }
    let trial = Running { scenario, identity, started_at, topics, acks, arrivals, payloads, open };
    let result = trial.run(&broker, &created, interruption, observer).await;
    if let Ok(outcome) = &result {
        observer.ended(outcome);
    }
    let remove = if scenario.topology.keep { Vec::new() } else { created };
    let left = remove.join(", ");
    let closed = interruption.finish(broker.close(remove), LAST_REMOVAL).await;
    let mut outcome = result?;
    outcome.close_error = match closed {
        Some(closed) => closed.err().map(|error| error.to_string()),
        None => Some(format!("the run was ended before the broker had removed its topics: {left}")),
    };
    Ok(outcome)
}

/// A trial that is prepared.
pub(super) struct Running<'a> {
    pub scenario: &'a Scenario,
    pub identity: &'a TrialIdentity,
    pub started_at: SystemTime,
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
        interruption: &Interruption,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, EngineError> {
        let starts = self.starts(broker, created).await;
        let (stop_consumers, consumers_stop) = watch::channel(false);
        let mut wait = interruption.phase();
        let clock = self.acks.clock();
        let producer_mode = self.scenario.pipeline.as_ref().map(|pipeline| pipeline.producer_mode);
        let mut pipeline = match &self.scenario.pipeline {
            Some(config) => {
                let pipeline = Pipeline::begin(config, &self.topics[0].name, clock);
                Some(pipeline.await.map_err(EngineError::Pipeline)?)
            }
            None => None,
        };
        let mut consumers = JoinSet::new();
        if producer_mode != Some(ProducerMode::Backlog) {
            let joining = self.consumers(broker, consumers_stop.clone(), pipeline.as_mut());
            consumers = wait.unless_over(joining).await.ok_or(EngineError::Interrupted)??;
        }
        let producers = match producer_mode {
            Some(ProducerMode::None) => Vec::new(),
            _ => wait.unless_over(self.producers(broker)).await.ok_or(EngineError::Interrupted)??,
        };

        let limits = &self.scenario.run;
        let quota = self.quota();
        let due_by_ns = match (&self.scenario.load, quota.messages()) {
            (Load::Open(schedule), Some(messages)) => {
                let warm_up_ns = limits.warm_up.as_nanos() as u64;
                Some(due_by(schedule, self.scenario.producers.count, warm_up_ns, messages))
            }
            _ => None,
        };
        let load_start_ns = clock.now_ns() + RUN_UP.as_nanos() as u64;
        let trial_window =
            TrialWindow::new(self.acks.clone(), load_start_ns, limits.warm_up, limits.stop.duration, due_by_ns);
        let trial_window = Arc::new(trial_window);
        let pacing = self.scenario.pacing;
        let pacer = self.open.then(|| Arc::new(Pacer::start(clock, self.scenario.producers.count, pacing)));
        let (tasks, producers) = self.start(producers, &trial_window, quota, pacer.as_ref());
        let parts = match (&self.scenario.load, trial_window.nominal_end_ns()) {
            (Load::Open(schedule), Some(end_ns)) => {
                schedule.parts(trial_window.measure_start_ns - load_start_ns, end_ns - load_start_ns)
            }
            _ => Vec::new(),
        };
        let ends_of_parts: Vec<u64> = parts.iter().map(|part| part.end_ns).collect();
        let load = &self.scenario.load;
        let nominal_end_ns = trial_window.nominal_end_ns().map(|end_ns| end_ns - load_start_ns);
        let (acks, arrivals) = (self.acks.clone(), self.arrivals.clone());
        let collector = Collector::new(acks, arrivals, load, parts, load_start_ns, nominal_end_ns);
        let window =
            trial_window.nominal_end_ns().map(|end_ns| Duration::from_nanos(end_ns - trial_window.measure_start_ns));
        let ends_of_parts = ends_of_parts.iter().map(|end_ns| clock.instant(load_start_ns + end_ns));
        let (load_start, measure_start) = (clock.instant(load_start_ns), clock.instant(trial_window.measure_start_ns));
        let rhythm = Rhythm::new(load_start, measure_start, window, ends_of_parts);
        let checkpoints = Checkpoints::new(&self, trial_window.clone(), pacer.clone());
        let mut sampler = Sampler::begin(collector, broker, observer, pipeline, checkpoints, &self.topics[0], rhythm);

        let load = self.load(tasks, &trial_window, pacer.as_deref(), &wait, &mut sampler).await;
        // A signal ends the load, and the user waits for the end of the rest.
        let longest = if load.end == End::Interrupted { limits.drain_deadline } else { limits.catch_up_deadline };
        let mut catch_up =
            CatchUp::begin(&self, broker, &starts, producer_mode != Some(ProducerMode::Backlog), longest);
        if load.end == End::Interrupted {
            wait = wait.next();
        }
        let finished = |pipeline: &Pipeline| (sampler.collector.acknowledged(), pipeline.finished());
        let at_load_end =
            sampler.pipeline.as_ref().filter(|_| producer_mode == Some(ProducerMode::Concurrent)).map(finished);
        let mut deadline = Instant::now() + limits.drain_deadline;
        sampler.observer.phase(Phase::Drain);
        while self.acks.in_flight() > 0 && Instant::now() < deadline && !wait.is_over() {
            sampler.wait(Phase::Drain).await;
        }
        let _ = interruption.finish(producers.close(), LAST_ANSWER).await;
        let mut end = load.end;
        if self.acks.in_flight() > 0 && wait.is_over() {
            end = end.interrupted();
            wait = wait.next();
        }
        let mut last_phase = Phase::Drain;
        if sampler.pipeline.is_some() {
            (last_phase, deadline) = match producer_mode {
                Some(ProducerMode::None) => {
                    let longest = limits.stop.duration.unwrap_or(limits.drain_deadline);
                    (Phase::Measure, Instant::now() + longest)
                }
                Some(ProducerMode::Backlog) => {
                    // Where a signal ends this, what was loaded is still recorded, and the wait for the backlog is over as well.
                    let joining = self.consumers(broker, consumers_stop, sampler.pipeline.as_mut());
                    if let Some(joined) = wait.unless_over(joining).await {
                        consumers = joined?;
                    }
                    (Phase::Verify, Instant::now() + limits.drain_deadline)
                }
                _ => (Phase::Verify, deadline),
            };
            sampler.observer.phase(last_phase);
            sampler.sample(if last_phase == Phase::Measure { Phase::Measure } else { Phase::Drain });
            // Where nothing is sent, this is the phase that a signal before it would have ended.
            let stop = || wait.is_over() || producer_mode == Some(ProducerMode::None) && interruption.is_requested();
            let mut patience = catch_up.patience();
            while !self.is_worked_off(&mut sampler).await && !stop() {
                let goes_on = match producer_mode {
                    Some(ProducerMode::None) => Instant::now() < deadline,
                    _ => patience.goes_on(self.worked(&sampler)),
                };
                if !goes_on {
                    break;
                }
                sampler.wait(last_phase).await;
            }
            if stop() {
                (end, deadline) = (end.interrupted(), Instant::now());
            }
            if producer_mode == Some(ProducerMode::None) {
                // What has been taken is still written.
                deadline = deadline.max(Instant::now() + limits.drain_deadline);
            }
        } else if self.arrivals.is_some() {
            last_phase = Phase::Verify;
            sampler.observer.phase(Phase::Verify);
            sampler.sample(Phase::Drain);
            catch_up.wait(&mut sampler, &wait).await;
            if wait.is_over() {
                end = end.interrupted();
            }
        }
        let _ = interruption.finish(catch_up.end(), LAST_ANSWER).await;
        stop_consumers.send_replace(true);
        if let Some(pipeline) = &sampler.pipeline {
            pipeline.finish(deadline);
        }
        let (receive_errors, consumer_crashes) =
            consuming::ended(consumers, sampler.pipeline.as_ref(), &wait.next(), interruption).await;
        let consumer_lag = if interruption.is_urgent() { None } else { sampler.measure_consumer_lag().await };
        let progress = sampler.progress();
        let totals = sampler.collector.close(last_phase, broker.telemetry(), progress, sampler.observer);
        let arrived = self.arrivals.as_ref().map(Arrivals::groups).unwrap_or_default();
        // Instances do not ask while their writers are busy.
        let groups = catch_up.outcome(arrived, producer_mode.is_none());
        let pipeline = match sampler.pipeline {
            Some(pipeline) => {
                let given_up = interruption.given_up(LAST_ANSWER);
                Some(pipeline.outcome(consumer_lag, at_load_end, given_up).await)
            }
            None => None,
        };
        Ok(Outcome {
            end,
            started_at: self.started_at,
            open_loop: self.open,
            ledger: Ledger::settle(&load.sent, &totals.outcomes, &self.acks),
            sent: load.sent,
            times: Times {
                load_start_ns,
                measure_start_ns: trial_window.measure_start_ns,
                load_ended_ns: load.ended_ns,
                load_end_ns: trial_window.nominal_end_ns(),
            },
            totals,
            groups,
            receive_errors,
            consumer_crashes,
            crash: load.crash,
            pipeline,
            timer_lateness: pacer.map(|pacer| pacer.lateness()),
            usage: HostUsage { peak_memory_bytes: host::peak_memory_bytes(), ..load.usage },
            identity: broker.identity(),
            close_error: None,
        })
    }

    /// Keeps the load going until every producer has ended. The measured window ends when nothing more is intended, be it that
    /// producers are still late with what was.
    async fn load<B: Broker>(
        &self,
        mut tasks: JoinSet<Sent>,
        trial_window: &TrialWindow,
        pacer: Option<&Pacer>,
        interruptible: &InterruptiblePhase,
        sampler: &mut Sampler<'_, B>,
    ) -> LoadEnd {
        let clock = trial_window.clock();
        let at = |offset_ns| Instant::from_std(clock.instant(offset_ns));
        let window_ends = trial_window.nominal_end_ns().map(at);
        let grace = if self.open { CATCH_UP } else { Duration::ZERO };
        let limits = &self.scenario.run;
        let load_ends = limits.stop.duration.map(|duration| at(trial_window.measure_start_ns) + duration + grace);
        let mut stall = StallWatch::new(&self.scenario.load, limits);
        let mut phase = if limits.warm_up.is_zero() { Phase::Measure } else { Phase::WarmUp };
        sampler.observer.phase(phase);
        let mut host_sampler = HostSampler::begin();
        let mut usage = None;
        let mut sent = Vec::with_capacity(tasks.len());
        let mut end = End::Completed;
        let mut crash = None;
        let stop = || {
            trial_window.stop();
            if let Some(pacer) = pacer {
                pacer.wake_all();
            }
        };
        loop {
            tokio::select! {
                finished = tasks.join_next() => match finished {
                    Some(Ok(one)) => sent.push(one),
                    Some(Err(panic)) => {
                        crash = Some(panic.to_string());
                        stop();
                    }
                    None => break,
                },
                () = tokio::time::sleep_until(at(trial_window.measure_start_ns)), if phase == Phase::WarmUp => {
                    sampler.sample(phase);
                    sampler.rhythm.begin_window();
                    phase = Phase::Measure;
                    host_sampler = HostSampler::begin();
                    sampler.observer.phase(phase);
                }
                () = tokio::time::sleep_until(window_ends.unwrap_or_else(Instant::now)),
                    if window_ends.is_some() && phase == Phase::Measure =>
                {
                    sampler.sample(phase);
                    usage = Some(host_sampler.usage());
                    phase = Phase::Drain;
                    sampler.observer.phase(phase);
                }
                () = sampler.is_due() => {
                    sampler.sample(phase);
                    let moved = self.acks.submitted() + self.acks.resolved();
                    if end == End::Completed && stall.is_stalled(moved, clock.now_ns() - trial_window.load_start_ns) {
                        end = End::Stalled;
                        stop();
                    }
                }
                () = tokio::time::sleep_until(load_ends.unwrap_or_else(Instant::now)),
                    if load_ends.is_some() && !trial_window.is_stopped() => stop(),
                () = interruptible.over(), if end == End::Completed => {
                    end = End::Interrupted;
                    stop();
                }
            }
        }
        sampler.sample(phase);
        let usage = usage.unwrap_or_else(|| host_sampler.usage());
        sent.sort_unstable_by_key(|sent| sent.producer_index);
        if crash.is_some() {
            // It took its own count with it.
            sent = Sent::by_windows(&self.acks);
        }
        LoadEnd { end, crash, sent, usage, ended_ns: clock.now_ns() }
    }

    /// What the pipeline has done so far, in messages received and finished: it only grows.
    fn worked<B: Broker>(&self, sampler: &Sampler<'_, B>) -> u64 {
        let received = self.arrivals.as_ref().map_or(0, Arrivals::received);
        received + sampler.pipeline.as_ref().map_or(0, Pipeline::finished)
    }

    /// Whether the pipeline has nothing left to do: it has finished all that this trial sent, or, where others send or
    /// receive too, all that is there for it.
    async fn is_worked_off<B: Broker>(&self, sampler: &mut Sampler<'_, B>) -> bool {
        let (Some(config), Some(arrivals)) = (&self.scenario.pipeline, &self.arrivals) else { return true };
        if sampler.pipeline.as_ref().is_some_and(|pipeline| pipeline.in_hand() > 0) {
            return false;
        }
        if config.producer_mode != ProducerMode::None && config.group.is_none() {
            // What was given back to the group is received twice: the broker knows whether something is left.
            return arrivals.received() >= sampler.collector.acknowledged()
                && !sampler.is_known_to_be_behind()
                && sampler.measure_consumer_lag().await.is_none_or(|consumer_lag| consumer_lag == 0);
        }
        !sampler.is_known_to_be_behind() && sampler.measure_consumer_lag().await == Some(0)
    }
}

/// How the load came to its end.
struct LoadEnd {
    end: End,
    /// What a producer that crashed said of it.
    crash: Option<String>,
    sent: Vec<Sent>,
    /// Of the measured window.
    usage: HostUsage,
    ended_ns: u64,
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
