//! The load: warm-up and measured window, from the first intended message until every producer has ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::appointment;
use super::backlog::BacklogWatch;
use super::checkpoint::Checkpoints;
use super::collector::{Collector, LagRule};
use super::context::TrialContext;
use super::interruption::InterruptiblePhase;
use super::listening::Listening;
use super::observer::{Observer, Phase};
use super::outcome::BacklogOutcome;
use super::outcome::End;
use super::part;
use super::receive::StartSignal;
use super::sampler::{Rhythm, Sampler};
use super::send::{self, Closing, Pacer, Sent, StallWatch, TrialWindow};
use crate::broker::{Broker, Producer};
use crate::load::{Part, due_by};
use crate::measure::host::{HostSampler, HostUsage};
use crate::measure::{Arrivals, PartEnds};
use crate::pipeline::Pipeline;
use crate::scenario::{Load, ProducerMode};

/// Between starting the tasks and the first intended message.
const RUN_UP: Duration = Duration::from_millis(20);

/// How long after its last intended time an open loop may still send what is due: many times a wake-up's lateness.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Producers at work.
pub(super) struct LoadPhase<'a> {
    context: &'a TrialContext<'a>,
    trial_window: Arc<TrialWindow>,
    pacer: Option<Arc<Pacer>>,
    tasks: JoinSet<Sent>,
    /// Those of the schedule, if it changes its rate.
    parts: Vec<Part>,
    /// Where there are no producers to wait for.
    listening: Option<Listening>,
    phase: Phase,
    stall: StallWatch<'a>,
    backlog: Option<BacklogWatch<'a>>,
    host_sampler: HostSampler,
    usage: Option<HostUsage>,
    sent: Vec<Sent>,
    end: End,
    crash: Option<String>,
}

/// Those of the schedule within the measured window, since the load began.
fn parts(context: &TrialContext<'_>, window: &TrialWindow) -> Vec<Part> {
    let since_begin = |at_ns: u64| at_ns - window.load_start_ns;
    match (&context.scenario.load, window.nominal_end_ns()) {
        (Load::Open(schedule), Some(end_ns)) => {
            schedule.parts(since_begin(window.measure_start_ns), since_begin(end_ns))
        }
        _ => Vec::new(),
    }
}

/// Whether it is known what groups of consumers are owed.
fn lag_rule<B: Broker>(context: &TrialContext<'_>, broker: &B) -> LagRule {
    let scenario = context.scenario;
    let others_take_part = scenario
        .pipeline
        .as_ref()
        .is_some_and(|pipeline| pipeline.group.is_some() || pipeline.producer_mode == ProducerMode::None);
    match &scenario.part {
        _ if others_take_part || broker.withholds_messages() => LagRule::Unknown,
        Some(_) => LagRule::Part,
        None => LagRule::Whole,
    }
}

/// How the load came to its end.
pub(super) struct Loaded {
    pub end: End,
    /// Why a producer crashed.
    pub crash: Option<String>,
    /// Why a producer could send nothing more.
    pub failure: Option<String>,
    pub sent: Vec<Sent>,
    /// Of the measured window.
    pub usage: HostUsage,
    pub ended_ns: u64,
    pub trial_window: Arc<TrialWindow>,
    pub pacer: Option<Arc<Pacer>>,
    /// What became of the backlog that consumers were to find; `None`: it was not built, or not asked for.
    pub backlog: Option<BacklogOutcome>,
}

impl<'a> LoadPhase<'a> {
    /// Starts one task for each producer. The producers are to be closed when their messages have been answered. `start` lets
    /// consumers begin that begin late.
    pub fn begin<P: Producer>(
        context: &'a TrialContext<'a>,
        producers: Vec<P>,
        start: StartSignal,
    ) -> (Self, Closing<P>) {
        let scenario = context.scenario;
        let limits = &scenario.run;
        let quota = send::quota(context);
        let due_by_ns = match (&scenario.load, quota.messages()) {
            (Load::Open(schedule), Some(messages)) => {
                due_by(schedule, scenario.all_producers(), limits.warm_up.as_nanos() as u64, messages)
            }
            _ => None,
        };
        let quota = part::quota_of_part(context.scenario, quota, due_by_ns);
        let clock = context.acks.clock();
        let load_start_ns = appointment::load_start_ns(context.identity, clock, RUN_UP);
        start.load_begins(load_start_ns);
        let acks = context.acks.clone();
        let trial_window = TrialWindow::new(acks, load_start_ns, limits.warm_up, limits.stop.duration, due_by_ns);
        let trial_window = Arc::new(trial_window);
        let pacer = || Arc::new(Pacer::start(clock, scenario.producers.count, scenario.pacing));
        let pacer = context.is_open_loop().then(pacer);
        let parts = parts(context, &trial_window);
        if !parts.is_empty() {
            // Before the first message, so that none is missing in them.
            let ends = parts.iter().map(|part| (trial_window.load_start_ns + part.end_ns, part.result));
            context.acks.divide_into(PartEnds::new(ends));
        }
        let (tasks, closing) = send::start(context, producers, &trial_window, quota, pacer.as_ref());
        let load = LoadPhase {
            context,
            trial_window,
            pacer,
            sent: Vec::with_capacity(tasks.len()),
            tasks,
            parts,
            listening: Listening::of(context),
            phase: if limits.warm_up.is_zero() { Phase::Measure } else { Phase::WarmUp },
            stall: StallWatch::new(&scenario.load, limits),
            backlog: BacklogWatch::of(context, load_start_ns, start),
            host_sampler: HostSampler::begin(context.identity.host_share, clock),
            usage: None,
            end: End::Completed,
            crash: None,
        };
        (load, closing)
    }

    /// Samples this load for `observer`.
    pub fn sampler<'s, B: Broker>(
        &self,
        broker: &'s B,
        observer: &'s mut dyn Observer,
        pipeline: Option<Pipeline>,
    ) -> Sampler<'s, B>
    where
        'a: 's,
    {
        let (context, window) = (self.context, &self.trial_window);
        let begin_ns = window.load_start_ns;
        let parts = self.parts.clone();
        let at = |offset_ns| context.acks.clock().instant(offset_ns);
        let length = window.nominal_end_ns().map(|end_ns| Duration::from_nanos(end_ns - window.measure_start_ns));
        let ends_of_parts: Vec<_> = parts.iter().map(|part| at(begin_ns + part.end_ns)).collect();
        let rhythm = Rhythm::new(at(begin_ns), at(window.measure_start_ns), length, ends_of_parts.into_iter());
        let nominal_end_ns = window.nominal_end_ns().map(|end_ns| end_ns - begin_ns);
        let (acks, arrivals) = (context.acks.clone(), context.arrivals.clone());
        let load = context.scenario.own_load();
        let mut collector = Collector::new(acks, arrivals, &load, parts, begin_ns, nominal_end_ns);
        // Where neither a time nor producers end the load, the wait for more messages is not measured.
        collector.ends_with_arrivals = self.listening.is_some() && nominal_end_ns.is_none();
        collector.lag = lag_rule(context, broker);
        let checkpoints = Checkpoints::new(context, window.clone(), self.pacer.clone());
        Sampler::begin(collector, broker, observer, pipeline, checkpoints, &context.topics[0], rhythm)
    }

    /// Keeps the load going until every producer has ended. The measured window ends when nothing more is intended, even if
    /// producers are still late with messages that were due.
    pub async fn run<B: Broker>(mut self, signals: &InterruptiblePhase, sampler: &mut Sampler<'_, B>) -> Loaded {
        let clock = self.trial_window.clock();
        let at = |offset_ns| Instant::from_std(clock.instant(offset_ns));
        let measure_start = at(self.trial_window.measure_start_ns);
        let window_end = self.trial_window.nominal_end_ns().map(at);
        let grace = if self.context.is_open_loop() { CATCH_UP } else { Duration::ZERO };
        let load_end = self.context.scenario.run.stop.duration.map(|duration| measure_start + duration + grace);
        sampler.observer.phase(self.phase);
        if self.phase == Phase::Measure {
            BacklogWatch::begin(self.backlog.as_ref(), sampler);
        }
        if let Some(listening) = &mut self.listening {
            listening.begin(measure_start);
        }
        while !self.tasks.is_empty() || self.listens() || self.awaits_window_end() {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => self.producer_ended(ended),
                () = sleep_until(measure_start), if self.phase == Phase::WarmUp => self.begin_window(sampler),
                () = sleep_until(window_end.unwrap_or_else(Instant::now)),
                    if window_end.is_some() && self.phase == Phase::Measure => self.end_window(sampler),
                () = sampler.is_due() => {
                    sampler.sample(self.phase);
                    self.watch_for_stall();
                }
                () = BacklogWatch::is_due(self.backlog.as_ref()), if self.phase == Phase::Measure => {
                    self.backlog.iter_mut().for_each(|backlog| backlog.look(sampler));
                }
                () = sleep_until(load_end.unwrap_or_else(Instant::now)),
                    if load_end.is_some() && !self.trial_window.is_stopped() => self.stop(),
                () = signals.over(), if self.end == End::Completed => self.stop_because(End::Interrupted),
            }
        }
        sampler.sample(self.phase);
        self.loaded()
    }

    /// Whether a process without producers waits for what others send.
    fn listens(&mut self) -> bool {
        let Some(listening) = &mut self.listening else { return false };
        let received = self.context.arrivals.as_ref().map_or(0, Arrivals::received);
        let may_come = self.trial_window.nominal_end_ns().is_some() || listening.goes_on(received, Instant::now());
        may_come && self.phase != Phase::Drain && !self.trial_window.is_stopped()
    }

    /// Whether the window goes on although all producers have ended: a schedule that ends at 0/s has nothing due until its time is over.
    fn awaits_window_end(&self) -> bool {
        let stop = &self.context.scenario.run.stop;
        let ends_by_time = stop.duration.is_some() && stop.messages.is_none() && stop.payload_bytes.is_none();
        let is_over = self.phase == Phase::Drain || self.trial_window.is_stopped();
        ends_by_time && self.context.is_open_loop() && !is_over
    }

    fn producer_ended(&mut self, ended: Result<Sent, JoinError>) {
        match ended {
            Ok(sent) => {
                self.sent.push(sent);
                if self.trial_window.failure().is_some() && !self.trial_window.is_stopped() {
                    self.stop();
                }
            }
            Err(panic) => {
                self.crash = Some(panic.to_string());
                self.stop();
            }
        }
    }

    fn begin_window<B: Broker>(&mut self, sampler: &mut Sampler<'_, B>) {
        sampler.sample(self.phase);
        sampler.rhythm.begin_window();
        BacklogWatch::begin(self.backlog.as_ref(), sampler);
        self.phase = Phase::Measure;
        self.host_sampler.begin_anew();
        sampler.observer.phase(self.phase);
    }

    fn end_window<B: Broker>(&mut self, sampler: &mut Sampler<'_, B>) {
        sampler.sample(self.phase);
        self.usage = Some(self.host_sampler.usage());
        self.phase = Phase::Drain;
        sampler.observer.phase(self.phase);
    }

    fn watch_for_stall(&mut self) {
        let counted = self.context.acks.submitted() + self.context.acks.resolved();
        // What the client refuses is handed over and resolved, and yet nothing moves.
        let moved = counted.wrapping_sub(2 * self.trial_window.refused());
        let since_begin_ns = self.trial_window.clock().now_ns().saturating_sub(self.trial_window.load_start_ns);
        if self.end == End::Completed && self.listening.is_none() && self.stall.is_stalled(moved, since_begin_ns) {
            self.stop_because(End::Stalled);
        }
    }

    fn stop_because(&mut self, end: End) {
        self.end = end;
        self.stop();
    }

    fn stop(&self) {
        self.trial_window.stop();
        if let Some(pacer) = &self.pacer {
            pacer.wake_all();
        }
    }

    fn loaded(mut self) -> Loaded {
        self.sent.sort_unstable_by_key(|sent| sent.producer_index);
        if self.crash.is_some() {
            // The producer's own count is lost with its task.
            self.sent = Sent::by_windows(&self.context.acks);
        }
        Loaded {
            end: self.end,
            crash: self.crash,
            failure: self.trial_window.failure().map(str::to_owned),
            sent: self.sent,
            // An outage may end after the window.
            usage: HostUsage {
                long_pauses: self.host_sampler.long_pauses(),
                ..self.usage.unwrap_or_else(|| self.host_sampler.usage())
            },
            ended_ns: self.trial_window.clock().now_ns(),
            trial_window: self.trial_window,
            pacer: self.pacer,
            backlog: self.backlog.and_then(BacklogWatch::outcome),
        }
    }
}
