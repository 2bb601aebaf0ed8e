//! RabbitMQ's streams as brokermark meets them: a real server, and a scripted one that misbehaves.
#![cfg(feature = "rabbitmq-stream")]

mod clients;
mod connections;
mod faults;
mod filters;
mod groups;
mod leaders;
mod start_offsets;

use crate::harness::rabbitmq;
use crate::harness::scripted_rabbitmq::frames::confirm_of;
use crate::harness::scripted_rabbitmq::{Published, Reaction};
use crate::harness::server::variable;
use crate::harness::{Bench, assert_acknowledged, assert_balanced, assert_delivered, record_of, records_of};
use brokermark::broker::FailureClass;
use brokermark::record::{Record, Status};

fn broker(address: &str, options: &str) -> String {
    format!(
        "[broker]\nkind = \"rabbitmq-stream\"\naddress = \"{address}\"\n[broker.rabbitmq-stream]\nreconnect = \"2s\"\n{options}\n"
    )
}

fn real(options: &str) -> String {
    broker(&rabbitmq::address(), options)
}

const BATCHES: &str = "[producers]\nin_flight = 20\nbatch = 10\n[payload]\nkind = \"zeros\"\nsize = \"50B\"\n";

/// The reaction of a server that takes everything.
fn confirmed(published: Published) -> Reaction {
    Reaction { frames: vec![confirm_of(published.publisher, &published.ids)], ..Reaction::default() }
}

fn failed(record: &Record, class: FailureClass) -> u64 {
    record.errors.iter().filter(|error| error.class == class).map(|error| error.count).sum()
}

/// Runs a scenario that cannot begin, and returns the error in its record.
fn refused(scenario: &str) -> String {
    let record = Bench::new(scenario).run(&[]).expect(1).record();
    assert_eq!(record.status, Status::Failed);
    record.error.unwrap()
}

#[test]
fn real_wrong_password_is_reported_and_not_shown() {
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
    let error = refused(&format!("{}[broker.security]\ntls = true\n{load}", broker(&address, "")));
    assert!(error.contains("certificate"), "{error}");
    let error = refused(&format!("{}{tls}{load}", broker(&address, "busy_poll = true")));
    assert!(error.contains("without TLS"), "{error}");
}

#[test]
fn real_client_logs_in_by_its_certificate() {
    let address = variable("BROKERMARK_RABBITMQ_TLS");
    let load = "[broker.security.sasl]\nmechanism = \"EXTERNAL\"\n[run]\nmessages = 100\n";
    let files = ["CA", "CERTIFICATE", "KEY"].map(|name| variable(&format!("BROKERMARK_RABBITMQ_{name}")));
    let [ca, certificate, key] = &files;
    let tls = format!("[broker.security.tls]\nca = {ca:?}\ncertificate = {certificate:?}\nkey = {key:?}\n");
    assert_acknowledged(&record_of(&format!("{}{tls}{load}", broker(&address, ""))), 100);
    // Without a certificate of its own it cannot begin.
    let tls = format!("[broker.security.tls]\nca = {ca:?}\n");
    let ended = Bench::new(&format!("{}{tls}{load}", broker(&address, ""))).run(&[]).expect(2);
    ended.complains_of(&["EXTERNAL", "broker.security.tls.certificate"]);
}

#[test]
fn real_polling_connections_deliver_polling_is_not_work() {
    let small = "[producers]\ncount = 2\nin_flight = 1\n[payload]\nkind = \"random\"\nsize = \"50B\"\n";
    // More than sockets hold, so that there is something to wait for when writing as well.
    let large = "[producers]\nin_flight = 2000\nbatch = 20\n[payload]\nkind = \"random\"\nsize = \"30KiB\"\n";
    for load in [small, large] {
        let polled = |options| record_of(&format!("{}{load}[consumers]\n[run]\nmessages = 2000\n", real(options)));
        let (polled, slept) = (polled("busy_poll = true"), polled(""));
        assert_delivered(&polled, 2000, 1);
        assert_delivered(&slept, 2000, 1);
        assert_eq!(slept.client.polling_cpu_seconds, None);
        let polling = polled.client.polling_cpu_seconds.unwrap();
        assert!(0.0 < polling && polling < polled.client.cpu_seconds, "{:?}", polled.client);
        let worked = polled.client.cores_used - polled.client.cores_polling();
        // The clocks of the whole and of its parts do not tick together.
        assert!(polled.client.busiest_thread_cores.unwrap() <= worked + 0.1, "{:?}", polled.client);
    }
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
fn real_batch_larger_than_a_frame_is_split() {
    let load = "[producers]\nbatch = 100\nin_flight = 100\n[payload]\nkind = \"random\"\nsize = \"30KiB\"\n";
    assert_acknowledged(&record_of(&format!("{}{load}[run]\nmessages = 300\n", real(""))), 300);
    let load = "[payload]\nkind = \"random\"\nsize = \"2MiB\"\n[run]\nmessages = 5\n";
    let record = Bench::new(&format!("{}{load}", real(""))).run(&[]).expect(1).record();
    assert_balanced(&record);
    assert_eq!(failed(&record, FailureClass::TooLarge), 5, "{:?}", record.errors);
}
