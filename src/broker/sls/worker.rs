//! The io workers: threads that close, compress and post batches, one request in flight each, and record the outcomes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tokio::sync::watch;

use super::accumulator::Accumulator;
use super::batch::{Batch, Job, Sealed};
use super::codec::{PACK_TAG, close_group};
use super::config::Compression;
use super::connect::{Client, HttpRequest, ServiceError, accepted};
use crate::broker::Wire;
use crate::measure::{AckRecorder, Conditions, SendTag, Subject, SubjectKind};
use crate::net::backoff::Backoff;

/// Most bytes of a response to logs, which holds an error at most.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

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
            ..Wire::default()
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
    /// How often a batch is sent again after a failure, and the pauses before that.
    pub retries: u32,
    pub backoff: Backoff,
    /// Where the conditions of batches are reported, and the endpoint's address.
    pub conditions: Conditions,
    pub address: String,
    pub stop: watch::Receiver<bool>,
}

impl Worker {
    /// Starts the worker on a thread of its own: compressing takes milliseconds, for which no other task should wait.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(self, number: usize) -> io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name(format!("sls-io-{number}")).spawn(move || runtime.block_on(self.work()))
    }

    async fn work(mut self) {
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => {}
            () = async {
                loop {
                    let sealed = match self.accumulator.queue.next().await {
                        Job::Fresh(batch) => self.seal(batch),
                        Job::Again(sealed) => Some(sealed),
                    };
                    if let Some(sealed) = sealed {
                        self.send(sealed).await;
                    }
                }
            } => {}
        }
    }

    /// Closes and compresses a batch. `None`: that failed, and its logs are recorded as failed.
    fn seal(&self, batch: Batch) -> Option<Sealed> {
        let Batch { group, body, logs, raw_bytes, taken_bytes, .. } = batch;
        let destination = &group.destination;
        let pack = group.next_pack();
        let tags = self.accumulator.tags.iter().map(|tag| (&tag.key[..], &tag.value[..]));
        let tags = tags.chain([(PACK_TAG, pack.as_bytes())]);
        let compressed = self.accumulator.compressors.compress(self.compression, |whole| {
            body.gather(whole, &self.accumulator.spare);
            close_group(whole, &destination.topic, &destination.source, tags);
        });
        let (body, body_bytes) = match compressed {
            Ok(compressed) => compressed,
            Err(error) => {
                let error = ServiceError { code: "Compression".to_owned(), message: error.to_string() };
                self.fail(logs, taken_bytes, &error);
                return None;
            }
        };
        let path = match &destination.shard_hash {
            None => format!("/logstores/{}/shards/lb", destination.store),
            Some(_) => format!("/logstores/{}/shards/route", destination.store),
        };
        let shard_hash = destination.shard_hash.clone();
        Some(Sealed {
            path,
            shard_hash,
            logs,
            raw_bytes,
            taken_bytes,
            body_bytes,
            body,
            retries: 0,
            backoff: self.backoff,
            held_up: None,
        })
    }

    async fn send(&mut self, mut sealed: Sealed) {
        match self.post(&sealed).await {
            Ok(()) => {
                let count = |counter: &AtomicU64, bytes: usize| counter.fetch_add(bytes as u64, Ordering::Relaxed);
                count(&self.traffic.raw_bytes, sealed.raw_bytes);
                count(&self.traffic.body_bytes, sealed.body_bytes);
                count(&self.traffic.sent_bytes, sealed.body.len());
                let mut acks = self.recorder.batch();
                for &(send_tag, payload_bytes) in &sealed.logs {
                    acks.acknowledged(send_tag, payload_bytes as usize);
                }
                drop(acks);
                self.accumulator.settle(sealed.logs, sealed.taken_bytes);
            }
            Err(error) if error.is_retriable() && sealed.retries < self.retries => {
                let endpoint = || Subject::new(&self.conditions, SubjectKind::Node, &self.address);
                sealed.held_up.get_or_insert_with(endpoint).begin(error.condition(), &error.to_string());
                let pause = sealed.backoff.failed();
                sealed.retries += 1;
                self.traffic.retried.fetch_add(1, Ordering::Relaxed);
                self.accumulator.queue.push_again(sealed, Instant::now() + pause);
            }
            Err(error) => self.fail(sealed.logs, sealed.taken_bytes, &error),
        }
    }

    async fn post(&mut self, sealed: &Sealed) -> Result<(), ServiceError> {
        let mut headers = vec![
            ("content-type", "application/x-protobuf".to_owned()),
            ("x-log-bodyrawsize", sealed.body_bytes.to_string()),
        ];
        if let Some(name) = self.compression.name() {
            headers.push(("x-log-compresstype", name.to_owned()));
        }
        let query = sealed.shard_hash.as_deref().map(|hash| [("key", hash)]);
        let request = HttpRequest {
            method: "POST",
            path: &sealed.path,
            query: query.as_ref().map_or(&[], |query| &query[..]),
            headers,
            body: sealed.body.clone(),
            max_response_bytes: MAX_RESPONSE_BYTES,
        };
        self.traffic.requests.fetch_add(1, Ordering::Relaxed);
        let response = self.client.send(request).await.map_err(ServiceError::from).and_then(accepted);
        if response.as_ref().is_err_and(ServiceError::is_quota) {
            self.traffic.quota_refusals.fetch_add(1, Ordering::Relaxed);
        }
        response.map(drop)
    }

    fn fail(&self, logs: Vec<(SendTag, u32)>, taken_bytes: usize, error: &ServiceError) {
        let mut acks = self.recorder.batch();
        for &(send_tag, _) in &logs {
            acks.failed(send_tag, error.class(), || error.to_string());
        }
        drop(acks);
        self.accumulator.settle(logs, taken_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::super::accumulator::Limits;
    use super::super::config::{Credentials, SignatureVersion};
    use super::super::connect::Endpoint;
    use super::super::sign::{CredentialSource, Signer};
    use super::*;
    use crate::measure::{Acks, Clock, ConditionKind};

    #[tokio::test]
    async fn what_held_a_batch_up_ends_when_another_worker_has_sent_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        // Each worker has a connection, and each request a response of its own.
        tokio::spawn(async move {
            let refusal = r#"{"errorCode":"WriteQuotaExceed","errorMessage":"used up"}"#;
            let mut connections = Vec::new();
            for (status, body) in [("403 Forbidden", refusal), ("200 OK", "")] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let length = body.len();
                let response =
                    format!("HTTP/1.1 {status}\r\nx-log-requestid: 1\r\ncontent-length: {length}\r\n\r\n{body}");
                stream.write_all(response.as_bytes()).await.unwrap();
                connections.push(stream);
            }
            std::future::pending::<()>().await;
        });
        let limits = Limits { bytes: 1, logs: 1, linger: Duration::from_secs(60) };
        let accumulator = Arc::new(Accumulator::new(1, limits, Vec::new(), "run".to_owned()));
        let key = || "key".to_owned();
        let first = Credentials { key_id: key(), key_secret: key(), security_token: None };
        let credentials = CredentialSource::new(first, Box::new(|| None));
        let signer = Arc::new(Signer { credentials, version: SignatureVersion::V1, region: String::new() });
        let endpoint = Arc::new(Endpoint::new(&address, None, "project", None).unwrap());
        let (conditions, backoff) = (Conditions::default(), Backoff::new(Duration::ZERO, Duration::ZERO));
        let worker = || Worker {
            accumulator: accumulator.clone(),
            traffic: Arc::default(),
            client: Client::new(endpoint.clone(), signer.clone(), Duration::from_secs(60)),
            recorder: Acks::new(Clock::start(), 1, false).recorder(),
            compression: Compression::None,
            retries: 1,
            backoff,
            conditions: conditions.clone(),
            address: address.clone(),
            stop: watch::channel(false).1,
        };
        let (mut one, mut other) = (worker(), worker());
        one.send(Sealed {
            path: "/logstores/orders/shards/lb".to_owned(),
            shard_hash: None,
            logs: Vec::new(),
            raw_bytes: 0,
            taken_bytes: 0,
            body_bytes: 0,
            body: Bytes::new(),
            retries: 0,
            backoff,
            held_up: None,
        })
        .await;
        let told = |conditions: &Conditions| conditions.lasting().iter().map(|one| one.kind).collect::<Vec<_>>();
        assert_eq!(told(&conditions), [ConditionKind::Throttled]);
        let Job::Again(sealed) = accumulator.queue.next().await else { panic!("it was not sent before") };
        other.send(sealed).await;
        assert_eq!(told(&conditions), []);
    }
}
