//! Servers that misbehave, refuse, die, come back or take a stream away: the run ends in time, and the ledger balances.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use brokermark::broker::FailureClass;
use brokermark::measure::ConditionKind;
use brokermark::record::Status;

use super::{BATCHES, broker, failed, real, refused};
use crate::harness::rabbitmq::{self, Stranger};
use crate::harness::scripted_rabbitmq::frames::{close, confirm, error, metadata_update};
use crate::harness::scripted_rabbitmq::{Reaction, Refusing, Scripted, Tuning};
use crate::harness::{Bench, assert_acknowledged, assert_balanced, record_of};
use crate::load::Load;

#[test]
fn confirms_in_any_order_settle_each_message_once() {
    let server = Scripted::start(0, |published| {
        let ids = published.ids;
        let (first, rest) = ids.split_at(3);
        let mut backwards: Vec<u64> = rest.iter().rev().copied().collect();
        backwards.push(u64::MAX);
        let late = [confirm(&backwards), confirm(first), confirm(first), confirm(&[])].concat();
        // A frame that comes in two pieces.
        let (head, tail) = late.split_at(17);
        Reaction { frames: vec![confirm(&[1 << 40]), head.to_vec(), tail.to_vec()], ..Reaction::default() }
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
            ..Reaction::default()
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
    for options in ["", "busy_poll = true"] {
        let server = Scripted::start(0, |published| Reaction {
            // The first two connections end without an answer to their first frame, one of them with a word.
            hang_up: published.connection < 2,
            frames: match published.connection {
                0 => vec![close(1, "maintenance")],
                1 => Vec::new(),
                _ => vec![confirm(&published.ids)],
            },
            ..Reaction::default()
        });
        let record = record_of(&format!("{}{BATCHES}[run]\nmessages = 1000\n", broker(server.address(), options)));
        assert_balanced(&record);
        assert_eq!(record.counts.unresolved, 0);
        let lost = failed(&record, FailureClass::ConnectionLost);
        assert!((20..=40).contains(&lost) && lost == record.counts.failed, "{:?}", record.errors);
        assert!(record.errors[0].first_message.contains("maintenance"), "{:?}", record.errors);
        assert_eq!(server.publishing_connections(), 3);
    }
}

#[test]
fn a_stream_whose_leader_is_gone_is_published_to_again() {
    // "stream not available", which is also what a new leader is announced with; or nothing but "publisher does not exist".
    for announced in [true, false] {
        let server = Scripted::start(0, move |published| Reaction {
            frames: match published.connection {
                0 if announced => vec![metadata_update(0x06, "leaderless")],
                0 => vec![error(&published.ids, 0x12)],
                _ => vec![confirm(&published.ids)],
            },
            ..Reaction::default()
        });
        let topology = "[topology]\nname = \"leaderless\"\nkeep = true\n";
        let load = format!("{topology}{BATCHES}[run]\nmessages = 1000\n");
        let record = record_of(&format!("{}{load}", broker(server.address(), "")));
        assert_balanced(&record);
        assert_eq!(record.counts.unresolved, 0);
        let failed = failed(&record, FailureClass::UnknownTopic);
        assert!((10..=20).contains(&failed) && failed == record.counts.failed, "{:?}", record.errors);
        assert_eq!(server.publishing_connections(), 2, "the publisher is declared once more");
    }
}

#[test]
fn messages_of_a_named_publisher_are_sent_again_with_their_ids() {
    // A connection that ends, and a leader that changes: the first frames have no answers.
    for hang_up in [true, false] {
        let log = Arc::new(Mutex::new(Vec::new()));
        let noted = log.clone();
        let server = Scripted::start(0, move |published| {
            noted.lock().unwrap().extend(published.ids.clone());
            match published.connection {
                0 if hang_up => Reaction { hang_up, ..Reaction::default() },
                0 if published.ids[0] == 1 => Reaction::default(),
                0 => Reaction { frames: vec![metadata_update(0x06, "resent")], ..Reaction::default() },
                _ => Reaction { frames: vec![confirm(&published.ids)], ..Reaction::default() },
            }
        });
        let load = format!("[topology]\nname = \"resent\"\nkeep = true\n{BATCHES}[run]\nmessages = 1000\n");
        let options = "publisher = \"again\"\nresend = true";
        let record = record_of(&format!("{}{load}", broker(server.address(), options)));
        assert_acknowledged(&record, 1000);
        let log = log.lock().unwrap();
        let again = log.iter().skip(1).position(|id| *id == 1).unwrap() + 1;
        // From there on, every id once and in order.
        assert_eq!(log[again..], (1..=1000).collect::<Vec<u64>>());
    }
}

#[test]
fn messages_that_cannot_be_sent_again_in_time_fail() {
    let server = Scripted::start(0, |_| Reaction { hang_up: true, ..Reaction::default() });
    let options = "publisher = \"again\"\nresend = true";
    let bench = Bench::new(&format!("{}{BATCHES}[run]\nmessages = 20\n", broker(server.address(), options)));
    let record = bench.run(&[]).expect(1).record();
    assert_balanced(&record);
    assert_eq!(failed(&record, FailureClass::ConnectionLost), 20, "{:?}", record.errors);
}

#[test]
fn a_load_ends_when_its_publishers_are_refused_for_good() {
    // SaslAuthenticate, after the connection for administration and the first one for publishing; DeclarePublisher.
    let refusals = [
        (19, 0x08, 2, "authentication failure"),
        (1, 0x10, 1, "access refused"),
        (1, 0x02, 1, "stream does not exist"),
    ];
    for (key, code, after, words) in refusals {
        let tuning = Tuning { refuses: Some(Refusing { key, code, after }), ..Tuning::default() };
        let server = Scripted::tuned(tuning, |_| Reaction { hang_up: true, ..Reaction::default() });
        let load = "[load]\nrate = \"1k/s\"\n[run]\nduration = \"60s\"\n";
        let record = Bench::new(&format!("{}{load}", broker(server.address(), ""))).run(&[]).record();
        assert_balanced(&record);
        assert_eq!(record.status, Status::Failed, "{words}: {:?}", record.errors);
        let error = record.error.as_deref().unwrap_or_default();
        assert!(error.contains("could send nothing more") && error.contains(words), "{error}");
    }
}

#[test]
fn a_server_without_a_heartbeat_is_given_up() {
    let server = Scripted::start(1, |published| Reaction {
        frames: if published.connection == 0 { Vec::new() } else { vec![confirm(&published.ids)] },
        ..Reaction::default()
    });
    let record = record_of(&format!("{}{BATCHES}[run]\nmessages = 1000\n", broker(server.address(), "")));
    assert_balanced(&record);
    assert_eq!(failed(&record, FailureClass::ConnectionLost), 20, "{:?}", record.errors);
    assert!(record.errors[0].first_message.contains("no sign of life"), "{:?}", record.errors);
}

#[test]
fn server_without_confirms_leaves_messages_unresolved() {
    let server = Scripted::start(0, |_| Reaction { frames: Vec::new(), ..Reaction::default() });
    let run = "[run]\nduration = \"1s\"\ndrain_deadline = \"1s\"\n";
    let ended = Bench::new(&format!("{}{BATCHES}{run}", broker(server.address(), ""))).run(&[]);
    let record = ended.record();
    assert_balanced(&record);
    assert_eq!((record.counts.attempted, record.counts.unresolved), (20, 20));
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
}

#[test]
fn message_without_confirm_in_time_fails_once() {
    let late = Mutex::new(Vec::new());
    let server = Scripted::start(0, move |published| {
        let mut late = late.lock().unwrap();
        // The first frame is confirmed when its messages have failed and others follow in their place.
        let frames = match published.ids.first() {
            Some(1) => {
                late.extend(published.ids);
                Vec::new()
            }
            _ => vec![confirm(&std::mem::take(&mut *late)), confirm(&published.ids)],
        };
        Reaction { frames, ..Reaction::default() }
    });
    // One batch at a time.
    let load = BATCHES.replace("in_flight = 20", "in_flight = 10");
    let scenario = broker(server.address(), "confirm_timeout = \"200ms\"");
    let record = record_of(&format!("{scenario}{load}[run]\nmessages = 1000\n"));
    assert_balanced(&record);
    assert_eq!((record.counts.acknowledged, record.counts.failed), (990, 10));
    assert_eq!(failed(&record, FailureClass::Timeout), 10, "{:?}", record.errors);
}

#[test]
fn a_closed_port_is_reported_at_once() {
    let error = refused(&format!("{}{BATCHES}[run]\nmessages = 1\n", broker("127.0.0.1:1", "")));
    assert!(error.contains("127.0.0.1:1") && error.contains("refused"), "{error}");
}

#[test]
fn real_server_that_dies_and_comes_back_is_used_again() {
    let server = rabbitmq::server("rabbitmq-returns", 15652);
    let broker = broker(&server.address(), "").replace("2s", "90s");
    let load = Load::begin("rabbitmq-returns", &broker, 20_000);
    server.kill();
    server.restart();
    let record = load.end();
    let counts = &record.counts;
    assert!(failed(&record, FailureClass::ConnectionLost) > 0, "{:?}", record.errors);
    // While it starts, it may take the stream away again for a moment.
    let classes = [FailureClass::ConnectionLost, FailureClass::UnknownTopic];
    assert_eq!(classes.map(|class| failed(&record, class)).iter().sum::<u64>(), counts.failed, "{:?}", record.errors);
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
    running.await_stderr("connecting");
    let record = running.finish(Duration::from_secs(60)).record();
    assert_balanced(&record);
    assert!(record.conditions.iter().any(|one| one.kind == ConditionKind::Connecting), "{:?}", record.conditions);
    assert!(record.counts.acknowledged > 0 && record.counts.failed > 0, "{:?}", record.counts);
    assert_eq!(failed(&record, FailureClass::ConnectionLost), record.counts.failed, "{:?}", record.errors);
}

#[test]
fn real_stream_deleted_in_the_middle_fails_by_class() {
    let name = format!("deleted-{}", std::process::id());
    let topology = format!("[topology]\nname = \"{name}\"\n");
    let load = "[load]\nrate = \"2k/s\"\n[producers]\nbatch = 10\n[consumers]\n[run]\nduration = \"5s\"\ndrain_deadline = \"5s\"\n";
    let bench = Bench::new(&format!("{}{topology}{load}", real("")));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    Stranger::arrive().delete_stream(&name);
    let record = running.finish(Duration::from_secs(60)).record();
    assert_balanced(&record);
    assert!(record.counts.acknowledged > 0 && record.counts.failed > 0, "{:?}", record.counts);
    assert_eq!(failed(&record, FailureClass::UnknownTopic), record.counts.failed, "{:?}", record.errors);
}
