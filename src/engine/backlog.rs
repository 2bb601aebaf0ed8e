//! The phases of a backlog: it is built before any consumer begins, and drained while the producers go on at their rate.
//!
//! OpenMessaging Benchmark has the same two phases (`consumerBacklogSizeGB`, `WorkloadGenerator.buildAndDrainBacklog`), in which it
//! pauses consumers that have subscribed. Here they join only when the backlog is there, so that none of it waits in a client.

use super::context::TrialContext;
use super::observer::Phase;
use super::outcome::{BacklogOutcome, GroupDrain};
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
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::engine::receive::Pace;
    use crate::load::WorkTimes;
    use crate::scenario::{Work, WorkLaw};

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn group_has_caught_up_when_it_misses_only_the_latest() {
        let backlog = Backlog { messages: 5_000, caught_up_within: Duration::from_millis(100) };
        let schedule = Schedule::Constant { rate: 1_000.0 };
        let caught_up_at = tail(&schedule, 6 * SECOND, &backlog);
        assert_eq!(caught_up_at, 100);
        let mut group = GroupDrain::default();
        let received = |first| GroupProgress { first, ..GroupProgress::default() };
        group.look(received(0), 6_000, caught_up_at, 6 * SECOND);
        assert_eq!(group, GroupDrain::default(), "its consumers have not begun");
        group.look(received(4_000), 6_000, caught_up_at, 6 * SECOND);
        group.look(received(5_999), 6_100, caught_up_at, 6 * SECOND + 1);
        assert_eq!((group.drained_ns, group.behind), (None, 101));
        group.look(received(6_100), 6_200, caught_up_at, 6 * SECOND + 2);
        group.look(received(6_150), 6_400, caught_up_at, 6 * SECOND + 3);
        let expected = GroupDrain {
            first_arrival_ns: Some(6 * SECOND),
            drained_ns: Some(6 * SECOND + 2),
            received: 6_100,
            behind: 100,
        };
        assert_eq!(group, expected, "what comes later is no part of the backlog");
    }

    /// Messages that come at `rate` while a consumer works `work_us` on each, from a backlog on: simulated, looked at as a trial looks.
    fn drained(rate: f64, work_us: u64, messages: u64) -> GroupDrain {
        let schedule = Schedule::Constant { rate };
        let backlog = Backlog { messages, caught_up_within: Duration::from_millis(100) };
        let work = Work { mean: Duration::from_micros(work_us), law: WorkLaw::Fixed, seed: 1 };
        let mut pace = Pace::new(Some(WorkTimes::new(&work, 0)), None);
        let mut now_ns = (messages as f64 / rate * 1e9) as u64;
        let (mut group, mut progress) = (GroupDrain::default(), GroupProgress::default());
        pace.waited_until(now_ns);
        while group.drained_ns.is_none() {
            let acknowledged = schedule.count_until(Duration::from_nanos(now_ns));
            while pace.next_ns() <= now_ns && progress.first < acknowledged {
                pace.begin().next_message();
                progress.first += 1;
            }
            group.look(progress, acknowledged, tail(&schedule, now_ns, &backlog), now_ns);
            now_ns += POLL.as_nanos() as u64;
        }
        group
    }

    #[test]
    fn a_backlog_drains_in_the_time_that_arithmetic_says() {
        for (rate, work_us, messages) in [(1_000.0, 500, 2_000), (10_000.0, 20, 50_000), (300.0, 3_000, 5_000)] {
            let group = drained(rate, work_us, messages);
            let took = (group.drained_ns.unwrap() - group.first_arrival_ns.unwrap()) as f64 / 1e9;
            let expected = (messages - group.behind) as f64 / (1e6 / work_us as f64 - rate);
            assert!((took / expected - 1.0).abs() < 0.02, "{took} s instead of {expected} s: {group:?}");
        }
    }
}
