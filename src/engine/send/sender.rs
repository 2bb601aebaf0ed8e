//! Makes a batch of payloads, keys and trace headers, hands it to the client, and counts it.

use std::sync::Arc;

use super::attributes::{AttributeSource, Chosen};
use super::closing::Closing;
use super::offer::{Offered, Stopped, offer};
use super::quota::Quota;
use super::trial_window::TrialWindow;
use crate::broker::{Outgoing, Producer};
use crate::load::{KeySource, PayloadPool};
use crate::measure::{Acks, SendTag, TRACE_HEADER_BYTES, TraceHeader, Window};
use crate::net::backoff::Backoff;

/// How messages carry their trace header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceHeaderMode {
    /// Without one: no consumer reads it.
    None,
    /// Over the payload's first bytes.
    InPayload,
    /// As a message header.
    Beside,
}

/// What all producers of a trial have in common.
pub struct Shared {
    pub acks: Acks,
    pub trial_window: Arc<TrialWindow>,
    pub quota: Arc<Quota>,
    pub payloads: Arc<PayloadPool>,
    pub trace_header: TraceHeaderMode,
    pub run_tag: u32,
    /// Producers of the trial.
    pub producers: u64,
}

/// What one producer has handed to the client, by whether it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempted {
    pub measured: u64,
    pub warm_up: u64,
}

impl Attempted {
    pub fn add(&mut self, other: Attempted) {
        self.measured += other.measured;
        self.warm_up += other.warm_up;
    }

    pub fn all(self) -> u64 {
        self.measured + self.warm_up
    }
}

/// What became of one producer's part of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    pub producer_index: usize,
    pub attempted: Attempted,
    /// Measured messages that the schedule had due for this producer until the load ended; `None` in a closed loop.
    pub due: Option<u64>,
}

impl Sent {
    /// The counts of the producers' windows, in the order of their indices, also of producers that still send or have crashed. While
    /// they send it may be a batch of each behind. What was due is not known.
    pub fn by_windows(acks: &Acks) -> Vec<Self> {
        let of = |(producer_index, window): (usize, &Window)| {
            // In this order: a message counts for the warm-up before it counts as submitted.
            let submitted = window.submitted();
            let warm_up = window.warm_up().min(submitted);
            Sent { producer_index, attempted: Attempted { measured: submitted - warm_up, warm_up }, due: None }
        };
        acks.windows().iter().enumerate().map(of).collect()
    }
}

/// One producer at work.
pub struct Sender<P> {
    producer: P,
    producer_index: usize,
    shared: Arc<Shared>,
    closing: Closing<P>,
    keys: KeySource,
    attributes: AttributeSource,
    next_payload: u64,
    sequence: u64,
    attempted: Attempted,
    /// Bytes that this batch's messages carry beside or instead of pooled ones.
    scratch: Vec<u8>,
    parts: Vec<Parts>,
    /// Of them, those that count.
    measured_in_batch: u64,
    /// The pause of a closed loop after a batch of which everything was refused.
    refusals: Backoff,
    /// Kept for its memory only: empty between batches.
    outgoing: Vec<Outgoing<'static>>,
}

/// Where one message's bytes lie: its payload in the pool, or everything in the scratch, in this order: payload, trace header, key.
struct Parts {
    pooled: u64,
    /// The payload's bytes in the scratch; `None` where the pooled payload is sent as it is.
    payload: Option<usize>,
    has_trace_header: bool,
    key: Option<u32>,
    attributes: Option<Chosen>,
    is_tombstone: bool,
    send_tag: SendTag,
}

impl<P: Producer> Sender<P> {
    pub fn new(
        producer: P,
        producer_index: usize,
        shared: Arc<Shared>,
        closing: Closing<P>,
        keys: KeySource,
        attributes: AttributeSource,
    ) -> Self {
        Sender {
            producer,
            producer_index,
            // Producers begin far from each other, so that a topic sees payloads mixed, and the same one again, which would
            // compress to nothing, only after all others.
            next_payload: producer_index as u64 * (shared.payloads.len() as u64 / shared.producers).max(1),
            shared,
            closing,
            keys,
            attributes,
            sequence: 0,
            attempted: Attempted::default(),
            scratch: Vec::new(),
            parts: Vec::new(),
            measured_in_batch: 0,
            refusals: Backoff::REFUSED,
            outgoing: Vec::new(),
        }
    }

    pub fn producer_index(&self) -> usize {
        self.producer_index
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Ends the producer: what was handed over, of `due` measured messages.
    pub fn end(mut self, due: Option<u64>) -> Sent {
        self.producer.finish();
        self.closing.add(self.producer);
        Sent { producer_index: self.producer_index, attempted: self.attempted, due }
    }

    /// Sends `count` messages that are all intended now, as in a closed loop. If all of them are refused, pauses: the next ones
    /// would be, too, as fast as the processor allows.
    ///
    /// # Errors
    /// When the load was stopped before the client had taken all of them.
    pub async fn send_now(&mut self, count: usize, now_ns: u64, measured: bool) -> Result<(), Stopped> {
        self.clear_batch();
        for _ in 0..count {
            self.add(now_ns, now_ns, measured);
        }
        if self.hand_over().await? == Offered::Refused {
            tokio::select! {
                () = self.refusals.pause() => {}
                () = self.shared.trial_window.stopped() => {}
            }
        } else {
            self.refusals.succeeded();
        }
        Ok(())
    }

    /// Sends one message for each of `intended`: its time in nanoseconds since the trial's epoch, and whether it counts.
    ///
    /// # Errors
    /// When the load was stopped before the client had taken all of them.
    pub async fn send_due(&mut self, intended: &[(u64, bool)], now_ns: u64) -> Result<(), Stopped> {
        self.clear_batch();
        for &(intended_ns, measured) in intended {
            self.add(intended_ns, now_ns, measured);
        }
        self.hand_over().await.map(drop)
    }

    fn clear_batch(&mut self) {
        self.parts.clear();
        self.scratch.clear();
        self.measured_in_batch = 0;
    }

    #[inline]
    fn add(&mut self, intended_ns: u64, sent_ns: u64, measured: bool) {
        let send_tag =
            SendTag::new(self.producer_index, self.sequence, sent_ns, sent_ns.saturating_sub(intended_ns), measured);
        let pooled = self.next_payload;
        self.next_payload = self.next_payload.wrapping_add(1);
        let attributes = self.attributes.choose();
        let is_tombstone = attributes.is_some_and(|chosen| self.attributes.get(chosen).null_payload);
        let mut parts =
            Parts { pooled, payload: None, has_trace_header: false, key: None, attributes, is_tombstone, send_tag };
        if is_tombstone {
            parts.payload = Some(0);
        } else if let Some(live) = self.shared.payloads.live(pooled) {
            let begin = self.scratch.len();
            let unix_ns = self.shared.acks.clock().epoch_unix_ns() + intended_ns;
            // Producers count in turn, so that no number comes twice.
            let counter = self.sequence * self.shared.producers + self.producer_index as u64;
            live.render(&mut self.scratch, counter, unix_ns);
            parts.payload = Some(self.scratch.len() - begin);
        }
        if self.shared.trace_header != TraceHeaderMode::None {
            self.add_trace_header(&mut parts, intended_ns, measured);
        }
        if let Some(key) = self.keys.next_key() {
            self.scratch.extend_from_slice(key);
            parts.key = Some(key.len() as u32);
        }
        self.sequence += 1;
        self.measured_in_batch += u64::from(measured);
        self.parts.push(parts);
    }

    fn add_trace_header(&mut self, parts: &mut Parts, intended_ns: u64, measured: bool) {
        let shared = &self.shared;
        let trace_header = TraceHeader {
            run_tag: shared.run_tag,
            producer: self.producer_index as u32,
            measured,
            sequence: self.sequence,
            intended_ns,
        };
        let begin = self.scratch.len();
        match shared.trace_header {
            TraceHeaderMode::None => {}
            TraceHeaderMode::InPayload if !parts.is_tombstone => {
                self.scratch.extend_from_slice(shared.payloads.get(parts.pooled));
                trace_header.seal(&mut self.scratch[begin..], shared.payloads.checksum(parts.pooled));
                parts.payload = Some(self.scratch.len() - begin);
            }
            TraceHeaderMode::InPayload | TraceHeaderMode::Beside => {
                let checksum = match parts.payload {
                    Some(live) => crc32fast::hash(&self.scratch[begin - live..]),
                    None => shared.payloads.checksum(parts.pooled),
                };
                self.scratch.resize(begin + TRACE_HEADER_BYTES, 0);
                trace_header.seal(&mut self.scratch[begin..], checksum);
                parts.has_trace_header = true;
            }
        }
    }

    /// Hands everything prepared to the client, in as many pieces as it wants.
    async fn hand_over(&mut self) -> Result<Offered, Stopped> {
        let shared = &self.shared;
        let window = shared.acks.window(self.producer_index);
        let mut outgoing = recycle(std::mem::take(&mut self.outgoing));
        let mut payload_bytes = 0;
        let mut scratch = &self.scratch[..];
        for parts in &self.parts {
            let mut next = |length: usize| scratch.split_off(..length).expect("parts were appended in this order");
            let payload = parts.payload.map(&mut next).unwrap_or_else(|| shared.payloads.get(parts.pooled));
            let trace_header = parts.has_trace_header.then(|| next(TRACE_HEADER_BYTES)).and_then(<[u8]>::first_chunk);
            let key = parts.key.map(|length| next(length as usize));
            payload_bytes += payload.len() as u64;
            let attributes = parts.attributes.map(|chosen| self.attributes.get(chosen));
            outgoing.push(Outgoing { payload, key, trace_header, attributes, send_tag: parts.send_tag });
        }
        let measured = self.measured_in_batch;
        self.attempted.measured += measured;
        let of_warm_up = self.parts.len() as u64 - measured;
        if of_warm_up > 0 {
            self.attempted.warm_up += of_warm_up;
            // Before they count as handed over, so that a checkpoint never takes them for measured ones.
            window.set_warm_up(self.attempted.warm_up);
        }
        window.submit(outgoing.len() as u64);
        shared.quota.spend(if measured > 0 { payload_bytes } else { 0 });

        let (offered, rest) = offer(&mut self.producer, &shared.acks, &shared.trial_window, &outgoing).await;
        withdraw(rest, &mut self.attempted, window);
        self.outgoing = recycle(outgoing);
        offered
    }
}

/// Takes back messages that the client did not accept: they were not attempted.
fn withdraw(rest: &[Outgoing<'_>], attempted: &mut Attempted, window: &Window) {
    if rest.is_empty() {
        return;
    }
    let withdrawn = rest.len() as u64;
    let measured = rest.iter().filter(|outgoing| outgoing.send_tag.measured()).count() as u64;
    attempted.measured -= measured;
    attempted.warm_up -= withdrawn - measured;
    window.set_warm_up(attempted.warm_up);
    window.withdraw(withdrawn);
}

/// An empty vector for another batch's borrows with the memory of the last one: collecting in place keeps it.
fn recycle<'a>(mut used: Vec<Outgoing<'_>>) -> Vec<Outgoing<'a>> {
    used.clear();
    used.into_iter().map(|_| -> Outgoing<'a> { unreachable!("the vector was cleared") }).collect()
}
