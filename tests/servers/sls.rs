//! The producer for Aliyun's log service against its emulated endpoint: injected faults are handled and recorded.

#![cfg(feature = "sls-emulator")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::server::variable;
use crate::harness::socks::Relay;
use crate::harness::{
    Bench, Finished, PATIENCE, Running, assert_acknowledged, assert_balanced, assert_delivered, brokermark, record_of,
    records_of, sums,
};
use brokermark::broker::FailureClass;
use brokermark::emulator::sls::{Emulator, EmulatorOptions, ListenOptions};
use brokermark::measure::ConditionKind;
use brokermark::record::{Limiter, Record, Status, Verification};

/// A scenario at the embedded endpoint; `own` are keys of `[broker.sls]`.
fn embedded(own: &str, tables: &str) -> String {
    let first = "broker.kind = \"sls\"\nbroker.address = \"embedded\"";
    format!("{first}\n{tables}\n[broker.sls]\npull_interval = \"5ms\"\n{own}")
}

/// Six hundred requests or more, so that one in a hundred is six.
const SIX_THOUSAND: &str = "[producers]\ncount = 3\nbatch = 10\n[payload]\nkind = \"random\"\nsize = \"200B\"\n[consumers]\n[run]\nmessages = 6000";

fn verified(record: &Record) -> Verification {
    // More than one request in flight keeps no order, and neither does trying again.
    Verification { reordered: 0, ..sums(record) }
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
    let expected = Verification { received: counts.acknowledged, ..Verification::default() };
    assert_eq!(verified(&record), expected);
}

#[test]
fn an_answer_that_got_lost_writes_twice_and_is_found_out() {
    let own = "batch_count = 10\nlinger = \"5ms\"\nbackoff = \"2ms\"\nemulator = { faults = [{ kind = \"accepted-reset\", share = 0.05 }] }";
    let record = record_of(&embedded(own, SIX_THOUSAND));
    assert_balanced(&record);
    assert_eq!(record.counts.acknowledged, 6000);
    let found = verified(&record);
    assert!(found.duplicated > 0 && found.lost == 0 && found.unread == 0, "{found:?}");
}

/// The endpoint keeps only the latest logs for a group that begins when the load has ended. Its consumers have a rate, so they do not ask all the time.
#[test]
fn a_later_log_does_not_show_that_those_before_it_were_lost() {
    let own = "batch_count = 10\nlinger = \"5ms\"\nio_threads = 1\nretries = 0\nemulator = { keep = \"64KiB\" }";
    let group = "[[consumers.group]]\nrate = \"100k/s\"\nstart_after = \"1h\"";
    let tables = SIX_THOUSAND.replace("[consumers]", group) + "\ndrain_deadline = \"1s\"";
    let found = verified(&record_of(&embedded(own, &tables)));
    assert!(found.received > 0 && found.lost == 0 && found.received + found.unread == 6000, "{found:?}");
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

/// The last row of the published benchmark, a hundredth of it: ten full shards.
#[test]
fn a_quota_is_named_as_the_limit() {
    let own = "batch_count = 100\nlinger = \"5ms\"\ntotal_size = \"4MiB\"\nbackoff = \"20ms\"\nmax_backoff = \"100ms\"\nretries = 1000\nemulator = { shard_rate = \"50kB/s\" }";
    let tables = "topology.partitions = 10\npayload.kind = \"log\"\nproducers.in_flight = 100000\nproducers.batch = 100\nrun.duration = \"3s\"\nrun.drain_deadline = \"30s\"";
    let record = record_of(&embedded(own, tables));
    assert_balanced(&record);
    let (wire, limit) = (record.wire.unwrap(), &record.verdict.limited_by);
    assert_eq!(limit.limiter, Limiter::Broker, "{wire:?} {limit:?}");
    assert!(limit.evidence.contains("quota"), "{wire:?} {limit:?}");
    let throttled = record.conditions.iter().find(|condition| condition.kind == ConditionKind::Throttled).unwrap();
    assert!(throttled.lasted_ns > 1_000_000_000 && throttled.words.contains("Quota"), "{throttled:?}");
    // A second's worth was saved up, and each shard takes one more request on credit.
    let seconds = record.throughput.completion_ns() as f64 / 1e9;
    let [least, most] = [0.5 * seconds, seconds + 2.5].map(|seconds| 10.0 * 50_000.0 * seconds);
    let sent = wire.sent_bytes as f64;
    assert!(least < sent && sent < most, "{sent} bytes in {seconds} s");
}

#[test]
fn a_sender_waits_for_a_full_buffer_up_to_its_limit() {
    let own = "total_size = \"10kB\"\nmax_block = \"50ms\"\nlinger = \"5ms\"\nrequest_timeout = \"30s\"\nemulator = { faults = [{ kind = \"timeout\", share = 1.0 }] }";
    let tables = "payload = { kind = \"zeros\", size = \"1kB\" }\nrun.messages = 20\nrun.drain_deadline = \"200ms\"";
    // Nothing was acknowledged, which makes the run a failure.
    let record = Bench::new(&embedded(own, tables)).run(&[]).expect(1).record();
    assert_balanced(&record);
    assert!(record.counts.unresolved > 0 && record.counts.failed > 0, "{:?}", record.counts);
    assert_eq!(record.errors[0].class, FailureClass::QueueFull);
    assert!(record.errors[0].first_message.contains("total_size"), "{:?}", record.errors);
}

/// What the service's own producers try again, each twice in a row; the log's way is the third.
#[test]
fn every_error_that_may_pass_is_outlived() {
    for kind in
        ["quota", "shard-quota", "busy", "internal", "unauthorized", "garbage", "no-request-id", "reset", "timeout"]
    {
        let own = format!(
            "io_threads = 1\nlinger = \"5ms\"\nbackoff = \"2ms\"\nrequest_timeout = \"1s\"\nemulator = {{ faults = [{{ kind = \"{kind}\", at = [1, 2] }}] }}"
        );
        let record = record_of(&embedded(&own, "consumers = {}\nproducers.batch = 100\nrun.messages = 100"));
        assert_delivered(&record, 100, 1);
        let wire = record.wire.unwrap();
        assert_eq!((wire.retried, wire.quota_refusals > 0), (2, kind.ends_with("quota")), "{kind}: {wire:?}");
    }
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

const HTTPS: &str = "[broker]\nkind = \"sls\"\naddress = \"ADDRESS\"\n[broker.sls]\nendpoint = \"sls.test\"\naccess_key_id = \"brokermark\"\naccess_key_secret = { file = \"secret\" }\nsecurity_token = { file = \"token\" }\nio_threads = 1\nlinger = \"2ms\"\n[broker.security.tls]\nca = \"ca.pem\"\n[topology]\nname = \"orders\"\npartitions = 2\n[payload]\nkind = \"log\"\n[consumers]\nfrom = \"latest\"\n[run]\nmessages = 500";

/// With temporary credentials, all in files beside the scenario.
#[test]
fn https_is_spoken_to_whom_the_authority_vouches_for() {
    let bench = Bench::new("");
    let folder = bench.path();
    certify(folder, "brokermark.sls.test");
    let [certificate, key] = ["server.pem", "server.key"].map(|name| folder.join(name).display().to_string());
    let options = ["--certificate", &certificate, "--key", &key, "--security-token", "temporary"];
    let emulated = Emulated::start(&[&["--store", "orders", "--shards", "2"], &options[..]].concat());
    let scenario = HTTPS.replace("ADDRESS", &emulated.address);
    bench.write("secret", "brokermark\n");
    bench.write("token", "temporary\n");
    bench.write("scenario.toml", &scenario);
    assert_delivered(&bench.run(&[]).expect(0).record(), 500, 1);

    let refused = |old: &str, new: &str, code: i32| {
        bench.write("scenario.toml", &scenario.replace(old, new));
        bench.run(&[]).expect(code).record().error
    };
    let other_name = "endpoint = \"other.test\"";
    let error = refused("endpoint = \"sls.test\"", other_name, 1).unwrap();
    assert!(error.contains("not valid for name"), "{error}");
    bench.write("scenario.toml", &scenario.replace("endpoint = \"sls.test\"", other_name));
    bench.run(&["--set", "broker.security.tls.verify_host=false"]).expect(0);
    let error = refused("ca = \"ca.pem\"", "ca = \"stranger.pem\"", 1).unwrap();
    assert!(error.contains("certificate"), "{error}");
    let error = refused("[broker.security.tls]\nca = \"ca.pem\"\n", "", 1).unwrap();
    assert!(error.contains("cannot be reached"), "{error}");
    let error = refused("{ file = \"token\" }", "\"yesterday's\"", 1).unwrap();
    assert!(error.contains("Unauthorized") && !error.contains("yesterday"), "{error}");
}

/// The emulator with this certificate of [`certify`], and what a run on it comes to with these files in `[broker.security.tls]`.
fn over_https(host: &str, make: &str, tls: &str) -> Finished {
    let bench = Bench::new("");
    let folder = bench.path();
    certify(folder, &format!("brokermark.{host}"));
    let made = Command::new("sh").args(["-ec", make]).current_dir(folder).status().unwrap();
    assert!(made.success(), "{make}");
    let [certificate, key] = ["server.pem", "server.key"].map(|name| folder.join(name).display().to_string());
    let options = ["--store", "orders", "--shards", "2", "--certificate", &certificate, "--key", &key];
    let emulated = Emulated::start(&options);
    let scenario = HTTPS.replace("ADDRESS", &emulated.address).replace("sls.test", host);
    let scenario = scenario.replace("security_token = { file = \"token\" }\n", "");
    bench.write("secret", "brokermark\n");
    bench.write("scenario.toml", &scenario.replace("ca = \"ca.pem\"", tls));
    bench.run(&[])
}

const CA: &str = "ca = \"ca.pem\"";

#[test]
fn a_certificate_that_has_expired_is_told_with_its_date() {
    let make = "printf '[ca]\\ndefault_ca=c\\n[c]\\ndatabase=issued\\nserial=next\\nnew_certs_dir=.\\ndefault_md=sha256\\npolicy=p\\n[p]\\ncommonName=supplied\\n' >ca.cnf
        : >issued; echo 01 >next
        openssl ca -batch -notext -config ca.cnf -cert ca.pem -keyfile ca.key -in server.csr -out server.pem -extfile extensions \\
            -startdate 20200101000000Z -enddate 20210101000000Z";
    let ended = over_https("sls.test", make, CA).expect(1);
    ended.complains_of(&["certificate expired on 2021-01-01T00:00:00Z", "clock says 20"]);
}

#[test]
fn a_host_with_an_underscore_is_a_name_of_a_certificate() {
    assert_delivered(&over_https("sls_test.test", ":", CA).expect(0).record(), 500, 1);
}

/// Each error names the command that makes the file usable.
#[test]
fn files_that_are_not_pem_are_told_apart() {
    let refused = |make: &str, tls: &str, words: &[&str]| {
        over_https("sls.test", make, tls).expect(1).complains_of(&[&["other"], words].concat());
    };
    refused("openssl x509 -in ca.pem -outform der -out other", "ca = \"other\"", &["openssl x509 -inform der"]);
    refused("printf '\\376\\355\\376\\355\\0\\0\\0\\2' >other", "ca = \"other\"", &["Java key store", "keytool"]);
    let own = "ca = \"ca.pem\"\ncertificate = \"server.pem\"\nkey = \"other\"";
    refused("openssl pkcs8 -topk8 -in server.key -passout pass:x -out other", own, &["passphrase", "openssl pkey -in"]);
    refused("openssl ec -aes128 -in server.key -passout pass:x -out other", own, &["passphrase", "openssl pkey -in"]);
    let advised =
        "openssl ec -aes128 -in server.key -passout pass:x -out old; openssl pkey -in old -passin pass:x >other";
    assert_delivered(&over_https("sls.test", advised, own).expect(0).record(), 500, 1);
}

/// As the service answers when the clock of this machine is 30 minutes off.
#[test]
fn a_clock_that_is_off_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let body = "{\"errorCode\":\"RequestTimeTooSkewed\",\"errorMessage\":\"too far\"}";
            let head = format!("content-length: {}\r\nx-log-requestid: 1\r\nconnection: close", body.len());
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(format!("HTTP/1.1 400 Bad Request\r\n{head}\r\n\r\n{body}").as_bytes());
        }
    });
    let key = "access_key_id = \"a\", access_key_secret = \"b\"";
    let scenario =
        format!("broker = {{ kind = \"sls\", address = \"{address}\", sls = {{ {key} }} }}\nrun.messages = 1");
    Bench::new(&scenario).run(&[]).expect(1).complains_of(&["The clock of this machine", "timedatectl"]);
}

/// Makes `ca.pem`, and `server.pem` with `server.key` for `name`, and `stranger.pem` which signs no other
/// certificate.
fn certify(folder: &Path, name: &str) {
    let script = format!(
        "new='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
        openssl req -x509 $new -keyout ca.key -out ca.pem -days 2 -subj '/CN=test authority'
        openssl req -x509 $new -keyout stranger.key -out stranger.pem -days 2 -subj '/CN=stranger'
        openssl req $new -keyout server.key -out server.csr -subj '/CN=server'
        printf 'subjectAltName=DNS:{name}\nextendedKeyUsage=serverAuth\n' >extensions
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile extensions"
    );
    let made = Command::new("sh").args(["-ec", &script]).current_dir(folder).output().unwrap();
    assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
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
fn a_missing_endpoint_is_reported() {
    let scenario = "[broker]\nkind = \"sls\"\naddress = \"127.0.0.1:1\"\n[broker.sls]\naccess_key_id = \"a\"\naccess_key_secret = \"b\"\n[run]\nmessages = 1";
    let error = Bench::new(scenario).run(&[]).expect(1).record().error.unwrap();
    assert!(error.contains("sls: 127.0.0.1:1 cannot be reached"), "{error}");
}

#[test]
fn the_endpoint_refuses_bombs_and_nonsense() {
    let options = EmulatorOptions { stores: [("s".to_owned(), 1)].into(), ..EmulatorOptions::default() };
    let listen_options = ListenOptions { listen: "127.0.0.1:0".to_owned(), ..ListenOptions::default() };
    let emulator = Emulator::start(&options, listen_options).unwrap();
    let address = emulator.address().to_string();
    let post = |headers: &str, body: &[u8]| {
        let head = format!(
            "POST /logstores/s/shards/lb HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        exchange(&address, &[head.as_bytes(), body].concat())
    };
    let zeros = vec![0; 9 << 20];
    let (bomb, other_bomb) = (lz4_flex::block::compress(&zeros), zstd::bulk::compress(&zeros, 3).unwrap());
    for (headers, body, code) in [
        ("x-log-bodyrawsize: 10\r\nx-log-compresstype: lz4\r\n", &bomb[..], "PostBodyUncompressError"),
        ("x-log-bodyrawsize: 9999999999\r\nx-log-compresstype: lz4\r\n", &bomb, "PostBodyTooLarge"),
        ("x-log-bodyrawsize: 9437184\r\nx-log-compresstype: lz4\r\n", &bomb, "PostBodyInvalid"),
        ("x-log-bodyrawsize: 10\r\nx-log-compresstype: zstd\r\n", &other_bomb, "PostBodyUncompressError"),
        ("x-log-bodyrawsize: 3\r\n", b"\x0a\x7f\x00", "PostBodyInvalid"),
        ("x-log-bodyrawsize: many\r\n", b"abc", "InvalidBodyRawSize"),
        ("x-log-bodyrawsize: 3\r\nx-log-compresstype: rar\r\n", b"abc", "InvalidCompressType"),
        ("content-md5: 00000000000000000000000000000000\r\nx-log-bodyrawsize: 3\r\n", b"abc", "PostBodyInvalid"),
        ("", b"abc", "MissingBodyRawSize"),
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
    // One that does not say how much there will be.
    let mut stream = TcpStream::connect(&address).unwrap();
    let head =
        "POST /logstores/s/shards/lb HTTP/1.1\r\nhost: x\r\nx-log-bodyrawsize: 3\r\ntransfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..160 {
        stream.write_all(chunk.as_bytes()).unwrap();
    }
    stream.write_all(b"1\r\nx\r\n").unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    assert!(post("x-log-bodyrawsize: 0\r\n", b"").contains("200 OK"), "it still answers");
}

#[test]
fn slow_clients_are_disconnected_and_delay_no_other_client() {
    let options = EmulatorOptions {
        stores: [("orders".to_owned(), 2)].into(),
        patience: Duration::from_secs(2),
        threads: 1,
        ..EmulatorOptions::default()
    };
    // Without a key: the bodies of strangers are not even awaited.
    let emulator =
        Emulator::start(&options, ListenOptions { listen: "127.0.0.1:0".to_owned(), ..ListenOptions::default() })
            .unwrap();
    let address = emulator.address().to_string();
    let begun = |text: &[u8]| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(text).unwrap();
        stream
    };
    let head = b"POST /logstores/orders/shards/lb HTTP/1.1\r\nhost: x\r\nx-log-bodyrawsize: 100\r\n";
    let body = [&head[..], b"content-length: 100\r\n\r\nx"].concat();
    let begin = Instant::now();
    let mut slow: Vec<TcpStream> = (0..100).flat_map(|_| [begun(b""), begun(head), begun(&body)]).collect();
    let scenario = at(&address, "[run]\nmessages = 500");
    assert_acknowledged(&record_of(&scenario), 500);
    let answers: Vec<String> = slow
        .iter_mut()
        .map(|stream| {
            let mut answer = Vec::new();
            // A connection may also be reset.
            let _ = stream.read_to_end(&mut answer);
            String::from_utf8_lossy(&answer).into_owned()
        })
        .collect();
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
    assert!(answers[2].contains("408") && answers[2].contains("RequestTimeout"), "{}", answers[2]);
    assert_acknowledged(&record_of(&scenario), 500);
}

#[test]
fn a_request_that_is_not_let_in_is_refused_before_its_body_came() {
    let emulated = Emulated::start(&["--store", "orders", "--shards", "2"]);
    let unsigned = "x-log-apiversion: 0.6.0\r\ncontent-type: application/x-protobuf\r\n";
    for (headers, status, code) in [("", 400, "MissingAPIVersion"), (unsigned, 401, "Unauthorized")] {
        // What is announced is never sent.
        let head = "POST /logstores/orders/shards/lb HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n";
        let answer = exchange(&emulated.address, format!("{head}{headers}\r\n").as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(code), "{answer}");
    }
}

#[test]
fn key_without_manage_right_uses_existing_store() {
    let arguments = ["--store", "orders", "--shards", "2", "--without-management"];
    let emulated = Emulated::start(&arguments);
    // One request at a time, or they overtake each other.
    let scenario = at(&emulated.address, "[consumers]\n[run]\nmessages = 500");
    let record = record_of(&scenario.replacen("[broker.sls]\n", "[broker.sls]\nio_threads = 1\n", 1));
    assert_delivered(&record, 500, 1);
    let broker = record.environment.broker.unwrap();
    assert!(broker.contains("the key may not manage them"), "{broker}");

    let unnamed = at(&emulated.address, "[run]\nmessages = 500").replace("name = \"orders\"\n", "");
    let error = Bench::new(&unnamed).run(&[]).expect(1).record().error.unwrap();
    assert!(error.contains("topology.name"), "{error}");
}

#[test]
fn shards_that_appear_while_consumers_read_are_read() {
    let options = EmulatorOptions { stores: [("orders".to_owned(), 2)].into(), ..EmulatorOptions::default() };
    let listen_options = ListenOptions { listen: "127.0.0.1:0".to_owned(), ..ListenOptions::default() };
    let emulator = Emulator::start(&options, listen_options).unwrap();
    let address = emulator.address().to_string();
    // One request at a time, or they overtake each other.
    let load = "[load]\nrate = \"500/s\"\n[consumers]\nmembers = 2\n[run]\nmessages = 2000";
    let bench = Bench::new(&at(&address, load).replacen("[broker.sls]\n", "[broker.sls]\nio_threads = 1\n", 1));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    for shard in [0, 1] {
        let split = format!(
            "POST /logstores/orders/shards/{shard}?action=split HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
        );
        let answer = exchange(&address, split.as_bytes());
        assert!(answer.contains("\"readonly\""), "{answer}");
    }
    assert_delivered(&running.finish(PATIENCE).expect(0).record(), 2000, 1);
}

/// A scenario at an endpoint with a store of two shards.
fn at(address: &str, tables: &str) -> String {
    format!(
        "[broker]\nkind = \"sls\"\naddress = \"{}\"\n[broker.sls]\naccess_key_id = \"brokermark\"\naccess_key_secret = \"brokermark\"\nlinger = \"5ms\"\n[topology]\nname = \"orders\"\npartitions = 2\n[payload]\nkind = \"log\"\n{tables}",
        address
    )
}

/// The service's own client for Rust writes to the endpoint, and reads what it and our producer wrote.
#[test]
fn real_rust_client_is_understood_and_reads_what_we_write() {
    let program = Path::new(&variable("BROKERMARK_SLS_RUST")).join("bin/sls-rust");
    let client = |emulated: &Emulated, secret: &str, token: &str, requests: &str| {
        let mut command = Command::new(&program);
        command.args(["sls.test", "brokermark", "orders", "brokermark", secret, token, requests, "7"]);
        Running::start(command.env("http_proxy", format!("http://{}", emulated.address))).finish(PATIENCE)
    };
    let emulated = Emulated::start(&["--store", "orders", "--shards", "2"]);
    assert_eq!(client(&emulated, "brokermark", "", "30").expect(0).stdout, "rust: 210 logs, 420 fields\n");
    let account = emulated.account();
    assert_eq!((&account["accepted"]["requests"], &account["accepted"]["logs"]), (&30.into(), &210.into()));
    assert_eq!(account["refused"], serde_json::json!({}), "{account}");

    let record = record_of(&at(&emulated.address, "[run]\nmessages = 1000"));
    assert_acknowledged(&record, 1000);
    let read = client(&emulated, "brokermark", "", "0").expect(0).stdout;
    let (mut logs, mut fields) = (0, 0);
    for line in read.lines().filter(|line| line.starts_with("topic-")) {
        let numbers: Vec<u64> = line.split([':', ' ']).filter_map(|word| word.parse().ok()).collect();
        logs += numbers[0];
        fields += numbers[1];
    }
    assert_eq!(logs, 1000, "{read}");
    assert_eq!(fields, 8000, "{read}");
    assert_eq!(read.lines().count(), 6, "{read}");

    client(&emulated, "mistaken", "", "1").expect(1).complains_of(&["SignatureNotMatch"]);
    client(&emulated, "brokermark", "unasked for", "1").expect(1).complains_of(&["Unauthorized"]);
    let temporary = Emulated::start(&["--store", "orders", "--security-token", "temporary"]);
    assert_eq!(client(&temporary, "brokermark", "temporary", "1").expect(0).stdout, "rust: 7 logs, 14 fields\n");
}

/// The service's own producer for Java, through errors that it tries again. It takes neither a port nor an address of
/// numbers, so it is given a name that only it knows, and a relay that leads all connections to the endpoint.
#[test]
fn real_java_producer_is_understood() {
    let home = variable("BROKERMARK_SLS_JAVA");
    let emulated =
        Emulated::start(&["--store", "peers", "--shards", "4", "--fault", "busy=0.1", "--fault", "quota=0.1"]);
    let relay = Relay::start(&emulated.address);
    let bench = Bench::new("");
    let hosts = bench.write("hosts", "192.0.2.1 brokermark.sls.test\n");
    let mut command = Command::new("java");
    command.args(["-Xmx256m", "-DsocksProxyHost=127.0.0.1", &format!("-DsocksProxyPort={}", relay.port())]);
    command.arg(format!("-Djdk.net.hosts.file={}", hosts.display()));
    command.args(["-cp", &format!("{home}/libs/*:{home}/classes"), "Peer", "sls.test", "peers"]);
    // Io threads, total size, batch size and count, linger, senders, and the logs of each.
    command.args(["2", "100000000", "100000", "4096", "100", "3", "2000"]);
    let ended = Running::start(&mut command).finish(PATIENCE).expect(0);
    assert!(ended.stdout.starts_with("6000 logs, 0 failed"), "{}{}", ended.stdout, ended.stderr);
    let account = emulated.account();
    assert_eq!(account["accepted"]["logs"], 6000, "{account}");
    let refused: Vec<&String> = account["refused"].as_object().unwrap().keys().collect();
    assert_eq!(refused, ["ServerBusy", "WriteQuotaExceed"], "{account}");
}
