//! What rdkafka tells of a producing client when it is polled: the outcomes of messages, errors and statistics.

use std::collections::BTreeMap;
use std::error::Error;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Headers};
use rdkafka::producer::ProducerContext;
use rdkafka::util::current_time_millis;
use rdkafka::{Message, Timestamp};
use serde::Deserialize;
use tokio::sync::Notify;

use super::client::{self, describe, failure_class, oauth_token};
use super::held_up::{HeldUp, Link, PartitionQueue};
use crate::broker::{FailureClass, TRACE_HEADER_NAME, Telemetry, Wire, kafka_cluster, known_sum};
use crate::measure::{AckRecorder, Conditions, PartitionIndex, SendTag, TraceHeader, UNKNOWN_SEQUENCE};
use crate::scenario::Secret;

/// By how much the times of two clocks may differ that were read one after the other.
const CLOCK_SLACK_NS: u64 = 10_000_000_000;

// A send tag's word fits rdkafka's opaque value, which costs no allocation.
const _: () = assert!(size_of::<usize>() >= size_of::<u64>());

/// What rdkafka tells of a client when it is polled.
pub struct Reports {
    pub recorder: AckRecorder,
    outcomes: Mutex<Outcomes>,
    /// Wakes producers when an event has freed capacity in the client's queue.
    pub capacity: Notify,
    /// Messages that wait for the end of their transaction; `None`: they are sent without.
    pub written: Option<Arc<UnsettledMessages>>,
    pub errors: Mutex<ConnectionErrors>,
    pub statistics: Mutex<(Reader, Telemetry)>,
    token: Option<Secret>,
    pub ended: AtomicBool,
}

/// The outcomes in the event that is being served: empty between events.
#[derive(Default)]
struct Outcomes {
    /// When the event came, since the trial's epoch; `None`: it has no outcome so far.
    now_ns: Option<u64>,
    all: Vec<Outcome>,
    partitions: KnownPartitions,
    held_up: HeldUp,
    /// Whether rdkafka has called, for an outcome or for anything else.
    was_called: bool,
}

struct Outcome {
    send_tag: SendTag,
    payload_bytes: usize,
    partition: PartitionIndex,
    /// `None`: the message was delivered.
    error: Option<Code>,
}

/// The errors of a client.
#[derive(Debug, Clone, Default)]
pub struct ConnectionErrors {
    /// The last error of one broker: why it does not answer.
    pub last: Option<(Code, String)>,
    /// Whether no broker could be reached at some time. It explains less than `last`, so it does not replace it.
    pub all_down: bool,
}

/// The partitions of which a client has had reports. The key is the address of librdkafka's topic, and the partition.
#[derive(Default)]
struct KnownPartitions {
    all: BTreeMap<(usize, i32), PartitionIndex>,
    /// The partition of the last report: successive reports are nearly always of one partition.
    last: Option<((usize, i32), PartitionIndex)>,
}

/// Messages that the broker has written and whose transaction has not ended, each with its payload's size.
#[derive(Default)]
pub struct UnsettledMessages {
    pub written: Mutex<Vec<(SendTag, usize)>>,
    /// Whether measured messages of the transaction have failed, which are not among them.
    pub has_lost_measured: AtomicBool,
}

impl ProducerContext for Reports {
    /// The send tag's first word, which is not a pointer to anything.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, word: usize) {
        let (message, error) = match result {
            Ok(message) => (message, None),
            Err((error, message)) => (message, Some(client::code(error))),
        };
        let mut outcomes = self.outcomes.lock();
        outcomes.was_called = true;
        match error {
            None if outcomes.held_up.has_unwritten() => outcomes.held_up.written(message.topic(), message.partition()),
            None => {}
            Some(code) => outcomes.held_up.failed(message.topic(), message.partition(), code),
        }
        let now_ns = *outcomes.now_ns.get_or_insert_with(|| self.recorder.now_ns());
        let send_tag = self.send_tag(word as u64, message, now_ns);
        let payload_bytes = message.payload_len();
        match (error, &self.written) {
            // Those that the end of a transaction has taken with it wait for that end as well.
            (None | Some(Code::PurgeQueue | Code::PurgeInflight), Some(written)) => {
                written.written.lock().push((send_tag, payload_bytes));
            }
            (_, written) => {
                if let Some(written) = written {
                    written.has_lost_measured.fetch_or(send_tag.measured(), Ordering::Relaxed);
                }
                let partition = outcomes.partitions.index(message, &self.recorder);
                outcomes.all.push(Outcome { send_tag, payload_bytes, partition, error });
            }
        }
    }
}

impl ClientContext for Reports {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, _message: &str) {
        self.called();
    }

    fn stats_raw(&self, json: &[u8]) {
        self.called();
        let Ok(statistics) = serde_json::from_slice::<Statistics>(json) else { return };
        let last_error = self.errors.lock().last.clone();
        let links = statistics.brokers.values().map(|broker| &broker.link);
        let queues =
            statistics.topics.iter().flat_map(|(name, topic)| topic.partitions.values().map(|queue| (&**name, queue)));
        let (mut outcomes, now) = (self.outcomes.lock(), Instant::now());
        outcomes.held_up.look(links, last_error.as_ref(), now);
        outcomes.held_up.look_at_queues(queues, now);
        drop(outcomes);
        let (reader, telemetry) = &mut *self.statistics.lock();
        *telemetry = joined(*telemetry, reader.read(&statistics));
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.called();
        let mut errors = self.errors.lock();
        match client::code(&error) {
            Code::AllBrokersDown => errors.all_down = true,
            code => errors.last = Some((code, client::without_circumstances(reason))),
        }
    }

    fn generate_oauth_token(&self, _config: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        self.called();
        oauth_token(self.token.as_ref())
    }
}

impl Reports {
    pub fn new(recorder: AckRecorder, is_transactional: bool, token: Option<Secret>, conditions: Conditions) -> Self {
        Reports {
            recorder,

            outcomes: Mutex::new(Outcomes { held_up: HeldUp::new(conditions), ..Outcomes::default() }),
            capacity: Notify::new(),
            written: is_transactional.then(Arc::default),
            errors: Mutex::default(),
            statistics: Mutex::default(),
            token,
            ended: AtomicBool::new(false),
        }
    }

    /// The client takes no message any more.
    pub fn client_ended(&self, code: Code) {
        self.outcomes.lock().held_up.ended(code);
    }

    fn called(&self) {
        self.outcomes.lock().was_called = true;
    }

    /// Records the outcomes in the event that was served. Whether there was an event.
    pub fn end_of_event(&self) -> bool {
        let mut outcomes = self.outcomes.lock();
        let was_called = mem::take(&mut outcomes.was_called);
        if let Some(now_ns) = outcomes.now_ns.take() {
            let mut acks = self.recorder.batch_at(now_ns);
            for Outcome { send_tag, payload_bytes, partition, error } in outcomes.all.drain(..) {
                match error {
                    None => {
                        acks.to_partition(partition);
                        acks.acknowledged(send_tag, payload_bytes);
                    }
                    Some(code) => acks.failed(send_tag, failure_class(code), || self.explain(code)),
                }
            }
        }
        drop(outcomes);
        if was_called {
            self.capacity.notify_waiters();
        }
        was_called
    }

    /// librdkafka carries one word of the send tag. The other one is restored: the sequence from the message's own trace header, and
    /// the upper bits of the time sent, once there are any, from the message's time stamp.
    fn send_tag(&self, word: u64, message: &BorrowedMessage<'_>, now_ns: u64) -> SendTag {
        let age_ns = if SendTag::is_first_turn(now_ns) { 0 } else { age_ns(message) };
        let sent_by_ns = now_ns.saturating_sub(age_ns.saturating_sub(CLOCK_SLACK_NS));
        let sequence = if self.recorder.needs_sequences() { sequence(message) } else { 0 };
        SendTag::from_word(word, sequence, sent_by_ns)
    }

    /// A message's error, with the client's last error: "timed out" alone does not explain it.
    pub fn explain(&self, code: Code) -> String {
        let words = match failure_class(code) {
            FailureClass::TooLarge => kafka_cluster::too_large(&describe(code)),
            _ => describe(code),
        };
        match &self.errors.lock().last {
            Some((_, last)) => format!("{words} (last error of the client: {last})"),
            None => words,
        }
    }
}

impl KnownPartitions {
    #[inline]
    fn index(&mut self, message: &BorrowedMessage<'_>, recorder: &AckRecorder) -> PartitionIndex {
        let key = (message.topic_ptr() as usize, message.partition());
        match self.last {
            Some((last, index)) if last == key => index,
            _ => {
                // A message that was not written has no partition.
                let index = || match u32::try_from(key.1) {
                    Ok(number) => recorder.partition(message.topic(), Some(number)),
                    Err(_) => PartitionIndex::UNKNOWN,
                };
                let index = *self.all.entry(key).or_insert_with(index);
                self.last = Some((key, index));
                index
            }
        }
    }
}

/// How long ago the client made the message. 0 if its time stamp is the broker's.
fn age_ns(message: &BorrowedMessage<'_>) -> u64 {
    match message.timestamp() {
        Timestamp::CreateTime(created_ms) => {
            u64::try_from(current_time_millis() - created_ms).unwrap_or(0).saturating_mul(1_000_000)
        }
        _ => 0,
    }
}

/// The message's number, from the trace header beside its payload or in it.
fn sequence(message: &BorrowedMessage<'_>) -> u64 {
    let sealed = trace_header(message).or(message.payload()).unwrap_or_default();
    TraceHeader::sequence_of(sealed).unwrap_or(UNKNOWN_SEQUENCE)
}

/// The engine's own header of a message that carries one beside its payload.
pub fn trace_header<M: Message>(message: &M) -> Option<&[u8]> {
    let headers = message.headers()?;
    // It is the last one, unless another program has sent the message on.
    let mut all = (0..headers.count()).rev().filter_map(|index| headers.try_get(index));
    all.find(|header| header.key == TRACE_HEADER_NAME)?.value
}

/// librdkafka's statistics of the client's queues, of the broker's answers, and of what was sent.
///
/// Fields and units: librdkafka's `STATISTICS.md` (`msg_cnt`: messages in the producer's queues; `brokers.*.rtt`: round
/// trip in microseconds over the statistics interval; `topics.*.batchsize`: bytes of batches as they were sent, over the same
/// interval; `txmsg_bytes`: bytes of messages sent since the client began, which `rdkafka_msgset_writer.c` counts as keys and values
/// before compression).
#[derive(Deserialize)]
struct Statistics {
    #[serde(default)]
    msg_cnt: u64,
    #[serde(default)]
    txmsg_bytes: u64,
    #[serde(default)]
    brokers: BTreeMap<String, BrokerStatistics>,
    #[serde(default)]
    topics: BTreeMap<String, TopicStatistics>,
}

#[derive(Deserialize)]
struct BrokerStatistics {
    #[serde(flatten)]
    link: Link,
    rtt: Option<Window>,
}

#[derive(Deserialize)]
struct TopicStatistics {
    batchsize: Option<Window>,
    #[serde(default)]
    partitions: BTreeMap<String, PartitionQueue>,
}

#[derive(Deserialize)]
struct Window {
    cnt: u64,
    #[serde(default)]
    sum: u64,
    #[serde(default)]
    p50: u64,
    #[serde(default)]
    p99: u64,
}

/// Reads one client's statistics, an interval after the other.
#[derive(Default)]
pub struct Reader {
    /// `txmsg_bytes` of the interval before.
    raw_bytes: u64,
}

impl Reader {
    /// Reads one interval's statistics. The round trip is that of the slowest broker.
    fn read(&mut self, statistics: &Statistics) -> Telemetry {
        let windows =
            || statistics.brokers.values().filter_map(|broker| broker.rtt.as_ref()).filter(|window| window.cnt > 0);
        let batches = || statistics.topics.values().filter_map(|topic| topic.batchsize.as_ref());
        let raw_bytes = statistics.txmsg_bytes.saturating_sub(self.raw_bytes);
        self.raw_bytes = statistics.txmsg_bytes;
        Telemetry {
            queue_messages: Some(statistics.msg_cnt),
            round_trip_p50_ns: windows().map(|window| window.p50 * 1000).max(),
            round_trip_p99_ns: windows().map(|window| window.p99 * 1000).max(),
            wire: Some(Wire {
                // librdkafka sends each batch in a request of its own.
                requests: batches().map(|window| window.cnt).sum(),
                raw_bytes,
                body_bytes: raw_bytes,
                sent_bytes: batches().map(|window| window.sum).sum(),
                ..Wire::default()
            }),
            ..Telemetry::default()
        }
    }
}

/// What two intervals came to: the deeper queue, the later round trip, and all that was sent.
pub fn joined(earlier: Telemetry, later: Telemetry) -> Telemetry {
    let wire = known_sum(earlier.wire, later.wire);
    Telemetry { queue_messages: earlier.queue_messages.max(later.queue_messages), wire, ..later }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reader: &mut Reader, json: &str) -> Telemetry {
        reader.read(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn the_slowest_broker_and_the_queue_are_reported() {
        let json = r#"{"name": "x", "msg_cnt": 22710, "brokers": {
            "a:1/0": {"rtt": {"cnt": 12, "p50": 2000, "p99": 3100}},
            "b:1/1": {"rtt": {"cnt": 3, "p50": 900, "p99": 9000}},
            "c:1/bootstrap": {"rtt": {"cnt": 0, "p50": 99000, "p99": 99000}}}}"#;
        let telemetry = read(&mut Reader::default(), json);
        assert_eq!(telemetry.queue_messages, Some(22710));
        assert_eq!(telemetry.round_trip_p50_ns, Some(2_000_000));
        assert_eq!(telemetry.round_trip_p99_ns, Some(9_000_000));
    }

    #[test]
    fn sent_messages_add_up_over_intervals_of_a_running_counter() {
        let interval = |raw: u64, batches: u64, sent: u64| {
            format!(
                r#"{{"txmsg_bytes": {raw}, "topics": {{"t": {{"batchsize": {{"cnt": {batches}, "sum": {sent}}}}}}}}}"#
            )
        };
        let mut reader = Reader::default();
        let first = read(&mut reader, &interval(1_000, 2, 300));
        let both = joined(first, read(&mut reader, &interval(3_000, 3, 700)));
        let wire = both.wire.unwrap();
        assert_fields!(wire, { requests: 5, raw_bytes: 3_000, body_bytes: 3_000, sent_bytes: 1_000 });
    }
}
