//! The load: warm-up and measured window, from the first intended message until every producer has ended.
//!
//! In a process that only consumes, others send the load, and it goes on for as long as they do. A load that comes to a standstill which no time
//! limit would end is noticed.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::backlog::BacklogWatch;
use super::collector::{Collector, LagRule};
use super::interruption::InterruptiblePhase;
use super::observer::{Observer, Phase};
use super::outcome::{BacklogOutcome, End};
use super::prepare::TrialContext;
use super::receive::{Patience, StartSignal};
use super::sampler::{Checkpoints, Sampler, SamplingTimes};
use super::send::{self, Closing, Quota, Sent, TrialWindow};
use super::start_barrier;
use crate::broker::{Broker, Producer};
use crate::load::{ScheduleSegment, due_by};
use crate::measure::host::{HostSampler, HostUsage};
use crate::measure::{Arrivals, SegmentEnds};
use crate::pipeline::Pipeline;
use crate::scenario::{Load, ProducerMode, RunLimits, Schedule};

/// Between starting the tasks and the first intended message.
const RUN_UP: Duration = Duration::from_millis(20);

/// How long after its last intended time an open loop may still send what is due: many times a wake-up's lateness.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Producers at work.
pub(super) struct LoadPhase<'a> {
    context: &'a TrialContext<'a>,
    trial_window: Arc<TrialWindow>,
    quota: Arc<Quota>,
    tasks: JoinSet<Vec<Sent>>,
    /// The schedule's segments, if it changes its rate.
    segments: Vec<ScheduleSegment>,
    /// Where there are no producers to wait for: how long nothing may arrive before the others are taken to have ended, where no time ends the load.
    listening: Option<Patience>,
    phase: Phase,
    stall: StallWatch<'a>,
    backlog: Option<BacklogWatch<'a>>,
    host_sampler: HostSampler,
    usage: Option<HostUsage>,
    sent: Vec<Sent>,
    end: End,
    crash: Option<String>,
}

/// The schedule's segments within the measured window, since the load began.
fn segments(context: &TrialContext<'_>, window: &TrialWindow) -> Vec<ScheduleSegment> {
    let since_begin = |at_ns: u64| at_ns - window.load_start_ns;
    match (&context.scenario.load, window.nominal_end_ns()) {
        (Load::Open(schedule), Some(end_ns)) => {
            schedule.segments(since_begin(window.measure_start_ns), since_begin(end_ns))
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
        Some(_) => LagRule::Divided,
        None => LagRule::Whole,
    }
}

/// How the load came to its end.
pub(super) struct Loaded {
    pub end: End,
    /// Why a producer crashed.
    pub crash: Option<String>,
    /// Why a producer could send nothing more, as a sentence.
    pub failure: Option<String>,
    pub sent: Vec<Sent>,
    /// Resources used in the measured window.
    pub usage: HostUsage,
    /// Continues, for a pipeline that begins to work after the load.
    pub host_sampler: HostSampler,
    pub ended_ns: u64,
    pub trial_window: Arc<TrialWindow>,
    /// What became of the backlog that consumers were to find; `None`: it was not built, or not asked for.
    pub backlog: Option<BacklogOutcome>,
}

impl<'a> LoadPhase<'a> {
    /// Starts the producers. They are to be closed when their messages have been answered. `start` lets
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
        let quota = Arc::new(send::process_quota(context.scenario, quota, due_by_ns));
        let clock = context.acks.clock();
        let load_start_ns = start_barrier::load_start_ns(context.identity, clock, RUN_UP);
        start.load_begins(load_start_ns);
        let acks = context.acks.clone();
        let trial_window = TrialWindow::new(acks, load_start_ns, limits.warm_up, limits.stop.duration, due_by_ns);
        let trial_window = Arc::new(trial_window);
        let segments = segments(context, &trial_window);
        if !segments.is_empty() {
            // Before the first message, so that none is missing in them.
            let ends = segments.iter().map(|segment| (trial_window.load_start_ns + segment.end_ns, segment.result));
            context.acks.divide_into(SegmentEnds::new(ends));
        }
        let own_producers = scenario.first_producer()..scenario.first_producer() + producers.len();
        let (tasks, closing) = send::start(context, producers, &trial_window, quota.clone());
        let load = LoadPhase {
            context,
            trial_window,
            quota,
            sent: Vec::new(),
            tasks,
            segments,
            listening: scenario.only_consumes().then(|| Patience::new(limits.drain_deadline, Instant::now())),
            phase: if limits.warm_up.is_zero() { Phase::Measure } else { Phase::WarmUp },
            stall: StallWatch::new(&scenario.load, limits, own_producers, scenario.all_producers()),
            backlog: BacklogWatch::new(context, load_start_ns, start),
            host_sampler: HostSampler::begin(context.identity.host_share, clock),
            usage: None,
            end: End::Completed,
            crash: None,
        };
        (load, closing)
    }

    /// When the measured window begins, in nanoseconds since the trial's epoch.
    pub fn measure_start_ns(&self) -> u64 {
        self.trial_window.measure_start_ns
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
        let segments = self.segments.clone();
        let at = |offset_ns| context.acks.clock().instant(offset_ns);
        let length = window.nominal_end_ns().map(|end_ns| Duration::from_nanos(end_ns - window.measure_start_ns));
        let ends_of_segments: Vec<_> = segments.iter().map(|segment| at(begin_ns + segment.end_ns)).collect();
        let sampling_times =
            SamplingTimes::new(at(begin_ns), at(window.measure_start_ns), length, ends_of_segments.into_iter());
        let nominal_end_ns = window.nominal_end_ns().map(|end_ns| end_ns - begin_ns);
        let (acks, arrivals) = (context.acks.clone(), context.arrivals.clone());
        let load = context.scenario.own_load();
        let mut collector = Collector::new(acks, arrivals, &load, segments, begin_ns, nominal_end_ns);
        // Where neither a time nor producers end the load, the wait for more messages is not measured.
        collector.ends_with_arrivals = self.listening.is_some() && nominal_end_ns.is_none();
        collector.lag = lag_rule(context, broker);
        let checkpoints = Checkpoints::new(context, window.clone());
        Sampler::begin(collector, broker, observer, pipeline, checkpoints, &context.topics[0], sampling_times)
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
            // The load begins only now: nothing can have come before.
            listening.since = measure_start;
        }
        while !self.tasks.is_empty() || self.listens() || self.awaits_window_end() {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => self.producers_ended(ended),
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
                    if load_end.is_some() && !self.trial_window.is_stopped() => self.trial_window.stop(),
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

    /// Whether the window goes on although all producers have ended: nothing is due any more until its time is over.
    fn awaits_window_end(&self) -> bool {
        let ends_by_time = self.context.scenario.run.stop.duration.is_some() && !self.quota.is_used_up();
        let is_over = self.phase == Phase::Drain || self.trial_window.is_stopped();
        let sends = self.context.producer_mode() != Some(ProducerMode::None);
        ends_by_time && sends && self.context.is_open_loop() && !is_over
    }

    fn producers_ended(&mut self, ended: Result<Vec<Sent>, JoinError>) {
        match ended {
            Ok(sent) => self.sent.extend(sent),
            Err(panic) => {
                self.crash = Some(panic.to_string());
                self.trial_window.stop();
            }
        }
    }

    fn begin_window<B: Broker>(&mut self, sampler: &mut Sampler<'_, B>) {
        sampler.sample(self.phase);
        sampler.sampling_times.begin_window();
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
        self.trial_window.stop();
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
            failure: self.trial_window.failure(),
            sent: self.sent,
            // An outage may end after the window.
            usage: HostUsage {
                long_pauses: self.host_sampler.long_pauses(),
                ..self.usage.unwrap_or_else(|| self.host_sampler.usage())
            },
            ended_ns: self.trial_window.clock().now_ns(),
            trial_window: self.trial_window,
            backlog: self.backlog.and_then(BacklogWatch::outcome),
            host_sampler: self.host_sampler,
        }
    }
}

/// Messages of a Poisson process to expect in a silence before it is a standstill: that none of 20 comes by chance has a probability of e⁻²⁰,
/// less than 1 in 10⁸.
const MIN_EXPECTED_OF_CHANCE: u64 = 20;

/// Watches a load that is bounded by messages or bytes. One that is bounded by time ends by itself, and may sit out a broker's
/// absence until then.
pub struct StallWatch<'a> {
    /// `None`: the load ends by itself.
    deadline_ns: Option<u64>,
    schedule: Option<&'a Schedule>,
    /// Producers of this process, among those of the whole schedule.
    producers: Range<usize>,
    all_producers: usize,
    last_moved: u64,
    /// When something moved last, in nanoseconds since the load began.
    since_ns: u64,
}

impl<'a> StallWatch<'a> {
    /// `producers`: those of this process, of `all_producers` that `load` is of.
    pub fn new(load: &'a Load, limits: &RunLimits, producers: Range<usize>, all_producers: usize) -> Self {
        let deadline_ns = limits.stop.duration.is_none().then_some(limits.stall_deadline.as_nanos() as u64);
        let schedule = match load {
            Load::Open(schedule) => Some(schedule),
            Load::Closed => None,
        };
        StallWatch { deadline_ns, schedule, producers, all_producers, last_moved: 0, since_ns: 0 }
    }

    /// Whether nothing has moved for the whole deadline, although something should have. `moved` grows with every message that
    /// is handed over or has its outcome.
    pub fn is_stalled(&mut self, moved: u64, now_ns: u64) -> bool {
        if moved != self.last_moved {
            (self.last_moved, self.since_ns) = (moved, now_ns);
        }
        let Some(deadline_ns) = self.deadline_ns else { return false };
        now_ns.saturating_sub(self.since_ns) >= deadline_ns && self.was_due_since(now_ns, deadline_ns)
    }

    /// A schedule may leave pauses that are longer than the deadline, and chance any pause.
    fn was_due_since(&self, now_ns: u64, deadline_ns: u64) -> bool {
        let Some(schedule) = self.schedule else { return true };
        let due_since = |until_ns| self.due_by(schedule, until_ns) - self.due_by(schedule, self.since_ns);
        match schedule {
            Schedule::Poisson { .. } => due_since(now_ns) >= MIN_EXPECTED_OF_CHANCE,
            _ => due_since(self.since_ns.saturating_add(deadline_ns)) > 0,
        }
    }

    /// Messages of this process that are due by then: of every `all_producers` messages, one for each of its producers.
    fn due_by(&self, schedule: &Schedule, offset_ns: u64) -> u64 {
        let due = schedule.count_until(Duration::from_nanos(offset_ns));
        let [first, end, all] =
            [self.producers.start, self.producers.end, self.all_producers].map(|number| number as u64);
        due / all * (end - first) + (due % all).clamp(first, end) - first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Stop;

    #[test]
    fn others_are_listened_to_until_they_are_silent() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut listening = Patience::new(Duration::from_secs(10), start);
        listening.since = after(100);
        assert!(listening.goes_on(0, after(109)));
        assert!(listening.goes_on(5, after(109)));
        assert!(listening.goes_on(5, after(118)));
        assert!(!listening.goes_on(5, after(119)));
    }

    const SECOND: u64 = 1_000_000_000;

    fn limits(duration: Option<Duration>) -> RunLimits {
        RunLimits {
            warm_up: Duration::ZERO,
            stop: Stop { duration, ..Stop::default() },
            drain_deadline: Duration::from_secs(1),
            catch_up_deadline: Duration::from_secs(1),
            stall_deadline: Duration::from_secs(60),
            signal_deadline: Duration::from_secs(8),
        }
    }

    /// Of a load without a time limit, which this process sends alone.
    fn watch(load: &Load) -> StallWatch<'_> {
        StallWatch::new(load, &limits(None), 0..1, 1)
    }

    #[test]
    fn stall_is_noticed_at_its_deadline_and_restarts_on_movement() {
        let mut watch = watch(&Load::Closed);
        assert!(!watch.is_stalled(5, SECOND));
        assert!(!watch.is_stalled(5, 60 * SECOND));
        assert!(!watch.is_stalled(6, 61 * SECOND));
        assert!(!watch.is_stalled(6, 120 * SECOND));
        assert!(watch.is_stalled(6, 121 * SECOND));
    }

    #[test]
    fn a_load_limited_in_time_may_stand_still() {
        let mut watch = StallWatch::new(&Load::Closed, &limits(Some(Duration::from_secs(3600))), 0..1, 1);
        assert!(!watch.is_stalled(1, SECOND) && !watch.is_stalled(1, 3000 * SECOND));
    }

    #[test]
    fn a_pause_of_the_schedule_is_no_standstill() {
        let load = Load::Open(Schedule::Constant { rate: 0.01 });
        let mut begun = watch(&load);
        assert!(!begun.is_stalled(2, SECOND));
        assert!(!begun.is_stalled(2, 90 * SECOND), "the next one is due after 100 s");
        let mut begun = watch(&load);
        assert!(!begun.is_stalled(2, 50 * SECOND));
        assert!(begun.is_stalled(2, 120 * SECOND), "one was due after 100 s");
    }

    #[test]
    fn a_silence_of_chance_is_no_standstill() {
        let load = Load::Open(Schedule::Poisson { rate: 0.1, seed: 1 });
        let mut begun = watch(&load);
        assert!(!begun.is_stalled(2, SECOND));
        assert!(!begun.is_stalled(2, 190 * SECOND), "fewer than 20 were to be expected");
        assert!(begun.is_stalled(2, 202 * SECOND));
    }

    #[test]
    fn a_share_stands_still_by_its_own_messages() {
        // One of ten producers: its messages are due after 90 s, 190 s, 290 s.
        let load = Load::Open(Schedule::Constant { rate: 0.1 });
        let share = || StallWatch::new(&load, &limits(None), 9..10, 10);
        let mut begun = share();
        assert!(!begun.is_stalled(2, 91 * SECOND));
        assert!(!begun.is_stalled(2, 189 * SECOND), "the others have messages due, this one has none");
        let mut begun = share();
        assert!(!begun.is_stalled(2, 150 * SECOND));
        assert!(begun.is_stalled(2, 211 * SECOND), "one was due after 190 s");
        let load = Load::Open(Schedule::Poisson { rate: 1.0, seed: 1 });
        let mut begun = StallWatch::new(&load, &limits(None), 9..10, 10);
        assert!(!begun.is_stalled(2, SECOND));
        assert!(!begun.is_stalled(2, 190 * SECOND), "fewer than 20 of its own were to be expected");
        assert!(begun.is_stalled(2, 211 * SECOND));
    }
}
