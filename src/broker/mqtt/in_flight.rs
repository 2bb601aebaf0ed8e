//! Messages of a connection that await their acknowledgement: by packet id, or, with QoS 0, the answer to a `PINGREQ` behind them.

use std::collections::VecDeque;
use std::io;

use super::codec::Ack;
use super::connect::Allowed;
use crate::broker::ClientError;
use crate::measure::SendTag;

/// A message without an outcome.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub send_tag: SendTag,
    pub bytes: u32,
    pub route: u32,
}

/// A message with its outcome; `None`: it was acknowledged.
pub type Settled = (Sent, Option<Box<ClientError>>);

/// What a packet id is used for.
#[derive(Debug, Clone, Copy)]
enum Slot {
    Free,
    Awaited(Sent),
    /// Its outcome is known; the server has not let go of the id.
    Late,
}

/// What a `PINGREQ` is for.
#[derive(Debug, Clone, Copy)]
enum Ping {
    Heartbeat,
    /// So many messages before it.
    Messages(usize),
}

/// What the connection's lock protects.
#[derive(Default)]
pub struct InFlight {
    /// By packet id, from 1.
    slots: Vec<Slot>,
    /// Ids that were used and are free.
    free: VecDeque<u16>,
    /// What the server allows on this connection.
    pub allowed: Allowed,
    unnumbered: VecDeque<Option<Sent>>,
    pings: VecDeque<Ping>,
    pending: usize,
    /// Answers to messages whose outcome was known.
    unmatched: u64,
    /// A producer waits for an id.
    blocked: bool,
    /// Routes whose topic has its alias on this connection.
    pub aliases: Vec<bool>,
}

impl InFlight {
    /// Of a new connection.
    pub fn new(allowed: Allowed) -> Self {
        InFlight { allowed, ..InFlight::default() }
    }

    /// The connection was replaced by another one, whose server knows nothing of this one's packet ids.
    pub fn restart(&mut self, allowed: Allowed) {
        *self = InFlight { allowed, unmatched: self.unmatched, ..InFlight::default() };
    }

    pub fn pending(&self) -> usize {
        self.pending
    }

    pub fn take_unmatched(&mut self) -> u64 {
        std::mem::take(&mut self.unmatched)
    }

    /// A packet id for this message; `None`: as many as may be are in use.
    #[inline]
    pub fn take_id(&mut self, sent: Sent) -> Option<u16> {
        let id = match self.free.pop_front() {
            Some(id) => {
                self.slots[usize::from(id) - 1] = Slot::Awaited(sent);
                id
            }
            None if self.slots.len() < self.allowed.receive_maximum.into() => {
                self.slots.push(Slot::Awaited(sent));
                self.slots.len() as u16
            }
            None => {
                self.blocked = true;
                return None;
            }
        };
        self.pending += 1;
        Some(id)
    }

    /// A message of QoS 0 was appended.
    pub fn push_unnumbered(&mut self, sent: Sent) {
        self.unnumbered.push_back(Some(sent));
        self.pending += 1;
    }

    /// A `PINGREQ` was appended behind so many messages of QoS 0; `None`: as a heartbeat.
    pub fn ping(&mut self, messages: Option<usize>) {
        self.pings.push_back(messages.map_or(Ping::Heartbeat, Ping::Messages));
    }

    /// The last packet about this id has come. Returns whether a producer waits for one.
    ///
    /// # Errors
    /// When the id was not in use.
    #[inline]
    pub fn settle(
        &mut self,
        packet_id: u16,
        failure: Option<Box<ClientError>>,
        settled: &mut Vec<Settled>,
    ) -> Result<bool, String> {
        let slot = usize::from(packet_id).checked_sub(1).and_then(|index| self.slots.get_mut(index));
        match slot.map(|slot| std::mem::replace(slot, Slot::Free)) {
            Some(Slot::Awaited(sent)) => {
                self.pending -= 1;
                settled.push((sent, failure));
            }
            Some(Slot::Late) => self.unmatched += 1,
            Some(Slot::Free) | None => {
                return Err(format!("the server acknowledges the packet {packet_id}, which was not sent"));
            }
        }
        self.free.push_back(packet_id);
        Ok(std::mem::take(&mut self.blocked))
    }

    /// The answer to a `PINGREQ` has come.
    ///
    /// # Errors
    /// When there was none.
    pub fn pong(&mut self, settled: &mut Vec<Settled>) -> Result<(), String> {
        match self.pings.pop_front() {
            Some(Ping::Heartbeat) => {}
            Some(Ping::Messages(messages)) => {
                for sent in self.unnumbered.drain(..messages) {
                    match sent {
                        Some(sent) => {
                            self.pending -= 1;
                            settled.push((sent, None));
                        }
                        None => self.unmatched += 1,
                    }
                }
            }
            None => return Err("the server answers a PINGREQ that was not sent".to_owned()),
        }
        Ok(())
    }

    /// Removes messages without an outcome that are `overdue`. Their acknowledgements may still come.
    pub fn take_overdue(&mut self, overdue: impl Fn(&Sent) -> bool) -> Vec<Sent> {
        let mut taken = Vec::new();
        for slot in &mut self.slots {
            if let Slot::Awaited(sent) = slot
                && overdue(sent)
            {
                taken.push(*sent);
                *slot = Slot::Late;
            }
        }
        taken.extend(self.unnumbered.iter_mut().filter_map(|sent| sent.take_if(|sent| overdue(sent))));
        self.pending -= taken.len();
        taken
    }
}

/// Whether a packet is the last one about a message of this quality of service.
///
/// # Errors
/// When such a message has no such packet.
pub fn is_last(kind: Ack, qos: u8, is_failure: bool) -> io::Result<bool> {
    match (kind, qos) {
        (Ack::Puback, 1) | (Ack::Pubcomp, 2) => Ok(true),
        (Ack::Pubrec, 2) => Ok(is_failure),
        _ => Err(io::Error::other(format!("the server sends {kind:?} for a message of QoS {qos}"))),
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/mqtt/in_flight.rs"]
mod tests;
