//! The sending side of a trial: makes producers, starts a task for each, and closes them once their messages have been answered.

mod message_source;
mod pacer;
mod sender;
mod window;

use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::message_source::{AttributeSource, MessageSettings, MessageSource, TraceHeaderMode};
use self::pacer::Pace;
pub use self::sender::{Attempted, Closing, Sent};
use self::sender::{Sender, SenderShared, run_closed, run_open, run_rounds};
pub use self::window::{FirstSent, Quota, TrialWindow, WakeUpDelays};
use self::window::{Rounds, WindowRule};
use super::EngineError;
use super::prepare::{AT_ONCE, TrialContext, header_offset_ns, place_of};
use crate::broker::{Broker, CLOSE_TIMEOUT, Producer};
use crate::load::{KeySource, SendSchedule, TombstoneSource};
use crate::measure::host::tasks::watched;
use crate::scenario::{Load, Part, ProducerMode, Scenario};

/// What one thread sends in a second without being busy for most of it, with any client.
const MESSAGES_PER_THREAD: f64 = 50_000.0;
const BYTES_PER_THREAD: f64 = 250e6;

/// Makes all producers, in the order of their indices; none where the scenario only works off a backlog.
pub async fn producers<B: Broker>(context: &TrialContext<'_>, broker: &B) -> Result<Vec<B::Producer>, EngineError> {
    let count = match context.producer_mode() {
        Some(ProducerMode::None) => 0,
        _ => context.scenario.producers.count,
    };
    let making = (0..count)
        .map(|producer_index| context.scenario.first_producer() + producer_index)
        .map(|number| broker.producer(number, &context.topics[context.topic_of(number)]));
    stream::iter(making).buffered(AT_ONCE).try_collect().await.map_err(EngineError::from_broker::<B>)
}

/// How much the scenario lets all producers send together, those of other shares included.
pub fn quota(context: &TrialContext<'_>) -> Quota {
    let (settings, payloads) = (&context.scenario.producers, &context.payloads);
    let common_size = payloads.uniform_size().filter(|_| context.scenario.payload.tombstones == 0.0);
    let quota = Quota::new(&context.scenario.run.stop, common_size);
    let round = (settings.count * settings.batch) as u64;
    if settings.round_barrier { quota.in_rounds_of(round) } else { quota }
}

/// What this process may send of `quota`: in an open loop, the messages that its producers have due until `due_by_ns`, when all are due;
/// in a closed loop, or where that time is unknown, as much as its share of the producers.
pub fn process_quota(scenario: &Scenario, quota: Quota, due_by_ns: Option<u64>) -> Quota {
    let Some(part) = &scenario.part else { return quota };
    let messages = match (&scenario.load, due_by_ns) {
        (Load::Open(schedule), Some(due_by_ns)) => {
            let warm_up_ns = scenario.run.warm_up.as_nanos() as u64;
            let due = |producer| {
                let mut send_schedule = SendSchedule::new(schedule, producer, part.all_producers);
                send_schedule.skip_until(warm_up_ns);
                send_schedule.skip_until(due_by_ns)
            };
            Some(part.producers.clone().map(due).sum())
        }
        _ => quota.messages().map(|messages| part_of(part, messages)),
    };
    quota.for_process(messages, |bytes| part_of(part, bytes))
}

/// As much of `all` as this part has of the producers; the parts of all shares add up to it.
fn part_of(part: &Part, all: u64) -> u64 {
    let until = |producer: usize| (u128::from(all) * producer as u128 / part.all_producers as u128) as u64;
    until(part.producers.end) - until(part.producers.start)
}

/// Starts a task for each producer, or, in an open loop, one for each load thread with its part of the producers. Each producer is left
/// to be closed.
pub fn start<P: Producer>(
    context: &TrialContext<'_>,
    producers: Vec<P>,
    trial_window: &Arc<TrialWindow>,
    quota: Arc<Quota>,
) -> (JoinSet<Vec<Sent>>, Closing<P>) {
    let (settings, pacing) = (&context.scenario.producers, context.scenario.pacing);
    let rounds = Arc::new(Rounds::new(settings.count, settings.batch, quota.clone(), trial_window.clone()));
    let shared = Arc::new(SenderShared { acks: context.acks.clone(), trial_window: trial_window.clone(), quota });
    let rule =
        WindowRule { in_flight: settings.in_flight as u64, batch: settings.batch as u64, confirm: settings.confirm };
    let (mut tasks, closing) = (JoinSet::new(), Closing::default());
    let threads = threads(context).min(producers.len());
    let group = || (Arc::new(Pace::new(context.acks.clock(), pacing)), Vec::new());
    let mut groups: Vec<_> = (0..threads).map(|_| group()).collect();
    for (producer_index, producer) in producers.into_iter().enumerate() {
        let messages = messages(context, producer_index);
        let sender = Sender::new(producer, producer_index, shared.clone(), closing.clone(), messages);
        let number = context.scenario.first_producer() + producer_index;
        match &context.scenario.load {
            Load::Open(schedule) => {
                let send_schedule = SendSchedule::new(schedule, number, context.scenario.all_producers());
                let place = producer_index % groups.len();
                let (pace, group) = &mut groups[place];
                group.push(run_open(sender, rule, send_schedule, pace.clone()));
            }
            Load::Closed => {
                let rounds = settings.round_barrier.then(|| rounds.clone());
                let sends = async move {
                    vec![match rounds {
                        Some(rounds) => run_rounds(sender, rule, rounds).await,
                        None => run_closed(sender, rule).await,
                    }]
                };
                tasks.spawn(watched("producer", number, sends));
            }
        }
    }
    for (number, (pace, group)) in groups.into_iter().enumerate().filter(|(_, (_, group))| !group.is_empty()) {
        let trial_window = trial_window.clone();
        let sends = async move { pacer::run(&pace, group, &trial_window).await };
        tasks.spawn(watched("producers", number, sends));
    }
    (tasks, closing)
}

/// Threads on which an open loop's producers run: no more than the rate needs, because each is woken for itself, and one that spins takes a core.
fn threads(context: &TrialContext<'_>) -> usize {
    let own_load = context.scenario.own_load();
    let Load::Open(schedule) = &*own_load else { return 0 };
    let share = 1.0 / MESSAGES_PER_THREAD + context.payloads.mean() / BYTES_PER_THREAD;
    let needed = (schedule.rates().fold(0.0, f64::max) * share).ceil() as usize;
    let most = if context.scenario.pacing.spin { 1 } else { Handle::current().metrics().num_workers() };
    needed.clamp(1, most)
}

fn messages(context: &TrialContext<'_>, producer_index: usize) -> MessageSource {
    let settings = MessageSettings {
        payloads: context.payloads.clone(),
        trace_header: trace_header_mode(context),
        run_tag: context.identity.tag,
        producers: context.scenario.all_producers() as u64,
        clock: context.acks.clock(),
        header_offset_ns: header_offset_ns(context.scenario, context.acks.clock()),
        first_producer: context.scenario.first_producer(),
    };
    let (number, keys) = (settings.first_producer + producer_index, context.scenario.producers.keys);
    let keys = KeySource::new(keys, number, settings.producers as usize, context.scenario.payload.seed);
    MessageSource::new(settings, producer_index, keys, attributes(context, number))
}

/// What messages of a producer have beside payload and key, by its number among those of all shares.
fn attributes(context: &TrialContext<'_>, producer: usize) -> AttributeSource {
    let payload = &context.scenario.payload;
    let tombstones = || TombstoneSource::new(payload.tombstones, producer, payload.seed);
    AttributeSource::new(
        context.scenario.producers.partitioning,
        place_of(context.scenario, context.topics.len(), producer),
        context.topics[context.topic_of(producer)].partitions,
        context.scenario.producers.header_sets.len(),
        (payload.tombstones > 0.0).then(tombstones),
    )
}

/// Messages carry a trace header only if consumers read it, and in the payload only where it replaces filler bytes. One without a
/// payload has it beside.
fn trace_header_mode(context: &TrialContext<'_>) -> TraceHeaderMode {
    match &context.scenario.consumers {
        None => TraceHeaderMode::None,
        Some(_) if context.scenario.payload.fits_trace_header() => TraceHeaderMode::InPayload,
        Some(_) => TraceHeaderMode::Beside,
    }
}

/// Closes all producers, as far as there is time.
pub async fn close<P: Producer>(closing: Closing<P>) {
    let producers = std::mem::take(&mut *closing.lock());
    // Those that are late are dropped.
    let _ = timeout(CLOSE_TIMEOUT, join_all(producers.into_iter().map(Producer::close))).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::due_by;
    use crate::scenario::{Share, parse_for};

    const MESSAGES: u64 = 10_007;

    /// What each of three shares may send.
    fn quotas(load: &str) -> Vec<u64> {
        let text = format!(
            "broker.kind = \"null\"\nproducers.count = 7\n{load}\nrun = {{ messages = {MESSAGES}, warm_up = \"1s\" }}"
        );
        let plan = parse_for(crate::engine::kinds(), &text, "share.toml", &[], std::path::Path::new("")).unwrap();
        let whole = &plan.trials[0].scenario;
        let of = |number| {
            let part = whole.part(Share { number, count: 3 }).unwrap();
            let due_by_ns = match &part.load {
                Load::Open(schedule) => due_by(schedule, part.all_producers(), 1_000_000_000, MESSAGES),
                Load::Closed => None,
            };
            process_quota(&part, Quota::new(&part.run.stop, None), due_by_ns).messages().unwrap()
        };
        (1..=3).map(of).collect()
    }

    #[test]
    fn the_shares_of_a_number_of_messages_add_up_to_it() {
        for load in ["", "load.rate = \"1k/s\"", "load.schedule = { kind = \"poisson\", rate = \"1k/s\", seed = 1 }"] {
            let quotas = quotas(load);
            assert_eq!(quotas.iter().sum::<u64>(), MESSAGES, "{load}: {quotas:?}");
            assert!(quotas.iter().all(|quota| (2_600..=4_500).contains(quota)), "{load}: {quotas:?}");
        }
    }
}
