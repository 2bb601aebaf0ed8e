//! The phases of a backlog: it is built before any consumer begins, and drained while the producers go on at their rate.
//!
//! OpenMessaging Benchmark has the same two phases (`consumerBacklogSizeGB`, `WorkloadGenerator.buildAndDrainBacklog`), in which it
//! pauses consumers that have subscribed. Here they join only when the backlog is there, so that none of it waits in a client.

use super::observer::Phase;
use super::outcome::{BacklogOutcome, GroupDrain};
use super::prepare::TrialContext;
use super::receive::StartSignal;
use super::sampler::{POLL, Sampler};
use crate::broker::Broker;
use crate::measure::GroupProgress;
use crate::scenario::{Backlog, Load, Schedule};

/// Watches a backlog grow and shrink, during the measured window.
pub(super) struct BacklogWatch<'a> {
    context: &'a TrialContext<'a>,
    backlog: Backlog,
    schedule: &'a Schedule,
    load_start_ns: u64,
    start: StartSignal,
    is_drained: bool,
    outcome: Option<BacklogOutcome>,
}

impl<'a> BacklogWatch<'a> {
    /// Of a trial whose consumers are to find a backlog; they begin at `start`.
    pub fn new(context: &'a TrialContext<'a>, load_start_ns: u64, start: StartSignal) -> Option<Self> {
        let backlog = context.scenario.consumers.as_ref()?.backlog?;
        let Load::Open(schedule) = &context.scenario.load else { return None };
        Some(BacklogWatch { context, backlog, schedule, load_start_ns, start, is_drained: false, outcome: None })
    }

    /// Resolves when the backlog is to be looked at again. Cancel-safe.
    pub async fn is_due(watch: Option<&Self>) {
        match watch {
            Some(watch) if !watch.is_drained => tokio::time::sleep(POLL).await,
            _ => std::future::pending().await,
        }
    }

    /// The measured window begins, and with it what counts of the building.
    pub fn begin<B: Broker>(watch: Option<&Self>, sampler: &mut Sampler<'_, B>) {
        if watch.is_some() {
            sampler.collector.begin_stretch();
        }
    }

    /// Looks how far it is. A sample is taken where one phase ends and the next begins.
    pub fn look<B: Broker>(&mut self, sampler: &mut Sampler<'_, B>) {
        let (acks, now_ns) = (&self.context.acks, self.since_load_start_ns());
        let acknowledged = acks.resolved().saturating_sub(sampler.collector.failed());
        match &mut self.outcome {
            None if acknowledged >= self.backlog.messages => self.begin_drain(sampler),
            None => {}
            Some(outcome) => {
                let caught_up_at = tail(self.schedule, now_ns, &self.backlog);
                let progress = self.context.arrivals.as_ref().map(|arrivals| arrivals.progress()).unwrap_or_default();
                for (group, progress) in outcome.groups.iter_mut().zip(&progress) {
                    group.look(*progress, acknowledged, caught_up_at, now_ns);
                }
                if outcome.groups.iter().all(|group| group.drained_ns.is_some()) {
                    self.is_drained = true;
                    sampler.sample(Phase::Measure);
                    sampler.collector.begin_stretch();
                }
            }
        }
    }

    fn begin_drain<B: Broker>(&mut self, sampler: &mut Sampler<'_, B>) {
        // Failures since the last sample are known only now.
        sampler.sample(Phase::Measure);
        if sampler.collector.acknowledged() < self.backlog.messages {
            return;
        }
        let groups = self.context.arrivals.as_ref().map_or(0, |arrivals| arrivals.progress().len());
        self.outcome = Some(BacklogOutcome {
            built_ns: self.since_load_start_ns(),
            messages: sampler.collector.acknowledged(),
            payload_bytes: sampler.collector.payload_bytes(),
            groups: vec![GroupDrain::default(); groups],
        });
        sampler.collector.begin_stretch();
        self.start.open();
    }

    fn since_load_start_ns(&self) -> u64 {
        self.context.acks.clock().now_ns().saturating_sub(self.load_start_ns)
    }

    /// What became of the backlog; `None`: it was not built.
    pub fn outcome(self) -> Option<BacklogOutcome> {
        self.outcome
    }
}

impl GroupDrain {
    fn look(&mut self, progress: GroupProgress, acknowledged: u64, caught_up_at: u64, now_ns: u64) {
        if self.drained_ns.is_some() || progress.first == 0 {
            return;
        }
        self.first_arrival_ns.get_or_insert(now_ns);
        self.received = progress.first;
        self.behind = acknowledged.saturating_sub(progress.first);
        if self.behind <= caught_up_at {
            self.drained_ns = Some(now_ns);
        }
    }
}

/// How many messages a group may miss that has caught up.
fn tail(schedule: &Schedule, now_ns: u64, backlog: &Backlog) -> u64 {
    let now = std::time::Duration::from_nanos(now_ns);
    let earlier = now.saturating_sub(backlog.caught_up_within);
    (schedule.count_until(now) - schedule.count_until(earlier)).max(1)
}

#[cfg(test)]
#[path = "../../tests/unit/engine/backlog.rs"]
mod tests;
