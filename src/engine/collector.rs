//! Looks at all recorders once a second and adds up what they saw.

use super::observer::{Observer, Phase, Second};
use crate::broker::{Broker, Telemetry};
use crate::measure::host::HostSampler;
use crate::measure::{Acks, Arrivals, Interval, Reception};

/// Adds up a trial, second by second.
pub struct Collector {
    acks: Acks,
    arrivals: Option<Arrivals>,
    open_loop: bool,
    /// Whether repetitions are told from first arrivals.
    verified: bool,
    load_start_ns: u64,
    last_ns: u64,
    last_submitted: u64,
    /// What the pipeline had finished at the last look.
    last_finished: u64,
    host: HostSampler,
    interval: Interval,
    reception: Reception,
    spare_interval: Interval,
    spare_reception: Reception,
    totals: Totals,
}

/// Where a pipeline stands: messages it has finished so far, and how many it is behind.
#[derive(Debug, Clone, Copy)]
pub struct Standing {
    pub finished: u64,
    pub lag: Option<u64>,
}

/// What a trial came to.
#[derive(Default)]
pub struct Totals {
    pub outcomes: Interval,
    pub arrivals: Reception,
    /// All of them, which the verdict needs: under 20 MB after a day.
    pub seconds: Vec<Second>,
    pub telemetry: Telemetry,
}

impl Collector {
    pub fn new(acks: Acks, arrivals: Option<Arrivals>, open_loop: bool, load_start_ns: u64) -> Self {
        Collector {
            acks,
            verified: arrivals.as_ref().is_some_and(|arrivals| arrivals.verification().is_some()),
            arrivals,
            open_loop,
            load_start_ns,
            last_ns: load_start_ns,
            last_submitted: 0,
            last_finished: 0,
            host: HostSampler::begin(),
            interval: Interval::default(),
            reception: Reception::default(),
            spare_interval: Interval::default(),
            spare_reception: Reception::default(),
            totals: Totals::default(),
        }
    }

    /// Takes what has come since the last look and tells `observer`.
    pub fn look(
        &mut self,
        phase: Phase,
        broker: &impl Broker,
        pipeline: Option<Standing>,
        observer: &mut dyn Observer,
    ) {
        self.acks.collect(&mut self.interval, &mut self.spare_interval);
        self.account(phase, broker.telemetry(), pipeline, observer);
    }

    /// The last look: what comes later stays unresolved.
    pub fn close(
        mut self,
        phase: Phase,
        broker: &impl Broker,
        pipeline: Option<Standing>,
        observer: &mut dyn Observer,
    ) -> Totals {
        self.acks.close(&mut self.interval, &mut self.spare_interval);
        self.account(phase, broker.telemetry(), pipeline, observer);
        self.totals
    }

    /// Lends the totals so far.
    pub fn lend_totals(&mut self, look: impl FnOnce(Totals) -> Totals) {
        self.totals = look(std::mem::take(&mut self.totals));
    }

    /// Messages acknowledged so far, warm-up included.
    pub fn acknowledged(&self) -> u64 {
        self.totals.outcomes.measured.acknowledged + self.totals.outcomes.warm_up.acknowledged
    }

    fn account(&mut self, phase: Phase, telemetry: Telemetry, pipeline: Option<Standing>, observer: &mut dyn Observer) {
        if let Some(arrivals) = &self.arrivals {
            arrivals.collect(&mut self.reception, &mut self.spare_reception);
        }
        let second = self.second(phase, telemetry, pipeline);
        observer.second(&second, &self.interval, &self.reception);
        self.totals.seconds.push(second);
        self.totals.outcomes.merge(&self.interval);
        self.totals.arrivals.merge(&self.reception);
        self.totals.telemetry = merged(self.totals.telemetry, telemetry, phase);
        self.interval.clear();
        self.reception.clear();
    }

    fn second(&mut self, phase: Phase, telemetry: Telemetry, pipeline: Option<Standing>) -> Second {
        let now_ns = self.acks.clock().now_ns().max(self.last_ns + 1);
        let submitted = self.acks.submitted();
        let (interval, reception) = (&self.interval, &self.reception);
        let headline = if self.open_loop { &interval.response } else { &interval.service };
        let at = |quantile| (!headline.is_empty()).then(|| headline.histogram().value_at_quantile(quantile));
        let second = Second {
            phase,
            begin_ns: self.last_ns - self.load_start_ns,
            end_ns: now_ns - self.load_start_ns,
            attempted: submitted.saturating_sub(self.last_submitted),
            acknowledged: interval.measured.acknowledged + interval.warm_up.acknowledged,
            failed: interval.measured.failed + interval.warm_up.failed,
            payload_bytes: interval.measured.payload_bytes + interval.warm_up.payload_bytes,
            consumed: if self.verified { reception.arrived.first } else { reception.arrived.messages },
            finished: pipeline.map(|pipeline| pipeline.finished - self.last_finished),
            lag: pipeline.and_then(|pipeline| pipeline.lag),
            in_flight: self.acks.in_flight(),
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            queue_messages: telemetry.queue_messages,
            cpu_cores: self.host.lap(),
        };
        self.last_ns = now_ns;
        self.last_submitted = submitted;
        self.last_finished = pipeline.map_or(0, |pipeline| pipeline.finished);
        second
    }
}

/// The deepest queue, the latest round trips, all the time that was waited, and what crossed the wire after the warm-up.
fn merged(sum: Telemetry, latest: Telemetry, phase: Phase) -> Telemetry {
    Telemetry {
        queue_messages: sum.queue_messages.max(latest.queue_messages),
        round_trip_p50_ns: latest.round_trip_p50_ns.or(sum.round_trip_p50_ns),
        round_trip_p99_ns: latest.round_trip_p99_ns.or(sum.round_trip_p99_ns),
        queue_full_ns: sum.queue_full_ns + latest.queue_full_ns,
        wire: match (sum.wire, latest.wire) {
            (sum, _) if phase == Phase::WarmUp => sum,
            (Some(sum), Some(latest)) => Some(sum.plus(latest)),
            (sum, latest) => sum.or(latest),
        },
    }
}
