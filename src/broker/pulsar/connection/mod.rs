//! One connection to one broker, shared by producers or consumers.
//!
//! - [`state`]: bytes to write, requests without a response, and delivered messages.
//! - [`in_flight`]: commands that await an answer, messages that are sent again or have arrived for a consumer, and the counts of them.
//! - [`reading`]: the task that reads. Those that write and that fail late messages are in this file.
//!
//! A connection that breaks stays broken: every request without a response fails at once, and the [pool](super::pool) opens
//! another connection.

mod in_flight;
mod reading;
mod state;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, mpsc};
use tokio::time::{MissedTickBehavior, interval, timeout};

pub use self::in_flight::{DeliveryQueue, Entry, EntrySizes, Kept, KeptEntry, Traffic, Unanswered};
pub use self::state::{ConsumerId, ProducerId, Readiness};
use self::state::{Expired, State};
use super::codec::frame::put_command;
use super::codec::proto::{FromBroker, ToBroker};
use super::connect::{self, Greeting, SocketSettings};
use super::retry::refused;
use crate::broker::ClientError;
use crate::measure::host::tasks::watched;
use crate::measure::{AckRecorder, ConditionKind, PartitionIndex, Subject, SubjectKind};

/// With more unwritten bytes than this, producers wait: enough for 2048 messages of 2 KiB, so that even
/// of thousands of producers only those wake that can write.
const WRITE_BUFFER_BYTES: usize = 4 << 20;

/// The longest time between looks, and so the most by which a failure is late.
const MAX_TICK: Duration = Duration::from_secs(1);
const MIN_TICK: Duration = Duration::from_millis(10);

/// How long a receipt takes, where the namespace limits how fast producers may publish, before that is the reason.
const THROTTLED: Duration = Duration::from_secs(2);

/// Where a connection reports what happens to messages.
#[derive(Clone)]
pub struct Outcomes {
    pub recorder: Arc<AckRecorder>,
    pub traffic: Arc<Traffic>,
}

/// A connection and its tasks, which end with it.
pub struct Connection {
    shared: Arc<Shared>,
    pub greeting: Greeting,
    tasks: [tokio::task::AbortHandle; 3],
}

/// What the tasks of a connection share with its users.
struct Shared {
    state: Mutex<State>,
    outcomes: Outcomes,
    /// Notified when something is to be written, or nothing ever will be.
    outgoing: Notify,
    /// Notified when the write buffer was emptied.
    capacity: Notify,
}

impl Connection {
    /// Connects and greets.
    ///
    /// # Errors
    /// When the address does not respond in time, or refuses the client.
    pub async fn open(
        settings: &SocketSettings,
        address: &str,
        proxy_to: Option<&str>,
        outcomes: Outcomes,
    ) -> Result<Connection, ClientError> {
        let opened = timeout(settings.timeout, connect::open(settings, address, proxy_to)).await;
        let opened =
            opened.unwrap_or_else(|_| Err(ClientError::late(format!("no response within {:?}", settings.timeout))))?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            outcomes,
            outgoing: Notify::new(),
            capacity: Notify::new(),
        });
        let reader = reading::Reader {
            shared: shared.clone(),
            keep_alive: settings.keep_alive,
            max_message: opened.greeting.max_message,
            token: settings.token.clone(),
        };
        let writer = tokio::spawn(watched("connection writer", 0, write(shared.clone(), opened.writer)));
        let reader = tokio::spawn(watched("connection reader", 0, reader.read(opened.reader, opened.received)));
        let throttle = settings
            .publish_rate
            .clone()
            .map(|publish_rate| (Subject::new(&settings.conditions, SubjectKind::Node, address), publish_rate));
        let expiry = tokio::spawn(expire(shared.clone(), settings.send_timeout, throttle));
        let tasks = [reader.abort_handle(), writer.abort_handle(), expiry.abort_handle()];
        Ok(Connection { shared, greeting: opened.greeting, tasks })
    }

    /// Whether it can still be used.
    pub fn is_open(&self) -> bool {
        self.shared.lock().lost.is_none()
    }

    /// Sends the command that `build` makes of a request's number and waits for its response.
    ///
    /// # Errors
    /// When the broker refuses, does not respond in time, or the connection breaks.
    pub async fn request(
        &self,
        within: Duration,
        build: impl FnOnce(u64) -> ToBroker,
    ) -> Result<FromBroker, ClientError> {
        self.request_queued(within, within, build).await
    }

    /// As [`Connection::request`], where the broker may respond first that a producer must wait for exclusive access. Its turn may
    /// then take until `queued`.
    ///
    /// # Errors
    /// Also when its turn did not come in time.
    pub async fn request_queued(
        &self,
        within: Duration,
        queued: Duration,
        build: impl FnOnce(u64) -> ToBroker,
    ) -> Result<FromBroker, ClientError> {
        let (answer, mut answers) = mpsc::unbounded_channel();
        let request = self.tell(|state| {
            let request = state.next_request();
            state.requests.insert(request, answer);
            put_command(&mut state.write_buffer, &build(request));
            request
        })?;
        let answer = match await_answer(&mut answers, within, queued).await {
            Ok(answer) => answer.ok_or_else(|| self.failure())?,
            Err(late) => {
                self.shared.lock().requests.remove(&request);
                return Err(late);
            }
        };
        match &answer.error {
            Some(error) => Err(refused(error.error, &error.message)),
            None => Ok(answer),
        }
    }

    /// A number for a request whose response is ignored.
    pub fn next_request(&self) -> u64 {
        self.shared.lock().next_request()
    }

    /// Sends a command without a response, or whose response is ignored.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(&self, command: &ToBroker) -> Result<(), ClientError> {
        self.tell(|state| put_command(&mut state.write_buffer, command))
    }

    /// Why the connection broke.
    pub fn failure(&self) -> ClientError {
        self.shared.lock().lost.clone().unwrap_or_else(|| ClientError::lost("the connection was closed"))
    }

    /// Adds a producer. `kept`: where its entries without an answer go when it is closed; otherwise they fail.
    pub fn add_producer(&self, counted_in: PartitionIndex, kept: Option<Arc<Kept>>) -> ProducerId {
        self.shared.lock().add_producer(counted_in, kept)
    }

    /// Sends entries again as those of `producer`.
    ///
    /// # Errors
    /// The entries, if the producer is closed.
    pub fn send_again(&self, producer: ProducerId, entries: Vec<KeptEntry>) -> Result<(), Vec<KeptEntry>> {
        self.shared.lock().send_again(producer, entries)?;
        self.shared.outgoing.notify_one();
        Ok(())
    }

    /// The broker has not accepted the producer after all.
    pub fn remove_producer(&self, producer: ProducerId) {
        self.shared.lock().remove_producer(producer);
    }

    /// Adds a consumer. Its delivery queue notifies `arrived` when messages arrive.
    pub fn add_consumer(&self, arrived: Arc<Notify>) -> (ConsumerId, Arc<DeliveryQueue>) {
        self.shared.lock().add_consumer(arrived)
    }

    /// Whether the broker still has the consumer, as far as we know.
    pub fn has_consumer(&self, consumer: ConsumerId) -> bool {
        self.shared.lock().consumers.contains_key(&consumer)
    }

    /// Forgets a consumer that the broker has not accepted, or no longer has.
    pub fn remove_consumer(&self, consumer: ConsumerId) {
        self.shared.lock().consumers.remove(&consumer);
    }

    /// Whether `producer` may send.
    pub fn readiness(&self, producer: ProducerId) -> Readiness {
        self.shared.lock().readiness(producer)
    }

    /// Adds `frames` of `producer`, which hold `entries` with `messages`, and empties them. Returns false if the producer is
    /// closed. The caller has checked [`Connection::readiness`]; frames that others add in between may exceed the limit.
    pub fn add(
        &self,
        producer: ProducerId,
        frames: &mut Vec<u8>,
        entries: &[Entry],
        messages: impl Iterator<Item = Unanswered>,
    ) -> bool {
        let mut state = self.shared.lock();
        let idle = state.write_buffer.is_empty();
        let added = state.add(producer, frames, entries, messages);
        drop(state);
        if added {
            self.shared.outcomes.traffic.count_sent(entries.len());
        }
        if idle && added {
            self.shared.outgoing.notify_one();
        }
        added
    }

    /// Resolves when the write_buffer has been emptied since the future was made, or the connection broke.
    pub fn capacity(&self) -> Notified<'_> {
        self.shared.capacity.notified()
    }

    fn tell<T>(&self, tell: impl FnOnce(&mut State) -> T) -> Result<T, ClientError> {
        let mut state = self.shared.lock();
        if let Some(lost) = &state.lost {
            return Err(lost.clone());
        }
        let told = tell(&mut state);
        drop(state);
        self.shared.outgoing.notify_one();
        Ok(told)
    }
}

/// Waits for the response to a request; `None`: the connection broke. A first response that the producer must wait for its turn is
/// no end: the wait for that has a time of its own, `queued`.
async fn await_answer(
    answers: &mut mpsc::UnboundedReceiver<FromBroker>,
    within: Duration,
    queued: Duration,
) -> Result<Option<FromBroker>, ClientError> {
    let late = |_| ClientError::late(format!("the broker did not respond within {within:?}"));
    let first = timeout(within, answers.recv()).await.map_err(late)?;
    if !first.as_ref().is_some_and(FromBroker::is_queued) {
        return Ok(first);
    }
    timeout(queued, answers.recv()).await.map_err(|_| {
        ClientError::late(format!(
            "another producer has had exclusive access for {queued:?} (`broker.pulsar.exclusive_timeout`)"
        ))
    })
}

impl Drop for Connection {
    /// Messages without a receipt stay unresolved: the trial has ended, or the connection is unused.
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No panic can leave the books half written: they are only added to and taken from.
        self.state.lock()
    }

    /// Exchanges the write buffer for `frames`, which is empty; false if the connection broke.
    fn swap_write_buffer(&self, frames: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        std::mem::swap(&mut state.write_buffer, frames);
        state.lost.is_none()
    }

    /// Ends the connection: every message without a receipt fails.
    fn lose(&self, failure: ClientError) {
        let mut state = self.lock();
        if state.lost.is_some() {
            return;
        }
        let unanswered = state.lose(failure.clone());
        drop(state);
        self.fail(unanswered, &failure);
        self.capacity.notify_waiters();
        self.outgoing.notify_one();
    }

    fn fail(&self, messages: Vec<Unanswered>, failure: &ClientError) {
        if messages.is_empty() {
            return;
        }
        let mut acks = self.outcomes.recorder.batch();
        for (send_tag, _) in messages {
            acks.failed(send_tag, failure.class, || failure.message.clone());
        }
    }
}

/// Writes until the connection breaks: everything that has been added since the last write goes out in one.
async fn write(shared: Arc<Shared>, mut writer: Box<dyn AsyncWrite + Send + Unpin>) {
    let mut frames = Vec::new();
    loop {
        shared.outgoing.notified().await;
        // Producers that were woken together get to add theirs before the first write.
        tokio::task::yield_now().await;
        loop {
            if !shared.swap_write_buffer(&mut frames) {
                return;
            }
            if frames.is_empty() {
                break;
            }
            if frames.len() >= WRITE_BUFFER_BYTES {
                shared.capacity.notify_waiters();
            }
            let written = match writer.write_all(&frames).await {
                Ok(()) => writer.flush().await,
                failed => failed,
            };
            if let Err(error) = written {
                shared.lose(ClientError::lost(format!("the connection broke while sending: {error}")));
                return;
            }
            frames.clear();
            // The memory of one huge message is given back.
            frames.shrink_to(WRITE_BUFFER_BYTES);
        }
    }
}

/// Fails messages for which no receipt came in time, until the connection breaks. A broker that answers pings may still never answer
/// them. `throttle`: how fast the broker lets producers publish. It tells none that it does not read what they send meanwhile.
async fn expire(shared: Arc<Shared>, send_timeout: Duration, throttle: Option<(Subject, String)>) {
    let mut ticks = interval((send_timeout / 8).clamp(MIN_TICK, MAX_TICK));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let limit = throttle.as_ref().map(|(_, publish_rate)| format!(": {publish_rate}")).unwrap_or_default();
    let late = ClientError::late(format!(
        "the broker did not answer within {send_timeout:?} (`broker.pulsar.send_timeout`), though the connection is up{limit}"
    ));
    let closed = ClientError::lost("the broker closed the producer before its receipt");
    loop {
        let now = ticks.tick().await;
        let expired = {
            let mut state = shared.lock();
            if state.lost.is_some() {
                return;
            }
            if let Some((node, publish_rate)) = &throttle {
                match state.oldest().filter(|since| now.into_std().saturating_duration_since(*since) >= THROTTLED) {
                    Some(since) => node.begin_since(ConditionKind::Throttled, publish_rate, since),
                    None => node.end(),
                }
            }
            state.expire(now.into_std(), send_timeout)
        };
        let Expired { late: unanswered, closed: abandoned } = expired;
        shared.fail(unanswered, &late);
        shared.fail(abandoned, &closed);
    }
}
