//! Samples the recorders once a second, or more often in a short trial, while other things are waited for.
//!
//! A checkpoint is the trial as if it had ended now: what is left of it when the process is killed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout};

use super::broker_watch::BrokerWatch;
use super::collector::{Collector, PipelineProgress, Sample, Totals};
use super::observer::{Observer, Phase, SAMPLE_INTERVAL};
use super::outcome::{GroupOutcome, Outcome};
use super::prepare::TrialContext;
use super::send::TrialWindow;
use crate::broker::{Broker, Topic};
use crate::measure::host::HostSampler;
use crate::measure::{Arrivals, Arrived};
use crate::pipeline::Pipeline;

/// Into how many parts a short window is divided, so that its steadiness can be judged.
const MIN_SAMPLES: u32 = 10;

/// Time between samples while a window of unknown length is still short.
const EARLY_SAMPLE_INTERVAL: Duration = Duration::from_millis(500);
const EARLY: Duration = Duration::from_secs(10);

/// The offsets that the next messages of `topic` will have; `None`: the broker has no offsets, or did not answer in time.
pub(super) async fn end_offsets(broker: &impl Broker, topic: &Topic) -> Option<Vec<u64>> {
    broker.end_offsets(topic)?.await
}

/// When samples are taken.
#[derive(Debug, Clone)]
pub(super) struct SamplingTimes {
    next: Instant,
    /// Where the schedule's segments end, in their order: a sample is taken at each.
    ends_of_segments: VecDeque<Instant>,
    measure_start: Instant,
    /// How long the window will be, where that is known.
    window: Option<Duration>,
}

impl SamplingTimes {
    /// Of a load that begins at `load_start` and is measured from `measure_start` on.
    pub fn new(
        load_start: std::time::Instant,
        measure_start: std::time::Instant,
        window: Option<Duration>,
        ends_of_segments: impl Iterator<Item = std::time::Instant>,
    ) -> Self {
        let measure_start = Instant::from_std(measure_start);
        let is_inside = |end: &Instant| window.is_none_or(|window| *end < measure_start + window);
        let ends_of_segments = ends_of_segments.map(Instant::from_std).filter(is_inside).collect();
        let next = Instant::from_std(load_start);
        let mut sampling_times = SamplingTimes { next, ends_of_segments, measure_start, window };
        sampling_times.go_on_from(next);
        sampling_times
    }

    /// The next sample is due one pause after this moment. Where the window ends, the engine takes one itself: a checkpoint of another one at that
    /// moment would make the window longer.
    fn go_on_from(&mut self, moment: Instant) {
        self.next = moment + self.pause_after(moment);
        if self.window.is_some_and(|window| self.next == self.measure_start + window) {
            self.next += self.pause_after(self.next);
        }
    }

    fn pause_after(&self, now: Instant) -> Duration {
        match self.window {
            _ if now < self.measure_start => SAMPLE_INTERVAL,
            Some(window) => (window / MIN_SAMPLES).clamp(POLL, SAMPLE_INTERVAL),
            None if now < self.measure_start + EARLY => EARLY_SAMPLE_INTERVAL,
            None => SAMPLE_INTERVAL,
        }
    }

    /// Time from one sample to the next, at the moment.
    fn length(&self) -> Duration {
        // Of the row that ends now: the next sample is one such pause away, or closer.
        self.pause_after(self.next - Duration::from_nanos(1))
    }

    /// Resolves when a sample is due. Cancel-safe.
    async fn due(&mut self) {
        let end_of_segment = self.ends_of_segments.front().copied();
        tokio::time::sleep_until(end_of_segment.map_or(self.next, |end| end.min(self.next))).await;
        self.advance(Instant::now());
    }

    /// The sample that was due is taken `now`.
    fn advance(&mut self, now: Instant) {
        if let Some(end) = self.ends_of_segments.front().copied().filter(|end| *end <= now) {
            // Samples begin again here, so that the rows of a segment are whole.
            self.ends_of_segments.pop_front();
            self.next = end;
        }
        self.go_on_from(self.next);
        if self.next <= now {
            self.go_on_from(now);
        }
    }

    /// A sample was taken when the window began: the next ones count from there.
    pub fn begin_window(&mut self) {
        self.go_on_from(self.measure_start);
    }
}

/// How often a wait checks whether it has ended.
pub(super) const POLL: Duration = Duration::from_millis(5);

/// Samples all recorders of a trial for an observer.
pub(super) struct Sampler<'a, B> {
    pub collector: Collector,
    pub observer: &'a mut dyn Observer,
    pub pipeline: Option<Pipeline>,
    checkpoints: Checkpoints<'a>,
    broker: &'a B,
    watch: BrokerWatch,
    pub sampling_times: SamplingTimes,
    /// What the pipeline reads.
    topic: &'a Topic,
    /// A question for the topic's ends that has not been answered.
    asked: Option<BoxFuture<'a, Option<Vec<u64>>>>,
    /// The latest answer: ends only grow.
    ends: Option<Vec<u64>>,
    /// Consumer lag at the latest answer, until it is reported.
    consumer_lag: Option<u64>,
}

impl<'a, B: Broker> Sampler<'a, B> {
    /// Takes samples in this sampling_times.
    pub fn begin(
        collector: Collector,
        broker: &'a B,
        observer: &'a mut dyn Observer,
        pipeline: Option<Pipeline>,
        checkpoints: Checkpoints<'a>,
        topic: &'a Topic,
        sampling_times: SamplingTimes,
    ) -> Self {
        let watch = BrokerWatch::begin(&checkpoints.trial.scenario.watch);
        Sampler {
            collector,
            observer,
            pipeline,
            checkpoints,
            broker,
            watch,
            sampling_times,
            topic,
            asked: None,
            ends: None,
            consumer_lag: None,
        }
    }

    /// Samples everything.
    pub fn sample(&mut self, phase: Phase) {
        let sample = self.next_sample(phase);
        self.checkpoints.trial.faults.news().iter().for_each(|news| self.observer.fault(news));
        self.observer.conditions(&self.checkpoints.trial.conditions.lasting());
        self.collector.intended_length_ns = self.sampling_times.length().as_nanos() as u64;
        self.collector.sample(sample, self.observer);
        if self.observer.wants_topics() {
            self.observer.topics(&self.checkpoints.trial.progress_by_topic());
        }
        self.checkpoints.passed(phase);
        if self.observer.wants_checkpoint() {
            self.collector.lend_totals(|totals| {
                let outcome = self.checkpoints.outcome(totals, self.pipeline.as_ref(), self.broker);
                self.observer.checkpoint(&outcome);
                outcome.totals
            });
        }
    }

    /// Looks at the broker and the pipeline. The pipeline's consumer lag is reported once, for it belongs to the moment of the request.
    fn next_sample(&mut self, phase: Phase) -> Sample {
        let consumer_lag = self.consumer_lag.take();
        let finished = self.pipeline.as_ref().map(Pipeline::finished);
        let pipeline = finished.map(|finished| PipelineProgress { finished, consumer_lag });
        self.collector.broker_use = self.watch.look(phase);
        self.collector.faults = self.checkpoints.trial.faults.begun();
        self.collector.watched(self.watch.usage());
        Sample { phase, telemetry: self.broker.telemetry(), pipeline }
    }

    /// Resolves when a sample is due. With a pipeline, that is when the broker has answered with the topic's end offsets, or a
    /// second later. Cancel-safe.
    pub async fn is_due(&mut self) {
        if self.asked.is_none() {
            self.sampling_times.due().await;
            if self.pipeline.is_none() {
                return;
            }
        }
        let asked = self.asked.get_or_insert_with(|| end_offsets(self.broker, self.topic).boxed());
        tokio::select! {
            biased;
            ends = asked => self.answered(ends),
            () = self.sampling_times.due() => {}
        }
    }

    /// The pipeline's consumer lag; `None`: the broker does not report end offsets, or there is no pipeline.
    pub async fn measure_consumer_lag(&mut self) -> Option<u64> {
        self.consumer_lag = None;
        if self.pipeline.is_some() {
            let asked = self.asked.get_or_insert_with(|| end_offsets(self.broker, self.topic).boxed());
            if let Ok(ends) = timeout(SAMPLE_INTERVAL, asked).await {
                self.answered(ends);
            }
        }
        self.consumer_lag
    }

    /// Whether the pipeline has not even reached the ends of a while ago.
    pub fn is_known_to_be_behind(&self) -> bool {
        let behind = self.pipeline.as_ref().and_then(|pipeline| pipeline.consumer_lag(self.ends.as_deref()));
        behind.is_some_and(|consumer_lag| consumer_lag > 0)
    }

    /// Takes the last sample: outcomes that come later stay unresolved.
    pub fn close(mut self, phase: Phase) -> (Totals, Option<Pipeline>) {
        let sample = self.next_sample(phase);
        let totals = self.collector.close(sample, self.observer);
        (totals, self.pipeline)
    }

    /// Waits a little, and takes a sample if one is due.
    pub async fn wait(&mut self, phase: Phase) {
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = self.is_due() => self.sample(phase),
        }
    }

    fn answered(&mut self, ends: Option<Vec<u64>>) {
        self.asked = None;
        self.ends = ends;
        self.consumer_lag = self.pipeline.as_ref().and_then(|pipeline| pipeline.consumer_lag(self.ends.as_deref()));
    }
}

/// What is needed besides the collector's totals.
pub(super) struct Checkpoints<'a> {
    trial: &'a TrialContext<'a>,
    trial_window: Arc<TrialWindow>,
    /// Resources used in the measured phase and what follows.
    usage: HostSampler,
    /// When the load was last seen going on, in nanoseconds since the trial's epoch.
    loaded_until_ns: u64,
}

impl<'a> Checkpoints<'a> {
    pub fn new(trial: &'a TrialContext<'a>, trial_window: Arc<TrialWindow>) -> Self {
        let loaded_until_ns = trial_window.load_start_ns;
        Checkpoints { trial, trial_window, usage: HostSampler::begin_without_probe(), loaded_until_ns }
    }

    /// A second of `phase` has passed.
    pub fn passed(&mut self, phase: Phase) {
        if phase == Phase::WarmUp {
            // The last second of the warm-up ends when the measured phase begins.
            self.usage = HostSampler::begin_without_probe();
        }
        if matches!(phase, Phase::WarmUp | Phase::Measure) {
            self.loaded_until_ns = self.trial_window.clock().now_ns();
        }
    }

    fn outcome<B: Broker>(&self, totals: Totals, pipeline: Option<&Pipeline>, broker: &B) -> Outcome {
        let (trial, ended_ns) = (self.trial, self.loaded_until_ns);
        let usage = self.usage.usage();
        Outcome {
            // A share does not know what others sent.
            groups: trial.arrivals.as_ref().filter(|_| trial.scenario.part.is_none()).map(groups).unwrap_or_default(),
            pipeline: pipeline.map(|pipeline| pipeline.so_far(None)),
            ..Outcome::so_far(trial, &self.trial_window, ended_ns, totals, usage, broker.identity())
        }
    }
}

/// What the groups have so far: what is still on its way is unread.
fn groups(arrivals: &Arrivals) -> Vec<GroupOutcome> {
    let Some(verification) = arrivals.verification() else { return Vec::new() };
    let so_far = |(group, arrived): (usize, Arrived)| GroupOutcome {
        arrived,
        account: verification.account(group, |_| 0),
        consumer_lag_at_load_end: None,
    };
    arrivals.groups().into_iter().enumerate().map(so_far).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn no_sample_is_due_where_the_window_ends() {
        let load_start = std::time::Instant::now();
        let at = |milliseconds: u32| load_start + MILLISECOND * milliseconds;
        let due = |segments: &[u32]| {
            let ends = segments.iter().copied().map(at);
            let mut times = SamplingTimes::new(load_start, load_start, Some(MILLISECOND * 1000), ends);
            let taken = (0..10).map(|_| {
                let now = times.ends_of_segments.front().map_or(times.next, |end| times.next.min(*end));
                times.advance(now);
                (now.into_std() - load_start).as_millis()
            });
            taken.collect::<Vec<_>>()
        };
        assert_eq!(due(&[]), [100, 200, 300, 400, 500, 600, 700, 800, 900, 1100]);
        assert_eq!(due(&[550, 1000]), [100, 200, 300, 400, 500, 550, 650, 750, 850, 950]);
    }
}
