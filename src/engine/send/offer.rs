//! Offers a batch to the client until it has taken or refused every message.

use super::trial_window::TrialWindow;
use crate::broker::{FailureClass, Outgoing, Producer};
use crate::measure::Acks;

/// The load was stopped while the client had no room, or because it takes no message any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped;

/// What became of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// The client took messages, or refused them for their size.
    Taken,
    /// The client refused all messages, whatever they are.
    Refused,
}

/// Hands `batch` over, in as many pieces as the client wants. Returns what was not handled, which is nothing unless the load is
/// stopped. A client that takes no message any more ends the load.
pub async fn offer<'b, 'm, P: Producer>(
    producer: &mut P,
    acks: &Acks,
    trial_window: &TrialWindow,
    batch: &'b [Outgoing<'m>],
) -> (Result<Offered, Stopped>, &'b [Outgoing<'m>]) {
    let mut rest = batch;
    let (mut taken, mut refused) = (false, false);
    while let Some(first) = rest.first() {
        let refusal = tokio::select! {
            biased;
            count = producer.submit(rest) => match count {
                Ok(count) => {
                    rest = &rest[count..];
                    taken = true;
                    continue;
                }
                Err(refusal) => refusal,
            },
            () = trial_window.stopped() => return (Err(Stopped), rest),
        };
        refused |= refusal.class != FailureClass::TooLarge;
        trial_window.count_refusal();
        acks.reject(first.send_tag, refusal.class, || refusal.message);
        rest = &rest[1..];
        if let Some(reason) = producer.fatal_error() {
            trial_window.fail(reason);
            return (Err(Stopped), rest);
        }
    }
    let offered = if refused && !taken { Offered::Refused } else { Offered::Taken };
    (Ok(offered), rest)
}
