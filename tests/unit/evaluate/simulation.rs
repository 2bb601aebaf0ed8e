//! The verdict on simulated trials: sound ones are hardly ever called unsound, and staged faults are named.
//!
//! A trial's sends, answers and arrivals are drawn from a seed and go through the recorders, the collector, the ledger and the
//! verdict, with a simulated clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};

use super::assemble;
use crate::broker::{BrokerInfo, Telemetry};
use crate::engine::{
    Attempted, Collector, End, GroupOutcome, Ledger, Observer, Outcome, PayloadSizes, Phase, Sample, Second, Sent,
    Times,
};
use crate::load::SendSchedule;
use crate::measure::host::{HostUsage, Pressure, ProcessUsage};
use crate::measure::{
    Acks, ArrivalBatch, Arrivals, Clock, Errors, Interval, NoDetails, Received, Reception, SendTag, SubscriptionIndex,
    TRACE_HEADER_BYTES, TraceHeader, Verification,
};
use crate::record::{ReasonKind, Record};
use crate::scenario::{Load, Trial};

const SECOND: u64 = 1_000_000_000;
const LOAD_START_NS: u64 = SECOND;
const PRODUCERS: usize = 4;
const RUN_TAG: u32 = 7;

/// Median of the simulated service time.
const SERVICE_NS: f64 = 20e6;

/// What is wrong with a simulated trial.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// One stall that delays this share of all messages.
    Stall(f64),
    /// Messages leave at a rate that is lower by this share.
    SlowClient(f64),
    /// Service time grows by this share from begin to end.
    Drift(f64),
    /// One of so many messages is acknowledged and never delivered.
    Loss(usize),
}

/// How the broker of a trial answers.
#[derive(Debug, Clone, Copy)]
struct Answers {
    /// Messages that the broker answers together, when the last of them has come.
    batch: usize,
    /// Whether it pauses now and then, for some time once it does.
    pauses: bool,
    fault: Fault,
}

struct Unwatched;

impl Observer for Unwatched {
    fn phase(&mut self, _: Phase) {}
    fn second(&mut self, _: &Second, _: &Interval, _: &Reception) {}
}

/// One message: when it was intended, sent and answered, in nanoseconds since the load began.
#[derive(Debug, Clone, Copy)]
struct Message {
    producer_index: usize,
    sequence: u64,
    intended_ns: u64,
    sent_ns: u64,
    answered_ns: u64,
}

fn trial(schedule: &str, seconds: u64, seed: u64) -> Trial {
    let text = format!(
        "broker.kind = \"null\"\nproducers.count = {PRODUCERS}\nrun.duration = \"{seconds}s\"\n{}",
        schedule.replace("SEED", &seed.to_string())
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("simulated.toml");
    std::fs::write(&file, text).unwrap();
    crate::scenario::load(&file, &[], crate::engine::kinds()).unwrap().trials.remove(0)
}

fn messages(trial: &Trial, answers: Answers, seed: u64) -> Vec<Message> {
    let Load::Open(schedule) = &trial.scenario.load else { panic!("only open loops are simulated") };
    let length_ns = trial.scenario.run.stop.duration.unwrap().as_nanos() as u64;
    let mut random = rand::rngs::Xoshiro256PlusPlus::seed_from_u64(seed);
    let spread = LogNormal::new(0.0, 0.1).unwrap();
    let mut messages: Vec<Message> = (0..PRODUCERS)
        .flat_map(|producer_index| {
            let mut send_schedule = SendSchedule::new(schedule, producer_index, PRODUCERS);
            std::iter::from_fn(move || {
                let intended_ns = send_schedule.peek();
                send_schedule.advance();
                (intended_ns < length_ns).then_some(Message {
                    producer_index,
                    sequence: 0,
                    intended_ns,
                    sent_ns: 0,
                    answered_ns: 0,
                })
            })
        })
        .collect();
    messages.sort_by_key(|message| message.intended_ns);
    let mut sequences = [0; PRODUCERS];
    for message in &mut messages {
        message.sequence = sequences[message.producer_index];
        sequences[message.producer_index] += 1;
    }
    let stalls = stalls(answers, length_ns, &mut random);
    for batch in messages.chunks_mut(answers.batch) {
        for message in batch.iter_mut() {
            let behind =
                if let Fault::SlowClient(share) = answers.fault { message.intended_ns as f64 * share } else { 0.0 };
            // The pacer wakes late by up to 200 µs, and half a millisecond now and then.
            let late_ns = if random.random_bool(0.02) { 500_000 } else { random.random_range(0..200_000) };
            message.sent_ns = message.intended_ns + late_ns + behind as u64;
        }
        let sent_ns = batch.iter().map(|message| message.sent_ns).max().unwrap();
        let grown =
            if let Fault::Drift(share) = answers.fault { share * sent_ns as f64 / length_ns as f64 } else { 0.0 };
        let response_ns = SERVICE_NS * (1.0 + grown) * spread.sample(&mut random);
        let mut answered_ns = sent_ns + response_ns as u64;
        if let Some((_, end_ns)) = stalls.iter().find(|(begin_ns, end_ns)| (*begin_ns..*end_ns).contains(&answered_ns))
        {
            answered_ns = *end_ns;
        }
        batch.iter_mut().for_each(|message| message.answered_ns = answered_ns);
    }
    messages
}

/// Stretches in which nothing is answered.
fn stalls(answers: Answers, length_ns: u64, random: &mut impl RngExt) -> Vec<(u64, u64)> {
    const SLOT_NS: u64 = 20_000_000;
    let mut stalls = Vec::new();
    if let Fault::Stall(share) = answers.fault {
        let begin_ns = random.random_range(length_ns / 10..length_ns / 2);
        stalls.push((begin_ns, begin_ns + (length_ns as f64 * share) as u64));
    }
    if answers.pauses {
        let mut pausing = false;
        for producer_index in 0..length_ns / SLOT_NS {
            // About one pause in two seconds, which goes on for another 20 ms with a probability of a half.
            pausing = random.random_bool(if pausing { 0.5 } else { 0.01 });
            if pausing {
                stalls.push((producer_index * SLOT_NS, (producer_index + 1) * SLOT_NS));
            }
        }
        // What falls into several in a row is answered at the end of the last.
        for index in (1..stalls.len()).rev() {
            if stalls[index - 1].1 == stalls[index].0 {
                stalls[index - 1].1 = stalls[index].1;
            }
        }
    }
    stalls
}

/// The record that the trial would have left.
fn record(trial: &Trial, answers: Answers, seed: u64) -> Record {
    let now: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let clock = Clock::set_by(now);
    let verification = trial.scenario.consumers.is_some().then(|| Arc::new(Verification::new(PRODUCERS, 1)));
    let acks = Acks::verified(clock, PRODUCERS, true, verification.clone(), None);
    let arrivals = verification.as_ref().map(|of| Arrivals::new(clock, RUN_TAG, 1, Some(of.clone())));
    let mut consumer = arrivals.as_ref().map(|arrivals| arrivals.recorder(SubscriptionIndex { group: 0, topic: 0 }, 0));
    let recorder = acks.recorder();
    let length_ns = trial.scenario.run.stop.duration.unwrap().as_nanos() as u64;
    let mut collector = Collector::new(
        acks.clone(),
        arrivals.clone(),
        &trial.scenario.load,
        Vec::new(),
        LOAD_START_NS,
        Some(length_ns),
    );
    collector.intended_length_ns = SECOND;
    let sample = |phase| Sample { phase, telemetry: Telemetry::default(), pipeline: None };
    let mut in_order = messages(trial, answers, seed);
    let mut attempted = [Attempted::default(); PRODUCERS];
    for message in &in_order {
        attempted[message.producer_index].measured += 1;
    }
    // One look a second, and a last one when everything is answered.
    let looks: Vec<u64> =
        (1..=length_ns / SECOND).map(|second| second * SECOND).chain([length_ns + 10 * SECOND]).collect();
    let mut sends = vec![[0; PRODUCERS]; looks.len()];
    for message in &in_order {
        let look = (message.sent_ns / SECOND) as usize;
        sends[look.min(looks.len() - 1)][message.producer_index] += 1;
    }
    in_order.sort_by_key(|message| message.answered_ns);
    let mut answered = in_order.into_iter().peekable();
    let mut answers_seen = 0;
    for (look_ns, sends) in looks.into_iter().zip(sends) {
        for (producer_index, messages) in sends.into_iter().enumerate() {
            acks.window(producer_index).submit(messages);
        }
        while let Some(first) = answered.next_if(|message| message.answered_ns < look_ns) {
            now.store(LOAD_START_NS + first.answered_ns, Ordering::Relaxed);
            let mut batch = recorder.batch();
            let mut next = Some(first);
            let mut arriving = consumer.as_mut().map(|consumer| consumer.batch());
            while let Some(message) = next {
                let Message { producer_index, sequence, intended_ns, sent_ns, .. } = message;
                let send_tag =
                    SendTag::new(producer_index, sequence, LOAD_START_NS + sent_ns, sent_ns - intended_ns, true);
                batch.acknowledged(send_tag, 100);
                answers_seen += 1;
                let lost = matches!(answers.fault, Fault::Loss(of) if answers_seen % of == 0);
                if let Some(arriving) = arriving.as_mut().filter(|_| !lost) {
                    deliver(arriving, &message);
                }
                next = answered.next_if(|message| message.answered_ns == first.answered_ns);
            }
        }
        now.store(LOAD_START_NS + look_ns, Ordering::Relaxed);
        let phase = if look_ns <= length_ns { Phase::Measure } else { Phase::Drain };
        collector.sample(sample(phase), &mut Unwatched);
    }
    let totals = collector.close(sample(Phase::Drain), &mut Unwatched);
    let sent: Vec<Sent> = attempted
        .iter()
        .enumerate()
        .map(|(producer_index, attempted)| Sent {
            producer_index,
            attempted: *attempted,
            due: Some(attempted.measured),
        })
        .collect();
    let outcome = Outcome {
        end: End::Completed,
        started_at: SystemTime::UNIX_EPOCH,
        planned_unix_ns: None,
        topics: Vec::new(),
        messages_before: None,
        payload_sizes: PayloadSizes { mean: 100.0, smallest: 100, largest: 100 },
        payload_schema: None,
        durability: crate::broker::Durability::default(),
        ledger: Ledger::settle(&sent, &totals.outcomes, &acks),
        totals,
        conditions: Vec::new(),
        faults: Vec::new(),
        clock: acks.clock(),
        times: Times {
            load_start_ns: LOAD_START_NS,
            first_sent: None,
            measure_start_ns: LOAD_START_NS,
            load_ended_ns: LOAD_START_NS + length_ns,
            load_end_ns: Some(LOAD_START_NS + length_ns),
            epoch_unix_ns: 0,
        },
        sent,
        groups: groups(arrivals.as_ref()),
        removal_rules: Vec::new(),
        consumer_answers: None,
        partitions: acks.by_partition(),
        consumers: arrivals.as_ref().map(Arrivals::consumers).unwrap_or_default(),
        part: None,
        receive_errors: Errors::default(),
        consumer_crashes: Vec::new(),
        crash: None,
        failure: None,
        pipeline: None,
        backlog: None,
        wake_up_delays: None,
        idle_connections: None,
        usage: idle(Duration::from_nanos(length_ns)),
        identity: BrokerInfo { client: "simulated".to_owned(), broker: None, embedded: false },
        close_error: None,
    };
    assemble(trial, "simulated", &[], &outcome)
}

fn deliver(arriving: &mut ArrivalBatch<'_>, message: &Message) {
    let mut header = [0; TRACE_HEADER_BYTES];
    let intended_ns = LOAD_START_NS + message.intended_ns;
    TraceHeader {
        run_tag: RUN_TAG,
        producer: message.producer_index as u32,
        measured: true,
        sequence: message.sequence,
        intended_ns,
    }
    .seal(&mut header, crc32fast::hash(&[]));
    let partition = message.producer_index as u32;
    arriving.received(Received {
        payload: &[],
        trace_header: Some(&header),
        partition,
        offset: 0,
        redelivered: false,
        details: &NoDetails,
    });
}

/// What the only group came to, which has read all there is.
fn groups(arrivals: Option<&Arrivals>) -> Vec<GroupOutcome> {
    let Some((arrivals, verification)) = arrivals.and_then(|arrivals| Some((arrivals, arrivals.verification()?)))
    else {
        return Vec::new();
    };
    let group = |arrived| GroupOutcome {
        arrived,
        account: verification.account(0, |_| u64::MAX),
        consumer_lag_at_load_end: None,
    };
    arrivals.groups().into_iter().map(group).collect()
}

/// A machine with nothing else to do.
fn idle(elapsed: Duration) -> HostUsage {
    HostUsage {
        elapsed,
        process: ProcessUsage::default(),
        polling: Duration::ZERO,
        scheduling_policy: None,
        busiest_thread: None,
        busiest_task: None,
        peak_memory_bytes: None,
        system: None,
        throttled: None,
        pressure: Pressure::default(),
        pauses: crate::measure::Distribution::default(),
        long_pauses: Vec::new(),
    }
}

/// Each with how many seconds it lasts: every step as long as a load at one rate.
const SCHEDULES: [(&str, u64, &str); 3] = [
    ("fixed", 20, "load.rate = \"RATE\""),
    ("poisson", 20, "load.schedule = { kind = \"poisson\", rate = \"RATE\", seed = SEED }"),
    (
        "steps",
        40,
        "load.schedule = { kind = \"steps\", steps = [{ rate = \"RATE\", for = \"20s\" }, { rate = \"FASTER\", for = \"20s\" }] }",
    ),
];

/// Histories of one kind of load.
#[derive(Debug, Clone, Copy)]
struct Histories {
    count: u64,
    /// And that of a second step.
    rates: [&'static str; 2],
    fault: Fault,
}

/// In how many of the histories the verdict has a reason of one of the kinds (of any kind, where none is named).
fn named(schedule: &str, seconds: u64, histories: Histories, kinds: &[ReasonKind]) -> (u64, Vec<String>) {
    let schedule = schedule.replace("RATE", histories.rates[0]).replace("FASTER", histories.rates[1]);
    let mut examples = Vec::new();
    let mut count = 0;
    for seed in 0..histories.count {
        let fault = histories.fault;
        let answers = Answers { batch: if seed % 2 == 0 { 1 } else { 8 }, pauses: seed % 3 == 0, fault };
        let consumers = if matches!(fault, Fault::Loss(_)) { "\n[consumers]" } else { "" };
        let schedule = format!("{schedule}{consumers}");
        let record = record(&trial(&schedule, seconds, seed), answers, seed);
        let reasons = &record.verdict.reasons;
        let named = reasons.iter().any(|reason| kinds.is_empty() || kinds.contains(&reason.kind));
        count += u64::from(named);
        if named == kinds.is_empty() {
            examples.push(format!("seed {seed}: {reasons:?}"));
        }
    }
    (count, examples)
}

fn first(examples: &[String]) -> &[String] {
    &examples[..examples.len().min(3)]
}

fn a_sound_trial_is_valid(schedule: usize) {
    let histories = Histories { count: 300, rates: ["400/s", "600/s"], fault: Fault::None };
    let (name, seconds, schedule) = SCHEDULES[schedule];
    let (unsound, examples) = named(schedule, seconds, histories, &[]);
    let examples = first(&examples);
    assert!(unsound * 100 < histories.count, "{name}: {unsound} of {}, such as {examples:#?}", histories.count);
}

fn a_fault_is_named(count: u64, fault: Fault, rates: [&'static str; 2], kinds: &[ReasonKind]) {
    let histories = Histories { count, rates, fault };
    for (name, seconds, schedule) in SCHEDULES {
        let (found, examples) = named(schedule, seconds, histories, kinds);
        let examples = first(&examples);
        assert!(found * 100 >= 99 * histories.count, "{name}, {fault:?}: {found}, not {examples:#?}");
    }
}

#[test]
fn sound_trials_at_a_fixed_rate_are_valid() {
    a_sound_trial_is_valid(0);
}

#[test]
fn sound_trials_of_poisson_arrivals_are_valid() {
    a_sound_trial_is_valid(1);
}

#[test]
fn sound_trials_of_steps_are_valid() {
    a_sound_trial_is_valid(2);
}

#[test]
fn a_stall_that_delays_a_twentieth_is_named() {
    a_fault_is_named(100, Fault::Stall(0.05), ["400/s", "600/s"], &[ReasonKind::NotSteady]);
}

#[test]
fn a_rate_that_is_short_by_half_a_percent_is_named() {
    a_fault_is_named(100, Fault::SlowClient(0.005), ["400/s", "600/s"], &[ReasonKind::RateMissed]);
}

/// Enough messages a second for the median of a second to tell so small a difference; that many take long to simulate.
#[test]
fn a_latency_that_drifts_by_a_twentieth_is_named() {
    a_fault_is_named(40, Fault::Drift(0.05), ["3k/s", "4k/s"], &[ReasonKind::NotSteady]);
}

#[test]
fn one_message_in_a_thousand_that_is_lost_is_named() {
    a_fault_is_named(100, Fault::Loss(1000), ["400/s", "600/s"], &[ReasonKind::Losses]);
}
