//! The reading task: settles receipts in bulk, queues deliveries, and obeys the broker's commands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message as _;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout_at;

use super::Shared;
use super::in_flight::{DeliveryQueue, Entry, Unanswered};
use super::state::State;
use crate::broker::ClientError;
use crate::broker::pulsar::codec::frame::{Frame, FrameError, put_command};
use crate::broker::pulsar::codec::proto::{FromBroker, Kind, Nothing, ToBroker};
use crate::broker::pulsar::connect::auth_response;
use crate::broker::pulsar::retry::refused;
use crate::measure::PartitionIndex;
use crate::net::token::Token;

/// Bytes asked for at a time.
const READ: usize = 256 << 10;

pub struct Reader {
    pub shared: Arc<Shared>,
    pub keep_alive: Duration,
    pub max_message: usize,
    pub token: Option<Arc<Token>>,
}

/// What a bunch of frames came to, recorded once they are all read and the state is free again.
#[derive(Default)]
struct Findings {
    acknowledged: Vec<Unanswered>,
    /// The entries that held them, in the same order, when they were handed over, and where their messages are counted.
    taken: Vec<(Entry, Instant, PartitionIndex)>,
    failed: Vec<(Unanswered, ClientError)>,
    /// Inboxes to be announced.
    delivered: Vec<Arc<DeliveryQueue>>,
    /// Answers to messages that await none.
    unmatched: u64,
}

impl Reader {
    /// Reads until the connection breaks. `received` was read before.
    pub async fn read(self, mut reader: Box<dyn AsyncRead + Send + Unpin>, mut received: Vec<u8>) {
        let mut findings = Findings::default();
        let reason = loop {
            match self.take(&received, &mut findings) {
                Ok(taken) => drop(received.drain(..taken)),
                Err(error) => break error.to_string(),
            }
            self.record(&mut findings);
            received.reserve(READ);
            match self.read_more(&mut reader, &mut received).await {
                Ok(()) => {}
                Err(reason) => break reason,
            }
        };
        self.record(&mut findings);
        self.shared.lose(ClientError::lost(reason));
    }

    async fn read_more(&self, reader: &mut (impl AsyncRead + Unpin), received: &mut Vec<u8>) -> Result<(), String> {
        let mut asked = false;
        loop {
            match timeout_at((Instant::now() + self.keep_alive).into(), reader.read_buf(received)).await {
                Ok(Ok(0)) => return Err("the broker closed the connection".to_owned()),
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => return Err(format!("the connection broke: {error}")),
                Err(_) if asked => {
                    return Err(format!("the broker gave no sign of life for {:?}", 2 * self.keep_alive));
                }
                Err(_) => {
                    asked = true;
                    put_command(&mut self.shared.lock().write_buffer, &signal(Kind::Ping));
                    self.shared.outgoing.notify_one();
                }
            }
        }
    }

    /// Reads all whole frames of `received` and returns how many bytes they are.
    fn take(&self, received: &[u8], findings: &mut Findings) -> Result<usize, FrameError> {
        let mut taken = 0;
        let mut state = self.shared.lock();
        while let Some((frame, size)) = Frame::first(&received[taken..], self.max_message)? {
            let command = FromBroker::decode(frame.command)?;
            self.heed(&mut state, command, &received[taken..taken + size], findings);
            taken += size;
        }
        Ok(taken)
    }

    fn heed(&self, state: &mut State, command: FromBroker, frame: &[u8], findings: &mut Findings) {
        let Ok(kind) = Kind::try_from(command.kind) else { return };
        match (kind, &command) {
            (Kind::SendReceipt, FromBroker { send_receipt: Some(receipt), .. }) => {
                let acknowledged = &mut findings.acknowledged;
                match state.answer(receipt.producer_id, receipt.sequence_id, acknowledged) {
                    Some(entry) => findings.taken.push(entry),
                    None => findings.unmatched += 1,
                }
            }
            (Kind::Message, FromBroker { message: Some(message), .. }) => {
                if let Some(delivery_queue) = state.consumers.get(&message.consumer_id) {
                    delivery_queue.put(frame);
                    if !findings.delivered.iter().any(|known| Arc::ptr_eq(known, delivery_queue)) {
                        findings.delivered.push(delivery_queue.clone());
                    }
                }
            }
            (Kind::SendError, FromBroker { send_error: Some(error), .. }) => {
                let failure = refused(error.error, &error.message);
                if !failure.lasting && state.give_up_place(error.producer_id, &failure) {
                    self.shared.capacity.notify_waiters();
                    self.shared.outgoing.notify_one();
                    return;
                }
                let mut refused = Vec::new();
                let matched = state.answer(error.producer_id, error.sequence_id, &mut refused);
                findings.unmatched += u64::from(matched.is_none());
                findings.failed.extend(refused.into_iter().map(|message| (message, failure.clone())));
            }
            (Kind::CloseProducer, FromBroker { close_producer: Some(close), .. }) => {
                state.close_producer(close.producer_id);
                self.shared.capacity.notify_waiters();
            }
            (Kind::CloseConsumer, FromBroker { close_consumer: Some(close), .. }) => {
                if let Some(delivery_queue) = state.consumers.remove(&close.consumer_id) {
                    delivery_queue.close(ClientError::lost("the broker closed the consumer"));
                }
            }
            (Kind::Ping, _) => self.reply(state, &signal(Kind::Pong)),
            (Kind::AuthChallenge, _) => {
                if let Some(token) = self.token.clone() {
                    tokio::spawn(log_in_again(self.shared.clone(), token));
                }
            }
            _ => answer_request(state, command),
        }
    }

    fn reply(&self, state: &mut State, command: &ToBroker) {
        put_command(&mut state.write_buffer, command);
        self.shared.outgoing.notify_one();
    }

    /// Tells all who wait what was found, once the state is free for others.
    fn record(&self, findings: &mut Findings) {
        if !findings.acknowledged.is_empty() || !findings.failed.is_empty() {
            let mut acks = self.shared.outcomes.recorder.batch();
            let mut acknowledged = findings.acknowledged.drain(..);
            for (entry, _, counted_in) in &findings.taken {
                acks.to_partition(*counted_in);
                for (send_tag, size) in acknowledged.by_ref().take(entry.messages as usize) {
                    acks.acknowledged(send_tag, size as usize);
                }
            }
            drop(acknowledged);
            for ((send_tag, _), failure) in findings.failed.drain(..) {
                acks.failed(send_tag, failure.class, || failure.message);
            }
        }
        let traffic = &self.shared.outcomes.traffic;
        if !findings.taken.is_empty() {
            traffic.count_taken(findings.taken.drain(..).map(|(entry, sent, _)| (entry.sizes, sent)));
        }
        traffic.count_unmatched(std::mem::take(&mut findings.unmatched));
        findings.delivered.drain(..).for_each(|delivery_queue| delivery_queue.announce());
    }
}

/// Returns a response to its request.
fn answer_request(state: &mut State, answer: FromBroker) {
    let request = None
        .or(answer.success.as_ref().map(|success| success.request_id))
        .or(answer.error.as_ref().map(|error| error.request_id))
        .or(answer.producer_success.as_ref().map(|success| success.request_id))
        .or(answer.lookup_response.as_ref().map(|response| response.request_id));
    let Some(request) = request else { return };
    // The request may have been cancelled. A producer that waits for exclusive access gets a second response when it has it.
    if answer.is_queued() {
        if let Some(waiting) = state.requests.get(&request) {
            let _ = waiting.send(answer);
        }
    } else if let Some(waiting) = state.requests.remove(&request) {
        let _ = waiting.send(answer);
    }
}

fn signal(kind: Kind) -> ToBroker {
    let mut command = ToBroker { kind: kind.into(), ..ToBroker::default() };
    match kind {
        Kind::Ping => command.ping = Some(Nothing {}),
        _ => command.pong = Some(Nothing {}),
    }
    command
}

/// Answers a broker that authenticates the client again. The connection goes on while a new token is asked for.
async fn log_in_again(shared: Arc<Shared>, token: Arc<Token>) {
    // Without an answer, the broker ends the connection, and the next one tells why there is no token.
    let Ok(token) = token.current().await else { return };
    put_command(&mut shared.lock().write_buffer, &auth_response(&token));
    shared.outgoing.notify_one();
}
