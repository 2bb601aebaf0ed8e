//! A publishing connection that several producers share, generic over a protocol.
//!
//! Producers append commands to the write buffer, and write to the socket at once where that is worth a system call. A task
//! writes the rest, reads responses, and opens a lost connection again.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::backoff::Backoff;
use super::transport::{ReadBuffer, Transport, WriteBuffer};

/// While responses are outstanding, fewer bytes than this wait for the task, which writes everything at its next turn.
const WRITE_AT_ONCE: usize = 8 << 10;

/// After a failed write, how long the server may take to say why it closes the connection.
const LAST_RESPONSES: Duration = Duration::from_secs(1);

/// The interval of heartbeats on a connection without any.
const NO_HEARTBEAT: Duration = Duration::from_secs(3600);

/// What a protocol adds to a publishing connection.
pub trait Protocol: Sized + Send + Sync + 'static {
    /// Messages without a response, and what else the connection's lock protects.
    type State: Default + Send;
    /// A message that failed with its connection.
    type Message: Send;
    /// Why messages fail.
    type Error: Clone + Send;
    /// Memory of the reading task, kept from one read to the next.
    type Scratch: Default + Send;

    /// Producers wait while the socket has not accepted more bytes than this.
    const MAX_UNWRITTEN: usize = 4 << 20;

    /// Messages without a response.
    fn pending(state: &Self::State) -> usize;

    /// Reads and settles everything that has arrived.
    ///
    /// # Errors
    /// When the connection has ended, or must be closed.
    fn read(session: &Arc<Session<Self>>, served: &mut Served, scratch: &mut Self::Scratch) -> io::Result<()>;

    /// Appends a heartbeat, where the client sends any.
    fn heartbeat(_state: &mut Self::State, _out: &mut Vec<u8>) {}

    /// Everything that was appended has been written, unless more was appended since.
    fn written(_session: &Session<Self>) {}

    /// Opens the connection again and installs it.
    fn reconnect(session: &Arc<Session<Self>>) -> impl Future<Output = Option<Served>> + Send;

    /// The error of messages whose connection was lost.
    fn lost(&self, reason: &str) -> Self::Error;

    /// Removes every message without a response.
    fn take_pending(state: &mut Self::State) -> Vec<Self::Message>;

    /// Records the failure of messages.
    fn fail(&self, messages: Vec<Self::Message>, error: &Self::Error);

    /// How often messages are checked for being overdue, where a response has a deadline.
    fn check_interval(&self) -> Option<Duration> {
        None
    }

    /// Fails the messages whose responses are overdue.
    fn fail_overdue(_session: &Session<Self>) {}

    /// Wraps the connection's task, so that how busy it is can be measured.
    fn watched(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send + 'static {
        task
    }

    /// Cancels requests when the connection is closed.
    fn cancel(_state: &mut Self::State) {}
}

/// A publishing connection with its task.
pub struct PublishingConnection<P: Protocol> {
    session: Arc<Session<P>>,
    task: AbortHandle,
}

/// What producers and the task share.
pub struct Session<P: Protocol> {
    pub protocol: P,
    state: Mutex<State<P>>,
    /// Wakes the task: there are bytes to write.
    work: Notify,
    /// Wakes producers: there may be capacity, or the connection is back.
    capacity: Notify,
}

/// What the connection's lock protects.
pub struct State<P: Protocol> {
    /// `None` while the connection is lost.
    pub transport: Option<Arc<Transport>>,
    pub write_buffer: WriteBuffer,
    pub lost: Option<Lost<P::Error>>,
    pub protocol: P::State,
    /// A producer waits for the socket to accept bytes.
    blocked: bool,
    queue_full_ns: u64,
}

/// A connection, or a part of one, that was lost.
#[derive(Debug, Clone)]
pub struct Lost<E> {
    pub since: Instant,
    pub error: E,
    /// It cannot be restored.
    pub is_final: bool,
}

/// The task's side of a connection.
pub struct Served {
    pub transport: Arc<Transport>,
    pub read_buffer: ReadBuffer,
    pub heartbeat: Option<Duration>,
}

/// The result of an attempt to append messages.
pub enum Offer<T, E> {
    Taken(T),
    /// Nothing can be appended for now.
    Full,
    Lost(Lost<E>),
}

impl<P: Protocol> PublishingConnection<P> {
    /// Takes over a new connection.
    pub fn start(protocol: P, state: P::State, served: Served, write_buffer: WriteBuffer) -> Self {
        let transport = Some(served.transport.clone());
        let state = State { transport, write_buffer, lost: None, protocol: state, blocked: false, queue_full_ns: 0 };
        let (work, capacity) = (Notify::new(), Notify::new());
        let session = Arc::new(Session { protocol, state: Mutex::new(state), work, capacity });
        let task = tokio::spawn(P::watched(serve_until_aborted(session.clone(), served))).abort_handle();
        PublishingConnection { session, task }
    }

    pub fn session(&self) -> &Arc<Session<P>> {
        &self.session
    }

    /// Lets `write` append commands as soon as the connection has capacity. A lost connection may take until `reconnect`
    /// after its loss to come back. What is lost is not waited for if it `is_replaced` by something else.
    ///
    /// # Errors
    /// When the connection, or what `write` needs of it, is lost for longer, or is replaced.
    #[inline]
    pub async fn submit<T>(
        &self,
        is_replaced: impl Fn() -> bool,
        reconnect: Duration,
        mut write: impl FnMut(&P, &mut P::State, &mut Vec<u8>) -> Offer<T, P::Error>,
    ) -> Result<T, P::Error> {
        self.wait(is_replaced, reconnect, || self.session.offer(&mut write)).await
    }

    /// Waits as [`PublishingConnection::submit`] until something can be appended and `check` finds nothing lost, and appends
    /// nothing.
    ///
    /// # Errors
    /// As [`PublishingConnection::submit`].
    pub async fn ready(
        &self,
        is_replaced: impl Fn() -> bool,
        reconnect: Duration,
        check: impl Fn(&P::State) -> Option<Lost<P::Error>>,
    ) -> Result<(), P::Error> {
        let attempt = || match self.offer_now(&check) {
            Offer::Taken(None) => Offer::Taken(()),
            Offer::Taken(Some(lost)) | Offer::Lost(lost) => Offer::Lost(lost),
            Offer::Full => Offer::Full,
        };
        self.wait(is_replaced, reconnect, attempt).await
    }

    /// What `check` finds, if something can be appended now.
    pub fn offer_now<T>(&self, check: impl FnOnce(&P::State) -> T) -> Offer<T, P::Error> {
        let mut state = self.session.state();
        state.refusal().unwrap_or_else(|| Offer::Taken(check(&state.protocol)))
    }

    #[inline]
    async fn wait<T>(
        &self,
        is_replaced: impl Fn() -> bool,
        reconnect: Duration,
        mut attempt: impl FnMut() -> Offer<T, P::Error>,
    ) -> Result<T, P::Error> {
        let mut waiting_since = None;
        loop {
            // Created before the attempt, so that a notification in between is not missed.
            let notified = self.session.capacity.notified();
            match attempt() {
                Offer::Taken(value) => {
                    if let Some(since) = waiting_since {
                        self.session.state().queue_full_ns += Instant::elapsed(&since).as_nanos() as u64;
                    }
                    return Ok(value);
                }
                Offer::Full => {
                    waiting_since.get_or_insert_with(Instant::now);
                    notified.await;
                }
                Offer::Lost(lost) => {
                    let left =
                        if lost.is_final { Duration::ZERO } else { reconnect.saturating_sub(lost.since.elapsed()) };
                    if left.is_zero() || is_replaced() || timeout(left, notified).await.is_err() {
                        return Err(lost.error);
                    }
                }
            }
        }
    }

    /// Whether it has no connection to the server now.
    pub fn is_lost(&self) -> bool {
        self.session.state().transport.is_none()
    }

    /// The time that producers waited since the last call, and the messages without a response.
    pub fn take_telemetry(&self) -> (u64, u64) {
        let mut state = self.session.state();
        (std::mem::take(&mut state.queue_full_ns), P::pending(&state.protocol) as u64)
    }

    /// Reads or changes what the protocol keeps under the connection's lock.
    pub fn with_state<R>(&self, each: impl FnOnce(&mut P::State) -> R) -> R {
        each(&mut self.session.state().protocol)
    }

    /// Closes the connection. Messages without a response stay unresolved, and unwritten bytes are discarded.
    pub fn end(&self) {
        self.task.abort();
        let mut state = self.session.state();
        state.transport = None;
        state.write_buffer.clear();
        P::cancel(&mut state.protocol);
    }
}

impl<P: Protocol> Drop for PublishingConnection<P> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<P: Protocol> State<P> {
    /// Why nothing can be appended now, if that is so.
    #[inline]
    fn refusal<T>(&mut self) -> Option<Offer<T, P::Error>> {
        if self.transport.is_none() {
            return Some(self.lost.clone().map_or(Offer::Full, Offer::Lost));
        }
        self.blocked |= self.write_buffer.unwritten() > P::MAX_UNWRITTEN;
        (self.write_buffer.unwritten() > P::MAX_UNWRITTEN).then_some(Offer::Full)
    }
}

impl<P: Protocol> Session<P> {
    pub fn state(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock()
    }

    /// Wakes the task to write.
    pub fn notify_work(&self) {
        self.work.notify_one();
    }

    /// Wakes producers that wait.
    pub fn notify_capacity(&self) {
        self.capacity.notify_waiters();
    }

    /// Replaces a lost connection.
    pub fn install(&self, transport: Arc<Transport>, write_buffer: WriteBuffer) {
        let mut state = self.state();
        (state.transport, state.write_buffer, state.lost) = (Some(transport), write_buffer, None);
        drop(state);
        self.notify_capacity();
    }

    #[inline]
    fn offer<T>(
        &self,
        write: impl FnOnce(&P, &mut P::State, &mut Vec<u8>) -> Offer<T, P::Error>,
    ) -> Offer<T, P::Error> {
        let mut guard = self.state();
        let state = &mut *guard;
        if let Some(refused) = state.refusal() {
            return refused;
        }
        let idle = P::pending(&state.protocol) == 0;
        let offer = write(&self.protocol, &mut state.protocol, &mut state.write_buffer.bytes);
        if let (Offer::Taken(_), Some(transport)) = (&offer, &state.transport) {
            self.write_soon(idle, &mut state.write_buffer, transport);
        }
        offer
    }

    /// Lets `write` append commands, however many bytes are unwritten.
    ///
    /// # Errors
    /// When the connection is lost or has ended.
    pub fn append(&self, write: impl FnOnce(&P, &mut P::State, &mut Vec<u8>)) -> Result<(), P::Error> {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(transport) = &state.transport else {
            let lost = state.lost.as_ref().map(|lost| lost.error.clone());
            return Err(lost.unwrap_or_else(|| self.protocol.lost("it has ended")));
        };
        let idle = P::pending(&state.protocol) == 0;
        write(&self.protocol, &mut state.protocol, &mut state.write_buffer.bytes);
        self.write_soon(idle, &mut state.write_buffer, transport);
        Ok(())
    }

    /// Writes at once where that is worth a system call, or has the task do it.
    #[inline]
    fn write_soon(&self, idle: bool, write_buffer: &mut WriteBuffer, transport: &Transport) {
        let at_once = idle || write_buffer.unwritten() >= WRITE_AT_ONCE;
        // The task notices a write that fails here, because its own write fails as well.
        if !(at_once && write_buffer.flush(transport).unwrap_or(false)) {
            self.work.notify_one();
        }
    }

    /// Writes what the socket accepts. Returns whether that was everything.
    fn flush(&self, transport: &Transport) -> io::Result<bool> {
        let mut state = self.state();
        let flushed = state.write_buffer.flush(transport);
        let has_capacity = state.blocked && state.write_buffer.unwritten() < P::MAX_UNWRITTEN / 2;
        state.blocked &= !has_capacity;
        drop(state);
        if has_capacity {
            self.notify_capacity();
        }
        flushed
    }

    /// The connection is lost: every message without a response fails.
    fn lose(&self, reason: &str) {
        let error = self.protocol.lost(reason);
        let mut state = self.state();
        state.transport = None;
        state.write_buffer.clear();
        P::cancel(&mut state.protocol);
        let messages = P::take_pending(&mut state.protocol);
        state.lost = Some(Lost { since: Instant::now(), error: error.clone(), is_final: false });
        drop(state);
        if !messages.is_empty() {
            self.protocol.fail(messages, &error);
        }
        self.notify_capacity();
    }
}

/// Serves the connection, and those that replace it, until the task is aborted.
async fn serve_until_aborted<P: Protocol>(session: Arc<Session<P>>, mut served: Served) {
    loop {
        let error = serve(&session, &mut served).await;
        session.lose(&error.to_string());
        let mut backoff = Backoff::RECONNECT;
        served = loop {
            backoff.pause().await;
            if let Some(served) = P::reconnect(&session).await {
                break served;
            }
        };
    }
}

/// Writes and reads until the connection ends, and returns why it did.
async fn serve<P: Protocol>(session: &Arc<Session<P>>, served: &mut Served) -> io::Error {
    let mut scratch = P::Scratch::default();
    let transport = served.transport.clone();
    let heartbeat = served.heartbeat.unwrap_or(NO_HEARTBEAT);
    let mut heard = Instant::now();
    // Half the interval, so that heartbeats are never late and silence is noticed early.
    let mut beat = interval(heartbeat / 2);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let checked = session.protocol.check_interval();
    let mut check = interval(checked.unwrap_or(NO_HEARTBEAT));
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // What arrived together with the last response of the handshake is in the buffer already.
    if let Err(error) = P::read(session, served, &mut scratch) {
        return error;
    }
    loop {
        let blocked = match session.flush(&transport) {
            Ok(all) => !all,
            Err(error) => return last_responses(session, served, scratch).await.unwrap_or(error),
        };
        if !blocked {
            P::written(session);
        }
        tokio::select! {
            readable = transport.readable() => {
                if let Err(error) = readable.and_then(|()| P::read(session, served, &mut scratch)) {
                    return error;
                }
                heard = Instant::now();
            }
            () = session.work.notified() => {}
            Ok(()) = transport.writable(), if blocked => {}
            _ = check.tick(), if checked.is_some() => P::fail_overdue(session),
            _ = beat.tick(), if served.heartbeat.is_some() => {
                if heard.elapsed() > 2 * heartbeat {
                    let message = format!("no sign of life for {:?}", heard.elapsed());
                    return io::Error::new(io::ErrorKind::TimedOut, message);
                }
                let state = &mut *session.state();
                P::heartbeat(&mut state.protocol, &mut state.write_buffer.bytes);
            }
        }
    }
}

/// Reads on after a failed write: the server may say why it closes the connection. `None`: it did not end in time.
async fn last_responses<P: Protocol>(
    session: &Arc<Session<P>>,
    served: &mut Served,
    mut scratch: P::Scratch,
) -> Option<io::Error> {
    let transport = served.transport.clone();
    let rest = async {
        loop {
            let read = transport.readable().await.and_then(|()| P::read(session, served, &mut scratch));
            if let Err(error) = read {
                break error;
            }
        }
    };
    timeout(LAST_RESPONSES, rest).await.ok()
}

#[cfg(test)]
#[path = "../../tests/unit/net/session.rs"]
mod tests;
