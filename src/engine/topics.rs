//! A trial's topics, for every broker alike: several are created at once, one that exists is compared with what the scenario asks for, those
//! that were created are remembered and deleted after the trial, and each step has a time limit.

use std::cell::Cell;
use std::time::Duration;

use futures_util::stream;
use futures_util::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep, timeout};

use super::interruption::Interruption;
use crate::broker::{Broker, BrokerError, Created, Topic, Unready};

/// How long connecting, preparing and closing may each take.
pub const CONTROL_TIMEOUT: Duration = Duration::from_secs(20);

/// How long the broker may take to tell what its acknowledgements mean. Without an answer it is unknown.
pub const DURABILITY_TIMEOUT: Duration = Duration::from_secs(5);

/// Requests about topics at the same time: a broker needs some milliseconds for each, most of them waiting for its own metadata.
const REQUESTS_AT_ONCE: usize = 16;

/// How long a broker may take for one request. Its client's own limit is shorter, so that the client's words are heard first.
const REQUEST_LIMIT: Duration = CONTROL_TIMEOUT.saturating_add(Duration::from_secs(5));

/// How many topics are deleted in [`REQUEST_LIMIT`] at least. More have more time.
const DELETED_IN_TIME: usize = 1000;

/// How often new topics are checked for whether they can be used.
const READY_CHECK: Duration = Duration::from_millis(50);

/// How often a process that waits for topics of another one looks for them.
const FOREIGN_CHECK: Duration = Duration::from_millis(250);

/// What came of topics that were to be created.
#[derive(Default)]
pub struct Creation {
    /// Topics that did not exist before, and are removed after the trial.
    pub created: Vec<Topic>,
    /// Topics whose request failed. The broker may have created them all the same, where its answer was lost.
    pub failed: Vec<Topic>,
}

/// Creates the topics that do not exist, notes what came of each (also before an error), and waits until all can be used.
///
/// # Errors
/// When one exists with another shape, or cannot be created.
pub async fn create<B: Broker>(broker: &B, topics: &[Topic], creation: &mut Creation) -> Result<(), BrokerError> {
    let results =
        in_portions::<B, _>(topics, OnError::Stop, "created", async |portion| broker.create_topics(portion).await);
    let mut outcome = Ok(());
    for (topic, result) in results.await {
        let agreed = match result {
            Ok(Created::New) => {
                creation.created.push(topic.clone());
                Ok(())
            }
            Ok(Created::Existing(found)) => agree(topic, &found),
            Err(error) => {
                creation.failed.push(topic.clone());
                Err(error)
            }
        };
        outcome = outcome.and(agreed);
    }
    outcome?;
    await_ready(broker, topics).await
}

/// Those of the topics that exist, as they are.
///
/// # Errors
/// When the broker does not answer.
pub async fn find<B: Broker>(broker: &B, topics: &[Topic]) -> Result<Vec<Topic>, BrokerError> {
    let results =
        in_portions::<B, _>(topics, OnError::Stop, "found", async |portion| broker.find_topics(portion).await).await;
    results.into_iter().filter_map(|(_, found)| found.transpose()).collect()
}

/// The topics of these names, as they are.
///
/// # Errors
/// When one does not exist.
pub async fn find_all<B: Broker>(broker: &B, topics: &[Topic]) -> Result<Vec<Topic>, BrokerError> {
    let found = find(broker, topics).await?;
    match topics.iter().find(|wanted| found.iter().all(|found| found.name != wanted.name)) {
        None => Ok(found),
        Some(missing) => Err(BrokerError::Topic {
            topic: missing.name.clone(),
            action: "taken as it is",
            reason: "it does not exist: create it first, or remove `topology.existing`".to_owned(),
        }),
    }
}

/// Waits for topics that another process of the trial creates. It has time until the load is to begin, and as long as any request may
/// take. A broker that does not tell what exists is asked to create them as well.
///
/// # Errors
/// When they do not exist by then.
pub async fn await_created<B: Broker>(
    broker: &B,
    topics: &[Topic],
    until_load: Duration,
    interruption: &Interruption,
) -> Result<(), BrokerError> {
    let deadline = Instant::now() + until_load.max(CONTROL_TIMEOUT);
    loop {
        let found = if broker.finds_created() {
            let found = find_all(broker, topics).await;
            found.and_then(|found| topics.iter().zip(&found).try_for_each(|(wanted, found)| agree(wanted, found)))
        } else {
            // What this process creates here, the other ones use as well.
            create(broker, topics, &mut Creation::default()).await
        };
        match found {
            Err(BrokerError::Topic { .. } | BrokerError::TopicMismatch { .. })
                if Instant::now() < deadline && !interruption.is_requested() =>
            {
                sleep(FOREIGN_CHECK).await;
            }
            found => return found,
        }
    }
}

/// After an error, looks for the topics that the broker has created although its answer was lost. Those whose names are unique to the trial
/// (`is_unique`) are its own. Of others it is not known whether they existed before: they stay, and the error that is returned names
/// them. So it does with all that failed if the broker does not answer.
pub async fn find_unanswered<B: Broker>(
    broker: &B,
    is_unique: bool,
    creation: &mut Creation,
    error: BrokerError,
) -> BrokerError {
    let found = match timeout(DURABILITY_TIMEOUT, find(broker, &creation.failed)).await {
        Ok(Ok(found)) if is_unique => {
            creation.created.extend(found);
            return error;
        }
        Ok(Ok(found)) => Some(found),
        _ => None,
    };
    match (error, found.as_deref()) {
        (BrokerError::Topic { topic, action: action @ "created", reason }, None) => {
            let left = names(&creation.failed);
            let reason =
                format!("{reason}; the broker does not say whether it has made them, so these may be left: {left}");
            BrokerError::Topic { topic, action, reason }
        }
        (BrokerError::Topic { topic, action: action @ "created", reason }, Some(found @ [_, ..])) => {
            let left = names(found);
            let reason =
                format!("{reason}; these exist now, made by the request or before it, and were not removed: {left}");
            BrokerError::Topic { topic, action, reason }
        }
        (error, _) => error,
    }
}

/// Ends what writes, deletes these topics, and disconnects.
///
/// # Errors
/// The first error, with the names of all topics that may be left. It goes on after one.
pub async fn close<B: Broker>(broker: B, delete: &[Topic]) -> Result<(), BrokerError> {
    let _ = timeout(CONTROL_TIMEOUT, broker.stop()).await;
    let portions = delete.len().div_ceil(DELETED_IN_TIME).max(1);
    let limit = REQUEST_LIMIT * portions as u32;
    let deleting =
        in_portions::<B, _>(delete, OnError::GoOn, "removed", async |portion| broker.delete_topics(portion).await);
    let (deleted, closing_limit) = match timeout(limit, deleting).await {
        Ok(results) => (all_removed(results), CONTROL_TIMEOUT),
        Err(_) => {
            let reason = format!("topics were not removed within {limit:?}: {}", names(delete));
            // A broker that is gone is not waited for twice.
            (Err(BrokerError::Client(reason)), Duration::ZERO)
        }
    };
    let closed = timeout(closing_limit, broker.close()).await.unwrap_or_else(|_| {
        let reason = format!("it was not disconnected within {CONTROL_TIMEOUT:?}");
        Err(BrokerError::Client(reason))
    });
    deleted.and(closed)
}

/// The first error, which names the other topics that were not removed.
fn all_removed(results: Vec<(&Topic, Result<(), BrokerError>)>) -> Result<(), BrokerError> {
    let mut left = results.into_iter().filter_map(|(topic, result)| Some((topic, result.err()?)));
    let Some((_, error)) = left.next() else { return Ok(()) };
    let others: Vec<Topic> = left.map(|(topic, _)| topic.clone()).collect();
    Err(match error {
        BrokerError::Topic { topic, action, reason } if !others.is_empty() => {
            let reason = format!("{reason}; nor can these: {}", names(&others));
            BrokerError::Topic { topic, action, reason }
        }
        error => error,
    })
}

/// Adds to the error that ended a preparation that topics which it had created could not be removed either.
pub fn with_leftovers(error: BrokerError, closed: Result<(), BrokerError>) -> BrokerError {
    match (error, closed) {
        (BrokerError::Topic { topic, action, reason }, Err(left @ BrokerError::Topic { action: "removed", .. })) => {
            BrokerError::Topic {
                topic,
                action,
                reason: format!("{reason}; and what was created before is left: {left}"),
            }
        }
        (error, _) => error,
    }
}

/// Waits until all of the topics can be written to and read.
async fn await_ready<B: Broker>(broker: &B, topics: &[Topic]) -> Result<(), BrokerError> {
    let deadline = Instant::now() + CONTROL_TIMEOUT;
    let results = in_portions::<B, ()>(topics, OnError::Stop, "created", async |portion| {
        loop {
            match broker.unready_topic(portion).await {
                Ok(None) => return Vec::new(),
                Ok(Some(Unready { topic, reason })) if Instant::now() >= deadline => {
                    let reason = format!("{reason}, after {CONTROL_TIMEOUT:?}");
                    return vec![Err(BrokerError::Topic { topic, action: "created", reason })];
                }
                Ok(Some(_)) => sleep(READY_CHECK).await,
                Err(error) => return vec![Err(error)],
            }
        }
    });
    results.await.into_iter().try_for_each(|(_, result)| result)
}

/// What an error of one request means for those that have not begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnError {
    Stop,
    GoOn,
}

/// Does `work` on all topics, in portions as large as the broker takes, several at once. Portions that have begun are awaited also after an error.
/// Returns the results with their topics, in the order of the topics; none for a topic that was not begun.
async fn in_portions<'t, B: Broker, R>(
    topics: &'t [Topic],
    on_error: OnError,
    action: &'static str,
    work: impl AsyncFn(&'t [Topic]) -> Vec<Result<R, BrokerError>>,
) -> Vec<(&'t Topic, Result<R, BrokerError>)> {
    let is_stopped = Cell::new(false);
    let in_portion = async |portion: &'t [Topic]| {
        if is_stopped.get() {
            return Vec::new();
        }
        let results = timeout(REQUEST_LIMIT, work(portion)).await.unwrap_or_else(|_| {
            let reason = format!("the broker did not answer within {REQUEST_LIMIT:?}");
            vec![Err(BrokerError::Topic { topic: portion[0].name.clone(), action, reason })]
        });
        if on_error == OnError::Stop && results.iter().any(Result::is_err) {
            is_stopped.set(true);
        }
        portion.iter().zip(results).collect()
    };
    // Boxed: what puts futures in order is compiled once, not for each broker.
    let portions = topics.chunks(B::TOPICS_PER_REQUEST).map(|portion| in_portion(portion).boxed_local());
    stream::iter(portions).buffered(REQUESTS_AT_ONCE).collect::<Vec<Vec<_>>>().await.into_iter().flatten().collect()
}

/// Checks that a topic that exists is as the scenario asks for.
///
/// # Errors
/// When it is not.
pub fn agree(wanted: &Topic, found: &Topic) -> Result<(), BrokerError> {
    let differs = |shape: fn(&Topic) -> String| (shape(wanted) != shape(found)).then_some(shape);
    let partitions = differs(|topic| format!("{} partition(s)", topic.partitions));
    let replication = differs(|topic| format!("replication {}", topic.replication));
    let shapes: Vec<fn(&Topic) -> String> = partitions.into_iter().chain(replication).collect();
    if shapes.is_empty() {
        return Ok(());
    }
    let told = |topic: &Topic| shapes.iter().map(|shape| shape(topic)).collect::<Vec<_>>().join(" and ");
    Err(BrokerError::TopicMismatch { topic: wanted.name.clone(), found: told(found), wanted: told(wanted) })
}

/// The names of topics, for people.
pub fn names(topics: &[Topic]) -> String {
    topics.iter().map(|topic| topic.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(partitions: u32, replication: u32) -> Topic {
        Topic { name: "orders".to_owned(), partitions, replication }
    }

    #[test]
    fn all_topics_that_are_left_are_named() {
        let failed = |name: &str| BrokerError::Topic {
            topic: name.to_owned(),
            action: "removed",
            reason: "its quota is used up".to_owned(),
        };
        let topics = ["a", "b", "c"].map(|name| Topic { name: name.to_owned(), ..topic(1, 1) });
        let results = [Err(failed("a")), Ok(()), Err(failed("c"))];
        let left = all_removed(topics.iter().zip(results).collect());
        let told = "topic 'a' cannot be removed: its quota is used up; nor can these: c";
        assert_eq!(left.clone().unwrap_err().to_string(), told);
        let refused = BrokerError::Topic { topic: "d".to_owned(), action: "created", reason: "no".to_owned() };
        let both = with_leftovers(refused.clone(), left).to_string();
        assert_eq!(both, format!("topic 'd' cannot be created: no; and what was created before is left: {told}"));
        assert_eq!(with_leftovers(refused.clone(), Ok(())), refused);
    }

    #[test]
    fn mismatch_names_only_what_differs() {
        let mismatch = |wanted: &Topic, found: &Topic| agree(wanted, found).unwrap_err().to_string();
        assert_eq!(agree(&topic(4, 1), &topic(4, 1)), Ok(()));
        let partitions = mismatch(&topic(4, 1), &topic(2, 1));
        assert!(
            partitions.contains("exists with 2 partition(s), but the scenario asks for 4 partition(s)"),
            "{partitions}"
        );
        let both = mismatch(&topic(4, 3), &topic(2, 1));
        assert!(both.contains("with 2 partition(s) and replication 1, but"), "{both}");
    }
}
