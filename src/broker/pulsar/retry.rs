//! What the broker refuses, by class, and what is tried again: an attempt is repeated until it succeeds, in a task of its own. The result
//! may be awaited, or fetched later.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::codec::proto::ServerError;
use crate::broker::{ClientError, FailureClass};
use crate::measure::ConditionKind;
use crate::net::backoff::Backoff;
use crate::printable::printable;

/// The pause between two attempts.
pub const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));

/// The error for a request that the broker refused with `number`, one of [`ServerError`], and a description.
pub fn refused(number: i32, words: &str) -> ClientError {
    use ServerError::{
        AuthenticationError, AuthorizationError, IncompatibleSchema, InvalidTopicName, NotAllowedError, ProducerBusy,
        ProducerFenced, TopicNotFound, TopicTerminatedError, UnsupportedVersionError,
    };
    let error = ServerError::try_from(number).ok();
    // The broker could not find out, as while its metadata store is away (`ServerCnx.handleLookup`).
    let is_undecided = words.contains("while trying to authorize");
    let class = match error {
        Some(AuthorizationError) if is_undecided => FailureClass::Refused,
        Some(AuthenticationError | AuthorizationError) => FailureClass::Authorisation,
        Some(TopicNotFound | InvalidTopicName) => FailureClass::UnknownTopic,
        Some(ProducerBusy | ProducerFenced) => FailureClass::Fenced,
        _ => FailureClass::Refused,
    };
    let lasting = matches!(
        error,
        Some(
            AuthenticationError
                | AuthorizationError
                | TopicNotFound
                | InvalidTopicName
                | ProducerFenced
                | TopicTerminatedError
                | NotAllowedError
                | IncompatibleSchema
                | UnsupportedVersionError
        )
    ) && !is_undecided;
    let name = error.map_or_else(|| format!("error {number}"), |error| format!("{error:?}"));
    // The description may be the stack trace of an exception; its first line is the message.
    let words = printable(words.lines().next().unwrap_or_default());
    ClientError { class, message: format!("{name}: {words}"), lasting }
}

/// The condition that an error shows.
pub fn condition(error: &ClientError) -> ConditionKind {
    // Named after `ServerError`: of the policies `producer_request_hold` and `producer_exception`.
    let is_quota = error.message.starts_with("ProducerBlockedQuotaExceeded");
    if is_quota { ConditionKind::BacklogQuota } else { ConditionKind::from_failure(error.class) }
}

/// Attempts that are repeated until one succeeds, or until this is dropped.
pub struct Retry<T> {
    task: AbortHandle,
    /// The result, which is there before `done` is notified.
    end: oneshot::Receiver<Result<T, ClientError>>,
    since: Instant,
    last: Arc<Mutex<ClientError>>,
}

impl<T: Send + 'static> Retry<T> {
    /// Starts the attempts because of `reason`, after the pause for what has failed before in `backoff`. `done` is notified when they have
    /// ended.
    pub fn start<F>(
        reason: ClientError,
        mut backoff: Backoff,
        done: Arc<Notify>,
        mut attempt: impl FnMut() -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<T, ClientError>> + Send,
    {
        let last = Arc::new(Mutex::new(reason));
        let seen = last.clone();
        let (ended, end) = oneshot::channel();
        let task = tokio::spawn(async move {
            backoff.wait().await;
            let end = loop {
                match attempt().await {
                    Err(failure) if !failure.lasting => {
                        *seen.lock() = failure;
                        backoff.pause().await;
                    }
                    end => break end,
                }
            };
            // The receiver may have been dropped.
            let _ = ended.send(end);
            done.notify_one();
        });
        Retry { task: task.abort_handle(), end, since: Instant::now(), last }
    }

    /// What it came to, if that is known before it has been tried for `patience` in all. Cancel-safe. To be called no
    /// more once it has given a result.
    ///
    /// # Errors
    /// The lasting failure.
    pub async fn within(&mut self, patience: Duration) -> Option<Result<T, ClientError>> {
        let left = patience.saturating_sub(self.since.elapsed());
        if left.is_zero() {
            return self.now();
        }
        match timeout(left, &mut self.end).await {
            Ok(end) => Some(end.unwrap_or_else(|_| Err(crashed()))),
            Err(_) => None,
        }
    }

    /// What it came to, if that is known. To be called no more once it has given a result.
    ///
    /// # Errors
    /// The lasting failure.
    pub fn now(&mut self) -> Option<Result<T, ClientError>> {
        match self.end.try_recv() {
            Ok(end) => Some(end),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => Some(Err(crashed())),
        }
    }

    /// What the last attempt failed with.
    pub fn last(&self) -> ClientError {
        self.last.lock().clone()
    }
}

fn crashed() -> ClientError {
    ClientError { lasting: true, ..ClientError::lost("the task that tried to open it again has crashed") }
}

impl<T> Drop for Retry<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Attempts the first time until one succeeds, but for no longer than `patience`: a broker that has just started refuses for a
/// while.
///
/// # Errors
/// The last failure, or the first that another attempt cannot help: a lasting one, or another producer's exclusive access.
pub async fn persist<T, F>(patience: Duration, mut attempt: impl FnMut() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let begin = Instant::now();
    let mut backoff = BACKOFF;
    loop {
        match attempt().await {
            Err(failure) if !failure.lasting && failure.class != FailureClass::Fenced && begin.elapsed() < patience => {
                backoff.pause().await;
            }
            end => return end,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn refusals_have_classes_and_keep_the_first_line() {
        let fenced = refused(25, "Producer fenced\n\tat java.lang.Thread");
        assert_eq!((fenced.class, fenced.lasting), (FailureClass::Fenced, true));
        assert_eq!(fenced.message, "ProducerFenced: Producer fenced");
        assert_eq!(refused(15, "").class, FailureClass::Refused);
        assert!(!refused(6, "not ready").lasting);
        let undecided = refused(4, "Exception occurred while trying to authorize lookup");
        assert_eq!((undecided.class, undecided.lasting), (FailureClass::Refused, false));
        let denied = refused(4, "Client is not authorized to Lookup");
        assert_eq!((denied.class, denied.lasting), (FailureClass::Authorisation, true));
        assert_eq!(refused(99, "news").message, "error 99: news");
    }

    #[tokio::test]
    async fn what_it_came_to_is_there_when_it_is_told() {
        let (done, attempts) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let counted = attempts.clone();
        let mut retry = Retry::start(ClientError::lost("first"), BACKOFF, done.clone(), move || {
            let attempt = counted.fetch_add(1, Ordering::Relaxed);
            async move { if attempt < 3 { Err(ClientError::late(format!("attempt {attempt}"))) } else { Ok(attempt) } }
        });
        assert_eq!((retry.now(), retry.last()), (None, ClientError::lost("first")));
        assert_eq!(retry.within(Duration::ZERO).await, None);
        done.notified().await;
        assert_eq!(retry.last(), ClientError::late("attempt 2"));
        assert_eq!(retry.now(), Some(Ok(3)));
    }

    #[tokio::test]
    async fn a_lasting_failure_ends_it() {
        let lasting = ClientError { lasting: true, ..ClientError::lost("terminated") };
        let told = lasting.clone();
        let mut retry = Retry::<()>::start(ClientError::lost("first"), BACKOFF, Arc::default(), move || {
            let told = told.clone();
            async move { Err(told) }
        });
        assert_eq!(retry.within(Duration::from_secs(1)).await, Some(Err(lasting)));
    }
}
