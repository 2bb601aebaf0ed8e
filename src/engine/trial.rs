//! One trial from first to last: prepare ▸ warm up ▸ measure ▸ drain ▸ verify.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::faults::Faults;
use super::idle_connections::IdleConnections;
use super::interruption::Interruption;
use super::load_phase::{LoadPhase, Loaded};
use super::observer::{Observer, Phase, SAMPLE_INTERVAL};
use super::outcome::{End, Ledger, Outcome};
use super::prepare::{Prepared, TrialContext, prepare};
use super::receive::{Received, Receiving};
use super::sampler::Sampler;
use super::{EngineError, TrialIdentity, send, start_barrier, topics};
use crate::broker::{Broker, Topic};
use crate::measure::Conditions;
use crate::measure::host::{self, HostUsage};
use crate::scenario::ProducerMode;

/// How long producers may still be closed after the second signal.
const LAST_CLOSE: Duration = Duration::from_millis(500);

/// How long topics may still be removed after the second signal.
const LAST_REMOVAL: Duration = Duration::from_secs(2);

/// Runs one trial on broker `B`.
///
/// `interruption`: what the user's signals end. What was measured until then is kept.
///
/// # Errors
/// When the trial could not begin: bad payloads, or a broker that cannot be reached or prepared. Once the load has begun,
/// everything that goes wrong is part of the outcome.
pub async fn run<B: Broker>(
    scenario: &crate::scenario::Scenario,
    identity: &TrialIdentity,
    interruption: &Interruption,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    observer.phase(Phase::Prepare);
    host::reset_peak_memory();
    let conditions = Conditions::default();
    let preparing = prepare::<B>(scenario, identity, interruption, &conditions);
    let prepared = while_told(preparing, &conditions, observer).await?;
    let Prepared { context, broker, created, settings } = prepared;
    if let Some(start_barrier) = &identity.start_barrier {
        start_barrier.topics_exist();
    }
    if let Some(messages) = context.messages_before.filter(|messages| *messages > 0) {
        observer.warning(&format!(
            "the topics exist and were written to before: their end offsets add up to {messages}. Consumers that begin at the \
             earliest message read what is left of it as well; without `topology.name`, each run has topics of its own"
        ));
    }
    if let Some(contradiction) = settings.iter().find_map(|settings| B::contradiction(scenario, settings)) {
        observer.warning(&contradiction.to_string());
    }
    let result = run_prepared(&context, &broker, &created, interruption, observer).await;
    if let Ok(outcome) = &result {
        observer.ended(outcome);
    }
    // Other shares may still use them.
    let remove = if scenario.topology.keep || scenario.part.is_some() { Vec::new() } else { created };
    let closed = interruption.finish(topics::close(broker, &remove), LAST_REMOVAL).await;
    let mut outcome = result?;
    let of_broker = match closed {
        Some(closed) => closed.err().map(|error| EngineError::from_broker::<B>(error).to_string()),
        None => Some(format!("the run was ended before the broker had removed its topics: {}", topics::names(&remove))),
    };
    let of_sinks = outcome.pipeline.iter().flat_map(|pipeline| pipeline.removal_errors.iter().cloned());
    outcome.close_error = Some(of_broker.into_iter().chain(of_sinks).collect::<Vec<_>>().join("; "));
    outcome.close_error = outcome.close_error.filter(|errors| !errors.is_empty());
    Ok(outcome)
}

/// Tells the observer once a second what holds `work` up.
async fn while_told<T>(work: impl Future<Output = T>, conditions: &Conditions, observer: &mut dyn Observer) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = sleep(SAMPLE_INTERVAL) => observer.conditions(&conditions.lasting()),
        }
    }
}

/// The phases of a trial whose topics exist, one after another.
async fn run_prepared<B: Broker>(
    context: &TrialContext<'_>,
    broker: &B,
    created: &[Topic],
    interruption: &Interruption,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    let mut signals = interruption.phase();
    let (mut receiving, pipeline) = Receiving::before_load(context, broker, created, &signals).await?;
    let making = send::producers(context, broker);
    let producers = signals.unless_over(making).await.ok_or(EngineError::Interrupted)??;

    let opening = IdleConnections::open(context, broker, observer);
    let mut idle = signals.unless_over(opening).await.ok_or(EngineError::Interrupted)??;
    start_barrier::wait(context.identity, &signals).await?;
    if let Some((idle, wanted)) = idle.as_mut().zip(context.scenario.idle_connections.as_ref()) {
        idle.load_begins(wanted);
    }
    let (load, producers) = LoadPhase::begin(context, producers, receiving.start_signal());
    let faults = Faults::begin(context, load.measure_start_ns(), interruption);
    let mut sampler = load.sampler(broker, &mut *observer, pipeline);
    let mut loaded = receiving.alongside(load.run(&signals, &mut sampler)).await;
    faults.iter().for_each(Faults::load_ended);
    if loaded.end == End::Interrupted {
        signals = signals.next();
    }

    let idle_connections = idle.map(IdleConnections::close);
    let mut receiving = receiving.load_ended(loaded.end, &sampler);
    let mut end = loaded.end;
    receiving.alongside(drain(context, &mut sampler, || signals.is_over())).await;
    let _ = interruption.finish(send::close(producers), LAST_CLOSE).await;
    if context.acks.in_flight() > 0 && signals.is_over() {
        end = end.interrupted();
        signals = signals.next();
    }

    if receiving.after_load(&mut sampler, &signals, interruption).await {
        end = end.interrupted();
    }
    if context.producer_mode() == Some(ProducerMode::None) {
        // The load had no messages and ended at once: the pipeline's work after it is measured.
        loaded.usage = loaded.host_sampler.usage();
    }
    let received = receiving.finish(sampler, &signals.next(), interruption).await;
    if let Some(faults) = faults {
        faults.finish(interruption).await;
    }
    context.faults.news().iter().for_each(|news| observer.fault(news));
    Ok(Outcome { idle_connections, ..outcome(context, broker, end, loaded, received) })
}

/// Waits for outcomes until all are known, the deadline has passed, or the user has ended the wait.
async fn drain<B: Broker>(context: &TrialContext<'_>, sampler: &mut Sampler<'_, B>, is_over: impl Fn() -> bool) {
    let deadline = Instant::now() + context.scenario.run.drain_deadline;
    sampler.observer.phase(Phase::Drain);
    while context.acks.in_flight() > 0 && Instant::now() < deadline && !is_over() {
        sampler.wait(Phase::Drain).await;
    }
}

fn outcome<B: Broker>(context: &TrialContext<'_>, broker: &B, end: End, loaded: Loaded, received: Received) -> Outcome {
    let usage = HostUsage { peak_memory_bytes: host::peak_memory_bytes(), ..loaded.usage };
    let (window, ended_ns) = (&loaded.trial_window, loaded.ended_ns);
    Outcome {
        end,
        ledger: Ledger::settle(&loaded.sent, &received.totals.outcomes, &context.acks),
        sent: loaded.sent,
        groups: received.groups,
        removal_rules: received.removal_rules,
        consumer_answers: received.consumer_answers,
        partitions: context.acks.by_partition(),
        part: received.part,
        receive_errors: received.errors,
        consumer_crashes: received.crashes,
        crash: loaded.crash,
        failure: loaded.failure.or(received.failure),
        pipeline: received.pipeline,
        backlog: loaded.backlog,
        ..Outcome::so_far(context, window, ended_ns, received.totals, usage, broker.identity())
    }
}
