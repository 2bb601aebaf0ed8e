//! Other programs read our files and messages: another histogram implementation, and Kafka's own consumer.

#![cfg(feature = "kafka")]

use std::path::Path;
use std::process::Command;

use crate::harness::kafka::{self, sasl, tls};
use crate::harness::server::variable;
use crate::harness::{Bench, Running};
use brokermark::record::Record;

const NULL: &str = r#"
    [broker]
    kind = "null"
    [broker.null]
    service_time = "2ms"
    [producers]
    count = 4
    batch = 10
    [load]
    rate = "20k/s"
    [payload]
    kind = "zeros"
    size = "100B"
    [run]
    duration = "3s"
    [output]
    formats = ["hlog"]
"#;

/// Runs a program for Python with the package hdrhistogram and returns what it prints.
fn python(program: &str, arguments: &[&str]) -> String {
    let python = std::env::var("BROKERMARK_PYTHON")
        .expect("BROKERMARK_PYTHON is not set: run `scripts/test`, which installs what this test needs");
    let mut command = Command::new(python);
    command.arg("-c").arg(program).args(arguments);
    Running::start(&mut command).finish(crate::harness::PATIENCE).expect(0).stdout
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn real_python_decodes_a_records_histogram_to_the_same_figures() {
    let record = Bench::new(NULL).run(&[]).expect(0).record();
    let latency = record.latency.response.unwrap();
    let program = "
import sys
from hdrh.histogram import HdrHistogram
h = HdrHistogram.decode(sys.argv[1])
print(h.get_total_count(), h.get_value_at_percentile(50), h.get_value_at_percentile(99), h.get_max_value(), h.get_min_value())
";
    let read = numbers(&python(program, &[&latency.histogram]));
    let written = [latency.count, latency.p50_ns, latency.p99_ns.unwrap(), latency.max_ns, latency.min_ns];
    for (read, written) in read.iter().zip(written) {
        // The two implementations may name either end of a bucket, which is three digits or 64 ns wide.
        assert!((read - written as f64).abs() <= (written as f64 / 1000.0).max(64.0), "{read} for {written}");
    }
    assert_eq!(read[0], 60_000.0);
}

#[test]
fn real_python_finds_every_message_in_the_interval_log() {
    let bench = Bench::new(NULL);
    let record = bench.run(&[]).expect(0).record();
    let log = bench.run_directory().join("latency.hlog");
    let program = "
import sys
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
total = HdrHistogram(1, 600 * 10**9, 3)
reader = HistogramLogReader(sys.argv[1], total)
counts = {}
while True:
    interval = reader.get_next_interval_histogram()
    if interval is None:
        break
    tag = interval.get_tag()
    counts[tag] = counts.get(tag, 0) + interval.get_total_count()
print(counts.get('response', 0), counts.get('service', 0), counts.get('schedule_delay', 0))
";
    let counts = numbers(&python(program, &[log.to_str().unwrap()]));
    assert_eq!(counts, vec![record.counts.acknowledged as f64; 3]);
}

/// What Kafka's own console consumer reads from the begin of a topic.
fn console_consumer(address: &str, topic: &str, messages: u64) -> Vec<String> {
    let libraries = Path::new(&variable("BROKERMARK_KAFKA_LIBS")).join("*");
    let mut command = Command::new("java");
    command.arg("-cp").arg(libraries).args([
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server",
        address,
        "--topic",
        topic,
        "--from-beginning",
        "--timeout-ms",
        "10000",
        "--max-messages",
        // One more than there should be: it must not come.
        &(messages + 1).to_string(),
    ]);
    let read = Running::start(&mut command).finish(crate::harness::PATIENCE);
    read.stdout.lines().map(str::to_owned).collect()
}

fn kept(record: &Record, topic: &str) -> Vec<String> {
    assert_eq!(record.counts.acknowledged, record.counts.attempted);
    console_consumer(&kafka::address(), topic, record.counts.acknowledged)
}

#[test]
fn real_kafkas_own_consumer_reads_exactly_what_was_acknowledged() {
    let topic = format!("interchange-{}", std::process::id());
    let scenario = format!(
        r#"
        [broker]
        kind = "kafka"
        client = "librdkafka"
        addresses = ["{}"]
        [broker.kafka]
        acks = "all"
        [topology]
        name = "{topic}"
        partitions = 3
        keep = true
        [producers]
        count = 3
        batch = 7
        [payload]
        kind = "template"
        text = '{{"number": "${{counter:10}}"}}'
        pool = 16
        [run]
        messages = 12345
        warm_up = "0s"
        "#,
        kafka::address()
    );
    let record = Bench::new(&scenario).run(&[]).expect(0).record();
    let mut read = kept(&record, &topic);
    kafka::remove_topic(&kafka::address(), &topic);
    read.sort();
    let strange: Vec<_> = read.iter().filter(|line| !line.starts_with(r#"{"number": "0000"#)).collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert_eq!(read.len() as u64, record.counts.acknowledged);
    read.dedup();
    assert_eq!(read.len() as u64, record.counts.acknowledged, "every counter is another one");
}

/// A small run with these lines for `[broker.security]`.
fn secured(address: &str, security: &str) -> crate::harness::Finished {
    Bench::new(&secure_scenario(address, security)).run(&[])
}

fn secure_scenario(address: &str, security: &str) -> String {
    format!(
        "[broker]\nkind = \"kafka\"\nclient = \"librdkafka\"\naddresses = [\"{address}\"]\n{security}\n[payload]\nkind = \"zeros\"\nsize = \"64B\"\n\
         [consumers]\nverify = true\n[run]\nmessages = 1000\n"
    )
}

#[test]
fn real_secured_listeners_accept_every_way_to_authenticate() {
    let (plain, encrypted) = (variable("BROKERMARK_KAFKA_SASL"), variable("BROKERMARK_KAFKA_SASL_TLS"));
    let password = "BROKERMARK_KAFKA_PASSWORD";
    let mechanisms: &[&str] =
        if cfg!(feature = "kafka-tls") { &["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] } else { &["PLAIN"] };
    for mechanism in mechanisms {
        let record = secured(&plain, &sasl(mechanism, password)).expect(0).record();
        crate::harness::assert_delivered(&record, 1000, 1);
    }
    if cfg!(not(feature = "kafka-tls")) {
        return;
    }
    let both = format!("{}{}", tls(), sasl("SCRAM-SHA-256", password));
    crate::harness::assert_delivered(&secured(&encrypted, &both).expect(0).record(), 1000, 1);
    let encrypted = variable("BROKERMARK_KAFKA_TLS");
    crate::harness::assert_delivered(&secured(&encrypted, &tls()).expect(0).record(), 1000, 1);
}

/// Producers, consumers and the administrator each show the token.
#[cfg(feature = "kafka-tls")]
#[test]
fn real_secured_listener_refuses_an_expired_token() {
    let address = variable("BROKERMARK_KAFKA_SASL");
    let security = "[broker.security.sasl]\nmechanism = \"OAUTHBEARER\"\ntoken = { file = \"token\" }\n";
    let with = |token: &str| {
        let bench = Bench::new(&secure_scenario(&address, security));
        bench.write("token", token);
        bench.run(&[])
    };
    crate::harness::assert_delivered(&with(&kafka::web_token(3600)).expect(0).record(), 1000, 1);
    let expired = kafka::web_token(-3600);
    let refused = with(&expired).expect(1);
    refused.complains_of(&[&address, "refused the credentials", "unexpired"]);
    assert!(!refused.stderr.contains(&expired), "{}", refused.stderr);
}

#[test]
fn real_secured_listeners_refuse_a_wrong_password_unprinted() {
    let address = variable("BROKERMARK_KAFKA_SASL");
    let bench = Bench::new(&secure_scenario(&address, &sasl("PLAIN", "WRONG_PASSWORD")));
    let mut command = bench.command();
    command.arg("--quiet").env("WRONG_PASSWORD", "hunter2-is-wrong");
    let refused = Running::start(&mut command).finish(crate::harness::PATIENCE).expect(1);
    refused.complains_of(&[&address, "refused the credentials"]);
    let record = refused.record();
    assert!(record.error.is_some_and(|error| error.contains("refused the credentials")));
    for text in [&refused.stderr, &refused.stdout] {
        assert!(!text.contains("hunter2"), "{text}");
    }
}
