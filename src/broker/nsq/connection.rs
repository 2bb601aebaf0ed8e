//! One publishing connection: producers put commands in, a task takes the answers and brings a lost connection back.
//!
//! nsqd answers the commands of a connection in their order, so answers need no numbers: the first is for the first
//! command. Whoever submits writes to the socket at once where that is worth a system call; the task writes the rest.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::codec::{Frame, HEARTBEAT, OK, command, decode};
use super::config::{NsqOptions, Single};
use super::connect::{Connector, Role, Session};
use super::error::{class_of, text};
use crate::broker::{FailureClass, Outgoing};
use crate::measure::{AckRecorder, SendTag};
use crate::net::backoff::Backoff;
use crate::net::transport::{ReadBuffer, Transport, WriteBuffer};

/// While answers are outstanding, less than this waits for the task, which writes what has gathered until it runs.
const WRITE_AT_ONCE: usize = 8 << 10;

/// After writing has failed, how long nsqd's last words are waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A publishing connection, shared by its producers.
pub struct Connection {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    address: String,
    unanswered: u64,
    single: Single,
    defer_ms: Option<u64>,
    heartbeat: Duration,
    recorder: AckRecorder,
    state: Mutex<State>,
    /// Tells the task that there is something to write.
    work: Notify,
    /// Tells producers that answers made room, or that the connection is back.
    room: Notify,
}

#[derive(Default)]
struct State {
    /// `None` while the connection is lost.
    transport: Option<Arc<Transport>>,
    write_buffer: WriteBuffer,
    sent: VecDeque<Sent>,
    /// Bytes of the messages in `sent`.
    unanswered: u64,
    lost: Option<ConnectionLost>,
    queue_full_ns: u64,
}

/// A message whose command awaits its answer.
#[derive(Clone, Copy)]
struct Sent {
    stamp: SendTag,
    bytes: u32,
    /// The last of its command.
    last: bool,
}

struct ConnectionLost {
    since: Instant,
    reason: String,
}

/// What became of a batch that was offered.
pub enum Offered {
    /// So many from its beginning.
    Taken(usize),
    NoRoom,
    /// The connection is lost: since when and why.
    ConnectionLost(Instant, String),
}

impl Connection {
    /// Takes over a session.
    pub fn start(address: String, session: Session, connector: Arc<Connector>, recorder: AckRecorder) -> Self {
        let NsqOptions { unanswered, single, defer, heartbeat, .. } = *connector.options();
        let shared = Arc::new(Shared {
            address,
            unanswered,
            single,
            defer_ms: defer.map(|defer| defer.as_millis() as u64),
            heartbeat,
            recorder,
            state: Mutex::default(),
            work: Notify::new(),
            room: Notify::new(),
        });
        let Session { transport, read_buffer, .. } = session;
        let transport = Arc::new(transport);
        shared.state().transport = Some(transport.clone());
        let task = tokio::spawn(keep(shared.clone(), transport, read_buffer, connector)).abort_handle();
        Connection { shared, task }
    }

    /// Resolves when there may be room, counted from when the future was made.
    pub fn room(&self) -> impl Future<Output = ()> {
        self.shared.room.notified()
    }

    /// Takes the whole batch as one command, as much of it as one command can say, or nothing.
    pub fn offer(&self, topic: &str, batch: &[Outgoing<'_>]) -> Offered {
        let shared = &*self.shared;
        let batch = &batch[..sayable(batch.iter().map(|outgoing| outgoing.payload.len()))];
        let bytes: u64 = batch.iter().map(|outgoing| outgoing.payload.len() as u64).sum();
        let mut guard = shared.state();
        let state = &mut *guard;
        let Some(transport) = &state.transport else {
            return match &state.lost {
                Some(lost) => Offered::ConnectionLost(lost.since, lost.reason.clone()),
                None => Offered::NoRoom,
            };
        };
        let idle = state.sent.is_empty();
        if !idle && state.unanswered + bytes > shared.unanswered {
            return Offered::NoRoom;
        }
        let out = &mut state.write_buffer.bytes;
        let one_by_one = match (batch, shared.defer_ms) {
            (_, Some(defer_ms)) => {
                batch.iter().for_each(|one| command::publish_deferred(out, topic, defer_ms, one.payload));
                true
            }
            ([one], None) if shared.single == Single::Pub => {
                command::publish(out, topic, one.payload);
                true
            }
            _ => {
                command::publish_many(out, topic, batch.iter().map(|one| one.payload));
                false
            }
        };
        let sent = |one: &Outgoing<'_>| Sent { stamp: one.stamp, bytes: one.payload.len() as u32, last: one_by_one };
        state.sent.extend(batch.iter().map(sent));
        if let Some(last) = state.sent.back_mut() {
            last.last = true;
        }
        state.unanswered += bytes;
        let now = idle || state.write_buffer.unwritten() >= WRITE_AT_ONCE;
        // A write that fails is left to the task, which learns of it again.
        if !(now && state.write_buffer.flush(transport).unwrap_or(false)) {
            shared.work.notify_one();
        }
        Offered::Taken(batch.len())
    }

    /// Counts time for which a producer found no room.
    pub fn waited(&self, waited: Duration) {
        self.shared.state().queue_full_ns += waited.as_nanos() as u64;
    }

    /// The time counted since the last call, and the messages that await their answer.
    pub fn take_telemetry(&self) -> (u64, u64) {
        let mut state = self.shared.state();
        (std::mem::take(&mut state.queue_full_ns), state.sent.len() as u64)
    }

    /// Gives up what is still in flight: its outcome stays unresolved. What was not written yet never will be.
    pub fn end(&self) {
        self.task.abort();
        let mut state = self.shared.state();
        state.transport = None;
        state.write_buffer.clear();
    }
}

/// How many of messages of these sizes one command can say: its body's size is a number of 31 bits.
fn sayable(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 4;
    sizes
        .take_while(|size| {
            bytes += 4 + size;
            bytes <= i32::MAX as usize
        })
        .count()
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

    /// Reads and settles everything that is there.
    fn read(&self, transport: &Transport, read_buffer: &mut ReadBuffer, settled: &mut Vec<Sent>) -> io::Result<()> {
        // Looked at before the end of the connection is: nsqd says why it closes one.
        let filled = read_buffer.fill(transport);
        let mut answered = 0;
        loop {
            match read_buffer.next(decode).map_err(io::Error::other)? {
                Some(Frame::Response(OK)) => answered += 1,
                Some(Frame::Response(HEARTBEAT)) => {
                    command::nothing(&mut self.state().write_buffer.bytes);
                    self.work.notify_one();
                }
                Some(Frame::Response(other)) => {
                    return Err(io::Error::other(format!("an answer that is none: {}", text(other))));
                }
                Some(Frame::Error(error)) => {
                    let (class, words) = (class_of(error), text(error));
                    self.settle(std::mem::take(&mut answered), settled);
                    self.refuse(class, &words, settled);
                    return Err(io::Error::other(format!("nsqd closes it after {words}")));
                }
                Some(Frame::Message(_)) => {
                    return Err(io::Error::other("a message on a connection that has not subscribed"));
                }
                None => break,
            }
        }
        self.settle(answered, settled);
        filled.map(drop)
    }

    /// The first `commands` that await an answer were done.
    fn settle(&self, commands: usize, settled: &mut Vec<Sent>) {
        if commands == 0 {
            return;
        }
        self.take_sent(commands, settled);
        let mut acks = self.recorder.batch();
        for sent in settled.drain(..) {
            acks.acknowledged(sent.stamp, sent.bytes as usize);
        }
        drop(acks);
        self.room.notify_waiters();
    }

    /// nsqd refused the first command that awaits an answer. It closes the connection after that, whatever the command
    /// published, so nothing more is to go this way.
    fn refuse(&self, class: FailureClass, words: &str, settled: &mut Vec<Sent>) {
        self.state().transport = None;
        self.take_sent(1, settled);
        let mut acks = self.recorder.batch();
        for sent in settled.drain(..) {
            acks.failed(sent.stamp, class, || words.to_owned());
        }
    }

    fn take_sent(&self, commands: usize, settled: &mut Vec<Sent>) {
        let mut state = self.state();
        let mut left = commands;
        while left > 0
            && let Some(sent) = state.sent.pop_front()
        {
            left -= usize::from(sent.last);
            state.unanswered -= u64::from(sent.bytes);
            settled.push(sent);
        }
    }

    /// The connection is gone: what awaits an answer will have none.
    fn lose(&self, reason: &str) {
        let mut state = self.state();
        state.transport = None;
        state.write_buffer.clear();
        state.unanswered = 0;
        let sent = std::mem::take(&mut state.sent);
        let message = format!("the connection to nsqd at {} was lost: {reason}", self.address);
        state.lost = Some(ConnectionLost { since: Instant::now(), reason: message.clone() });
        drop(state);
        if !sent.is_empty() {
            let mut acks = self.recorder.batch();
            for sent in sent {
                acks.failed(sent.stamp, FailureClass::ConnectionLost, || message.clone());
            }
        }
        self.room.notify_waiters();
    }

    /// A new connection takes the lost one's place.
    fn regain(&self, transport: Arc<Transport>) {
        let mut state = self.state();
        state.transport = Some(transport);
        state.lost = None;
        drop(state);
        self.room.notify_waiters();
    }
}

/// Serves the connection, and its successors, for ever.
async fn keep(
    shared: Arc<Shared>,
    mut transport: Arc<Transport>,
    mut read_buffer: ReadBuffer,
    connector: Arc<Connector>,
) {
    loop {
        let error = serve(&shared, &transport, read_buffer).await;
        shared.lose(&error.to_string());
        let mut backoff = Backoff::RECONNECT;
        let session = loop {
            backoff.pause().await;
            if let Ok(session) = connector.connect(&shared.address, &Role::Writer).await {
                break session;
            }
        };
        (transport, read_buffer) = (Arc::new(session.transport), session.read_buffer);
        shared.regain(transport.clone());
    }
}

/// Writes what is left to write and reads answers until the connection ends; why it did.
async fn serve(shared: &Shared, transport: &Transport, mut read_buffer: ReadBuffer) -> io::Error {
    let mut settled = Vec::new();
    let mut heard = Instant::now();
    let mut silence = interval(shared.heartbeat);
    silence.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let flushed = shared.state().write_buffer.flush(transport);
        let blocked = match flushed {
            Ok(all) => !all,
            Err(error) => {
                let rest = async {
                    loop {
                        let read = transport
                            .readable()
                            .await
                            .and_then(|()| shared.read(transport, &mut read_buffer, &mut settled));
                        if let Err(error) = read {
                            break error;
                        }
                    }
                };
                return timeout(LAST_WORDS, rest).await.unwrap_or(error);
            }
        };
        tokio::select! {
            readable = transport.readable() => {
                if let Err(error) = readable.and_then(|()| shared.read(transport, &mut read_buffer, &mut settled)) {
                    return error;
                }
                heard = Instant::now();
            }
            () = shared.work.notified() => {}
            Ok(()) = transport.writable(), if blocked => {}
            _ = silence.tick() => {
                if heard.elapsed() > 2 * shared.heartbeat {
                    let message = format!("no heartbeat for {:?}", heard.elapsed());
                    return io::Error::new(io::ErrorKind::TimedOut, message);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_holds_what_its_size_can_say() {
        let gibibyte = 1 << 30;
        assert_eq!(sayable([gibibyte; 5].into_iter()), 1);
        assert_eq!(sayable([gibibyte, gibibyte - 13, 1].into_iter()), 2);
        assert_eq!(sayable([gibibyte, gibibyte - 12, 1].into_iter()), 1);
        assert_eq!(sayable([100; 200].into_iter()), 200);
    }
}
