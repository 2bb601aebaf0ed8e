//! A trial's consumers: makes them, waits for their groups, and starts a task for each.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::consume::consume;
use crate::broker::{Broker, BrokerError, Progress, Subscription};
use crate::engine::EngineError;
use crate::engine::context::{AT_ONCE, CONTROL_TIMEOUT, TrialContext};
use crate::engine::sampler::POLL;
use crate::measure::{Errors, SubscriptionIndex};
use crate::pipeline::Pipeline;

/// Makes all consumers at once: each may have to wait for its group. One that is ready begins to receive, as its group
/// may need it to before it lets the next one in.
pub async fn consumers<B: Broker>(
    context: &TrialContext<'_>,
    broker: &B,
    stop: &CancellationToken,
    mut pipeline: Option<&mut Pipeline>,
) -> Result<JoinSet<Errors>, EngineError> {
    let mut tasks = JoinSet::new();
    let (Some(consumers), Some(arrivals)) = (&context.scenario.consumers, &context.arrivals) else { return Ok(tasks) };
    if broker.withholds_messages() && context.verification().is_some() {
        let reason = "consumers that do not receive every message cannot be verified: set `consumers.verify = false`, or \
                      leave the filters out";
        return Err(BrokerError::Configuration { broker: B::DESCRIPTOR.kind, reason: reason.to_owned() }.into());
    }
    let places = (0..consumers.groups).flat_map(|group| {
        let members = move |topic| (0..consumers.members).map(move |member| (group, topic, member));
        (0..context.topics.len()).flat_map(members)
    });
    if let Some(pipeline) = &mut pipeline {
        pipeline.start();
    }
    let joining = places.map(|(group, topic, member)| async move {
        let subscription = Subscription {
            group: group_name(context, group, topic),
            topic: context.topics[topic].clone(),
            from: consumers.from,
            members: consumers.members,
            member,
            properties: consumers.properties.clone(),
            progress: progress(context),
        };
        Ok::<_, EngineError>((SubscriptionIndex { group, topic }, member, broker.consumer(&subscription).await?))
    });
    let mut joined = stream::iter(joining).buffer_unordered(AT_ONCE);
    while let Some((place, member, consumer)) = joined.try_next().await? {
        let recorder = arrivals.recorder(place);
        match &pipeline {
            None => tasks.spawn(consume(consumer, recorder, context.acks.clock(), stop.clone())),
            Some(pipeline) => tasks.spawn(pipeline.instance(member, consumer, recorder)),
        };
    }
    drop(joined);
    // The load begins with a group that is complete; one that is not by then misses nothing.
    let deadline = Instant::now() + CONTROL_TIMEOUT;
    while pipeline.as_ref().is_some_and(|pipeline| !pipeline.is_assigned()) && Instant::now() < deadline {
        tokio::time::sleep(POLL).await;
    }
    Ok(tasks)
}

/// A group of its own for each topic: its members share one topic's partitions and nothing else.
fn group_name(context: &TrialContext<'_>, group: usize, topic: usize) -> String {
    let named = context.scenario.pipeline.as_ref().and_then(|pipeline| pipeline.group.clone());
    named.unwrap_or_else(|| format!("{}-{group}-{topic}", context.identity.run_id))
}

fn progress(context: &TrialContext<'_>) -> Progress {
    match &context.scenario.pipeline {
        None => Progress::Uncommitted,
        Some(pipeline) if pipeline.group.is_some() => Progress::Kept,
        Some(_) => Progress::OfTheTrial,
    }
}
