//! The task of a connection: writes what is left, takes what comes, and brings back what was lost.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{MissedTickBehavior, interval, timeout};

use super::super::codec::code;
use super::super::codec::command::{self, Request};
use super::super::codec::frame::{Frame, decode};
use super::super::connect::Session;
use super::super::error::class_of;
use super::super::error::{ConnectError, Refusal};
use super::super::pending::Settled;
use super::{ConnectionLost, MOST_UNWRITTEN, Publisher, Shared};
use crate::broker::FailureClass;
use crate::net::backoff::Backoff;
use crate::net::transport::{ReadBuffer, Transport};

/// After writing has failed, how long the server's last words are waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What the task has of a connection for itself.
pub(super) struct Served {
    pub transport: Arc<Transport>,
    pub read_buffer: ReadBuffer,
    pub heartbeat: Option<Duration>,
}

/// Serves the connection, and its successors, for ever.
pub(super) async fn keep(shared: Arc<Shared>, mut served: Served) {
    loop {
        let error = serve(&shared, &mut served).await;
        shared.lose(&error.to_string());
        let mut backoff = Backoff::RECONNECT;
        let mut addresses = shared.addresses.iter().cycle();
        served = loop {
            backoff.pause().await;
            let Some(address) = addresses.next() else { return };
            if let Ok((served, gone)) = shared.regain(address).await {
                gone.into_iter().for_each(|number| drop(tokio::spawn(declare_again(shared.clone(), number))));
                break served;
            }
        };
    }
}

/// Writes what is left to write and reads until the connection ends; why it did.
async fn serve(shared: &Arc<Shared>, served: &mut Served) -> io::Error {
    let (mut settled, mut lost) = (Vec::new(), Vec::new());
    let transport = served.transport.clone();
    let mut heard = Instant::now();
    // Half the time, so that ours are never late, and silence is noticed soon after it has become too long.
    let mut beat = interval(served.heartbeat.unwrap_or(Duration::from_secs(3600)) / 2);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let (flushed, roomy) = {
            let mut state = shared.state();
            let flushed = state.write_buffer.flush(&transport);
            let roomy = state.crowded && state.write_buffer.unwritten() < MOST_UNWRITTEN / 2;
            state.crowded &= !roomy;
            (flushed, roomy)
        };
        if roomy {
            shared.room.notify_waiters();
        }
        let blocked = match flushed {
            Ok(all) => !all,
            Err(error) => {
                let rest = async {
                    loop {
                        if let Err(error) = transport.readable().await {
                            break error;
                        }
                        if let Err(error) = shared.read(served, &mut settled, &mut lost) {
                            break error;
                        }
                    }
                };
                return timeout(LAST_WORDS, rest).await.unwrap_or(error);
            }
        };
        tokio::select! {
            readable = transport.readable() => {
                if let Err(error) = readable.and_then(|()| shared.read(served, &mut settled, &mut lost)) {
                    return error;
                }
                heard = Instant::now();
                for number in lost.drain(..) {
                    tokio::spawn(declare_again(shared.clone(), number));
                }
            }
            () = shared.work.notified() => {}
            Ok(()) = transport.writable(), if blocked => {}
            _ = beat.tick(), if served.heartbeat.is_some() => {
                let heartbeat = served.heartbeat.unwrap_or_default();
                if heard.elapsed() > 2 * heartbeat {
                    let message = format!("no sign of life for {:?}", heard.elapsed());
                    return io::Error::new(io::ErrorKind::TimedOut, message);
                }
                command::heartbeat(&mut shared.state().write_buffer.bytes);
            }
        }
    }
}

/// Declares a publisher whose stream was taken away, until that succeeds or the stream turns out to be gone for good.
async fn declare_again(shared: Arc<Shared>, number: u8) {
    let mut backoff = Backoff::RECONNECT;
    loop {
        backoff.pause().await;
        {
            let state = shared.state();
            // Somebody else may have been faster.
            if state.ended || state.publishers[usize::from(number)].lost.is_none() {
                return;
            }
        }
        match shared.connector.within(shared.declare(number)).await {
            Ok(()) => return,
            Err(ConnectError::Refused(Refusal { code: code @ code::STREAM_DOES_NOT_EXIST, .. })) => {
                let mut state = shared.state();
                let publisher = &mut state.publishers[usize::from(number)];
                let gone = publisher.gone(code);
                let since = publisher.lost.as_ref().map_or(gone.since, |lost| lost.since);
                publisher.lost = Some(ConnectionLost { since, for_good: true, ..gone });
                drop(state);
                shared.room.notify_waiters();
                return;
            }
            // The connection itself is lost: whoever brings it back declares all of them.
            Err(ConnectError::Io(_)) => return,
            Err(_) => {}
        }
    }
}

impl Publisher {
    /// The server does not know it any more: what awaits a confirmation will have none. Whether nobody is at work yet to
    /// bring it back.
    fn lose(&mut self, code: u16, settled: &mut Vec<Settled>) -> bool {
        self.pending.settle_all(code, settled);
        let news = self.lost.is_none();
        if news {
            self.lost = Some(self.gone(code));
        }
        news
    }

    fn gone(&self, code: u16) -> ConnectionLost {
        let reason = format!("{}: {}", self.stream, code::name(code));
        ConnectionLost { since: Instant::now(), class: class_of(code), reason, for_good: false }
    }
}

impl Shared {
    /// Reads and settles everything that is there. `lost` gets the publishers whose streams are gone.
    fn read(&self, served: &mut Served, settled: &mut Vec<Settled>, lost: &mut Vec<u8>) -> io::Result<()> {
        // What is there is looked at before the end of the connection is: the server says why it closes one.
        let filled = served.read_buffer.fill(&served.transport);
        let mut state = self.state();
        let mut end = None;
        loop {
            let frame = match served.read_buffer.next(decode) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(malformed) => {
                    end = Some(io::Error::other(malformed));
                    break;
                }
            };
            match frame {
                Frame::Confirm { publisher, ids } => {
                    if let Some(publisher) = state.publishers.get_mut(usize::from(publisher)) {
                        ids.iter().for_each(|id| publisher.pending.settle(id, code::OK, settled));
                    }
                }
                Frame::PublishError { publisher: number, errors } => {
                    if let Some(publisher) = state.publishers.get_mut(usize::from(number)) {
                        let before = settled.len();
                        errors.iter().for_each(|(id, code)| publisher.pending.settle(id, code, settled));
                        // That it was taken away was said while it was being declared, or not at all.
                        let unknown = |one: &Settled| one.code == code::PUBLISHER_DOES_NOT_EXIST;
                        if settled[before..].iter().any(unknown) {
                            lost.extend(publisher.lose(code::PUBLISHER_DOES_NOT_EXIST, settled).then_some(number));
                        }
                    }
                }
                Frame::Response { correlation, code, rest, .. } => {
                    if let Some(asked) = state.asked.remove(&correlation) {
                        // Whoever asked may have stopped waiting.
                        let _ = asked.send((code, rest.to_vec()));
                    }
                }
                Frame::MetadataUpdate { code, stream } => {
                    let gone = state.publishers.iter_mut().enumerate().filter(|(_, one)| one.stream == stream);
                    for (number, publisher) in gone {
                        lost.extend(publisher.lose(code, settled).then_some(number as u8));
                    }
                }
                Frame::Close { correlation, code, reason } => {
                    command::close_response(&mut state.write_buffer.bytes, correlation);
                    // The server waits for it before it lets go; that it cannot be written any more is no news.
                    let _ = state.write_buffer.flush(&served.transport);
                    end = Some(io::Error::other(format!("the server closes it: {} ({reason})", code::name(code))));
                    break;
                }
                // Any frame is a sign of life; heartbeats go their own way, not as answers.
                Frame::Heartbeat
                | Frame::Deliver { .. }
                | Frame::Credit { .. }
                | Frame::Tune { .. }
                | Frame::Other { .. } => {}
            }
        }
        state.pending -= settled.len();
        drop(state);
        if !settled.is_empty() {
            self.record(settled);
        }
        match end {
            Some(error) => Err(error),
            None => filled.map(drop),
        }
    }

    /// Tells the outcomes.
    fn record(&self, settled: &mut Vec<Settled>) {
        let mut acks = self.recorder.batch();
        for Settled { stamp, bytes, code } in settled.drain(..) {
            match code {
                code::OK => acks.acknowledged(stamp, bytes as usize),
                code => acks.failed(stamp, class_of(code), || code::name(code)),
            }
        }
    }

    /// The connection is gone: what awaits a confirmation will have none.
    fn lose(&self, reason: &str) {
        let mut state = self.state();
        state.transport = None;
        state.write_buffer.clear();
        state.asked.clear();
        state.pending = 0;
        let mut settled = Vec::new();
        for publisher in &mut state.publishers {
            publisher.pending.settle_all(code::OK, &mut settled);
        }
        let message = format!("the connection to {} was lost: {reason}", self.addresses[0]);
        state.lost = Some(ConnectionLost {
            since: Instant::now(),
            class: FailureClass::ConnectionLost,
            reason: message.clone(),
            for_good: false,
        });
        drop(state);
        if !settled.is_empty() {
            let mut acks = self.recorder.batch();
            for Settled { stamp, .. } in settled {
                acks.failed(stamp, FailureClass::ConnectionLost, || message.clone());
            }
        }
        self.room.notify_waiters();
    }

    /// Connects again and declares what was declared; the publishers whose streams are gone.
    async fn regain(self: &Arc<Self>, address: &str) -> Result<(Served, Vec<u8>), ConnectError> {
        let mut session = self.connector.connect(address).await?;
        let streams: Vec<String> = self.state().publishers.iter().map(|one| one.stream.clone()).collect();
        let reference = self.reference.as_deref().unwrap_or_default();
        let mut gone = Vec::new();
        for (number, stream) in streams.iter().enumerate() {
            let request = Request::declare_publisher(number as u8, reference, stream);
            match self.connector.within(session.request(&request, "the publisher")).await {
                Ok(_) => self.declared(number as u8, 0),
                Err(ConnectError::Refused(Refusal { code, .. })) => {
                    let publisher = &mut self.state().publishers[number];
                    publisher.lost = Some(publisher.gone(code));
                    gone.push(number as u8);
                }
                Err(error) => return Err(error),
            }
        }
        let Session { transport, read_buffer, write_buffer, frame_max, heartbeat, .. } = session;
        let transport = Arc::new(transport);
        let mut state = self.state();
        (state.transport, state.write_buffer, state.frame_max, state.lost) =
            (Some(transport.clone()), write_buffer, frame_max, None);
        drop(state);
        self.room.notify_waiters();
        Ok((Served { transport, read_buffer, heartbeat }, gone))
    }
}
