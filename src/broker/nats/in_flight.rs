//! Messages of a connection that have no outcome yet, and the answers that give them one.

use std::collections::VecDeque;
use std::mem;

use serde::Deserialize;

use super::connect::text;
use crate::broker::{ClientError, FailureClass};
use crate::measure::SendTag;

/// A message with its outcome; `None`: it was acknowledged.
pub type Settled = (Sent, Option<Box<ClientError>>);

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
    /// Answers to messages whose outcome was known.
    unmatched: u64,
    /// Headers of the message that is written.
    pub headers: Vec<u8>,
    /// Atomic batches that were begun: part of their names.
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
    pub fn settle(&mut self, number: u64, outcome: Option<Box<ClientError>>, into: &mut Vec<Settled>) {
        let index = number.checked_sub(self.first).map(|index| index as usize);
        let sent = index.and_then(|index| self.sent.get_mut(index)?.take());
        let (Some(index), Some(sent)) = (index, sent) else {
            self.unmatched += 1;
            return;
        };
        let taken = into.len();
        for before in self.sent.range_mut((index + 1).saturating_sub(sent.answered.max(1) as usize)..index) {
            into.extend(before.take().map(|before| (before, outcome.clone())));
        }
        into.push((sent, outcome));
        self.pending -= into.len() - taken;
        self.forget();
    }

    /// Takes the first message that has an answer of its own and is `refused`, with those that share it.
    pub fn settle_first(&mut self, refused: impl Fn(&Sent) -> bool, outcome: ClientError, into: &mut Vec<Settled>) {
        let is_refused = |sent: &Option<Sent>| sent.is_some_and(|sent| sent.answered > 0 && refused(&sent));
        if let Some(index) = self.sent.iter().position(is_refused) {
            self.settle(self.first + index as u64, Some(Box::new(outcome)), into);
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

/// An answer of JetStream, as in `{"stream":"S", "seq":1}` (nats-server, `JSPubAckResponse`).
#[inline]
pub fn stored(answer: &[u8]) -> Result<(), ClientError> {
    // An acknowledgement without anything unusual ends with its number.
    if answer.starts_with(b"{\"stream\":") && matches!(answer, [.., b'0'..=b'9', b'}']) {
        return Ok(());
    }
    #[derive(Deserialize)]
    struct PubAck {
        error: Option<ApiError>,
        #[serde(default)]
        duplicate: bool,
    }
    #[derive(Deserialize)]
    struct ApiError {
        #[serde(default)]
        err_code: u64,
        #[serde(default)]
        description: String,
    }
    let ack: PubAck = serde_json::from_slice(answer).map_err(|_| {
        ClientError::passing(FailureClass::Other, format!("malformed acknowledgement: {}", text(answer)))
    })?;
    match ack.error {
        Some(ApiError { err_code, description }) => {
            // As in `maximum bytes exceeded`: server/errors.json, 10077 and 10047.
            let full = description.contains("exceeded") || description.contains("insufficient");
            let class = if full { FailureClass::Full } else { FailureClass::Refused };
            Err(ClientError::passing(class, format!("{description} (error {err_code})")))
        }
        None if ack.duplicate => {
            Err(ClientError::passing(FailureClass::Refused, "the stream has a message of this Nats-Msg-Id already"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/nats/in_flight.rs"]
mod tests;
