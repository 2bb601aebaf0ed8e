//! What was fetched and not taken yet.

use std::collections::VecDeque;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::codec::Malformed;
use super::super::codec::records::{self, OpenBatch, ReadBatch, ReadRecord};
use crate::broker::ReceiveError;

/// Nothing more is fetched while so much has not been taken.
const MAX_BYTES: usize = 32 << 20;

/// Batches between the task that fetches and the consumer that takes.
#[derive(Default)]
pub struct FetchBuffer {
    state: Mutex<BufferState>,
    arrived: Notify,
    taken: Notify,
}

#[derive(Default)]
struct BufferState {
    fetched: VecDeque<Fetched>,
    bytes: usize,
    /// What became of messages: each report is told.
    reports: Vec<ReceiveError>,
    /// The last error, which comes again while its reason lasts.
    error: Option<ReceiveError>,
}

/// Batches of one partition, as they came.
#[derive(Debug, Clone)]
pub struct Fetched {
    pub partition: u32,
    pub records: Bytes,
    /// The first offset that was asked for: a batch is returned whole.
    pub from: i64,
    /// The offset after the last whole batch.
    pub next: i64,
    /// Offsets below were read before, and their messages are gone: the log was cut off.
    pub read_before: i64,
    /// The first offset and the producer of each aborted transaction among the records, by their offsets.
    pub aborted: Vec<(i64, i64)>,
    /// The batch of which some messages have been handed over: its others come before those of the records that are not before its end.
    pub open: Option<OpenBatch>,
}

impl FetchBuffer {
    pub fn put(&self, fetched: Fetched) {
        let mut state = self.state.lock();
        state.bytes += fetched.records.len();
        state.fetched.push_back(fetched);
        drop(state);
        self.arrived.notify_one();
    }

    /// The consumer is told of this error, unless another one comes before.
    pub fn fail(&self, error: ReceiveError) {
        self.state.lock().error = Some(error);
        self.arrived.notify_one();
    }

    /// The consumer is told of this error in any case: messages are gone, and no later error says so.
    pub fn report(&self, error: ReceiveError) {
        self.state.lock().reports.push(error);
        self.arrived.notify_one();
    }

    /// Whether no more may be fetched.
    pub fn is_full(&self) -> bool {
        self.state.lock().bytes >= MAX_BYTES
    }

    /// Waits until more may be fetched.
    pub async fn room(&self) {
        wait_until(&self.taken, || !self.is_full()).await;
    }

    /// Waits until there is something to take.
    pub async fn ready(&self) {
        let has_arrived = || {
            let state = self.state.lock();
            !state.fetched.is_empty() || !state.reports.is_empty() || state.error.is_some()
        };
        wait_until(&self.arrived, has_arrived).await;
    }

    /// Everything that has arrived, into `into`, which is empty.
    pub fn take(&self, into: &mut VecDeque<Fetched>) {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.fetched, into);
        state.bytes = 0;
        drop(state);
        self.taken.notify_waiters();
    }

    /// The next error that the consumer is told: all reports are one.
    pub fn take_error(&self) -> Option<ReceiveError> {
        let mut state = self.state.lock();
        ReceiveError::take_joined(&mut state.reports).or_else(|| state.error.take())
    }

    /// The reports that the consumer was not told.
    pub fn take_reports(&self) -> Vec<ReceiveError> {
        std::mem::take(&mut self.state.lock().reports)
    }
}

/// Waits until `is_done`, which is looked at again after each notification.
pub async fn wait_until(notify: &Notify, is_done: impl Fn() -> bool) {
    loop {
        // Created before the look, so that a notification in between is not missed.
        let notified = notify.notified();
        if is_done() {
            return;
        }
        notified.await;
    }
}

impl Fetched {
    /// No messages: the position of a partition.
    pub fn none(partition: u32, next: i64) -> Self {
        Fetched { partition, records: Bytes::new(), from: next, next, read_before: 0, aborted: Vec::new(), open: None }
    }

    /// Hands over `most` messages, or all of them if there are no more, without those of aborted transactions. What is left then is returned.
    ///
    /// # Errors
    /// When what comes after them is malformed.
    #[inline]
    pub fn for_each(
        &self,
        unpacked: &mut Vec<u8>,
        most: usize,
        mut each: impl FnMut(ReadRecord<'_>),
    ) -> Result<Option<Fetched>, Malformed> {
        let mut from = self.from;
        let mut messages = 0;
        if let Some(open) = &self.open {
            let mut open = open.clone();
            messages += open.take(from, most, |record| {
                from = record.offset + 1;
                each(record);
            })?;
            if !open.is_finished() {
                return Ok(Some(Fetched { from, open: Some(open), ..self.clone() }));
            }
            from = open.next_offset();
        }
        let mut rest = &self.records[..];
        let mut aborted = Aborted { later: &self.aborted, producers: Vec::new() };
        loop {
            let begin = self.records.len() - rest.len();
            let Some(batch) = records::next_batch(&mut rest)? else { return Ok(None) };
            let is_hidden = aborted.hides(&batch);
            if is_hidden || batch.next_offset() <= from {
                continue;
            }
            // Which transactions are open here is found again from the first batch.
            let left = |from, open: Option<OpenBatch>| {
                let begin = if self.aborted.is_empty() { begin } else { 0 };
                Fetched { from, records: self.records.slice(begin..), open, ..self.clone() }
            };
            if messages >= most {
                return Ok(Some(left(batch.base_offset.max(from), None)));
            }
            if batch.record_count as usize > most - messages {
                let mut open = batch.open(&self.records, unpacked)?;
                let mut next = from;
                messages += open.take(from, most - messages, |record| {
                    next = record.offset + 1;
                    each(record);
                })?;
                if !open.is_finished() {
                    return Ok(Some(left(next, Some(open))));
                }
                from = open.next_offset();
                continue;
            }
            batch.for_each(unpacked, |record| {
                if record.offset >= from {
                    messages += 1;
                    each(record);
                }
            })?;
        }
    }
}

/// Which producers have a transaction open that was aborted.
struct Aborted<'a> {
    /// Those that begin later.
    later: &'a [(i64, i64)],
    producers: Vec<i64>,
}

impl Aborted<'_> {
    /// Whether a batch holds no messages for a consumer. The end of a transaction is in the producer's next control batch.
    fn hides(&mut self, batch: &ReadBatch<'_>) -> bool {
        while let [(first_offset, producer), later @ ..] = self.later {
            if *first_offset >= batch.next_offset() {
                break;
            }
            self.producers.push(*producer);
            self.later = later;
        }
        if batch.is_control {
            self.producers.retain(|producer| *producer != batch.producer_id);
            return true;
        }
        batch.is_transactional && self.producers.contains(&batch.producer_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::FailureClass;

    #[test]
    fn reports_are_told_at_once_and_of_other_errors_the_last() {
        let buffer = FetchBuffer::default();
        let error = |class, message: &str| ReceiveError { class, message: message.to_owned() };
        buffer.report(error(FailureClass::Other, "partition 0 was truncated"));
        buffer.fail(error(FailureClass::ConnectionLost, "no leader"));
        buffer.fail(error(FailureClass::ConnectionLost, "no connection"));
        for _ in 0..2 {
            buffer.report(error(FailureClass::Other, "partition 1 was truncated"));
        }
        buffer.report(error(FailureClass::Refused, "not allowed"));
        let told: Vec<ReceiveError> = std::iter::from_fn(|| buffer.take_error()).collect();
        let truncated = "3 errors: partition 0 was truncated; partition 1 was truncated";
        let wanted = [
            error(FailureClass::Other, truncated),
            error(FailureClass::Refused, "not allowed"),
            error(FailureClass::ConnectionLost, "no connection"),
        ];
        assert_eq!(told, wanted);
    }
}
