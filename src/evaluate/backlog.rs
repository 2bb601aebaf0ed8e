//! The record's account of a backlog, and of what single groups were told to do.

use super::figures::{independent, per_second};
use crate::engine::{self, BacklogOutcome, Outcome, Segment};
use crate::record::{Backlog, BacklogPhase, GroupDrain, GroupTask, WorkDistribution};
use crate::scenario::{ConsumerGroup, Trial, WorkLaw};

/// `None` where the scenario does not ask for a backlog.
pub(super) fn backlog(trial: &Trial, outcome: &Outcome) -> Option<Backlog> {
    trial.scenario.consumers.as_ref()?.backlog?;
    let built = outcome.backlog.as_ref();
    let mut phases = outcome.totals.stretches.iter().map(phase);
    Some(Backlog {
        messages: built.map(|built| built.messages),
        payload_bytes: built.map(|built| built.payload_bytes),
        build: phases.next()?,
        drain: phases.next(),
        after: phases.next(),
        groups: built.map(groups).unwrap_or_default(),
    })
}

fn phase(stretch: &Segment) -> BacklogPhase {
    let per_second = |count| per_second(count, stretch.length_ns);
    BacklogPhase {
        begin_ns: stretch.begin_ns,
        duration_ns: stretch.length_ns,
        sent_per_second: per_second(stretch.attempted),
        messages_per_second: per_second(stretch.acknowledged),
        consumed_per_second: per_second(stretch.consumed),
        response: independent(&stretch.response, stretch.moments),
    }
}

fn groups(built: &BacklogOutcome) -> Vec<GroupDrain> {
    let drain = |(group, drain): (usize, &engine::GroupDrain)| {
        let duration_ns = drain.drained_ns.zip(drain.first_arrival_ns).map(|(end, begin)| end - begin);
        GroupDrain {
            group,
            first_arrival_ns: drain.first_arrival_ns.map(|at_ns| at_ns - built.built_ns),
            duration_ns,
            received: drain.received,
            behind: drain.behind,
            received_per_second: duration_ns.filter(|ns| *ns > 0).map(|ns| per_second(drain.received, ns)),
        }
    };
    built.groups.iter().enumerate().map(drain).collect()
}

/// `None`: to receive as fast as it can, from before the load on.
pub(super) fn task(group: &ConsumerGroup) -> Option<GroupTask> {
    let task = GroupTask {
        work_mean_ns: group.work.map(|work| work.mean.as_nanos() as u64),
        work_distribution: group.work.map(|work| match work.law {
            WorkLaw::Fixed => WorkDistribution::Fixed,
            WorkLaw::Exponential => WorkDistribution::Exponential,
            WorkLaw::Lognormal { .. } => WorkDistribution::Lognormal,
            WorkLaw::Pareto { .. } => WorkDistribution::Pareto,
        }),
        rate_limit_per_second: group.rate,
        start_after_ns: (!group.start_after.is_zero()).then_some(group.start_after.as_nanos() as u64),
    };
    (task != GroupTask::default()).then_some(task)
}
