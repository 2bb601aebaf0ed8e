//! A member of a group: reads its share of a store's shards, in turn.
//!
//! The service stores no offsets for these consumers: a group is its members' own cursors.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::admin::Admin;
use super::codec::{Malformed, groups, logs, rebuild};
use super::error::ServiceError;
use crate::broker::{Consumer, FailureClass, NoDetails, ReceiveError, Received};
use crate::limits::TRACE_HEADER_NAME;
use crate::measure::TRACE_HEADER_BYTES;

/// Answers that wait to be taken.
const ANSWERS_AHEAD: usize = 8;

type Answered = Result<(u32, Vec<u8>), ReceiveError>;

/// A reader of some shards of one store.
pub struct SlsConsumer {
    answers: mpsc::Receiver<Answered>,
    /// Seen by `ready`, not yet taken.
    next: Option<Answered>,
    /// What is in order: a pack of a shard.
    partitions: HashMap<(u32, Box<[u8]>), u32>,
    payload: Vec<u8>,
    reader: JoinHandle<()>,
}

impl SlsConsumer {
    /// Reads `shards` of `store` from their cursors on.
    pub fn start(admin: Admin, store: String, shards: Vec<(u32, String)>, interval: Duration) -> Self {
        let (sender, answers) = mpsc::channel(ANSWERS_AHEAD);
        let reader = tokio::spawn(read(admin, store, shards, interval, sender));
        SlsConsumer { answers, next: None, partitions: HashMap::new(), payload: Vec::new(), reader }
    }
}

async fn read(
    mut admin: Admin,
    store: String,
    mut shards: Vec<(u32, String)>,
    interval: Duration,
    answers: mpsc::Sender<Answered>,
) {
    loop {
        let mut idle = true;
        for (shard, cursor) in &mut shards {
            let answered = match admin.pull(&store, *shard, cursor).await {
                Ok(pulled) => {
                    *cursor = pulled.next;
                    if pulled.list.is_empty() {
                        continue;
                    }
                    idle = false;
                    Ok((*shard, pulled.list))
                }
                Err(fault) => Err(received(&fault)),
            };
            if answers.send(answered).await.is_err() {
                return;
            }
        }
        if idle {
            tokio::time::sleep(interval).await;
        }
    }
}

fn received(fault: &ServiceError) -> ReceiveError {
    ReceiveError { class: fault.class(), message: fault.to_string() }
}

impl Consumer for SlsConsumer {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        while self.next.is_none() {
            match self.answers.recv().await {
                Some(answered) => self.next = Some(answered),
                // The reader ends only with this consumer.
                None => std::future::pending().await,
            }
        }
        Ok(())
    }

    fn take(&mut self, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let Some(answered) = self.next.take().or_else(|| self.answers.try_recv().ok()) else { return Ok(0) };
        let (shard, list) = answered?;
        let mut count = 0;
        let (partitions, payload) = (&mut self.partitions, &mut self.payload);
        let read = groups(&list, |group| {
            let pack = group.pack.iter().rposition(|byte| *byte == b'-').map_or(group.pack, |end| &group.pack[..end]);
            let new = partitions.len() as u32;
            let partition = *partitions.entry((shard, pack.into())).or_insert(new);
            logs(&group, |contents| {
                let (contents, trace_header) = without_trace_header(contents);
                payload.clear();
                rebuild(payload, group.topic, group.source, contents.iter().copied());
                let trace_header = trace_header.as_ref().map(|bytes| &bytes[..]);
                each(Received { payload, trace_header, partition, offset: 0, redelivered: false, details: &NoDetails });
                count += 1;
            })
        });
        read.map(|()| count).map_err(damaged)
    }
}

impl Drop for SlsConsumer {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

fn damaged(malformed: Malformed) -> ReceiveError {
    ReceiveError { class: FailureClass::Other, message: malformed.to_string() }
}

/// A log's fields.
type Contents<'a, 'b> = &'b [(&'a [u8], &'a [u8])];

/// The engine's own header is the last field, if the log has it.
fn without_trace_header<'a, 'b>(contents: Contents<'a, 'b>) -> (Contents<'a, 'b>, Option<[u8; TRACE_HEADER_BYTES]>) {
    if let Some(((key, value), rest)) = contents.split_last()
        && *key == TRACE_HEADER_NAME.as_bytes()
        && let Some(trace_header) = unhex(value)
    {
        return (rest, Some(trace_header));
    }
    (contents, None)
}

fn unhex(text: &[u8]) -> Option<[u8; TRACE_HEADER_BYTES]> {
    let mut bytes = [0; TRACE_HEADER_BYTES];
    if text.len() != 2 * TRACE_HEADER_BYTES {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(digits[0])? << 4 | digit(digits[1])?) as u8;
    }
    Some(bytes)
}
