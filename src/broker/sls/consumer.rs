//! A member of a group: reads its part of a store's shards, in turn, and those that appear when a shard is split.
//!
//! The service stores no offsets for these consumers: a group is its members' own cursors.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::admin::Admin;
use super::codec::{Malformed, logs, next_group, rebuild};
use super::connect::ServiceError;
use crate::broker::{Consumer, FailureClass, NoDetails, ReceiveError, Received};
use crate::limits::TRACE_HEADER_NAME;
use crate::measure::TRACE_HEADER_BYTES;

/// Answers that wait to be taken.
const ANSWERS_AHEAD: usize = 8;

/// How often a member looks for new shards.
const LOOK_EVERY: Duration = Duration::from_secs(1);

type Answered = Result<(u32, Bytes), ReceiveError>;

/// A reader of some shards of one store.
pub struct SlsConsumer {
    answers: mpsc::Receiver<Answered>,
    /// An answer that `ready` has seen, or what is left of one that was taken in part.
    next: Option<Answered>,
    /// The partitions within which logs are in order: packs of a shard.
    partitions: HashMap<(u32, Box<[u8]>), u32>,
    payload: Vec<u8>,
    reader: JoinHandle<()>,
}

/// What a member reads.
pub struct AssignedShards {
    pub store: String,
    /// Number of the member among `members`: it reads each shard whose number leaves this remainder.
    pub member: usize,
    pub members: usize,
    /// The shards that it reads, each with its cursor.
    pub shards: Vec<(u32, String)>,
    /// The pause between questions for new logs while there are none.
    pub interval: Duration,
}

impl AssignedShards {
    pub fn has(&self, shard: u32) -> bool {
        shard as usize % self.members.max(1) == self.member
    }

    /// Adds the shards that have appeared, from their beginning: nothing in them is older than this member.
    async fn grow(&mut self, admin: &mut Admin) -> Result<(), ServiceError> {
        for shard in admin.shards(&self.store).await?.unwrap_or_default() {
            if self.has(shard.id) && !self.shards.iter().any(|(known, _)| *known == shard.id) {
                let cursor = admin.cursor(&self.store, shard.id, "begin").await?;
                self.shards.push((shard.id, cursor));
            }
        }
        Ok(())
    }
}

impl SlsConsumer {
    /// Reads its shards from the cursors on.
    pub fn start(admin: Admin, assigned: AssignedShards) -> Self {
        let (sender, answers) = mpsc::channel(ANSWERS_AHEAD);
        let reader = tokio::spawn(read(admin, assigned, sender));
        SlsConsumer { answers, next: None, partitions: HashMap::new(), payload: Vec::new(), reader }
    }
}

async fn read(mut admin: Admin, mut assigned: AssignedShards, answers: mpsc::Sender<Answered>) {
    let mut looked = Instant::now();
    loop {
        let mut idle = true;
        for (shard, cursor) in &mut assigned.shards {
            let answered = match admin.pull(&assigned.store, *shard, cursor).await {
                Ok(pulled) => {
                    *cursor = pulled.next;
                    if pulled.list.is_empty() {
                        continue;
                    }
                    idle = false;
                    Ok((*shard, pulled.list.into()))
                }
                Err(fault) => Err(received(&fault)),
            };
            if answers.send(answered).await.is_err() {
                return;
            }
        }
        if looked.elapsed() >= LOOK_EVERY {
            looked = Instant::now();
            // A key that may not list shards reads those that it began with.
            if let Err(fault) = assigned.grow(&mut admin).await
                && !fault.is_denied()
                && answers.send(Err(received(&fault))).await.is_err()
            {
                return;
            }
        }
        if idle {
            tokio::time::sleep(assigned.interval).await;
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

    /// Of one answer. A group of logs, which a producer has sent as one batch, is handed over whole.
    fn take_some(&mut self, most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let Some(answered) = self.next.take().or_else(|| self.answers.try_recv().ok()) else { return Ok(0) };
        let (shard, list) = answered?;
        let mut count = 0;
        let mut rest = &list[..];
        let (partitions, payload) = (&mut self.partitions, &mut self.payload);
        while count < most
            && let Some(group) = next_group(&mut rest).map_err(damaged)?
        {
            let pack = group.pack.iter().rposition(|byte| *byte == b'-').map_or(group.pack, |end| &group.pack[..end]);
            let new = partitions.len() as u32;
            let partition = *partitions.entry((shard, pack.into())).or_insert(new);
            let read = logs(&group, |contents| {
                let (contents, trace_header) = without_trace_header(contents);
                payload.clear();
                rebuild(payload, group.topic, group.source, contents.iter().copied());
                let trace_header = trace_header.as_ref().map(|bytes| &bytes[..]);
                each(Received { payload, trace_header, partition, offset: 0, redelivered: false, details: &NoDetails });
                count += 1;
            });
            read.map_err(damaged)?;
        }
        if !rest.is_empty() {
            self.next = Some(Ok((shard, list.slice_ref(rest))));
        }
        Ok(count)
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
