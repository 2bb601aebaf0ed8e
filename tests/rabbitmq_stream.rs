//! RabbitMQ's streams as brokermark meets them: a real server, and one that misbehaves as told.
#![cfg(feature = "rabbitmq-stream")]

mod harness;

use std::time::Duration;

use brokermark::broker::FailureClass;
use brokermark::record::{Record, Status};
use harness::rabbitmq;
use harness::server::variable;
use harness::scripted_rabbitmq::{Reaction, Scripted, close, confirm, error};
use harness::{Bench, assert_acknowledged, assert_balanced, assert_delivered, record_of, records_of};

fn broker(address: &str, options: &str) -> String {
    format!(
        "[broker]\nkind = \"rabbitmq-stream\"\naddress = \"{address}\"\n[broker.rabbitmq-stream]\nreconnect = \"2s\"\n{options}\n"
    )
}

fn real(options: &str) -> String {
    broker(&rabbitmq::address(), options)
}

const BATCHES: &str = "[producers]\nin_flight = 20\nbatch = 10\n[payload]\nkind = \"zeros\"\nsize = \"50B\"\n";

fn failed(record: &Record, class: FailureClass) -> u64 {
    record.errors.iter().filter(|error| error.class == class).map(|error| error.count).sum()
}

/// Runs what cannot begin; what the record says of it.
fn refused(scenario: &str) -> String {
    let record = Bench::new(scenario).run(&[]).expect(1).record();
    assert_eq!(record.status, Status::Failed);
    record.error.unwrap()
}

#[test]
fn confirms_of_strangers_twice_in_any_order_and_in_pieces_settle_each_message_once() {
    let server = Scripted::start(0, |published| {
        let ids = published.ids;
        let (first, rest) = ids.split_at(3);
        let mut backwards: Vec<u64> = rest.iter().rev().copied().collect();
        backwards.push(u64::MAX);
        let late = [confirm(&backwards), confirm(first), confirm(first), confirm(&[])].concat();
        // A frame that comes in two pieces.
        let (head, tail) = late.split_at(17);
        Reaction { frames: vec![confirm(&[1 << 40]), head.to_vec(), tail.to_vec()], hang_up: false }
    });
    let record = record_of(&format!("{}{BATCHES}[run]\nmessages = 1000\n", broker(server.address(), "")));
    assert_acknowledged(&record, 1000);
}

#[test]
fn refusals_of_messages_are_counted_by_class() {
    let server = Scripted::start(0, |published| {
        let ids = published.ids;
        Reaction {
            frames: vec![error(&ids[..2], 0x02), error(&ids[2..3], 0x10), error(&ids[3..4], 0x0f), confirm(&ids[4..])],
            hang_up: false,
        }
    });
    let record = record_of(&format!("{}{BATCHES}[run]\nmessages = 1000\n", broker(server.address(), "")));
    assert_balanced(&record);
    assert_eq!((record.counts.acknowledged, record.counts.failed), (600, 400));
    assert_eq!(failed(&record, FailureClass::UnknownTopic), 200, "{:?}", record.errors);
    assert_eq!(failed(&record, FailureClass::Authorisation), 100, "{:?}", record.errors);
    assert_eq!(failed(&record, FailureClass::Refused), 100, "{:?}", record.errors);
}

#[test]
fn a_server_that_hangs_up_is_connected_to_again() {
    let server = Scripted::start(0, |published| Reaction {
        // The first two connections end without an answer to their first frame, one of them with a word.
        hang_up: published.connection < 2,
        frames: match published.connection {
            0 => vec![close(1, "maintenance")],
            1 => Vec::new(),
            _ => vec![confirm(&published.ids)],
        },
    });
    let record = record_of(&format!("{}{BATCHES}[run]\nmessages = 1000\n", broker(server.address(), "")));
    assert_balanced(&record);
    assert_eq!(record.counts.unresolved, 0);
    let lost = failed(&record, FailureClass::ConnectionLost);
    assert!((20..=40).contains(&lost) && lost == record.counts.failed, "{:?}", record.errors);
    assert!(record.errors[0].first_message.contains("maintenance"), "{:?}", record.errors);
    assert_eq!(server.publishing_connections(), 3);
}

#[test]
fn a_server_without_a_heartbeat_is_given_up() {
    let server = Scripted::start(1, |published| Reaction {
        frames: if published.connection == 0 { Vec::new() } else { vec![confirm(&published.ids)] },
        hang_up: false,
    });
    let record = record_of(&format!("{}{BATCHES}[run]\nmessages = 1000\n", broker(server.address(), "")));
    assert_balanced(&record);
    assert_eq!(failed(&record, FailureClass::ConnectionLost), 20, "{:?}", record.errors);
    assert!(record.errors[0].first_message.contains("no sign of life"), "{:?}", record.errors);
}

#[test]
fn a_server_that_confirms_nothing_leaves_messages_unresolved_in_time() {
    let server = Scripted::start(0, |_| Reaction { frames: Vec::new(), hang_up: false });
    let run = "[run]\nduration = \"1s\"\ndrain_deadline = \"1s\"\n";
    let ended = Bench::new(&format!("{}{BATCHES}{run}", broker(server.address(), ""))).run(&[]);
    let record = ended.record();
    assert_balanced(&record);
    assert_eq!((record.counts.attempted, record.counts.unresolved), (20, 20));
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
}

#[test]
fn nobody_listening_is_said_at_once() {
    let said = refused(&format!("{}{BATCHES}[run]\nmessages = 1\n", broker("127.0.0.1:1", "")));
    assert!(said.contains("127.0.0.1:1") && said.contains("refused"), "{said}");
}

#[test]
fn real_wrong_password_is_said_to_be_that_and_not_shown() {
    let login = "[broker.security.sasl]\nmechanism = \"PLAIN\"\nusername = \"guest\"\npassword = \"not-this-one\"\n";
    let ended = Bench::new(&format!("{}{login}{BATCHES}[run]\nmessages = 1\n", real(""))).run(&[]).expect(1);
    ended.complains_of(&["refused the credentials", "authentication failure"]);
    assert!(!ended.stderr.contains("not-this-one") && !ended.stdout.contains("not-this-one"));
}

#[test]
fn real_tls_is_spoken_and_strangers_are_not_trusted() {
    let address = variable("BROKERMARK_RABBITMQ_TLS");
    let ca = variable("BROKERMARK_RABBITMQ_CA");
    let load = "[producers]\nbatch = 20\nin_flight = 200\n[consumers]\n[run]\nmessages = 5000\n";
    let tls = format!("[broker.security.tls]\nca = \"{ca}\"\n");
    assert_delivered(&record_of(&format!("{}{tls}{load}", broker(&address, ""))), 5000, 1);
    let said = refused(&format!("{}[broker.security]\ntls = true\n{load}", broker(&address, "")));
    assert!(said.contains("certificate"), "{said}");
}

#[test]
fn real_bodies_sub_entries_and_compressions_arrive_as_they_were() {
    let load = "[producers]\ncount = 3\nbatch = 50\nin_flight = 500\nkeys = { kind = \"random\", distinct = 9 }
        [payload]\nkind = \"random\"\nsize = \"100B\"\ncompressibility = 0.8\n[topology]\npartitions = 2\n[consumers]\n[run]\nmessages = 5000\n";
    for body in ["amqp", "binary"] {
        let options = format!("body = \"{body}\"\npublisher = \"conformance\"");
        assert_delivered(&record_of(&format!("{}{load}", real(&options))), 5000, 1);
        let sweep = "[sweep.over]\n\"broker.rabbitmq-stream.compression\" = [\"none\", \"gzip\", \"snappy\", \"lz4\", \"zstd\"]\n";
        let options = format!("body = \"{body}\"\nsub_entry = 20");
        let records = records_of(&format!("{}{load}{sweep}", real(&options)));
        assert_eq!(records.len(), 5);
        records.iter().for_each(|record| assert_delivered(record, 5000, 1));
    }
}

#[test]
fn real_batch_larger_than_a_frame_is_split_and_a_message_larger_than_one_fails() {
    let load = "[producers]\nbatch = 100\nin_flight = 100\n[payload]\nkind = \"random\"\nsize = \"30KiB\"\n";
    assert_acknowledged(&record_of(&format!("{}{load}[run]\nmessages = 300\n", real(""))), 300);
    let load = "[payload]\nkind = \"random\"\nsize = \"2MiB\"\n[run]\nmessages = 5\n";
    let record = Bench::new(&format!("{}{load}", real(""))).run(&[]).expect(1).record();
    assert_balanced(&record);
    assert_eq!(failed(&record, FailureClass::TooLarge), 5, "{:?}", record.errors);
}

#[test]
fn real_publishers_of_a_name_go_on_where_they_left_off() {
    let name = format!("named-{}", std::process::id());
    let topology = format!("[topology]\nname = \"{name}\"\nkeep = true\n");
    let named = format!("{}{topology}{BATCHES}", real("publisher = \"again\""));
    // If the second began with ids the server has seen, it would drop the messages, and nobody would receive them.
    assert_acknowledged(&record_of(&format!("{named}[run]\nmessages = 500\n")), 500);
    let later = format!("{named}[consumers]\nfrom = \"latest\"\n[run]\nmessages = 500\n");
    assert_delivered(&record_of(&later), 500, 1);
    for start in ["\"first\"", "{ offset = 0 }", "{ timestamp = \"2020-01-01T00:00:00Z\" }"] {
        let scenario = later.replace("[topology]", &format!("start = {start}\n[topology]"));
        let record = Bench::new(&scenario).run(&[]).record();
        // What was there before is read, and is not of this run.
        assert!(record.verification.as_ref().unwrap().foreign >= 1000, "{:?}", record.verification);
        assert_eq!(record.verification.unwrap().lost, 0);
    }
    let mismatch = format!("{}[topology]\nname = \"{name}\"\npartitions = 2\n{BATCHES}[run]\nmessages = 1\n", real(""));
    let said = refused(&mismatch);
    assert!(said.contains("1 partition(s)") && said.contains("2 partition(s)"), "{said}");
    rabbitmq::delete_stream(&name);
}

#[test]
fn real_server_that_dies_and_comes_back_is_used_again() {
    let server = rabbitmq::server("rabbitmq-returns", 15652);
    let load = "[load]\nrate = \"5k/s\"\n[producers]\nbatch = 10\nin_flight = 20000\n[consumers]\n[run]\nduration = \"12s\"\ndrain_deadline = \"30s\"\n";
    let bench = Bench::new(&format!("{}{load}", broker(&server.address(), "").replace("2s", "30s")));
    let mut running = bench.start(&[]);
    // A line with percentiles: messages have been acknowledged.
    running.await_stderr(" p99 ");
    server.kill();
    server.restart();
    let record = running.finish(Duration::from_secs(120)).record();
    assert_balanced(&record);
    let counts = &record.counts;
    assert_eq!(failed(&record, FailureClass::ConnectionLost), counts.failed, "{:?}", record.errors);
    // More than had been acknowledged when it died, which was in the first seconds.
    assert!(counts.acknowledged > 30_000, "{counts:?}");
    assert_eq!(counts.unresolved, 0, "{counts:?}");
}

#[test]
fn real_server_that_stays_away_ends_the_run_in_time() {
    let server = rabbitmq::server("rabbitmq-dies", 15752);
    let load = "[load]\nrate = \"5k/s\"\n[producers]\nbatch = 10\n[run]\nduration = \"6s\"\ndrain_deadline = \"5s\"\n";
    let bench = Bench::new(&format!("{}{load}", broker(&server.address(), "")));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    server.kill();
    let record = running.finish(Duration::from_secs(60)).record();
    assert_balanced(&record);
    assert!(record.counts.acknowledged > 0 && record.counts.failed > 0, "{:?}", record.counts);
    assert_eq!(failed(&record, FailureClass::ConnectionLost), record.counts.failed, "{:?}", record.errors);
}

#[test]
fn real_stream_deleted_in_the_middle_fails_what_follows_by_class() {
    let name = format!("deleted-{}", std::process::id());
    let topology = format!("[topology]\nname = \"{name}\"\n");
    let load = "[load]\nrate = \"2k/s\"\n[producers]\nbatch = 10\n[consumers]\n[run]\nduration = \"5s\"\ndrain_deadline = \"5s\"\n";
    let bench = Bench::new(&format!("{}{topology}{load}", real("")));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    rabbitmq::delete_stream(&name);
    let record = running.finish(Duration::from_secs(60)).record();
    assert_balanced(&record);
    assert!(record.counts.acknowledged > 0 && record.counts.failed > 0, "{:?}", record.counts);
    assert_eq!(failed(&record, FailureClass::UnknownTopic), record.counts.failed, "{:?}", record.errors);
}
