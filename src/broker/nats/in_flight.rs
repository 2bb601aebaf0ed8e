//! Messages of a connection that have no outcome yet, and the answers that give them one.

use std::collections::{HashMap, VecDeque};
use std::mem;

use serde::Deserialize;

use super::config::Batches;
use super::connect::text;
use crate::broker::{ClientError, FailureClass};
use crate::measure::SendTag;

/// A message with its outcome; `None`: it was acknowledged.
pub type Settled = (Sent, Option<Box<ClientError>>);

/// What an answer says of the messages that share it.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Acknowledged,
    Failed(Box<ClientError>),
    /// A fast batch ends before its last message. Another answer tells how many are stored.
    Ends(Box<ClientError>),
    /// So many messages of a fast batch are stored, from its first one.
    Stored(u64),
    /// A failure of a batch that is said of several of its messages: only the first counts.
    Repeated(Box<ClientError>),
}

/// Messages without an outcome.
#[derive(Default)]
pub struct InFlight {
    /// The number of the first of `sent`.
    first: u64,
    /// In the order of their numbers; `None`: its outcome is known already.
    sent: VecDeque<Option<Sent>>,
    pending: usize,
    /// For each `PING` without a `PONG`, the number behind the last message before it.
    pings: VecDeque<u64>,
    /// Why fast batches end early, by the number that has their answer.
    ends: HashMap<u64, Box<ClientError>>,
    /// Answers to messages whose outcome was known.
    unmatched: u64,
    /// Headers of the message that is written.
    pub headers: Vec<u8>,
    /// Batches that were begun: part of the names of atomic ones.
    pub batches: u64,
}

/// A message without an outcome.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub send_tag: SendTag,
    pub bytes: u32,
    pub route: u32,
    /// How many messages have the answer to this one, which is the last of them; 0: it has that of a later one.
    pub answered: u32,
}

impl InFlight {
    /// Messages without an outcome.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// The number of the next message.
    pub fn next(&self) -> u64 {
        self.first + self.sent.len() as u64
    }

    #[inline]
    pub fn push(&mut self, sent: Sent) {
        self.sent.push_back(Some(sent));
        self.pending += 1;
    }

    /// Takes the last messages back, which were not sent.
    pub fn withdraw(&mut self, count: usize) {
        self.sent.truncate(self.sent.len() - count);
        self.pending -= count;
    }

    /// A `PING` follows all messages so far.
    pub fn ping(&mut self) {
        self.pings.push_back(self.next());
    }

    /// A `PING` asks for a sign of life: its answer is the outcome of no message.
    pub fn heartbeat(&mut self) {
        self.pings.push_back(0);
    }

    /// Takes the messages before the first `PING` without an answer.
    pub fn pong(&mut self, into: &mut Vec<Settled>) {
        let Some(end) = self.pings.pop_front() else { return };
        let count = end.saturating_sub(self.first).min(self.sent.len() as u64) as usize;
        let taken = into.len();
        into.extend(self.sent.drain(..count).flatten().map(|sent| (sent, None)));
        self.pending -= into.len() - taken;
        self.first += count as u64;
        self.forget();
    }

    /// Takes the messages that have the answer to this one.
    #[inline]
    pub fn answer(&mut self, number: u64, outcome: Outcome, into: &mut Vec<Settled>) {
        match outcome {
            Outcome::Acknowledged => self.settle(number, None, 0, into),
            Outcome::Failed(failure) => self.settle(number, Some(failure), 0, into),
            Outcome::Ends(failure) => drop(self.ends.insert(number, failure)),
            Outcome::Stored(stored) => {
                let unknown = || {
                    let message = format!("the server ended the batch behind its first {stored} messages");
                    Box::new(ClientError::passing(FailureClass::Refused, message))
                };
                let failure = self.ends.remove(&number).unwrap_or_else(unknown);
                self.settle(number, Some(failure), stored as usize, into);
            }
            Outcome::Repeated(failure) => {
                let index = number.checked_sub(self.first).map(|index| index as usize);
                if index.and_then(|index| self.sent.get(index)).is_some_and(Option::is_some) {
                    self.settle(number, Some(failure), 0, into);
                }
            }
        }
    }

    /// The first `stored` messages of a batch are acknowledged, whatever the outcome of the others.
    #[inline]
    fn settle(&mut self, number: u64, outcome: Option<Box<ClientError>>, stored: usize, into: &mut Vec<Settled>) {
        let index = number.checked_sub(self.first).map(|index| index as usize);
        let sent = index.and_then(|index| self.sent.get_mut(index)?.take());
        let (Some(index), Some(sent)) = (index, sent) else {
            self.unmatched += 1;
            return;
        };
        let taken = into.len();
        let (count, messages) = (sent.answered.max(1) as usize, index + 1);
        for place in count.saturating_sub(messages)..count - 1 {
            let outcome = if place < stored { None } else { outcome.clone() };
            into.extend(self.sent[messages + place - count].take().map(|before| (before, outcome)));
        }
        into.push((sent, if count <= stored { None } else { outcome }));
        self.pending -= into.len() - taken;
        self.forget();
    }

    /// Takes the first message that has an answer of its own and is `refused`, with those that share it.
    pub fn settle_first(&mut self, refused: impl Fn(&Sent) -> bool, outcome: ClientError, into: &mut Vec<Settled>) {
        let is_refused = |sent: &Option<Sent>| sent.is_some_and(|sent| sent.answered > 0 && refused(&sent));
        if let Some(index) = self.sent.iter().position(is_refused) {
            self.settle(self.first + index as u64, Some(Box::new(outcome)), 0, into);
        }
    }

    /// Takes the first messages, as far as they are `overdue`.
    pub fn settle_overdue(
        &mut self,
        overdue: impl Fn(&Sent) -> bool,
        outcome: impl Fn() -> ClientError,
        into: &mut Vec<Settled>,
    ) {
        while let Some(Some(first)) = self.sent.front().copied()
            && overdue(&first)
        {
            into.push((first, Some(Box::new(outcome()))));
            self.sent.pop_front();
            self.first += 1;
            self.pending -= 1;
            self.forget();
        }
    }

    /// Takes all messages: the connection is lost.
    pub fn take_all(&mut self) -> Vec<Sent> {
        self.pings.clear();
        self.ends.clear();
        self.first = self.next();
        self.pending = 0;
        mem::take(&mut self.sent).into_iter().flatten().collect()
    }

    /// Answers to messages whose outcome was known, since the last call.
    pub fn take_unmatched(&mut self) -> u64 {
        mem::take(&mut self.unmatched)
    }

    /// Removes what is settled from the front.
    #[inline]
    fn forget(&mut self) {
        while let Some(None) = self.sent.front() {
            self.sent.pop_front();
            self.first += 1;
        }
    }
}

/// What JetStream's answer to a message says, as in `{"stream":"S", "seq":1}` (nats-server, `JSPubAckResponse`). `None`: nothing yet.
#[inline]
pub fn stored(answer: &[u8], batches: Batches) -> Option<Outcome> {
    // A batch was begun: its commit is answered as well.
    if answer.is_empty() {
        return None;
    }
    // An acknowledgement without anything unusual ends with its number.
    if batches != Batches::Fast && answer.starts_with(b"{\"stream\":") && matches!(answer, [.., b'0'..=b'9', b'}']) {
        return Some(Outcome::Acknowledged);
    }
    outcome(answer, batches)
}

fn outcome(answer: &[u8], batches: Batches) -> Option<Outcome> {
    #[derive(Deserialize)]
    struct Response<'a> {
        /// Of a fast batch (`BatchFlowAck`, `BatchFlowGap`, `BatchFlowErr`).
        r#type: Option<&'a str>,
        error: Option<ApiError>,
        #[serde(default)]
        duplicate: bool,
        /// Messages of a batch.
        #[serde(default)]
        count: u64,
    }
    #[derive(Deserialize)]
    struct ApiError {
        #[serde(default)]
        err_code: u64,
        #[serde(default)]
        description: String,
    }
    /// `JSBatchPublishUnknownBatchIDErr`, of each message behind the one that ended its batch.
    const UNKNOWN_BATCH: u64 = 10208;
    let failure = |class, message: String| Box::new(ClientError::passing(class, message));
    let refused = |message: &str| failure(FailureClass::Refused, message.to_owned());
    let Ok(response) = serde_json::from_slice::<Response<'_>>(answer) else {
        let message = format!("malformed acknowledgement: {}", text(answer));
        return Some(Outcome::Failed(failure(FailureClass::Other, message)));
    };
    let error = response.error.map(|ApiError { err_code, description }| {
        // As in `maximum bytes exceeded`: server/errors.json, 10077 and 10047.
        let full = description.contains("exceeded") || description.contains("insufficient");
        let class = if full { FailureClass::Full } else { FailureClass::Refused };
        (err_code, failure(class, format!("{description} (error {err_code})")))
    });
    Some(match (response.r#type, error) {
        // Progress within a batch: batches are shorter than the interval at which it is reported.
        (Some("ack"), _) => return None,
        (Some("gap"), _) => Outcome::Ends(refused("messages of the batch did not reach the stream")),
        (Some(_), Some((_, error))) => Outcome::Ends(error),
        (None, Some((UNKNOWN_BATCH, error))) => Outcome::Repeated(error),
        (_, Some((_, error))) => Outcome::Failed(error),
        (_, None) if response.duplicate => {
            Outcome::Failed(refused("the stream has a message of this Nats-Msg-Id already"))
        }
        (_, None) if batches == Batches::Fast => Outcome::Stored(response.count),
        (_, None) => Outcome::Acknowledged,
    })
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/nats/in_flight.rs"]
mod tests;
