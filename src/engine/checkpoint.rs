//! The trial as if it had ended now: what is left of it when the process is killed.

use std::sync::Arc;

use super::collector::{Collector, Totals};
use super::context::TrialContext;
use super::observer::{Phase, TopicProgress};
use super::outcome::{End, GroupOutcome, Ledger, Outcome, PayloadSizes, Times};
use super::send::{Attempted, Pacer, Sent, TrialWindow};
use crate::broker::Broker;
use crate::measure::host::HostSampler;
use crate::measure::{Arrivals, Arrived, Errors};
use crate::pipeline::Pipeline;
use crate::scenario::Watch;

/// What is needed besides the collector's totals.
pub(super) struct Checkpoints<'a> {
    trial: &'a TrialContext<'a>,
    trial_window: Arc<TrialWindow>,
    pacer: Option<Arc<Pacer>>,
    /// Resources used in the measured phase and what follows.
    usage: HostSampler,
    /// When the load was last seen going on, in nanoseconds since the trial's epoch.
    loaded_until_ns: u64,
}

impl<'a> Checkpoints<'a> {
    pub fn new(trial: &'a TrialContext<'a>, trial_window: Arc<TrialWindow>, pacer: Option<Arc<Pacer>>) -> Self {
        let loaded_until_ns = trial_window.load_start_ns;
        Checkpoints { trial, trial_window, pacer, usage: HostSampler::begin_without_probe(), loaded_until_ns }
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

    /// What is watched of the broker.
    pub fn watch(&self) -> &Watch {
        &self.trial.scenario.watch
    }

    /// Where each topic is.
    pub fn topics(&self) -> Vec<TopicProgress> {
        self.trial.progress_by_topic()
    }

    /// Lends the trial so far to `report`.
    pub fn take<B: Broker>(
        &self,
        collector: &mut Collector,
        pipeline: Option<&Pipeline>,
        broker: &B,
        report: impl FnOnce(&Outcome),
    ) {
        collector.lend_totals(|totals| {
            let outcome = self.outcome(totals, pipeline, broker);
            report(&outcome);
            outcome.totals
        });
    }

    fn outcome<B: Broker>(&self, totals: Totals, pipeline: Option<&Pipeline>, broker: &B) -> Outcome {
        let (trial, trial_window) = (self.trial, &self.trial_window);
        let sent = Sent::by_windows(&trial.acks);
        let mut attempted = Attempted::default();
        sent.iter().for_each(|sent| attempted.add(sent.attempted));
        Outcome {
            end: End::Running,
            started_at: trial.started_at,
            planned_unix_ns: trial.identity.begins_at_unix_ns(),
            topics: trial.topics.clone(),
            messages_before: trial.messages_before,
            payload_sizes: PayloadSizes::from_pool(&trial.payloads),
            durability: trial.durability.clone(),
            ledger: Ledger::so_far(attempted, &totals.outcomes),
            sent,
            times: Times {
                load_start_ns: trial_window.load_start_ns,
                first_sent: trial_window.first_sent(),
                measure_start_ns: trial_window.measure_start_ns,
                load_ended_ns: self.loaded_until_ns,
                load_end_ns: trial_window.nominal_end_ns(),
                epoch_unix_ns: trial.acks.clock().epoch_unix_ns(),
            },
            totals,
            // A share does not know what others sent.
            groups: trial.arrivals.as_ref().filter(|_| trial.scenario.part.is_none()).map(groups).unwrap_or_default(),
            // Recorders would have to wait while it is read.
            partitions: None,
            consumers: trial.arrivals.as_ref().map(Arrivals::consumers).unwrap_or_default(),
            part: None,
            // Consumers hand over what they met when they end.
            receive_errors: Errors::default(),
            consumer_crashes: Vec::new(),
            crash: None,
            failure: None,
            pipeline: pipeline.map(|pipeline| pipeline.so_far(None)),
            backlog: None,
            wake_up_delays: self.pacer.as_ref().map(|pacer| pacer.delays()),
            usage: self.usage.usage(),
            identity: broker.identity(),
            close_error: None,
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
