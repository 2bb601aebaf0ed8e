//! Looks at the recorders once a second, whatever else is waited for.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, Interval, MissedTickBehavior, timeout};

use super::checkpoint::Checkpoints;
use super::collector::{Collector, Standing};
use super::observer::{Observer, Phase};
use crate::broker::{Broker, Topic};
use crate::pipeline::Pipeline;

/// How often is looked.
const LOOK: Duration = Duration::from_secs(1);

/// How often the end of a wait is looked for.
pub(super) const POLL: Duration = Duration::from_millis(5);

/// Who looks, at what, and for whom.
pub(super) struct Look<'a, B> {
    pub collector: Collector,
    pub observer: &'a mut dyn Observer,
    pub pipeline: Option<Pipeline>,
    checkpoints: Checkpoints<'a>,
    broker: &'a B,
    ticks: Interval,
    /// What the pipeline reads.
    topic: &'a Topic,
    /// A question for the topic's ends that has not been answered.
    asked: Option<BoxFuture<'a, Option<Vec<u64>>>>,
    /// The latest answer: ends only grow.
    ends: Option<Vec<u64>>,
    /// How far the pipeline was behind when the latest question was answered, until that is told.
    lag: Option<u64>,
}

impl<'a, B: Broker> Look<'a, B> {
    /// Looks every second from `load_start` on.
    pub fn begin(
        collector: Collector,
        broker: &'a B,
        observer: &'a mut dyn Observer,
        pipeline: Option<Pipeline>,
        checkpoints: Checkpoints<'a>,
        topic: &'a Topic,
        load_start: std::time::Instant,
    ) -> Self {
        let mut ticks = tokio::time::interval_at(Instant::from_std(load_start) + LOOK, LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Look { collector, observer, pipeline, checkpoints, broker, ticks, topic, asked: None, ends: None, lag: None }
    }

    /// Looks at everything.
    pub fn look(&mut self, phase: Phase) {
        let standing = self.standing();
        self.collector.look(phase, self.broker, standing, self.observer);
        self.checkpoints.passed(phase);
        if self.observer.wants_checkpoint() {
            let tell = |so_far: &_| self.observer.checkpoint(so_far);
            self.checkpoints.take(&mut self.collector, self.pipeline.as_ref(), self.broker, tell);
        }
    }

    /// Where the pipeline stands. Its lag is told once: it is that of the moment at which it was asked for.
    pub fn standing(&mut self) -> Option<Standing> {
        let lag = self.lag.take();
        self.pipeline.as_ref().map(|pipeline| Standing { finished: pipeline.finished(), lag })
    }

    /// Resolves when it is time to look. Of a pipeline that is when the broker has said where its topic ends; one that has
    /// not said so a second later is not waited for. Nothing is lost when this is dropped before.
    pub async fn is_due(&mut self) {
        if self.asked.is_none() {
            self.ticks.tick().await;
            if self.pipeline.is_none() {
                return;
            }
        }
        let asked = self.asked.get_or_insert_with(|| self.broker.ends(self.topic).boxed());
        tokio::select! {
            biased;
            ends = asked => self.answered(ends),
            _ = self.ticks.tick() => {}
        }
    }

    /// How far the pipeline is behind; `None`: the broker does not say, or there is no pipeline.
    pub async fn measure_lag(&mut self) -> Option<u64> {
        self.lag = None;
        if self.pipeline.is_some() {
            let asked = self.asked.get_or_insert_with(|| self.broker.ends(self.topic).boxed());
            if let Ok(ends) = timeout(LOOK, asked).await {
                self.answered(ends);
            }
        }
        self.lag
    }

    /// Whether the pipeline has not even reached the ends of a while ago.
    pub fn is_known_to_be_behind(&self) -> bool {
        let behind = self.pipeline.as_ref().and_then(|pipeline| pipeline.lag(self.ends.as_deref()));
        behind.is_some_and(|lag| lag > 0)
    }

    /// Waits a little, and looks if it is time to.
    pub async fn wait(&mut self, phase: Phase) {
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = self.is_due() => self.look(phase),
        }
    }

    fn answered(&mut self, ends: Option<Vec<u64>>) {
        self.asked = None;
        self.ends = ends;
        self.lag = self.pipeline.as_ref().and_then(|pipeline| pipeline.lag(self.ends.as_deref()));
    }
}
