//! The producer for Aliyun's log service against its emulated endpoint: what goes wrong on purpose is dealt with and told.

#![cfg(feature = "sls")]

mod harness;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use brokermark::broker::FailureClass;
use brokermark::emulator::sls::{Emulator, EmulatorOptions};
use brokermark::record::{Record, Status, Verification};

use harness::{Bench, assert_balanced, assert_delivered, brokermark, record_of, records_of};

/// A scenario at the embedded endpoint; `own` are keys of `[broker.sls]`.
fn embedded(own: &str, tables: &str) -> String {
    let first = "broker.kind = \"sls\"\nbroker.address = \"embedded\"";
    format!("{first}\n{tables}\n[broker.sls]\npull_interval = \"5ms\"\n{own}")
}

/// Six hundred requests or more, so that one in a hundred is six.
const SIX_THOUSAND: &str = "[producers]\ncount = 3\nbatch = 10\n[payload]\nkind = \"random\"\nsize = \"200B\"\n[consumers]\n[run]\nmessages = 6000";

fn verified(record: &Record) -> Verification {
    // More than one request in flight keeps no order, and neither does trying again.
    Verification { reordered: 0, ..record.verification.unwrap() }
}

#[test]
fn one_request_in_twenty_fails_and_nothing_is_lost_or_doubled() {
    let faults = ["quota", "busy", "internal", "reset", "no-request-id"];
    let faults: Vec<String> = faults.iter().map(|kind| format!("{{ kind = \"{kind}\", share = 0.01 }}")).collect();
    let own = format!(
        "batch_count = 10\nlinger = \"5ms\"\nio_threads = 4\nbackoff = \"2ms\"\nemulator = {{ faults = [{}] }}",
        faults.join(", ")
    );
    let record = record_of(&embedded(&own, SIX_THOUSAND));
    assert_balanced(&record);
    assert_eq!((record.counts.acknowledged, record.counts.failed), (6000, 0), "{:?}", record.errors);
    assert_eq!(verified(&record), Verification { received: 6000, ..Verification::default() });
    let wire = record.wire.unwrap();
    assert!(wire.requests >= 600 && wire.retried >= wire.requests / 25, "{wire:?}");
    assert!(wire.quota_refusals >= 6, "{wire:?}");
}

#[test]
fn what_no_retry_would_help_fails_at_once() {
    let own = "batch_count = 10\nlinger = \"5ms\"\nbackoff = \"60s\"\nemulator = { faults = [{ kind = \"invalid\", share = 0.1 }] }";
    let record = record_of(&embedded(own, SIX_THOUSAND));
    assert_balanced(&record);
    let (counts, wire) = (&record.counts, record.wire.unwrap());
    assert!(counts.failed >= 500 && counts.unresolved == 0, "{counts:?}");
    assert_eq!((record.errors.len(), record.errors[0].class), (1, FailureClass::Refused));
    assert!(record.errors[0].first_message.contains("PostBodyInvalid"), "{:?}", record.errors);
    assert_eq!(wire.retried, 0);
    let expected = Verification { received: counts.acknowledged, missing: counts.failed, ..Verification::default() };
    assert_eq!(verified(&record), expected);
}

#[test]
fn an_answer_that_got_lost_writes_twice_and_is_found_out() {
    let own = "batch_count = 10\nlinger = \"5ms\"\nbackoff = \"2ms\"\nemulator = { faults = [{ kind = \"accepted-reset\", share = 0.05 }] }";
    let record = record_of(&embedded(own, SIX_THOUSAND));
    assert_balanced(&record);
    assert_eq!(record.counts.acknowledged, 6000);
    let found = verified(&record);
    assert!(found.duplicated > 0 && found.lost == 0 && found.missing == 0, "{found:?}");
}

#[test]
fn retries_come_to_an_end() {
    let own =
        "retries = 2\nbackoff = \"2ms\"\nlinger = \"5ms\"\nemulator = { faults = [{ kind = \"reset\", share = 1.0 }] }";
    // Nothing was acknowledged, which makes the run a failure.
    let record = Bench::new(&embedded(own, "run.messages = 100")).run(&[]).expect(1).record();
    assert_balanced(&record);
    assert_eq!((record.counts.failed, record.errors[0].class), (100, FailureClass::ConnectionLost));
    let wire = record.wire.unwrap();
    assert_eq!(wire.retried * 3, wire.requests * 2, "each batch was sent three times: {wire:?}");
}

#[test]
fn a_quota_is_named_as_the_limit() {
    let own = "batch_count = 100\nlinger = \"5ms\"\ntotal_size = \"1MiB\"\nbackoff = \"20ms\"\nmax_backoff = \"100ms\"\nretries = 1000\nemulator = { shard_rate = \"20kB/s\" }";
    let tables = "topology.partitions = 2\npayload.kind = \"log\"\nproducers.in_flight = 100000\nproducers.batch = 100\nrun.duration = \"3s\"\nrun.drain_deadline = \"30s\"";
    let record = record_of(&embedded(own, tables));
    assert_balanced(&record);
    let (wire, limit) = (record.wire.unwrap(), &record.verdict.limited_by);
    assert!(wire.quota_refusals > 0 && limit.evidence.contains("quota"), "{wire:?} {limit:?}");
    let seconds = record.throughput.duration_ns as f64 / 1e9;
    // A second's worth was saved up, and each shard takes one more request on credit.
    let most = 2.0 * 20_000.0 * (seconds + 1.5) + 2.0 * 20_000.0;
    assert!((wire.sent_bytes as f64) < most, "{} bytes in {seconds} s", wire.sent_bytes);
}

#[test]
fn a_sender_waits_for_room_and_no_longer_than_it_is_told() {
    let own = "total_size = \"10kB\"\nmax_block = \"50ms\"\nlinger = \"5ms\"\nrequest_timeout = \"30s\"\nemulator = { faults = [{ kind = \"timeout\", share = 1.0 }] }";
    let tables = "payload = { kind = \"zeros\", size = \"1kB\" }\nrun.messages = 20\nrun.drain_deadline = \"200ms\"";
    // Nothing was acknowledged, which makes the run a failure.
    let record = Bench::new(&embedded(own, tables)).run(&[]).expect(1).record();
    assert_balanced(&record);
    assert!(record.counts.unresolved > 0 && record.counts.failed > 0, "{:?}", record.counts);
    assert_eq!(record.errors[0].class, FailureClass::QueueFull);
    assert!(record.errors[0].first_message.contains("total_size"), "{:?}", record.errors);
}

#[test]
fn every_compression_and_signature_is_understood() {
    let own = "linger = \"2ms\"\nio_threads = 1\nregion = \"cn-hangzhou\"\nsecurity_token = \"token\"\naccess_key_id = \"id\"\naccess_key_secret = \"secret\"";
    let tables = "topology.partitions = 3\nproducers.keys = { kind = \"random\", distinct = 9 }\npayload.kind = \"log\"\n[consumers]\n[run]\nmessages = 500\n[sweep.over]\n\"broker.sls.compression\" = [\"none\", \"lz4\", \"zstd\"]\n\"broker.sls.signature\" = [\"v1\", \"v4\"]";
    let records = records_of(&embedded(own, tables));
    assert_eq!(records.len(), 6);
    for record in &records {
        assert_delivered(record, 500, 1);
        let ratio = record.wire.unwrap().compression_ratio.unwrap();
        assert_eq!(ratio > 1.5, record.point["broker.sls.compression"] != "none", "{ratio}");
    }
}

/// `brokermark emulate sls`, ended with the test.
struct Emulated {
    child: Child,
    address: String,
}

impl Emulated {
    fn start(arguments: &[&str]) -> Self {
        let mut child = brokermark().args(["emulate", "sls"]).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut address).unwrap();
        Emulated { child, address: address.trim().to_owned() }
    }

    fn account(&self) -> serde_json::Value {
        let answer = exchange(&self.address, b"GET /account HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn exchange(address: &str, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_endpoint_accounts_for_every_log_it_accepted() {
    let emulated = Emulated::start(&["--store", "orders", "--shards", "4", "--fault", "busy=0.1"]);
    let scenario = format!(
        "[broker]\nkind = \"sls\"\naddress = \"{}\"\n[broker.sls]\naccess_key_id = \"brokermark\"\naccess_key_secret = \"brokermark\"\nlinger = \"5ms\"\nbatch_count = 50\nbackoff = \"2ms\"\n[topology]\nname = \"orders\"\npartitions = 4\n[payload]\nkind = \"log\"\n[run]\nmessages = 2000",
        emulated.address
    );
    let record = record_of(&scenario);
    let (account, wire) = (emulated.account(), record.wire.unwrap());
    assert_eq!(account["accepted"]["logs"], record.counts.acknowledged, "{account}");
    assert_eq!(account["accepted"]["counted_bytes"], wire.raw_bytes, "{account}");
    assert_eq!(account["accepted"]["raw_bytes"], wire.body_bytes, "{account}");
    assert_eq!(account["accepted"]["compressed_bytes"], wire.sent_bytes, "{account}");
    assert_eq!(account["refused"]["ServerBusy"], wire.retried, "{account}");
    assert!(!record.environment.embedded);

    let refused = scenario.replace("secret = \"brokermark\"", "secret = \"mistaken\"");
    let failed = Bench::new(&refused).run(&[]).expect(1).record();
    assert_eq!(failed.status, Status::Failed);
    let error = failed.error.unwrap();
    assert!(error.contains("refused the credentials") && error.contains("SignatureNotMatch"), "{error}");
    assert!(!error.contains("mistaken"));
}

#[test]
fn a_missing_endpoint_is_said_to_be_that() {
    let scenario = "[broker]\nkind = \"sls\"\naddress = \"127.0.0.1:1\"\n[broker.sls]\naccess_key_id = \"a\"\naccess_key_secret = \"b\"\n[run]\nmessages = 1";
    let error = Bench::new(scenario).run(&[]).expect(1).record().error.unwrap();
    assert!(error.contains("sls at 127.0.0.1:1 cannot be reached"), "{error}");
}

#[test]
fn the_endpoint_refuses_bombs_and_nonsense() {
    let options = EmulatorOptions { stores: [("s".to_owned(), 1)].into(), ..EmulatorOptions::default() };
    let emulator = Emulator::start(&options, "127.0.0.1:0", None).unwrap();
    let address = emulator.address().to_string();
    let post = |headers: &str, body: &[u8]| {
        let head = format!(
            "POST /logstores/s/shards/lb HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        exchange(&address, &[head.as_bytes(), body].concat())
    };
    let bomb = lz4_flex::block::compress(&vec![0; 9 << 20]);
    for (headers, body, code) in [
        ("x-log-bodyrawsize: 10\r\nx-log-compresstype: lz4\r\n", &bomb[..], "PostBodyUncompressError"),
        ("x-log-bodyrawsize: 9999999999\r\nx-log-compresstype: lz4\r\n", &bomb, "PostBodyTooLarge"),
        ("x-log-bodyrawsize: 9437184\r\nx-log-compresstype: lz4\r\n", &bomb, "PostBodyInvalid"),
        ("x-log-bodyrawsize: 3\r\n", b"\x0a\x7f\x00", "PostBodyInvalid"),
        ("x-log-bodyrawsize: 3\r\nx-log-compresstype: rar\r\n", b"abc", "InvalidCompressType"),
        ("content-md5: 00000000000000000000000000000000\r\n", b"abc", "PostBodyInvalid"),
        ("", b"abc", "MissingHeader"),
    ] {
        let answer = post(headers, body);
        assert!(answer.contains(code), "{headers}: {answer}");
    }
    let mut stream = TcpStream::connect(&address).unwrap();
    stream
        .write_all(b"POST /logstores/s/shards/lb HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n")
        .unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert!(post("x-log-bodyrawsize: 0\r\n", b"").contains("200 OK"), "it still answers");
}
