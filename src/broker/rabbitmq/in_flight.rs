//! Messages of a connection that have no outcome yet, by channel, and the frames that give them one.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use super::content::trace_header;
use crate::broker::{ClientError, FailureClass};
use crate::measure::{SendTag, TraceHeader};

/// A message whose outcome is known; no failure: the server has confirmed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    pub sent: Sent,
    pub channel: u16,
    pub failure: Option<Arc<ClientError>>,
}

/// A message without an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub send_tag: SendTag,
    pub bytes: u32,
}

/// The channels of a connection, each of one producer.
#[derive(Debug, Default)]
pub struct InFlight {
    channels: Vec<Channel>,
    pending: usize,
}

#[derive(Debug, Default)]
struct Channel {
    /// Messages in their order. The outcome of those that are `false` is known.
    sent: VecDeque<(Sent, bool)>,
    /// The number of messages before the first of `sent`, since the channel was opened: delivery tags begin at 1.
    before: u64,
    returned: Option<Returned>,
}

/// A message that the server returns, as far as it has arrived.
#[derive(Debug)]
struct Returned {
    failure: ClientError,
    /// Its number among those of its producer; `None`: not known yet.
    sequence: Option<u64>,
    /// Bytes of its body that are still to come.
    missing_bytes: u64,
}

impl InFlight {
    /// Messages without an outcome.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// The number of a channel that is not used yet.
    pub fn next_channel(&self) -> usize {
        self.channels.len() + 1
    }

    /// Numbers of the channels.
    pub fn channels(&self) -> impl Iterator<Item = u16> + use<> {
        1..=self.channels.len() as u16
    }

    pub fn add_channel(&mut self) {
        self.channels.push(Channel::default());
    }

    /// As the server numbers them; `None`: there is no channel of this number.
    fn channel(&mut self, number: u16) -> Option<&mut Channel> {
        self.channels.get_mut(usize::from(number).checked_sub(1)?)
    }

    #[inline]
    pub fn push(&mut self, channel: u16, sent: impl ExactSizeIterator<Item = Sent>) {
        let count = sent.len();
        if let Some(channel) = self.channel(channel) {
            channel.sent.extend(sent.map(|sent| (sent, true)));
            self.pending += count;
        }
    }

    /// Takes the message of this delivery tag; with `multiple`, also those before it.
    #[inline]
    pub fn settle(
        &mut self,
        number: u16,
        (delivery_tag, multiple): (u64, bool),
        failure: Option<&Arc<ClientError>>,
        into: &mut Vec<Settled>,
    ) {
        let known = into.len();
        let Some(channel) = self.channel(number) else { return };
        let Some(count) = delivery_tag.checked_sub(channel.before) else { return };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let settled = |(sent, _)| Settled { sent, channel: number, failure: failure.cloned() };
        if multiple {
            let count = count.min(channel.sent.len());
            channel.before += count as u64;
            into.extend(channel.sent.drain(..count).filter(|(_, waits)| *waits).map(settled));
        } else if let Some(message) = count.checked_sub(1).and_then(|index| channel.sent.get_mut(index))
            && mem::take(&mut message.1)
        {
            into.push(settled(*message));
        }
        channel.forget();
        self.pending -= into.len() - known;
    }

    /// Takes all messages of a channel, whose delivery tags begin again.
    pub fn settle_channel(&mut self, number: u16, failure: &Arc<ClientError>, into: &mut Vec<Settled>) {
        self.settle(number, (u64::MAX, true), Some(failure), into);
        if let Some(channel) = self.channel(number) {
            *channel = Channel::default();
        }
    }

    /// Takes all messages, and delivery tags begin again.
    pub fn take_all(&mut self) -> Vec<Settled> {
        self.pending = 0;
        let numbered = self.channels.iter_mut().zip(1..);
        let all = numbered.flat_map(|(channel, number)| {
            let sent = mem::take(channel).sent.into_iter().filter(|(_, waits)| *waits);
            sent.map(move |(sent, _)| Settled { sent, channel: number, failure: None })
        });
        all.collect()
    }

    /// The server returns a message, whose properties and body follow.
    pub fn begin_return(&mut self, channel: u16, reason: &str) {
        if let Some(channel) = self.channel(channel) {
            let message = format!("the server returned the message: {reason} (mandatory)");
            let failure = ClientError::passing(FailureClass::UnknownTopic, message);
            channel.returned = Some(Returned { failure, sequence: None, missing_bytes: 0 });
        }
    }

    /// The properties of the message that is returned, and the size of its body.
    pub fn returned_header(&mut self, number: u16, body_bytes: u64, properties: &[u8], into: &mut Vec<Settled>) {
        if let Some(returned) = self.channel(number).and_then(|channel| channel.returned.as_mut()) {
            returned.missing_bytes = body_bytes;
            returned.sequence = trace_header(properties).and_then(|sealed| TraceHeader::sequence_of(&sealed));
            self.end_return(number, into);
        }
    }

    /// A part of the body of the message that is returned.
    pub fn returned_body(&mut self, number: u16, part: &[u8], into: &mut Vec<Settled>) {
        if let Some(returned) = self.channel(number).and_then(|channel| channel.returned.as_mut()) {
            returned.missing_bytes = returned.missing_bytes.saturating_sub(part.len() as u64);
            // Only its first part begins with a trace header.
            returned.sequence = returned.sequence.or_else(|| TraceHeader::sequence_of(part));
            self.end_return(number, into);
        }
    }

    /// Fails the message that was returned, if it has arrived: the one of its number, or the first one where the message has none. A confirm
    /// of it follows.
    fn end_return(&mut self, number: u16, into: &mut Vec<Settled>) {
        let Some(channel) = self.channel(number) else { return };
        let Some(Returned { failure, sequence, .. }) = channel.returned.take_if(|returned| returned.missing_bytes == 0)
        else {
            return;
        };
        // A producer's numbers grow from message to message.
        let by_number = |sequence| channel.sent.binary_search_by_key(&sequence, |(sent, _)| sent.send_tag.sequence());
        let index = sequence.and_then(|sequence| by_number(sequence).ok()).unwrap_or(0);
        let delivery_tag = channel.before + index as u64 + 1;
        self.settle(number, (delivery_tag, false), Some(&Arc::new(failure)), into);
    }
}

impl Channel {
    /// Removes what is settled from the front.
    #[inline]
    fn forget(&mut self) {
        while self.sent.front().is_some_and(|(_, waits)| !waits) {
            self.sent.pop_front();
            self.before += 1;
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/rabbitmq/in_flight.rs"]
mod tests;
