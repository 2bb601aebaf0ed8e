//! The sending side of a trial: makes producers and starts a task for each.

mod loops;
mod message_source;
mod pacer;
mod sender;
mod window;

use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::task::JoinSet;

use self::loops::Rounds;
use self::message_source::{AttributeSource, MessageSettings, MessageSource, TraceHeaderMode};
pub use self::pacer::{Pacer, WakeUpDelays};
pub use self::sender::{Attempted, Closing, Sent};
use self::sender::{Sender, SenderShared};
use self::window::WindowRule;
pub use self::window::{FirstSent, Quota, TrialWindow};
use super::EngineError;
use super::context::{AT_ONCE, TrialContext};
use crate::broker::{Broker, Producer};
use crate::load::{KeySource, SendSchedule, TombstoneSource};
use crate::measure::host::tasks::watched;
use crate::scenario::{Load, ProducerMode};

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
    let has_common_size = payloads.smallest() == payloads.largest() && context.scenario.payload.tombstones == 0.0;
    let common_size = has_common_size.then(|| payloads.largest());
    let quota = Quota::new(&context.scenario.run.stop, common_size);
    let round = (settings.count * settings.batch) as u64;
    if settings.round_barrier { quota.in_rounds_of(round) } else { quota }
}

/// Starts one task per producer; each leaves its producer to be closed.
pub fn start<P: Producer>(
    context: &TrialContext<'_>,
    producers: Vec<P>,
    trial_window: &Arc<TrialWindow>,
    quota: Quota,
    pacer: Option<&Arc<Pacer>>,
) -> (JoinSet<Sent>, Closing<P>) {
    let settings = &context.scenario.producers;
    let quota = Arc::new(quota);
    let rounds = Arc::new(Rounds::new(settings.count, settings.batch, quota.clone(), trial_window.clone()));
    let shared = Arc::new(SenderShared { acks: context.acks.clone(), trial_window: trial_window.clone(), quota });
    let rule =
        WindowRule { in_flight: settings.in_flight as u64, batch: settings.batch as u64, confirm: settings.confirm };
    let (mut tasks, closing) = (JoinSet::new(), Closing::new());
    for (producer_index, producer) in producers.into_iter().enumerate() {
        let messages = messages(context, producer_index);
        let sender = Sender::new(producer, producer_index, shared.clone(), closing.clone(), messages);
        let number = context.scenario.first_producer() + producer_index;
        match (&context.scenario.load, pacer) {
            (Load::Open(schedule), Some(pacer)) => {
                let send_schedule = SendSchedule::new(schedule, number, context.scenario.all_producers());
                tasks.spawn(watched("producer", number, loops::run_open(sender, rule, send_schedule, pacer.clone())))
            }
            _ if settings.round_barrier => {
                tasks.spawn(watched("producer", number, loops::run_rounds(sender, rule, rounds.clone())))
            }
            _ => tasks.spawn(watched("producer", number, loops::run_closed(sender, rule))),
        };
    }
    (tasks, closing)
}

/// Makes the messages of a producer.
fn messages(context: &TrialContext<'_>, producer_index: usize) -> MessageSource {
    let settings = MessageSettings {
        payloads: context.payloads.clone(),
        trace_header: trace_header_mode(context),
        run_tag: context.identity.tag,
        producers: context.scenario.all_producers() as u64,
        clock: context.acks.clock(),
        header_offset_ns: context.header_offset_ns(),
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
        context.place_of(producer),
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
