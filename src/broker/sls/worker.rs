//! The io workers: threads that close, compress and post batches, one request in flight each, and tell the outcomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::watch;

use super::accumulator::{Accumulator, Batch};
use super::codec::{PACK_TAG, close_group};
use super::config::Compression;
use super::fault::{Fault, accepted};
use super::http::{Client, Question};
use super::queue::{Job, Sealed};
use crate::broker::Wire;
use crate::measure::{AckRecorder, Stamp};

/// Most bytes of an answer to logs: it holds an error at most.
const MOST_ANSWER_BYTES: usize = 64 << 10;

/// When a batch is tried again.
#[derive(Debug, Clone, Copy)]
pub struct RetryRule {
    pub retries: u32,
    pub backoff: Duration,
    pub max_backoff: Duration,
}

impl RetryRule {
    /// The pause before a batch's next try: doubled with each that failed.
    fn pause(self, retries: u32) -> Duration {
        self.backoff.saturating_mul(2u32.saturating_pow(retries)).min(self.max_backoff)
    }
}

/// What crossed the wire since it was last asked for.
#[derive(Default)]
pub struct Traffic {
    requests: AtomicU64,
    retried: AtomicU64,
    quota_refusals: AtomicU64,
    raw_bytes: AtomicU64,
    body_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

impl Traffic {
    pub fn take(&self) -> Wire {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        Wire {
            requests: take(&self.requests),
            retried: take(&self.retried),
            quota_refusals: take(&self.quota_refusals),
            raw_bytes: take(&self.raw_bytes),
            body_bytes: take(&self.body_bytes),
            sent_bytes: take(&self.sent_bytes),
        }
    }
}

/// One io worker.
pub struct Worker {
    pub accumulator: Arc<Accumulator>,
    pub traffic: Arc<Traffic>,
    pub client: Client,
    pub recorder: AckRecorder,
    pub compression: Compression,
    pub rule: RetryRule,
    pub stop: watch::Receiver<bool>,
}

impl Worker {
    /// Starts the worker on a thread of its own: compressing takes milliseconds, for which nothing else should wait.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(self, number: usize) -> std::io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name(format!("sls-io-{number}")).spawn(move || runtime.block_on(self.work()))
    }

    async fn work(mut self) {
        let mut stop = self.stop.clone();
        let mut compressor = Compressor::default();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => {}
            () = async {
                loop {
                    let sealed = match self.accumulator.queue.next().await {
                        Job::Fresh(batch) => self.seal(batch, &mut compressor),
                        Job::Again(sealed) => Some(sealed),
                    };
                    if let Some(sealed) = sealed {
                        self.send(sealed).await;
                    }
                }
            } => {}
        }
    }

    /// Closes and compresses a batch; `None` if that failed, which has been told.
    fn seal(&self, mut batch: Batch, compressor: &mut Compressor) -> Option<Sealed> {
        let place = &batch.group.place;
        let pack = batch.group.next_pack();
        let tags = self.accumulator.tags.iter().map(|tag| (&tag.key[..], &tag.value[..]));
        let tags = tags.chain([(PACK_TAG, pack.as_bytes())]);
        close_group(&mut batch.body, &place.topic, &place.source, tags);
        let body_bytes = batch.body.len();
        let body = match compressor.compress(self.compression, &mut batch.body) {
            Ok(body) => body,
            Err(error) => {
                let fault = Fault { code: "Compression".to_owned(), message: error.to_string() };
                self.fail(batch.take_logs(), batch.taken_bytes, &fault);
                return None;
            }
        };
        let path = match &place.shard_hash {
            None => format!("/logstores/{}/shards/lb", place.store),
            Some(_) => format!("/logstores/{}/shards/route", place.store),
        };
        let shard_hash = place.shard_hash.clone();
        let (logs, raw_bytes, taken_bytes) = (batch.take_logs(), batch.raw_bytes, batch.taken_bytes);
        self.accumulator.recycle(batch.body);
        Some(Sealed { path, shard_hash, logs, raw_bytes, taken_bytes, body_bytes, body, retries: 0 })
    }

    async fn send(&mut self, mut sealed: Sealed) {
        match self.post(&sealed).await {
            Ok(()) => {
                let count = |counter: &AtomicU64, bytes: usize| counter.fetch_add(bytes as u64, Ordering::Relaxed);
                count(&self.traffic.raw_bytes, sealed.raw_bytes);
                count(&self.traffic.body_bytes, sealed.body_bytes);
                count(&self.traffic.sent_bytes, sealed.body.len());
                let mut acks = self.recorder.batch();
                for &(stamp, payload_bytes) in &sealed.logs {
                    acks.acknowledged(stamp, payload_bytes as usize);
                }
                drop(acks);
                self.accumulator.settle(sealed.logs, sealed.taken_bytes);
            }
            Err(fault) if fault.is_retriable() && sealed.retries < self.rule.retries => {
                let pause = self.rule.pause(sealed.retries);
                sealed.retries += 1;
                self.traffic.retried.fetch_add(1, Ordering::Relaxed);
                self.accumulator.queue.push_again(sealed, Instant::now() + pause);
            }
            Err(fault) => self.fail(sealed.logs, sealed.taken_bytes, &fault),
        }
    }

    async fn post(&mut self, sealed: &Sealed) -> Result<(), Fault> {
        let mut headers = vec![
            ("content-type", "application/x-protobuf".to_owned()),
            ("x-log-bodyrawsize", sealed.body_bytes.to_string()),
        ];
        if let Some(name) = self.compression.name() {
            headers.push(("x-log-compresstype", name.to_owned()));
        }
        let query = sealed.shard_hash.as_deref().map(|hash| [("key", hash)]);
        let question = Question {
            method: "POST",
            path: &sealed.path,
            query: query.as_ref().map_or(&[], |query| &query[..]),
            headers,
            body: sealed.body.clone(),
            most_answer_bytes: MOST_ANSWER_BYTES,
        };
        self.traffic.requests.fetch_add(1, Ordering::Relaxed);
        let answer = self.client.ask(question).await.map_err(Fault::from).and_then(accepted);
        if answer.as_ref().is_err_and(Fault::is_quota) {
            self.traffic.quota_refusals.fetch_add(1, Ordering::Relaxed);
        }
        answer.map(drop)
    }

    fn fail(&self, logs: Vec<(Stamp, u32)>, taken_bytes: usize, fault: &Fault) {
        let mut acks = self.recorder.batch();
        for &(stamp, _) in &logs {
            acks.failed(stamp, fault.class(), || fault.to_string());
        }
        drop(acks);
        self.accumulator.settle(logs, taken_bytes);
    }
}

/// Keeps a compressor's memory from one batch to the next.
#[derive(Default)]
struct Compressor {
    room: Vec<u8>,
}

impl Compressor {
    /// The body as it is sent. Uncompressed, it is the buffer itself.
    fn compress(&mut self, compression: Compression, body: &mut Vec<u8>) -> Result<Bytes, std::io::Error> {
        match compression {
            Compression::None => Ok(Bytes::from(std::mem::take(body))),
            Compression::Lz4 => {
                let most = lz4_flex::block::get_maximum_output_size(body.len());
                if self.room.len() < most {
                    // New memory that is zero already costs nothing until it is written to, and most of it never is.
                    self.room = vec![0; most];
                }
                let size = lz4_flex::block::compress_into(body, &mut self.room).map_err(std::io::Error::other)?;
                Ok(Bytes::copy_from_slice(&self.room[..size]))
            }
            Compression::Zstd => zstd::bulk::compress(body, 1).map(Bytes::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let (backoff, max_backoff) = (Duration::from_millis(100), Duration::from_secs(50));
        let rule = RetryRule { retries: 10, backoff, max_backoff };
        let pauses: Vec<u128> = (0..11).map(|retries| rule.pause(retries).as_millis()).collect();
        assert_eq!(pauses[..4], [100, 200, 400, 800]);
        assert_eq!(pauses[8..], [25_600, 50_000, 50_000]);
    }

    #[test]
    fn what_was_compressed_comes_back() {
        let mut compressor = Compressor::default();
        let text = b"content_key_1abcdefgh".repeat(100);
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let sent = compressor.compress(compression, &mut text.clone()).unwrap();
            let back = match compression {
                Compression::None => sent.to_vec(),
                Compression::Lz4 => lz4_flex::block::decompress(&sent, text.len()).unwrap(),
                Compression::Zstd => zstd::bulk::decompress(&sent, text.len()).unwrap(),
            };
            assert_eq!(back, text);
        }
    }
}
