//! NSQ as brokermark meets it: real nsqd, some started here with small limits, some made to fail.
#![cfg(feature = "nsq")]

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::nsq::{self, Nsqd};
use crate::harness::server::certify;
use crate::harness::{
    Bench, PATIENCE, assert_acknowledged, assert_balanced, assert_delivered, eventually, execute, record_of,
};
use brokermark::broker::FailureClass;
use brokermark::record::{Record, Status};

const LOAD: &str = "producers = { count = 3, batch = 20 }\npayload.size = \"100B\"\nrun.messages = \"30k\"\n";
const CONSUMERS: &str = "consumers = { groups = 2, members = 2 }\n";

/// Everything acknowledged, and received by both groups as it was sent.
fn whole(record: &Record) {
    assert_delivered(record, 30_000, 2);
}

/// Runs a scenario that cannot begin, and returns the error in its record.
fn refused(scenario: &str) -> String {
    let record = Bench::new(scenario).run(&[]).expect(1).record();
    assert_eq!(record.status, Status::Failed);
    record.error.unwrap()
}

/// The nsqd that `scripts/test` starts.
fn three() -> String {
    let (addresses, http) = (nsq::addresses(), nsq::http_addresses());
    format!(
        "broker.kind = \"nsq\"\nbroker.addresses = {addresses:?}\nbroker.connections = 3\nbroker.nsq.http_addresses = {http:?}\n"
    )
}

#[test]
fn real_nsqd_deliver_to_every_group_and_are_left_clean() {
    // So long that the topics' names have to be cut.
    let name = format!("mine{}-{}", std::process::id(), "long".repeat(20));
    let scenario = format!("name = \"{name}\"\n{}topology.topics = 2\n{LOAD}{CONSUMERS}", three());
    whole(&record_of(&scenario));
    for http in nsq::http_addresses() {
        let left: Vec<String> = nsq::topics(&http).into_iter().filter(|topic| topic.contains(&name[..20])).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn real_nsqlookupd_finds_the_nsqd() {
    let lookup = nsq::lookup_addresses();
    let record = record_of(&format!(
        "broker = {{ kind = \"nsq\", addresses = {lookup:?}, nsq = {{ lookup = true }} }}\n{LOAD}{CONSUMERS}"
    ));
    whole(&record);
    let broker = record.environment.broker.unwrap();
    assert!(broker.contains("3 of them"), "{broker}");
}

/// nsqlookupd lists an nsqd for minutes after its machine is gone.
#[test]
fn real_nsqd_that_is_gone_and_still_listed_is_left_out() {
    let lookup = nsq::Nsqlookupd::start();
    let (stays, gone) = (lookup.nsqd(), lookup.nsqd_at("127.0.0.9"));
    let unresolvable = lookup.nsqd_at("gone.invalid");
    let scenario = |options: &str| {
        let address = lookup.http_address();
        format!(
            "broker = {{ kind = \"nsq\", addresses = [{address:?}], nsq = {{ lookup = true{options} }} }}\n{LOAD}{CONSUMERS}"
        )
    };
    for options in ["", ", http_addresses = []"] {
        let ended = Bench::new(&scenario(options)).run(&[]).expect(0);
        ended.complains_of(&[
            &format!(
                "nsqd at 127.0.0.9:{} (named by nsqlookupd at {}) is left out",
                gone.port(),
                lookup.http_address()
            ),
            &format!("nsqd at gone.invalid:{}", unresolvable.port()),
        ]);
        let record = ended.record();
        whole(&record);
        assert!(record.environment.broker.as_ref().unwrap().contains("1 of them, 2 left out"), "{options}");
    }
    // What is created by use stays; what was created is forgotten by nsqlookupd as well.
    let left = nsq::topics(&stays.http_address());
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(nsq::ask(&lookup.http_address(), "GET", "/topics"), format!("{{\"topics\":[{:?}]}}", left[0]));
    drop(stays);
    let ended = Bench::new(&scenario("")).run(&[]).expect(1);
    ended.complains_of(&["named by nsqlookupd at"]);
}

#[test]
fn real_nsqd_that_is_named_twice_is_used_once() {
    let nsqd = Nsqd::start(&[]);
    let (port, http) = (nsqd.port(), nsqd.http_address());
    let record = record_of(&format!(
        "broker = {{ kind = \"nsq\", addresses = [\"127.0.0.1:{port}\", \"localhost:{port}\"], nsq = {{ http_addresses = [{http:?}, {http:?}] }} }}\n{LOAD}{CONSUMERS}"
    ));
    whole(&record);
    assert!(record.environment.broker.as_ref().unwrap().contains("1 of them"), "{:?}", record.environment.broker);
}

/// nsqd refuses a command whose body is larger than 5 MiB, or as it is configured, and closes the connection.
#[test]
fn real_batches_beyond_the_limit_of_nsqd_are_divided() {
    let load = "producers = { batch = 100, in_flight = 200 }\npayload.size = \"100KiB\"\nrun.messages = 400\n";
    for limit in ["5242880", "1048576", "209716"] {
        let nsqd = Nsqd::start(&[&format!("-max-body-size={limit}")]);
        assert_acknowledged(&record_of(&format!("{}{load}", nsqd.broker())), 400);
    }
    // Without HTTP, its limit is not known.
    let nsqd = Nsqd::start(&["-max-body-size=1048576"]);
    let address = format!("127.0.0.1:{}", nsqd.port());
    let broker = format!("broker = {{ kind = \"nsq\", address = {address:?}, nsq = {{ http_addresses = [] }} }}\n");
    let record = Bench::new(&format!("{broker}{load}")).run(&[]).expect(1).record();
    let error = &record.errors.iter().find(|error| error.class == FailureClass::TooLarge).unwrap().first_message;
    assert!(error.contains("`producers.batch`") && error.contains("-max-body-size"), "{error}");
    let smaller = load.replace("batch = 100", "batch = 9");
    assert_acknowledged(&record_of(&format!("{broker}{smaller}")), 400);
}

#[test]
fn real_nsqd_that_appears_later_is_read_and_left_as_it_was() {
    let lookup = nsq::Nsqlookupd::start();
    let first = lookup.nsqd();
    let topic = "appears";
    let bench = Bench::new(&format!(
        "broker = {{ kind = \"nsq\", addresses = [{:?}], nsq = {{ lookup = true, lookup_interval = \"100ms\" }} }}\n\
         topology.name = \"{topic}\"\nload.rate = \"200/s\"\nrun.duration = \"300s\"\nconsumers = {{ members = 2 }}\n",
        lookup.http_address()
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    let second = lookup.nsqd();
    nsq::publish(&second.http_address(), topic, "of another producer");
    let channel = nsq::channels(&first.http_address(), topic);
    eventually("the second nsqd is read", || nsq::depth(&second.http_address(), topic, &channel[0]) == Some(0));
    running.signal(libc::SIGINT);
    let record = running.finish(PATIENCE).expect(130).record();
    assert_eq!(record.verification.as_ref().unwrap().foreign, 1, "{:?}", record.verification);
    assert_eq!(nsq::channels(&second.http_address(), topic), Vec::<String>::new());
}

#[test]
fn real_bytes_and_round_trips_are_counted_below_the_compression() {
    let nsqd = Nsqd::start(&[]);
    for compression in ["none", "snappy", "deflate"] {
        let options = format!("broker.nsq.compression = \"{compression}\"\n");
        let record = record_of(&format!("{}{options}{LOAD}payload.kind = \"zeros\"\n", nsqd.broker()));
        let wire = record.wire.unwrap();
        assert_eq!((wire.raw_bytes, wire.requests), (30_000 * 100, 30_000 / 20), "{wire:?}");
        assert!(wire.body_bytes > wire.raw_bytes, "{wire:?}");
        match compression {
            "none" => assert_eq!(wire.sent_bytes, wire.body_bytes),
            _ => assert!(wire.sent_bytes > 0 && wire.sent_bytes < wire.raw_bytes / 2, "{compression}: {wire:?}"),
        }
        assert!(record.client.broker_round_trip_p99_ns.is_some_and(|p99| p99 > 0), "{:?}", record.client);
    }
}

#[test]
fn real_missing_nsqd_is_reported_with_its_address() {
    let closed = "broker = { kind = \"nsq\", address = \"127.0.0.1:1\" }\n";
    let error = refused(&format!("{closed}{LOAD}"));
    assert!(error.contains("127.0.0.1:1") && error.contains("refused"), "{error}");
    // The HTTP port of a real one.
    let nsqd = Nsqd::start(&[]);
    let http = nsqd.http_address();
    let error = refused(&format!("broker = {{ kind = \"nsq\", address = {http:?} }}\n{LOAD}"));
    assert!(error.contains(&http) && error.contains("cannot be reached"), "{error}");
}

#[test]
fn real_topics_and_channels_stay_and_new_ones_go() {
    let nsqd = Nsqd::start(&[]);
    let http = nsqd.http_address();
    nsq::ask(&http, "POST", "/topic/create?topic=orders0");
    nsq::ask(&http, "POST", "/channel/create?topic=orders0&channel=theirs");
    nsq::ask(&http, "POST", "/channel/create?topic=orders0&channel=ch1");
    let topics = "topology = { name = \"orders\", topics = 2 }\nbroker.nsq.channel = \"ch\"\n";
    let load = LOAD.replace("count = 3", "count = 4");
    whole(&record_of(&format!("{}{topics}{load}{CONSUMERS}", nsqd.broker())));
    assert_eq!(nsq::topics(&http), ["orders0"], "orders1 was made for the trial");
    let mut channels = nsq::channels(&http, "orders0");
    channels.sort();
    // The groups had `ch` and `ch1`, of which the latter was there before.
    assert_eq!(channels, ["ch1", "theirs"]);
}

#[test]
fn real_kept_topics_lose_only_channels_of_the_trial() {
    let nsqd = Nsqd::start(&[]);
    let topics = "topology = { name = \"orders\", keep = true }\n";
    whole(&record_of(&format!("{}{topics}{LOAD}{CONSUMERS}", nsqd.broker())));
    assert_eq!(nsq::topics(&nsqd.http_address()), ["orders"]);
    assert!(nsq::channels(&nsqd.http_address(), "orders").is_empty());
}

#[test]
fn real_compression_is_negotiated_and_carries_everything() {
    let nsqd = Nsqd::start(&[]);
    for compression in ["snappy", "deflate"] {
        whole(&record_of(&format!("{}broker.nsq.compression = \"{compression}\"\n{LOAD}{CONSUMERS}", nsqd.broker())));
    }
    let without = Nsqd::start(&["-snappy=false"]);
    let error = refused(&format!("{}broker.nsq.compression = \"snappy\"\n{LOAD}", without.broker()));
    assert!(error.contains("does not offer snappy"), "{error}");
}

#[test]
fn real_tls_is_verified_and_compression_goes_inside_it() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = |name: &str| folder.path().join(name).display().to_string();
    certify(folder.path());
    let (key, cert) = (format!("-tls-key={}", in_folder("key.pem")), format!("-tls-cert={}", in_folder("cert.pem")));
    let nsqd = Nsqd::start(&[&key, &cert]);
    let trusted = format!("broker.security.tls = {{ ca = {:?} }}\n", in_folder("cert.pem"));
    for compression in ["none", "snappy", "deflate"] {
        let broker = format!("{}{trusted}broker.nsq.compression = \"{compression}\"\n", nsqd.broker());
        whole(&record_of(&format!("{broker}{LOAD}{CONSUMERS}")));
    }
    let error = refused(&format!("{}broker.security.tls = true\n{LOAD}", nsqd.broker()));
    assert!(error.contains("certificate"), "an unknown authority: {error}");
    let plain = Nsqd::start(&[]);
    let error = refused(&format!("{}{trusted}{LOAD}", plain.broker()));
    assert!(error.contains("does not offer TLS"), "{error}");
}

/// An authorisation server that knows one secret.
fn authorise() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut line).unwrap();
            let mut header = String::new();
            while reader.read_line(&mut header).unwrap() > 2 {
                header.clear();
            }
            let body = match line.contains("secret=sesame") {
                true => {
                    r#"{"ttl":3600,"identity":"a","authorizations":[{"permissions":["publish","subscribe"],"topic":".*","channels":[".*"]}]}"#
                }
                false => r#"{"ttl":3600,"identity":"a","authorizations":[]}"#,
            };
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn real_authorisation_needs_the_secret_and_hides_it() {
    let nsqd = Nsqd::start(&[&format!("-auth-http-address={}", authorise())]);
    let with = |secret: &str, more: &str| {
        Bench::new(&format!("{}broker.nsq.auth_secret = \"{secret}\"\n{LOAD}{more}", nsqd.broker())).run(&[])
    };
    let ended = with("sesame", CONSUMERS).expect(0);
    whole(&ended.record());
    assert!(!format!("{} {}", ended.stdout, ended.stderr).contains("sesame"));
    let ended = with("sesam-street", "").expect(1);
    let error = ended.record().error.unwrap();
    assert!(error.contains("refused the credentials"), "{error}");
    assert!(!format!("{} {}", ended.stdout, ended.stderr).contains("sesam-"));
    let error = refused(&format!("{}{LOAD}", nsqd.broker()));
    assert!(error.contains("auth_secret"), "{error}");
}

/// Asserts that all of 400 messages failed, as one of `classes`, with `words` of nsqd.
fn all_failed(scenario: &str, classes: &[FailureClass], words: &str) {
    let load = "producers = { batch = 20, in_flight = 20, confirm = \"batch\" }\npayload.size = \"100B\"\nrun.messages = 400\n";
    let record = Bench::new(&format!("{scenario}{load}")).run(&[]).expect(1).record();
    assert_balanced(&record);
    assert_eq!((record.counts.attempted, record.counts.failed), (400, 400), "{:?}", record.errors);
    for error in &record.errors {
        assert!(classes.contains(&error.class) && error.first_message.contains(words), "{error:?}");
    }
}

#[test]
fn real_messages_too_big_fail_with_nsqds_words() {
    let nsqd = Nsqd::start(&["-max-msg-size=50"]);
    all_failed(&nsqd.broker(), &[FailureClass::TooLarge], "MPUB message too big 100 > 50");
    // A batch that is too large as a whole goes in several commands.
    let nsqd = Nsqd::start(&["-max-body-size=500"]);
    whole(&record_of(&format!("{}{LOAD}{CONSUMERS}", nsqd.broker())));
}

#[test]
fn real_topic_refused_by_nsqd_fails_its_messages() {
    let nsqd = Nsqd::start(&[]);
    let topic = format!("topology.name = \"{}\"\n", "long".repeat(20));
    let error = refused(&format!("{}{topic}{LOAD}", nsqd.broker()));
    assert!(error.contains("INVALID_TOPIC") && error.contains("longlong"), "{error}");
    let without_http = format!(
        "broker = {{ kind = \"nsq\", address = \"127.0.0.1:{}\", nsq = {{ http_addresses = [] }} }}\n",
        nsqd.port()
    );
    all_failed(&format!("{without_http}{topic}"), &[FailureClass::UnknownTopic], "E_BAD_TOPIC");
}

#[test]
fn real_nsqd_with_less_rdy_is_refused_with_its_limit() {
    let nsqd = Nsqd::start(&["-max-rdy-count=100"]);
    let error = refused(&format!("{}broker.nsq.rdy = 101\n{LOAD}{CONSUMERS}", nsqd.broker()));
    assert!(error.contains("-max-rdy-count=101"), "{error}");
    whole(&record_of(&format!("{}{LOAD}{CONSUMERS}", nsqd.broker())));
}

#[test]
fn real_queue_that_overflows_to_disk_loses_nothing() {
    let nsqd = Nsqd::start(&["-mem-queue-size=10"]);
    whole(&record_of(&format!("{}{LOAD}{CONSUMERS}", nsqd.broker())));
    assert!(nsq::topics(&nsqd.http_address()).is_empty());
}

#[test]
fn real_single_messages_and_deferred_ones_arrive() {
    let nsqd = Nsqd::start(&[]);
    let load = LOAD.replace("batch = 20", "batch = 1");
    whole(&record_of(&format!("{}{load}{CONSUMERS}", nsqd.broker())));
    whole(&record_of(&format!("{}broker.nsq.single = \"mpub\"\n{load}{CONSUMERS}", nsqd.broker())));
    let record = record_of(&format!("{}broker.nsq.defer = \"300ms\"\n{LOAD}{CONSUMERS}", nsqd.broker()));
    whole(&record);
    assert!(record.latency.end_to_end.unwrap().min_ns > 250_000_000);
}

#[test]
fn real_nsqd_that_dies_fails_in_flight_and_is_used_again() {
    let mut nsqd = Nsqd::start(&[]);
    let load =
        "producers = { count = 4, batch = 20, in_flight = 400 }\npayload.size = \"100B\"\nload.rate = \"20k/s\"\n";
    let limits = "run = { duration = \"5s\", drain_deadline = \"5s\" }\nconsumers.members = 2\n";
    let bench = Bench::new(&format!("{}topology.name = \"orders\"\n{load}{limits}", nsqd.broker()));
    let running = bench.start(&[]);
    eventually("much is published", || nsqd.published() >= 10_000);
    nsqd.kill();
    nsqd.restart();
    eventually("it is used again", || nsqd.published() >= 1000);
    let record = running.finish(Duration::from_secs(60)).record();
    assert_balanced(&record);
    assert_eq!(record.counts.unresolved, 0);
    assert!(record.counts.acknowledged > 11_000, "{:?}", record.counts);
    assert!(record.errors.iter().all(|error| error.class == FailureClass::ConnectionLost), "{:?}", record.errors);
    // What it had acknowledged and not delivered was in its memory.
    let found = record.verification.as_ref().unwrap();
    assert_fields!(found, { duplicated: 0, corrupt: 0, foreign: 0 }, "{found:?}");
}

#[test]
fn real_stall_is_paid_for_by_every_message_that_was_due_in_it() {
    let nsqd = Nsqd::start(&[]);
    let load = "producers.in_flight = 20\npayload.size = \"100B\"\nload.rate = \"1k/s\"\nrun.duration = \"5s\"\n";
    let bench = Bench::new(&format!("{}{load}", nsqd.broker()));
    let running = bench.start(&[]);
    eventually("much is published", || nsqd.published() >= 1000);
    nsqd.stall(Duration::from_secs(1));
    let record = running.finish(Duration::from_secs(60)).record();
    assert_acknowledged(&record, 5000);
    let (response, service) = (record.latency.response.unwrap(), record.latency.service.unwrap());
    // A fifth of all messages was due in the stall, but only 20 of 5000 were in flight.
    assert!(response.p99_ns.unwrap() > 850_000_000, "{}", response.p99_ns.unwrap());
    assert!(response.p90_ns > 350_000_000, "{}", response.p90_ns);
    assert!(service.p99_ns.unwrap() < 500_000_000, "{}", service.p99_ns.unwrap());
    assert!(service.max_ns > 900_000_000, "{}", service.max_ns);
}

#[test]
fn real_nsqd_that_dies_for_good_ends_the_run_in_time() {
    let mut nsqd = Nsqd::start(&[]);
    let load = "producers = { count = 4, batch = 20 }\npayload.size = \"100B\"\nbroker.nsq.reconnect = \"1s\"\n";
    let limits = "run = { duration = \"4s\", drain_deadline = \"2s\" }\nconsumers.members = 2\n";
    let bench = Bench::new(&format!("{}{load}{limits}", nsqd.broker()));
    let running = bench.start(&[]);
    eventually("much is published", || nsqd.published() >= 1000);
    nsqd.kill();
    let began = Instant::now();
    let record = running.finish(Duration::from_secs(60)).record();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    assert_balanced(&record);
    assert!(record.counts.acknowledged > 0 && record.counts.failed > 0, "{:?}", record.counts);
    assert!(record.errors.iter().all(|error| error.class == FailureClass::ConnectionLost), "{:?}", record.errors);
    assert!(!record.verdict.valid);
}

/// Between a reader and nsqd: keeps `swallowed` of the reader's FINs to itself.
fn forgetful_proxy(nsqd: u16, swallowed: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = TcpStream::connect(("127.0.0.1", nsqd)).unwrap();
            let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || {
                let _ = std::io::copy(&mut answers, &mut back);
                let _ = back.shutdown(Shutdown::Both);
            });
            thread::spawn(move || {
                let (mut reader, mut server, mut left) = (BufReader::new(client), server, swallowed);
                // Up to SUB, which is sent alone, as it comes; a writer never gets there.
                loop {
                    let Ok(chunk) = reader.fill_buf() else { return };
                    let (subscribes, length) = (chunk.starts_with(b"SUB "), chunk.len());
                    if length == 0 || server.write_all(chunk).is_err() {
                        let _ = server.shutdown(Shutdown::Both);
                        return;
                    }
                    reader.consume(length);
                    if subscribes {
                        break;
                    }
                }
                let mut line = Vec::new();
                // From then on every command is a line.
                while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                    if line.starts_with(b"FIN ") && line.len() == 21 && left > 0 {
                        left -= 1;
                    } else if server.write_all(&line).is_err() {
                        break;
                    }
                    line.clear();
                }
                let _ = server.shutdown(Shutdown::Both);
            });
        }
    });
    port
}

#[test]
fn real_unfinished_messages_are_redelivered() {
    let nsqd = Nsqd::start(&[]);
    let broker = nsqd.broker_by_way_of(forgetful_proxy(nsqd.port(), 50));
    let load =
        "producers = { count = 1, batch = 20 }\npayload.size = \"100B\"\nload.rate = \"1k/s\"\nrun.duration = \"8s\"\n";
    // nsqd looks for overdue messages of a new channel only after up to 5 s.
    let record = record_of(&format!("{broker}broker.nsq.message_timeout = \"1s\"\n{load}consumers.members = 1\n"));
    let found = record.verification.as_ref().unwrap();
    assert_fields!(found, { redelivered: 50, duplicated: 0, lost: 0 }, "{found:?}");
    assert_eq!((found.received, record.counts.consumed), (8050, Some(8000)), "what comes again is consumed once");
    assert_eq!(record.latency.end_to_end.as_ref().unwrap().count, 8000);
}

#[test]
fn real_run_prints_the_lines_of_nsqs_own_benchmark() {
    let bench = Bench::new(&format!("{}{LOAD}consumers.members = 1\n", three()));
    bench.run(&[]).expect(0);
    let shown = execute(&["show", &bench.run_directory().display().to_string(), "--format", "nsq-bench"]).expect(0);
    let lines: Vec<&str> = shown.stdout.lines().collect();
    assert_eq!(lines.len(), 6, "{lines:?}");
    for (line, begin, end) in [
        (lines[0], "[bench_writer] duration: ", "us/op"),
        (lines[1], "[bench_writer] ", "us/op (aggregate, as published)"),
        (lines[2], "[bench_writer] ", "us/op (aggregate, corrected)"),
        (lines[3], "[bench_reader] duration: ", "us/op"),
        (lines[4], "[bench_reader] ", "us/op (aggregate, as published)"),
        (lines[5], "[bench_reader] ", "us/op (aggregate, corrected)"),
    ] {
        assert!(line.starts_with(begin) && line.ends_with(end), "{line}");
    }
}

#[test]
fn real_ephemeral_topics_deliver_and_leave_nothing() {
    // Fewer messages than nsqd keeps in memory.
    let load = LOAD.replace("30k", "2k");
    let name = format!("passing{}", std::process::id());
    for channel in ["", "broker.nsq.channel = \"ch#ephemeral\"\n"] {
        let options = format!("name = \"{name}\"\n{}broker.nsq.ephemeral_topics = true\n{channel}", three());
        assert_delivered(&record_of(&format!("{options}{load}{CONSUMERS}")), 2000, 2);
    }
    for http in nsq::http_addresses() {
        let left: Vec<String> = nsq::topics(&http).into_iter().filter(|topic| topic.contains(&name)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn real_messages_that_a_reader_gives_back_are_delivered_again() {
    let load = LOAD.replace("30k", "5k");
    let options = format!("{}broker.nsq.requeue = 0.1\nbroker.nsq.touch = 0.5\nconsumers = {{}}\n", three());
    let record = record_of(&format!("{options}{load}"));
    let found = record.verification.as_ref().unwrap();
    // The run ends when every message has arrived once.
    assert!((1..=500).contains(&found.redelivered), "{found:?}");
    assert_eq!(record.counts.acknowledged, 5000, "{found:?}");
    assert_eq!(found.lost, 0, "{found:?}");
    assert_eq!(found.unread, 0, "{found:?}");
    assert_eq!(found.corrupt, 0, "{found:?}");
}
