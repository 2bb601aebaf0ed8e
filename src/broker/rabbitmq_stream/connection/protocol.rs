//! Reads a publishing connection.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::super::codec::frame::Frame;
use super::super::codec::{class_of, code, command};
use super::super::connect::next_frame;
use super::pending::Settled;
use super::{Publishing, State};
use crate::broker::{FailureClass, SubmitError};
use crate::measure::PartitionIndex;
use crate::measure::host::tasks;
use crate::net::session::{Protocol, Served, Session};

/// How often messages are checked for being overdue.
const MIN_CHECK: Duration = Duration::from_millis(5);
const MAX_CHECK: Duration = Duration::from_secs(1);

/// Memory of the reading task: messages with an outcome, and the streams of publishers that the server removed.
#[derive(Default)]
pub struct Scratch {
    settled: Vec<Settled>,
    /// Up to which of `settled` confirmed messages are counted in which partition.
    partitions: Vec<(usize, PartitionIndex)>,
    lost: Vec<String>,
}

impl Protocol for Publishing {
    type State = State;
    type Message = Settled;
    type Error = SubmitError;
    type Scratch = Scratch;

    fn pending(state: &State) -> usize {
        state.pending
    }

    fn watched(task: impl Future<Output = ()> + Send + 'static) -> impl Future<Output = ()> + Send + 'static {
        tasks::watched("connection", 0, task)
    }

    fn read(session: &Arc<Session<Self>>, served: &mut Served, scratch: &mut Scratch) -> io::Result<()> {
        // Frames are read before an error of the socket is returned: the server sends the reason why it closes a connection.
        let filled = served.read_buffer.fill(&served.transport);
        let mut state = session.state();
        let mut end = Ok(());
        while end.is_ok() {
            match next_frame(&mut served.read_buffer, &mut state.write_buffer, &served.transport) {
                Ok(Some(frame)) => state.protocol.read(frame, scratch),
                Ok(None) => break,
                Err(error) => end = Err(io::Error::other(error.to_string())),
            }
        }
        state.protocol.pending -= scratch.settled.len();
        if !scratch.settled.is_empty() {
            state.protocol.unanswered_since = None;
        }
        drop(state);
        if !scratch.settled.is_empty() {
            session.protocol.held_up.end();
            session.protocol.record(scratch);
        }
        session.report_lost(std::mem::take(&mut scratch.lost));
        end.and(filled.map(drop))
    }

    fn heartbeat(_: &mut Self::State, out: &mut Vec<u8>) {
        command::heartbeat(out);
    }

    /// Never: the publishers go to other connections, because the streams may have other leaders now.
    async fn reconnect(session: &Arc<Session<Self>>) -> Option<Served> {
        let publishers = |state: &State| state.publishers.iter().map(|publisher| publisher.stream.clone()).collect();
        session.report_lost(publishers(&session.state().protocol));
        pending().await
    }

    fn lost(&self, reason: &str) -> SubmitError {
        // Its publishers go to other nodes: nothing is awaited from this one any more.
        self.held_up.end();
        let message = format!("the connection to {} was lost: {reason}", self.address);
        SubmitError { class: FailureClass::ConnectionLost, message }
    }

    fn take_pending(state: &mut State) -> Vec<Settled> {
        let mut settled = Vec::new();
        for publisher in &mut state.publishers {
            match publisher.pending.keeps() {
                true => publisher.pending.mark_lost(),
                false => publisher.pending.settle_all(code::OK, &mut settled),
            }
        }
        state.pending -= settled.len();
        settled
    }

    fn fail(&self, messages: Vec<Settled>, error: &SubmitError) {
        let mut acks = self.recorder.batch();
        for Settled { send_tag, .. } in messages {
            acks.failed(send_tag, error.class, || error.message.clone());
        }
    }

    fn check_interval(&self) -> Option<Duration> {
        self.confirm_timeout.map(|timeout| (timeout / 8).clamp(MIN_CHECK, MAX_CHECK))
    }

    fn fail_overdue(session: &Session<Self>) {
        let Publishing { clock, recorder, confirm_timeout: Some(timeout), .. } = &session.protocol else { return };
        let (now_ns, timeout_ns) = (clock.now_ns(), timeout.as_nanos() as u64);
        let mut overdue = Vec::new();
        let mut state = session.state();
        for publisher in &mut state.protocol.publishers {
            publisher.pending.take_overdue(|send_tag| send_tag.service_ns(now_ns) > timeout_ns, &mut overdue);
        }
        state.protocol.pending -= overdue.len();
        drop(state);
        if !overdue.is_empty() {
            let mut acks = recorder.batch();
            for Settled { send_tag, .. } in overdue {
                acks.failed(send_tag, FailureClass::Timeout, || format!("no confirmation within {timeout:?}"));
            }
        }
    }

    fn cancel(state: &mut State) {
        state.requests.clear();
    }
}

impl State {
    #[inline]
    fn read(&mut self, frame: Frame<'_>, Scratch { settled, partitions, lost }: &mut Scratch) {
        match frame {
            Frame::Confirm { publisher, ids } => {
                if let Some(publisher) = self.publishers.get_mut(usize::from(publisher)) {
                    ids.iter().for_each(|id| publisher.pending.settle(id, code::OK, settled));
                    publisher.pending.release();
                    partitions.push((settled.len(), publisher.counted_in));
                }
            }
            Frame::PublishError { publisher, errors } => {
                let Some(publisher) = self.publishers.get_mut(usize::from(publisher)) else { return };
                // The server may have removed the publisher without a metadata update.
                let is_unknown = |(_, code): &(u64, u16)| *code == code::PUBLISHER_DOES_NOT_EXIST;
                let refused = errors.iter().filter(|error| !(publisher.pending.keeps() && is_unknown(error)));
                let refused: Vec<_> = refused.collect();
                refused.into_iter().for_each(|(id, code)| publisher.pending.settle(id, code, settled));
                publisher.pending.release();
                if errors.iter().any(|error| is_unknown(&error)) {
                    lost.extend(publisher.lose(code::PUBLISHER_DOES_NOT_EXIST, settled));
                }
            }
            Frame::Response { correlation, code, rest, .. } => {
                if let Some(request) = self.requests.remove(&correlation) {
                    // The request may have been cancelled.
                    let _ = request.send((code, rest.to_vec()));
                }
            }
            Frame::MetadataUpdate { code, stream } => {
                for publisher in self.publishers.iter_mut().filter(|publisher| publisher.stream == stream) {
                    lost.extend(publisher.lose(code, settled));
                }
            }
            // Any frame shows that the server is alive. It sends heartbeats on its own.
            Frame::Close { .. }
            | Frame::Heartbeat
            | Frame::Deliver { .. }
            | Frame::Credit { .. }
            | Frame::Tune { .. }
            | Frame::ConsumerUpdate(_)
            | Frame::Other { .. } => {}
        }
    }
}

impl Publishing {
    fn record(&self, Scratch { settled, partitions, .. }: &mut Scratch) {
        let mut acks = self.recorder.batch();
        let mut begin = 0;
        // Failures may follow on the last confirmation.
        for (end, counted_in) in partitions.drain(..).chain([(settled.len(), PartitionIndex::UNKNOWN)]) {
            acks.to_partition(counted_in);
            for Settled { send_tag, bytes, code } in &settled[begin..end] {
                match *code {
                    code::OK => acks.acknowledged(*send_tag, *bytes as usize),
                    code => acks.failed(*send_tag, class_of(code), || code::name(code)),
                }
            }
            begin = end;
        }
        settled.clear();
    }
}
