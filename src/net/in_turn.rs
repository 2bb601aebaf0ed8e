//! Attempts of which one is enough: one that is silent must not hold up the others.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::sleep;

/// Begins one attempt after the other, until one succeeds: the next when one fails, or when none has ended for `patience`. Attempts that
/// were begun go on meanwhile, and end with the first success. Also returns the errors of those that had failed before.
///
/// # Errors
/// Those of all attempts, in the order in which they failed.
pub async fn in_turn<T, E>(
    attempts: Vec<impl Future<Output = Result<T, E>>>,
    patience: Duration,
) -> Result<(T, Vec<E>), Vec<E>> {
    let mut waiting = attempts.into_iter();
    let (mut begun, mut errors) = (FuturesUnordered::new(), Vec::new());
    loop {
        let next = waiting.next();
        let may_be_more = next.is_some();
        begun.extend(next);
        tokio::select! {
            ended = begun.next() => match ended {
                Some(Ok(result)) => return Ok((result, errors)),
                Some(Err(error)) => errors.push(error),
                None => return Err(errors),
            },
            () = sleep(patience), if may_be_more => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::future::{Either, FutureExt};

    use super::*;

    #[tokio::test]
    async fn a_silent_attempt_does_not_hold_up_the_next() {
        let attempts = vec![Either::Left(pending()), Either::Right(ready(Ok::<_, ()>(7)))];
        assert_eq!(in_turn(attempts, Duration::from_millis(1)).await, Ok((7, vec![])));
    }

    #[tokio::test]
    async fn a_failed_attempt_makes_room_for_the_next_at_once() {
        let attempts = [Err("one"), Err("two"), Ok(3)].map(ready).into();
        let ended = in_turn(attempts, Duration::from_secs(3600)).now_or_never();
        assert_eq!(ended, Some(Ok((3, vec!["one", "two"]))));
    }

    #[tokio::test]
    async fn every_error_is_returned_when_all_fail() {
        let late = sleep(Duration::from_millis(20)).map(|()| Err::<(), _>("late"));
        let attempts = vec![Either::Left(late), Either::Right(ready(Err("early")))];
        assert_eq!(in_turn(attempts, Duration::from_millis(1)).await, Err(vec!["early", "late"]));
    }
}
