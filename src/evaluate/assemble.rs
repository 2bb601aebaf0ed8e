//! Assembles the record of a trial.

use jiff::Timestamp;

use super::environment::{broker_usage, client, environment, host_load, wire};
use super::outage::{longest_gap_ns, outages};
use super::sections::{errors_by_class, independent, latency, per_second, series_row, with_tails};
use super::threshold::evaluate as thresholds;
use super::verdict::{Evidence, LoadShape, groups_that_fell_behind, judge};
use crate::broker::Topic;
use crate::engine::{End, EngineError, GroupOutcome, Outcome, SegmentTotals};
use crate::load::SegmentKind;
use crate::measure::{Distribution, FailureClass, Reception, Slowest};
use crate::record::{
    Completion, Consumers, Counts, ErrorCount, FoundTopic, GroupLatency, GroupVerification, Latencies, Latency,
    LoadModel, PayloadSizes, ProducerShares, ReasonKind, Record, SCHEMA, SchedulePart, SchedulePartKind, SeriesRow,
    Status, Throughput, Transactions, Verification, WarmUpCounts, point_values,
};
use crate::scenario::{Load, Scenario, Trial};

/// Most names of topics that a record carries.
const MAX_TOPIC_NAMES: usize = 100;

/// The record of a trial that ran, or still runs.
pub fn assemble(trial: &Trial, run_id: &str, arguments: &[String], outcome: &Outcome) -> Record {
    let rows: Vec<SeriesRow> = outcome.totals.seconds.iter().map(|second| series_row(trial, second)).collect();
    let mut record = empty(trial, run_id, arguments, timestamp(outcome.started_at));
    (record.status, record.error) = status(outcome);
    record.counts = counts(trial, outcome);
    record.throughput = throughput(trial, outcome);
    let (outcomes, arrivals) = (&outcome.totals.outcomes, &outcome.totals.arrivals);
    let tailed = |latency: &Distribution, slowest_ns: fn(&Slowest) -> f32| {
        let latency = independent(latency, outcomes.moments);
        with_tails(latency, outcomes.timeline.bins(), &outcome.usage.long_pauses, slowest_ns)
    };
    let received = |arrivals: &Reception| {
        let latency = independent(&arrivals.end_to_end, arrivals.moments);
        let (bins, pauses) = (arrivals.timeline.bins(), &outcome.usage.long_pauses);
        with_tails(latency, bins, pauses, |slowest| slowest.end_to_end_ns)
    };
    let consumers = trial.scenario.consumers.as_ref().filter(|consumers| consumers.end_to_end);
    record.latency = Latencies {
        response: tailed(&outcomes.response, |slowest| slowest.response_ns),
        service: tailed(&outcomes.service, |slowest| slowest.service_ns),
        schedule_delay: tailed(&outcomes.schedule_delay, |slowest| slowest.schedule_delay_ns),
        end_to_end: consumers.and_then(|_| received(arrivals)),
        end_to_end_by_group: consumers.map_or_else(Vec::new, |consumers| {
            let of_groups = outcome.totals.arrivals_by_group.iter().enumerate();
            let of_group = |(group, found): (usize, &Reception)| GroupLatency {
                group: consumers.name_of(group),
                end_to_end: received(found),
            };
            of_groups.map(of_group).collect()
        }),
    };
    let service = record.latency.service.as_ref();
    record.throughput.in_flight_by_littles_law = service.map(|service| record.throughput.in_flight(service.mean_ns));
    stretches(&mut record, trial, outcome);
    let errors = |errors| errors_by_class(errors, outcome.times.measure_start_ns);
    record.errors = errors(&outcome.totals.outcomes.errors);
    record.receive_errors = errors(&outcome.receive_errors);
    record.receive_errors.extend(crashes(&outcome.consumer_crashes));
    record.durability = outcome.durability.clone();
    record.verification = verification(trial, outcome);
    record.partitions = super::spread::partitions(outcome);
    record.consumers = super::spread::consumers(trial, outcome);
    record.idle_connections = super::sections::idle_connections(outcome);
    record.pipeline = super::pipeline::pipeline(trial, outcome);
    record.client = client(outcome);
    (record.start, record.share) = super::sections::share(outcome);
    topics_and_payloads(&mut record, trial, outcome);
    record.transactions = transactions(outcome);
    record.consumer_answers = outcome.consumer_answers.clone();
    record.wire = wire(outcome, &record);
    record.host_load = host_load(&outcome.usage);
    record.environment = environment(arguments.iter().cloned(), Some(&outcome.identity));
    record.broker_usage = broker_usage(&outcome.totals.broker, record.environment.cores);
    evaluate(&mut record, &trial.scenario, &rows);
    record
}

/// How the trial ended, and why if it failed.
fn status(outcome: &Outcome) -> (Status, Option<String>) {
    if let Some(crash) = &outcome.crash {
        let reason = format!("a producer task crashed ({crash}): this is a bug of brokermark, please report it");
        return (Status::Failed, Some(reason));
    }
    if let Some(failure) = &outcome.failure {
        return (Status::Failed, Some(failure.clone()));
    }
    let status = match outcome.end {
        End::Completed => Status::Completed,
        End::Interrupted => Status::Interrupted,
        End::Stalled => Status::Stalled,
        End::Running => Status::Running,
    };
    (status, None)
}

/// What messages were sent to, and what they carried.
fn topics_and_payloads(record: &mut Record, trial: &Trial, outcome: &Outcome) {
    record.found_topics = found_topics(trial, outcome);
    record.topics = outcome.topics.iter().take(MAX_TOPIC_NAMES).map(|topic| topic.name.clone()).collect();
    record.messages_before = outcome.messages_before;
    record.payload_schema = outcome.payload_schema.clone();
    record.payload_sizes = Some(PayloadSizes {
        mean_bytes: outcome.payload_sizes.mean,
        smallest_bytes: outcome.payload_sizes.smallest as u64,
        largest_bytes: outcome.payload_sizes.largest as u64,
    });
}

/// What happened in single stretches of the window.
fn stretches(record: &mut Record, trial: &Trial, outcome: &Outcome) {
    record.parts = outcome.totals.segments.iter().map(part).collect();
    record.backlog = super::sections::backlog(trial, outcome);
    record.outages = outages(&trial.scenario.own_load(), outcome);
    record.faults = super::faults::faults(outcome, &record.outages);
    record.conditions = super::sections::conditions(outcome);
}

fn transactions(outcome: &Outcome) -> Option<Transactions> {
    let found = outcome.totals.outcomes.transactions.as_ref()?;
    Some(Transactions { committed: found.committed, aborted: found.aborted, commit: latency(&found.commit) })
}

fn found_topics(trial: &Trial, outcome: &Outcome) -> Vec<FoundTopic> {
    let found = outcome.topics.iter().filter(|_| trial.scenario.topology.existing);
    let shape = |topic: &Topic| FoundTopic {
        name: topic.name.clone(),
        partitions: topic.partitions,
        replication: topic.replication,
    };
    found.map(shape).collect()
}

/// The record of a trial that could not run: failure is data as well.
pub fn assemble_failed(trial: &Trial, run_id: &str, arguments: &[String], error: &EngineError) -> Record {
    let mut record = empty(trial, run_id, arguments, Timestamp::now());
    match error {
        EngineError::Interrupted => record.status = Status::Interrupted,
        error => record.error = Some(error.to_string()),
    }
    evaluate(&mut record, &trial.scenario, &[]);
    record
}

/// A record without figures: of a trial that failed, until it is said how it ended.
fn empty(trial: &Trial, run_id: &str, arguments: &[String], started_at: Timestamp) -> Record {
    let load_model = match trial.scenario.load {
        Load::Closed => LoadModel::Closed,
        Load::Open(_) => LoadModel::Open,
    };
    Record {
        schema: SCHEMA.to_owned(),
        scenario_name: trial.scenario.name.clone(),
        run_id: run_id.to_owned(),
        started_at,
        trial: trial.trial,
        point_index: trial.point_index,
        point: point_values(&trial.point),
        load_model,
        headline: load_model.headline(),
        environment: environment(arguments.iter().cloned(), None),
        scenario: trial.document.clone(),
        defaults: trial.defaults.clone(),
        ..Record::default()
    }
}

/// The verdict is made from all other figures, and thresholds may be about any of them.
pub fn evaluate(record: &mut Record, scenario: &Scenario, rows: &[SeriesRow]) {
    let evidence = Evidence { record, series: rows, shape: LoadShape::from_scenario(scenario) };
    let (verdict, behind) = (judge(&evidence), groups_that_fell_behind(&evidence));
    record.verdict = verdict;
    if record.verdict.notes.iter().any(|note| note.kind == ReasonKind::LagGrew) {
        record.latency.end_to_end = record.latency.end_to_end.take().map(Latency::with_growing_lag);
        record.consumers = record.consumers.take().map(Consumers::without_latencies);
        for group in behind {
            if let Some(of_group) = record.latency.end_to_end_by_group.get_mut(group as usize) {
                of_group.end_to_end = of_group.end_to_end.take().map(Latency::with_growing_lag);
            }
        }
    }
    // A group that others may join is owed no message: they receive a part.
    let shared = scenario.pipeline.as_ref().is_some_and(|pipeline| pipeline.group.is_some());
    let consumers = scenario.consumers.as_ref().filter(|_| !shared);
    let groups = consumers.map_or(0, |consumers| consumers.groups.len() as u64);
    record.thresholds = thresholds(&scenario.thresholds, record, groups);
}

fn counts(trial: &Trial, outcome: &Outcome) -> Counts {
    let (measured, warm_up) = (outcome.ledger.measured, outcome.ledger.warm_up);
    Counts {
        attempted: measured.attempted,
        acknowledged: measured.acknowledged,
        failed: measured.failed,
        unresolved: measured.unresolved,
        unsent: outcome.due().map_or(0, |due| due.saturating_sub(measured.attempted)),
        producers_that_differ: outcome.ledger.producers_that_differ,
        payload_bytes_acknowledged: outcome.totals.outcomes.measured.payload_bytes,
        consumed: trial.scenario.consumers.as_ref().map(|_| outcome.totals.arrivals.arrived.consumed),
        warm_up: WarmUpCounts {
            attempted: warm_up.attempted,
            acknowledged: warm_up.acknowledged,
            failed: warm_up.failed,
            unresolved: warm_up.unresolved,
        },
    }
}

fn throughput(trial: &Trial, outcome: &Outcome) -> Throughput {
    let window = &outcome.totals.window;
    let window_ns = window.length_ns();
    let per_second = |count| per_second(count, window_ns);
    let (measured, arrivals) = (outcome.totals.outcomes.measured, &outcome.totals.arrivals.arrived);
    let since_begin = |last_ns: u64| last_ns.saturating_sub(outcome.times.measure_start_ns);
    // Payload of what arrives is counted for all of it, so that of the measured ones is taken to have the mean size.
    let received_bytes = arrivals.payload_bytes as f64 * arrivals.consumed as f64 / arrivals.messages.max(1) as f64;
    let consumers = trial.scenario.consumers.as_ref();
    // Nothing is due before the window's nominal begin or after its nominal end, and samples at both come a little late. A load that a limit of
    // bytes or a failure has ended did not last until then.
    let nominal_end_ns = outcome.times.load_end_ns;
    let nominal_end_ns =
        nominal_end_ns.filter(|end_ns| outcome.end == End::Completed && *end_ns <= outcome.times.load_ended_ns);
    let due_ns = nominal_end_ns.map_or(window_ns, |end_ns| end_ns.saturating_sub(outcome.times.measure_start_ns));
    Throughput {
        window_ns,
        messages_per_second: per_second(window.acknowledged),
        warm_up_messages: window.acknowledged_of_warm_up,
        payload_bytes_per_second: per_second(window.payload_bytes),
        sent_per_second: per_second(window.attempted),
        target_per_second: outcome.due().map(|due| due as f64 * 1e9 / due_ns.max(1) as f64),
        consumed_per_second: consumers.map(|_| per_second(window.consumed)),
        until_last_acknowledgement: Completion::new(
            since_begin(outcome.totals.outcomes.last_acknowledged_ns),
            measured.acknowledged,
            measured.payload_bytes as f64,
        ),
        until_last_arrival: consumers
            .and_then(|_| Completion::new(since_begin(arrivals.last_consumed_ns), arrivals.consumed, received_bytes)),
        in_flight_by_littles_law: None,
        longest_gap_ns: longest_gap_ns(outcome),
        producer_shares: ProducerShares::from_counts(outcome.sent.iter().map(|sent| sent.attempted.measured)),
    }
}

fn part(totals: &SegmentTotals) -> SchedulePart {
    let stretch = &totals.stretch;
    let per_second = |count| per_second(count, stretch.length_ns);
    SchedulePart {
        kind: match totals.segment.kind {
            SegmentKind::Step => SchedulePartKind::Step,
            SegmentKind::Ramp => SchedulePartKind::Ramp,
            SegmentKind::Burst => SchedulePartKind::Burst,
            SegmentKind::Base => SchedulePartKind::Base,
        },
        begin_ns: totals.segment.begin_ns,
        duration_ns: stretch.length_ns,
        target_per_second: per_second(stretch.due),
        sent_per_second: per_second(stretch.attempted),
        messages_per_second: per_second(stretch.acknowledged),
        response: independent(&stretch.response, stretch.moments),
    }
}

/// The times of the crashes are unknown.
fn crashes(messages: &[String]) -> Option<ErrorCount> {
    let first_message = messages.first()?.clone();
    Some(ErrorCount { class: FailureClass::Crashed, count: messages.len() as u64, first_message, first_at_ns: 0 })
}

/// Every group is owed every message.
fn verification(trial: &Trial, outcome: &Outcome) -> Option<Verification> {
    let consumers = trial.scenario.consumers.as_ref().filter(|consumers| consumers.verify)?;
    let mut sum = Verification { removal_rules: outcome.removal_rules.clone(), ..Verification::default() };
    for (group, GroupOutcome { arrived, account, consumer_lag_at_load_end }) in outcome.groups.iter().enumerate() {
        let caught_up = account.unread == 0 && consumer_lag_at_load_end.is_some();
        let one = GroupVerification {
            group,
            name: consumers.groups[group].name.clone(),
            task: super::sections::task(&consumers.groups[group]),
            received: arrived.received,
            consumed: arrived.consumed,
            lost: account.lost,
            unread: account.unread,
            removed: account.removed,
            undecided: account.undecided,
            not_acknowledged_but_stored: account.not_acknowledged_but_stored,
            duplicated: arrived.duplicated,
            redelivered: arrived.redelivered,
            reordered: arrived.reordered,
            corrupt: arrived.corrupt,
            consumer_lag_at_load_end: *consumer_lag_at_load_end,
            catch_up_ns: caught_up.then(|| arrived.last_first_ns.saturating_sub(outcome.times.load_ended_ns)),
        };
        sum.unordered += arrived.unordered;
        sum.order_unchecked += arrived.order_unchecked;
        sum.foreign += arrived.foreign;
        sum.saturated |= account.saturated;
        sum.add_group(one);
    }
    Some(sum)
}

fn timestamp(time: std::time::SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH)
}
