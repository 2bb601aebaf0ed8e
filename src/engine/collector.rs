//! Adds up the figures of all recorders, sample by sample: for the whole trial, and for stretches of the measured window, which are segments of
//! the schedule or phases of a backlog.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use smallvec::SmallVec;

use super::broker_watch::{BrokerUse, WatchedUsage};
use super::observer::{GroupSecond, Observer, Phase, Second};
use crate::broker::{Telemetry, Wire, known_sum};
use crate::limits::MAX_GROUPS_APART;
use crate::load::ScheduleSegment;
use crate::measure::host::{CpuLaps, resident_memory_bytes};
use crate::measure::{Acks, Arrivals, Distribution, GroupLap, Interval, Reception};
use crate::scenario::{Load, Schedule};

/// Adds up a trial, second by second.
pub struct Collector {
    acks: Acks,
    arrivals: Option<Arrivals>,
    open_loop: bool,
    /// Whether first arrivals are distinguished from repetitions.
    verified: bool,
    load_start_ns: u64,
    last_ns: u64,
    /// Time from one sample to the next, unless a phase ends in between.
    pub intended_length_ns: u64,
    /// Whether the window ends with the last arrival.
    pub ends_with_arrivals: bool,
    /// How far groups of consumers are behind.
    pub lag: LagRule,
    /// What the broker's processes use at the sample.
    pub broker_use: BrokerUse,
    /// Commands of faults that began since the last sample.
    pub faults: Vec<String>,
    last_submitted: u64,
    /// What the pipeline had finished at the last sample.
    last_finished: u64,
    cpu: CpuLaps,
    interval: Interval,
    reception: Reception,
    spare_interval: Interval,
    spare_reception: Reception,
    totals: Totals,
    schedule: Option<Schedule>,
    /// When nothing more is intended, since the load began.
    nominal_end_ns: Option<u64>,
    /// What is left of the schedule's segments, in their order.
    segments: VecDeque<ScheduleSegment>,
    /// The first segment of each result.
    first_segments: Vec<ScheduleSegment>,
}

/// Whether it is known how far groups of consumers are behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LagRule {
    /// They are owed all that was acknowledged.
    #[default]
    Whole,
    /// They are owed what was acknowledged here and elsewhere.
    Divided,
    /// They are not owed every message, or it is not known how many there are.
    Unknown,
}

/// Where a pipeline stands: messages it has finished so far, and how many it is behind.
#[derive(Debug, Clone, Copy)]
pub struct PipelineProgress {
    pub finished: u64,
    pub consumer_lag: Option<u64>,
}

/// What is known at a sample beside what was recorded.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub phase: Phase,
    pub telemetry: Telemetry,
    pub pipeline: Option<PipelineProgress>,
}

/// What a trial came to.
#[derive(Default)]
pub struct Totals {
    pub outcomes: Interval,
    pub arrivals: Reception,
    /// The same of each group, where there are several; empty with more than [`MAX_GROUPS_APART`].
    pub arrivals_by_group: Vec<Reception>,
    /// All of them, which the verdict needs: under 30 MB after a day with one group of consumers, and 100 MB with many.
    pub seconds: Vec<Second>,
    pub telemetry: Telemetry,
    pub window: WindowTotals,
    /// Totals of a schedule that changes its rate: one for each result that its segments belong to, in their order.
    pub segments: Vec<SegmentTotals>,
    /// What was watched of the broker.
    pub broker: Vec<WatchedUsage>,
    /// The phases of a backlog, as far as they have begun.
    pub stretches: Vec<StretchTotals>,
}

/// What happened while the schedule was in one of its segments, and how long the messages took that were intended in it.
#[derive(Debug, Clone)]
pub struct SegmentTotals {
    /// The first of the segments that belong to this result.
    pub segment: ScheduleSegment,
    pub stretch: StretchTotals,
}

/// What happened inside the measured window, to messages of all phases.
#[derive(Debug, Clone, Copy, Default)]
pub struct WindowTotals {
    /// When the window began and ended, in nanoseconds since the load began; both 0: it has not begun.
    pub begin_ns: u64,
    pub end_ns: u64,
    /// Messages handed over, acknowledged and received for the first time, and their payload.
    pub attempted: u64,
    pub acknowledged: u64,
    /// Messages of the warm-up among the acknowledged ones.
    pub acknowledged_of_warm_up: u64,
    pub payload_bytes: u64,
    pub consumed: u64,
    pub queue_full_ns: u64,
    /// Most at once, and their time, as in [`Telemetry`].
    pub connections: u64,
    pub connections_full_ns: u64,
    pub wire: Option<Wire>,
}

impl WindowTotals {
    pub fn length_ns(&self) -> u64 {
        self.end_ns - self.begin_ns
    }

    fn add(&mut self, second: &Second, telemetry: Telemetry) {
        if self.end_ns == 0 {
            self.begin_ns = second.begin_ns;
        }
        self.end_ns = second.end_ns;
        self.attempted += second.attempted;
        self.acknowledged += second.acknowledged;
        self.payload_bytes += second.payload_bytes;
        self.consumed += second.consumed;
        self.queue_full_ns += telemetry.queue_full_ns;
        self.connections = self.connections.max(telemetry.connections);
        self.connections_full_ns += telemetry.connections_full_ns;
        self.wire = known_sum(self.wire, telemetry.wire);
    }
}

impl Collector {
    /// `segments`: those of the load's schedule, if it changes its rate.
    /// `nominal_end_ns`: when nothing more is intended, since the load began, where that is known.
    pub fn new(
        acks: Acks,
        arrivals: Option<Arrivals>,
        load: &Load,
        segments: Vec<ScheduleSegment>,
        load_start_ns: u64,
        nominal_end_ns: Option<u64>,
    ) -> Self {
        let schedule = match load {
            Load::Open(schedule) => Some(schedule.clone()),
            Load::Closed => None,
        };
        let groups = arrivals.as_ref().map_or(0, Arrivals::group_count);
        let groups_apart = if (2..=MAX_GROUPS_APART).contains(&groups) { groups } else { 0 };
        Collector {
            acks,
            verified: arrivals.as_ref().is_some_and(|arrivals| arrivals.verification().is_some()),
            arrivals,
            open_loop: schedule.is_some(),
            load_start_ns,
            last_ns: load_start_ns,
            intended_length_ns: 0,
            ends_with_arrivals: false,
            lag: LagRule::default(),
            broker_use: BrokerUse::default(),
            faults: Vec::new(),
            last_submitted: 0,
            last_finished: 0,
            cpu: CpuLaps::begin(),
            interval: Interval::default(),
            reception: Reception::default(),
            spare_interval: Interval::default(),
            spare_reception: Reception::default(),
            totals: Totals { arrivals_by_group: vec![Reception::default(); groups_apart], ..Totals::default() },
            schedule,
            nominal_end_ns,
            first_segments: first_of_each_result(&segments),
            segments: segments.into(),
        }
    }

    /// Adds up what was recorded since the last sample and reports it to `observer`.
    pub fn sample(&mut self, sample: Sample, observer: &mut dyn Observer) {
        self.acks.collect(&mut self.interval, &mut self.spare_interval);
        self.account(sample, observer);
    }

    /// Takes the last sample: outcomes that come later stay unresolved.
    pub fn close(mut self, sample: Sample, observer: &mut dyn Observer) -> Totals {
        self.acks.close(&mut self.interval, &mut self.spare_interval);
        self.account(sample, observer);
        self.totals
    }

    /// Sets the broker's usage up to this sample.
    pub fn watched(&mut self, broker: Vec<WatchedUsage>) {
        self.totals.broker = broker;
    }

    /// Lends the totals so far.
    pub fn lend_totals(&mut self, change: impl FnOnce(Totals) -> Totals) {
        self.totals = change(std::mem::take(&mut self.totals));
    }

    /// Messages acknowledged so far, warm-up included.
    pub fn acknowledged(&self) -> u64 {
        self.totals.outcomes.measured.acknowledged + self.totals.outcomes.warm_up.acknowledged
    }

    /// Messages that have failed by the last sample, warm-up included.
    pub fn failed(&self) -> u64 {
        self.totals.outcomes.measured.failed + self.totals.outcomes.warm_up.failed
    }

    /// Payload of the messages acknowledged so far, warm-up included.
    pub fn payload_bytes(&self) -> u64 {
        self.totals.outcomes.measured.payload_bytes + self.totals.outcomes.warm_up.payload_bytes
    }

    /// From the last sample on, what happens belongs to a new stretch of the window.
    pub fn begin_stretch(&mut self) {
        self.totals.stretches.push(StretchTotals::beginning_at(self.last_ns - self.load_start_ns));
    }

    fn account(&mut self, sample: Sample, observer: &mut dyn Observer) {
        let Sample { phase, telemetry, .. } = sample;
        if let Some(arrivals) = &self.arrivals {
            let by_group = &mut self.totals.arrivals_by_group;
            arrivals.collect(phase == Phase::Measure, &mut self.reception, &mut self.spare_reception, by_group);
        }
        let second = self.second(sample);
        observer.second(&second, &self.interval, &self.reception);
        if phase == Phase::Measure && (second.consumed > 0 || !self.ends_with_arrivals) {
            self.totals.window.add(&second, telemetry);
            self.totals.window.acknowledged_of_warm_up += self.interval.warm_up.acknowledged;
            self.add_to_segment(&second);
            if let Some(stretch) = self.totals.stretches.last_mut() {
                stretch.add(&second, &self.interval);
            }
        }
        self.add_responses_to_segments();
        self.totals.seconds.push(second);
        self.totals.outcomes.merge(&self.interval);
        self.totals.arrivals.merge(&self.reception);
        self.totals.telemetry = merged(self.totals.telemetry, telemetry, phase);
        self.interval.clear();
        self.reception.clear();
    }

    fn due(&self, phase: Phase, begin_ns: u64, end_ns: u64) -> Option<u64> {
        let schedule = self.schedule.as_ref().filter(|_| matches!(phase, Phase::WarmUp | Phase::Measure))?;
        let until = |offset_ns| schedule.count_until(Duration::from_nanos(offset_ns));
        let end_ns = self.nominal_end_ns.map_or(end_ns, |nominal_ns| nominal_ns.clamp(begin_ns, end_ns));
        Some(until(end_ns) - until(begin_ns))
    }

    /// A sample is taken where a segment ends, so a sample belongs to the segment in which most of it lies.
    fn add_to_segment(&mut self, second: &Second) {
        let middle_ns = second.begin_ns + (second.end_ns - second.begin_ns) / 2;
        while self.segments.front().is_some_and(|segment| segment.end_ns <= middle_ns) {
            self.segments.pop_front();
        }
        if let Some(segment) = self.segments.front() {
            totals_of(&mut self.totals.segments, segment).stretch.count(second);
        }
    }

    /// A message belongs to the segment in which it was intended, as everything else goes by intended time: what a step leaves waiting is not
    /// part of the next one.
    fn add_responses_to_segments(&mut self) {
        for found in self.interval.segments.iter() {
            let Some(segment) = self.first_segments.iter().find(|segment| segment.result == found.result) else {
                continue;
            };
            let stretch = &mut totals_of(&mut self.totals.segments, segment).stretch;
            stretch.response.merge(&found.response);
            stretch.moments += found.moments;
        }
    }

    /// What groups received in the second that ends.
    fn groups(&self) -> SmallVec<[GroupSecond; 1]> {
        let acknowledged =
            self.acknowledged() + self.interval.measured.acknowledged + self.interval.warm_up.acknowledged;
        let group = |(group, lap): (usize, GroupLap)| GroupSecond {
            group: group as u32,
            consumed: lap.consumed,
            consumer_lag: match self.lag {
                LagRule::Whole => Some(acknowledged.saturating_sub(lap.arrived) as i64),
                LagRule::Divided => Some(acknowledged as i64 - lap.arrived as i64),
                LagRule::Unknown => None,
            },
            end_to_end_p50_ns: lap.end_to_end_p50_ns,
            end_to_end_p99_ns: lap.end_to_end_p99_ns,
        };
        let laps = self.arrivals.as_ref().map(Arrivals::laps).unwrap_or_default();
        let mut groups: SmallVec<[GroupSecond; 1]> = laps.into_iter().enumerate().map(group).collect();
        if groups.len() > MAX_GROUPS_APART {
            groups.sort_by_key(|group| (Reverse(group.consumer_lag), group.consumed));
            groups.truncate(MAX_GROUPS_APART);
            groups.sort_by_key(|group| group.group);
        }
        groups
    }

    fn second(&mut self, Sample { phase, telemetry, pipeline }: Sample) -> Second {
        let now_ns = self.acks.clock().now_ns().max(self.last_ns + 1);
        let submitted = self.acks.submitted();
        let (interval, reception) = (&self.interval, &self.reception);
        let headline = if self.open_loop { &interval.response } else { &interval.service };
        let at = |quantile| (!headline.is_empty()).then(|| headline.histogram().value_at_quantile(quantile));
        let second = Second {
            phase,
            begin_ns: self.last_ns - self.load_start_ns,
            end_ns: now_ns - self.load_start_ns,
            intended_length_ns: self.intended_length_ns,
            due: self.due(phase, self.last_ns - self.load_start_ns, now_ns - self.load_start_ns),
            attempted: submitted.saturating_sub(self.last_submitted),
            acknowledged: interval.measured.acknowledged + interval.warm_up.acknowledged,
            failed: interval.measured.failed + interval.warm_up.failed,
            payload_bytes: interval.measured.payload_bytes + interval.warm_up.payload_bytes,
            consumed: if self.verified { reception.arrived.first } else { reception.arrived.messages },
            groups: self.groups(),
            finished: pipeline.map(|pipeline| pipeline.finished - self.last_finished),
            consumer_lag: pipeline.and_then(|pipeline| pipeline.consumer_lag),
            in_flight: self.acks.in_flight(),
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            queue_messages: telemetry.queue_messages,
            cpu_cores: self.cpu.lap(),
            memory_bytes: resident_memory_bytes(),
            broker_cores: self.broker_use.cores,
            broker_memory_bytes: self.broker_use.memory_bytes,
            faults: std::mem::take(&mut self.faults),
        };
        self.last_ns = now_ns;
        self.last_submitted = submitted;
        self.last_finished = pipeline.map_or(0, |pipeline| pipeline.finished);
        second
    }
}

fn first_of_each_result(segments: &[ScheduleSegment]) -> Vec<ScheduleSegment> {
    let is_first = |(index, segment): &(usize, &ScheduleSegment)| {
        segments[..*index].iter().all(|before| before.result != segment.result)
    };
    segments.iter().enumerate().filter(is_first).map(|(_, segment)| *segment).collect()
}

/// The totals of the result that this segment belongs to.
fn totals_of<'a>(totals: &'a mut Vec<SegmentTotals>, segment: &ScheduleSegment) -> &'a mut SegmentTotals {
    let index = totals.iter().position(|totals| totals.segment.result == segment.result).unwrap_or_else(|| {
        totals.push(SegmentTotals { segment: *segment, stretch: StretchTotals::beginning_at(segment.begin_ns) });
        totals.len() - 1
    });
    &mut totals[index]
}

/// The deepest queue, the latest round trips, all the time that was waited, and what crossed the wire after the warm-up.
fn merged(sum: Telemetry, latest: Telemetry, phase: Phase) -> Telemetry {
    Telemetry {
        queue_messages: sum.queue_messages.max(latest.queue_messages),
        round_trip_p50_ns: latest.round_trip_p50_ns.or(sum.round_trip_p50_ns),
        round_trip_p99_ns: latest.round_trip_p99_ns.or(sum.round_trip_p99_ns),
        queue_full_ns: sum.queue_full_ns + latest.queue_full_ns,
        connections: sum.connections.max(latest.connections),
        connections_full_ns: sum.connections_full_ns + latest.connections_full_ns,
        unmatched_answers: sum.unmatched_answers + latest.unmatched_answers,
        wire: if phase == Phase::WarmUp { sum.wire } else { known_sum(sum.wire, latest.wire) },
    }
}

/// The sum of the samples that belong to a stretch.
#[derive(Debug, Clone, Default)]
pub struct StretchTotals {
    /// When it began, in nanoseconds since the load began.
    pub begin_ns: u64,
    pub length_ns: u64,
    /// Messages due, handed over, acknowledged and received for the first time.
    pub due: u64,
    pub attempted: u64,
    pub acknowledged: u64,
    pub consumed: u64,
    /// Response times of measured messages: of a phase of a backlog, those that were acknowledged meanwhile; of a segment of the schedule, those
    /// that were intended in it.
    pub response: Distribution,
    /// Moments at which such messages were acknowledged, as in [`Interval::moments`].
    pub moments: u64,
}

impl StretchTotals {
    /// Nothing has happened in it yet.
    pub fn beginning_at(begin_ns: u64) -> Self {
        StretchTotals { begin_ns, ..StretchTotals::default() }
    }

    /// Adds a second with the response times of what was acknowledged in it.
    pub fn add(&mut self, second: &Second, interval: &Interval) {
        self.count(second);
        self.response.merge(&interval.response);
        self.moments += interval.moments;
    }

    /// Adds a second without its response times.
    pub fn count(&mut self, second: &Second) {
        self.length_ns += second.end_ns - second.begin_ns;
        self.due += second.due.unwrap_or(0);
        self.attempted += second.attempted;
        self.acknowledged += second.acknowledged;
        self.consumed += second.consumed;
    }
}
