//! One publishing connection: producers put frames in, a task takes confirmations and brings a lost connection back.
//!
//! Producers that write to the same stream over the same connection share one publisher: their messages have ids from one
//! sequence, so that 256 streams, and not 256 producers, are what a connection is limited to. Whoever submits writes to
//! the socket at once where that is worth a system call; the task writes the rest.

mod serving;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use self::serving::{Served, keep};
use super::codec::command::Request;
use super::codec::{Reader, code};
use super::connect::{Connector, Session};
use super::error::{ConnectError, Refusal};
use super::pending::Pending;
use crate::broker::FailureClass;
use crate::measure::AckRecorder;
use crate::net::transport::{Transport, WriteBuffer};

/// While confirmations are outstanding, less than this waits for the task, which writes what has gathered until it runs.
const WRITE_AT_ONCE: usize = 8 << 10;

/// More than this that the socket has not taken, and producers wait.
const MOST_UNWRITTEN: usize = 4 << 20;

/// The protocol numbers publishers in one byte.
const MOST_PUBLISHERS: usize = 256;

/// A publishing connection, shared by its producers.
pub struct Connection {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    /// Tried in turn when the connection is lost; the first is where it was made to.
    addresses: Vec<String>,
    /// The publishers' name on this connection, if they have one.
    reference: Option<String>,
    connector: Arc<Connector>,
    recorder: AckRecorder,
    state: Mutex<State>,
    /// Tells the task that there is something to write.
    work: Notify,
    /// Tells producers that there is room again, or that what was lost is back.
    room: Notify,
}

#[derive(Default)]
struct State {
    /// `None` while the connection is lost.
    transport: Option<Arc<Transport>>,
    write_buffer: WriteBuffer,
    frame_max: usize,
    publishers: Vec<Publisher>,
    /// Messages in all publishers.
    pending: usize,
    lost: Option<ConnectionLost>,
    correlation: u32,
    asked: BTreeMap<u32, oneshot::Sender<Response>>,
    /// Somebody waits for the write_buffer to become emptier.
    crowded: bool,
    queue_full_ns: u64,
    ended: bool,
}

/// A response: its code, and what follows.
type Response = (u16, Vec<u8>);

/// What publishes to one stream; its place in the list is its id.
struct Publisher {
    stream: String,
    pending: Pending,
    /// Why nothing can be published; `None` while the server knows the publisher.
    lost: Option<ConnectionLost>,
}

/// Something that is gone, and is tried to be brought back.
#[derive(Debug, Clone)]
pub struct ConnectionLost {
    pub since: Instant,
    pub class: FailureClass,
    pub reason: String,
    /// Nothing will bring it back.
    pub for_good: bool,
}

/// What became of frames that were offered.
pub enum Offered {
    Taken,
    NoRoom,
    ConnectionLost(ConnectionLost),
}

/// Frames in the making, with the state they need.
pub struct Writing<'a> {
    out: &'a mut Vec<u8>,
    pub frame_max: usize,
    publishers: &'a mut [Publisher],
    count: &'a mut usize,
}

impl Writing<'_> {
    /// The bytes to write to, and a publisher's messages, from which ids come and to which they are added.
    #[inline]
    pub fn parts(&mut self, publisher: u8) -> (&mut Vec<u8>, &mut Pending) {
        (self.out, &mut self.publishers[usize::from(publisher)].pending)
    }

    /// Counts messages that were put into a publisher's pending ones.
    #[inline]
    pub fn taken(&mut self, messages: usize) {
        *self.count += messages;
    }

    /// Why a publisher cannot be written to.
    #[inline]
    pub fn lost(&self, publisher: u8) -> Option<&ConnectionLost> {
        self.publishers[usize::from(publisher)].lost.as_ref()
    }
}

impl Connection {
    /// Takes over a session. `addresses` are those it may be made to again, the first where it is now.
    pub fn start(
        addresses: Vec<String>,
        reference: Option<String>,
        session: Session,
        connector: Arc<Connector>,
        recorder: AckRecorder,
    ) -> Self {
        let shared = Arc::new(Shared {
            addresses,
            reference,
            connector,
            recorder,
            state: Mutex::default(),
            work: Notify::new(),
            room: Notify::new(),
        });
        let Session { transport, read_buffer, write_buffer, frame_max, heartbeat, .. } = session;
        let transport = Arc::new(transport);
        let mut state = shared.state();
        (state.transport, state.write_buffer, state.frame_max) = (Some(transport.clone()), write_buffer, frame_max);
        drop(state);
        let served = Served { transport, read_buffer, heartbeat };
        let task = tokio::spawn(keep(shared.clone(), served)).abort_handle();
        Connection { shared, task }
    }

    /// The publisher of a stream, declared if it is new.
    ///
    /// # Errors
    /// When the server refuses, or the connection is lost.
    pub async fn publisher(&self, stream: &str) -> Result<u8, ConnectError> {
        let number = {
            let mut state = self.shared.state();
            if let Some(number) = state.publishers.iter().position(|publisher| publisher.stream == stream) {
                return Ok(number as u8);
            }
            if state.publishers.len() == MOST_PUBLISHERS {
                return Err(ConnectError::Incompatible(format!(
                    "a connection can publish to {MOST_PUBLISHERS} streams at most: set `broker.connections` higher"
                )));
            }
            let lost = ConnectionLost {
                since: Instant::now(),
                class: FailureClass::UnknownTopic,
                reason: format!("the publisher of {stream} is not declared yet"),
                for_good: false,
            };
            state.publishers.push(Publisher {
                stream: stream.to_owned(),
                pending: Pending::default(),
                lost: Some(lost),
            });
            (state.publishers.len() - 1) as u8
        };
        self.shared.connector.within(self.shared.declare(number)).await?;
        Ok(number)
    }

    /// Resolves when there may be room, counted from when the future was made.
    pub fn room(&self) -> impl Future<Output = ()> {
        self.shared.room.notified()
    }

    /// Lets `write` write frames, unless there is no room or the connection is lost. It says what kept it from writing any.
    #[inline]
    pub fn offer(&self, write: impl FnOnce(&mut Writing<'_>) -> Result<(), ConnectionLost>) -> Offered {
        let shared = &*self.shared;
        let mut guard = shared.state();
        let state = &mut *guard;
        let Some(transport) = &state.transport else {
            return match &state.lost {
                Some(lost) => Offered::ConnectionLost(lost.clone()),
                None => Offered::NoRoom,
            };
        };
        if state.write_buffer.unwritten() > MOST_UNWRITTEN {
            state.crowded = true;
            return Offered::NoRoom;
        }
        let idle = state.pending == 0;
        let mut writing = Writing {
            out: &mut state.write_buffer.bytes,
            frame_max: state.frame_max,
            publishers: &mut state.publishers,
            count: &mut state.pending,
        };
        if let Err(lost) = write(&mut writing) {
            return Offered::ConnectionLost(lost);
        }
        let now = idle || state.write_buffer.unwritten() >= WRITE_AT_ONCE;
        // A write that fails is left to the task, which learns of it again.
        if !(now && state.write_buffer.flush(transport).unwrap_or(false)) {
            shared.work.notify_one();
        }
        Offered::Taken
    }

    /// Largest frame that the server takes.
    pub fn frame_max(&self) -> usize {
        self.shared.state().frame_max
    }

    /// Counts time for which a producer found no room.
    pub fn waited(&self, waited: Duration) {
        self.shared.state().queue_full_ns += waited.as_nanos() as u64;
    }

    /// The time counted since the last call, and the messages that await their confirmation.
    pub fn take_telemetry(&self) -> (u64, u64) {
        let mut state = self.shared.state();
        (std::mem::take(&mut state.queue_full_ns), state.pending as u64)
    }

    /// Gives up what is still in flight: its outcome stays unresolved. What was not written yet never will be.
    pub fn end(&self) {
        self.task.abort();
        let mut state = self.shared.state();
        state.ended = true;
        state.transport = None;
        state.write_buffer.clear();
        state.asked.clear();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks over the connection as it is, while the task reads.
    async fn ask(&self, request: &Request, what: &'static str) -> Result<Vec<u8>, ConnectError> {
        let (sender, answer) = oneshot::channel();
        {
            let mut state = self.state();
            if state.transport.is_none() {
                let reason = state.lost.as_ref().map_or("the connection has ended", |lost| lost.reason.as_str());
                return Err(ConnectError::Io(io::Error::new(io::ErrorKind::NotConnected, reason.to_owned())));
            }
            state.correlation += 1;
            let correlation = state.correlation;
            request.write(&mut state.write_buffer.bytes, correlation);
            state.asked.insert(correlation, sender);
        }
        self.work.notify_one();
        match answer.await {
            Ok((code::OK, rest)) => Ok(rest),
            Ok((code, _)) => Err(ConnectError::Refused(Refusal { what, code })),
            Err(_) => {
                let reason = "the connection was lost while an answer was awaited";
                Err(ConnectError::Io(io::Error::new(io::ErrorKind::ConnectionAborted, reason)))
            }
        }
    }

    /// Makes a publisher known to the server, after what it has of it already.
    async fn declare(&self, number: u8) -> Result<(), ConnectError> {
        let stream = self.state().publishers[usize::from(number)].stream.clone();
        let reference = self.reference.as_deref().unwrap_or_default();
        self.ask(&Request::declare_publisher(number, reference, &stream), "the publisher").await?;
        let last = match reference {
            "" => 0,
            reference => {
                let query = Request::query_publisher_sequence(reference, &stream);
                Reader::new(&self.ask(&query, "the publisher's sequence").await?, "sequence").u64()?
            }
        };
        self.declared(number, last);
        Ok(())
    }

    fn declared(&self, number: u8, last: u64) {
        let mut state = self.state();
        let publisher = &mut state.publishers[usize::from(number)];
        publisher.pending.begin_after(last);
        publisher.lost = None;
        drop(state);
        self.room.notify_waiters();
    }
}
