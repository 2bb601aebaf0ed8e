//! Pulsar's client on a scripted server: what a real one does rarely.
#![cfg(feature = "pulsar")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::harness::scripted_pulsar::{
    MAX_MESSAGE, Request, Scripted, challenge, close_producer, error, opened, queued, receipt, send_error,
};
use crate::harness::{Bench, assert_acknowledged, record_of};
use brokermark::broker::FailureClass;
use brokermark::measure::ConditionKind;
use brokermark::record::Record;

/// Numbers of `ServerError`.
const PERSISTENCE_ERROR: u64 = 2;
const SERVICE_NOT_READY: u64 = 6;
const TOPIC_NOT_FOUND: u64 = 11;
const TOPIC_TERMINATED: u64 = 15;

const BATCHES: &str =
    "[producers]\nbatch = 10\nin_flight = 20\n[payload]\nsize = \"50B\"\n[run]\nstall_deadline = \"20s\"\n";

fn failed(record: &Record, class: FailureClass) -> u64 {
    record.errors.iter().filter(|error| error.class == class).map(|error| error.count).sum()
}

/// The record of a run in which nothing was acknowledged, which is an error.
fn ended_without_a_receipt(scenario: &str) -> Record {
    Bench::new(scenario).run(&[]).expect(1).record()
}

/// The broker names a refused batch by its last message. Such a run never ended.
#[test]
fn a_refused_batch_fails_whole() {
    let server = Scripted::start(|request| match request {
        Request::Send { producer, last, .. } => Some(vec![send_error(producer, last, PERSISTENCE_ERROR)]),
        _ => None,
    });
    let record = ended_without_a_receipt(&format!("{}{BATCHES}messages = 100", server.broker("")));
    assert_eq!((record.counts.failed, record.counts.unresolved), (100, 0));
    assert_eq!(failed(&record, FailureClass::Refused), 100);
    assert_eq!(record.client.unmatched_answers, 0);
}

/// The connection answers pings, so that only the deadline of each message can end the wait.
#[test]
fn a_message_that_is_never_answered_fails_after_its_timeout() {
    let server = Scripted::start(|request| matches!(request, Request::Send { .. }).then(Vec::new));
    let record =
        ended_without_a_receipt(&format!("{}{BATCHES}messages = 60", server.broker("send_timeout = \"200ms\"")));
    assert_eq!((record.counts.failed, record.counts.unresolved), (60, 0));
    assert_eq!(failed(&record, FailureClass::Timeout), 60);
}

#[test]
fn answers_that_match_no_message_are_counted() {
    let server = Scripted::start(|request| match request {
        Request::Send { producer, first, .. } => Some(vec![receipt(producer, first), receipt(producer, first)]),
        _ => None,
    });
    let record = record_of(&format!("{}{BATCHES}messages = 100", server.broker("")));
    assert_acknowledged(&record, 100);
    // The one behind the last receipt may come when the run has ended.
    assert!((9..=10).contains(&record.client.unmatched_answers), "{}", record.client.unmatched_answers);
}

/// A broker that unloads a topic closes its producers and then answers what it has stored.
#[test]
fn receipts_that_follow_on_a_closed_producer_count() {
    let entries = AtomicUsize::new(0);
    let server = Scripted::start(move |request| match request {
        Request::Send { producer, first, .. } if entries.fetch_add(1, Ordering::SeqCst) == 1 => {
            Some(vec![close_producer(producer), receipt(producer, first)])
        }
        _ => None,
    });
    let record = record_of(&format!("{}{BATCHES}messages = 100", server.broker("")));
    assert_acknowledged(&record, 100);
}

#[test]
fn messages_without_receipt_fail_after_producer_closed() {
    let entries = AtomicUsize::new(0);
    let server = Scripted::start(move |request| match request {
        Request::Send { producer, .. } if entries.fetch_add(1, Ordering::SeqCst) == 1 => {
            Some(vec![close_producer(producer)])
        }
        _ => None,
    });
    let record = record_of(&format!("{}{BATCHES}messages = 100", server.broker("")));
    assert_fields!(record.counts, { acknowledged: 90, failed: 10, unresolved: 0 });
    assert_eq!(failed(&record, FailureClass::ConnectionLost), 10);
}

/// Each message would wait for `send_timeout` where one of two partitions is closed for a while, and fail where it is closed for good.
#[test]
fn messages_without_keys_pass_over_a_closed_partition() {
    for reason in [SERVICE_NOT_READY, TOPIC_NOT_FOUND] {
        let is_closed = AtomicBool::new(false);
        let server = Scripted::start(move |request| match request {
            Request::Send { producer, first, .. } if !is_closed.swap(true, Ordering::SeqCst) => {
                // In this order, the next batch finds it closed.
                Some(vec![close_producer(producer), receipt(producer, first)])
            }
            Request::OpenProducer { request } if is_closed.load(Ordering::SeqCst) => Some(vec![error(request, reason)]),
            _ => None,
        });
        let tables = format!("{BATCHES}messages = 100\n[topology]\npartitions = 2");
        assert_acknowledged(&record_of(&format!("{}{tables}", server.broker(""))), 100);
    }
}

#[test]
fn a_broker_that_is_not_ready_yet_is_asked_again() {
    let refusals = Mutex::new([2, 2]);
    let server = Scripted::start(move |request| {
        let (place, request) = match request {
            Request::OpenProducer { request } => (0, request),
            Request::Subscribe { request } => (1, request),
            _ => return None,
        };
        let left = &mut refusals.lock().unwrap()[place];
        *left = i32::max(*left - 1, -1);
        (*left >= 0).then(|| vec![error(request, SERVICE_NOT_READY)])
    });
    let text = format!("{}{BATCHES}messages = 100\ndrain_deadline = \"1s\"\n[consumers]\n", server.broker(""));
    // Its messages go nowhere: only that the run took place is of interest.
    let record = record_of(&text);
    assert_eq!(record.counts.acknowledged, 100);
}

/// Refuses what a broker would close the connection for.
fn with_limit() -> Scripted {
    Scripted::start(|request| match request {
        Request::Send { producer, last, size, .. } if size > MAX_MESSAGE => {
            Some(vec![send_error(producer, last, PERSISTENCE_ERROR)])
        }
        _ => None,
    })
}

/// The payload alone is within the limit, and its metadata is not.
#[test]
fn a_message_whose_metadata_makes_it_too_large_fails_as_such() {
    let payload = format!("[payload]\nsize = \"{}B\"\n[run]\nmessages = 5", MAX_MESSAGE - 5);
    let record = ended_without_a_receipt(&format!("{}{payload}", with_limit().broker("")));
    assert_eq!((failed(&record, FailureClass::TooLarge), record.counts.failed), (5, 5), "{:?}", record.errors);
    let fitting = payload.replace(&(MAX_MESSAGE - 5).to_string(), &(MAX_MESSAGE - 200).to_string());
    assert_acknowledged(&record_of(&format!("{}{fitting}", with_limit().broker(""))), 5);
}

#[test]
fn a_batch_whose_metadata_makes_it_too_large_is_divided() {
    let tables = format!(
        "[producers]\nbatch = 1000\nin_flight = 1000\nheaders = {{ long = \"{}\" }}\n[payload]\nsize = \"1B\"\n\
         [run]\nmessages = 5000",
        "x".repeat(200)
    );
    assert_acknowledged(&record_of(&format!("{}{tables}", with_limit().broker(""))), 5000);
}

#[test]
fn a_message_that_is_small_enough_once_compressed_is_sent() {
    let tables = "[payload]\nkind = \"zeros\"\nsize = \"1MiB\"\n[run]\nmessages = 5";
    let record = record_of(&format!("{}{tables}", with_limit().broker("compression = \"zstd\"")));
    assert_acknowledged(&record, 5);
}

#[test]
fn producer_waiting_for_exclusive_access_begins_later() {
    let server = Scripted::start(|request| match request {
        Request::OpenProducer { request } => Some(vec![queued(request), opened(request)]),
        _ => None,
    });
    let scenario = format!("{}{BATCHES}messages = 100", server.broker("access_mode = \"wait-for-exclusive\""));
    assert_acknowledged(&record_of(&scenario), 100);
}

/// The wait has an end of its own, and the broker is told that it is over.
#[test]
fn a_wait_for_exclusive_access_ends_after_its_own_time() {
    let closed = Arc::new(AtomicBool::new(false));
    let seen = closed.clone();
    let server = Scripted::start(move |request| match request {
        Request::OpenProducer { request } if !seen.load(Ordering::SeqCst) => Some(vec![queued(request)]),
        Request::CloseProducer { .. } => {
            seen.store(true, Ordering::SeqCst);
            None
        }
        _ => None,
    });
    let options = "access_mode = \"wait-for-exclusive\"\nexclusive_timeout = \"100ms\"";
    let record = record_of(&format!("{}{BATCHES}messages = 100", server.broker(options)));
    assert!(closed.load(Ordering::SeqCst));
    assert_acknowledged(&record, 100);
}

/// In an open loop with one message a submission, only `linger` makes batches.
#[test]
fn messages_wait_for_others_as_long_as_linger_says() {
    let largest_entry = |options: &str| {
        let largest = Arc::new(AtomicUsize::new(0));
        let seen = largest.clone();
        let server = Scripted::start(move |request| {
            if let Request::Send { first, last, .. } = request {
                seen.fetch_max((last - first) as usize + 1, Ordering::SeqCst);
            }
            None
        });
        let tables = "[load]\nrate = \"1k/s\"\n[run]\nmessages = 300";
        let record = record_of(&format!("{}{tables}", server.broker(options)));
        assert_acknowledged(&record, 300);
        largest.load(Ordering::SeqCst)
    };
    assert_eq!(largest_entry(""), 1);
    let lingered = largest_entry("linger = \"50ms\"\nbatch_messages = 20");
    assert!((2..=20).contains(&lingered), "{lingered}");
}

/// A token expires during a run, and by then its file holds another.
#[test]
fn a_token_is_read_again_when_the_broker_asks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "1").unwrap();
    let (seen, renewed) = (Arc::new(Mutex::new(Vec::new())), file.clone());
    let tokens = seen.clone();
    let server = Scripted::start(move |request| match request {
        Request::Authenticate { token } => {
            tokens.lock().unwrap().push(token);
            None
        }
        Request::Send { producer, first, .. } if first == 0 => {
            std::fs::write(&renewed, "2").unwrap();
            Some(vec![challenge(), receipt(producer, first)])
        }
        _ => None,
    });
    let options = format!("token = {{ file = \"{}\" }}", file.display());
    assert_acknowledged(&record_of(&format!("{}{BATCHES}messages = 100", server.broker(&options))), 100);
    assert_eq!(*seen.lock().unwrap(), [1, 2]);
}

#[test]
fn what_crossed_the_wire_is_counted() {
    let server = Scripted::start(|_| None);
    let tables =
        "[producers]\nbatch = 10\nin_flight = 20\n[payload]\nkind = \"zeros\"\nsize = \"1KiB\"\n[run]\nmessages = 200";
    let record = record_of(&format!("{}{tables}", server.broker("compression = \"lz4\"")));
    assert_acknowledged(&record, 200);
    let wire = record.wire.unwrap();
    assert_eq!((wire.requests, wire.raw_bytes), (20, 200 << 10));
    assert!(wire.body_bytes > wire.raw_bytes && wire.compression_ratio.unwrap() > 5.0, "{wire:?}");
    assert!(wire.sent_bytes > 0 && record.client.broker_round_trip_p50_ns.unwrap() > 0, "{wire:?}");
}

/// Nothing is submitted after the last entry, so that the producer must be opened again of itself.
#[test]
fn pending_messages_are_sent_again_after_a_break() {
    for entry in [1, 9] {
        for disturb in [close_producer as fn(u64) -> Vec<u8>, |_| Vec::new()] {
            let entries = AtomicUsize::new(0);
            let server = Scripted::start(move |request| match request {
                Request::Send { producer, .. } if entries.fetch_add(1, Ordering::SeqCst) == entry => {
                    Some(vec![disturb(producer)])
                }
                _ => None,
            });
            let record =
                record_of(&format!("{}{BATCHES}messages = 100", server.broker("resend = true\nbatch_messages = 10")));
            assert_acknowledged(&record, 100);
            assert!(record.wire.unwrap().retried >= 1);
        }
    }
}

/// The record of a run with `resend` whose ten messages, one entry, the broker always refuses, and how often they were sent.
fn always_refused(error: u64) -> (Record, usize) {
    let sent = Arc::new(AtomicUsize::new(0));
    let seen = sent.clone();
    let server = Scripted::start(move |request| match request {
        Request::Send { producer, last, .. } => {
            seen.fetch_add(1, Ordering::SeqCst);
            Some(vec![send_error(producer, last, error)])
        }
        _ => None,
    });
    let broker = server.broker("resend = true\nsend_timeout = \"2s\"");
    let record = ended_without_a_receipt(&format!("{broker}{BATCHES}messages = 10"));
    assert_eq!(failed(&record, FailureClass::Refused), 10, "{:?}", record.errors);
    (record, sent.load(Ordering::SeqCst))
}

/// Without pauses, it would be sent again thousands of times, and fail because it was not answered.
#[test]
fn a_refusal_that_may_pass_is_met_with_pauses_and_named_at_the_end() {
    let (record, sent) = always_refused(PERSISTENCE_ERROR);
    assert!((2..=10).contains(&sent), "sent {sent} times");
    assert!(record.errors[0].first_message.contains("PersistenceError: scripted"), "{:?}", record.errors);
    let told = record.conditions.iter().find(|condition| condition.kind == ConditionKind::Refused);
    assert!(told.is_some_and(|told| told.words.starts_with("PersistenceError")), "{:?}", record.conditions);
}

/// Without pauses, it would be opened again thousands of times.
#[test]
fn a_producer_that_is_closed_again_and_again_is_opened_with_pauses() {
    let sent = Arc::new(AtomicUsize::new(0));
    let seen = sent.clone();
    let server = Scripted::start(move |request| match request {
        Request::Send { producer, .. } => {
            seen.fetch_add(1, Ordering::SeqCst);
            Some(vec![close_producer(producer)])
        }
        _ => None,
    });
    let broker = server.broker("resend = true\nsend_timeout = \"2s\"");
    let record = ended_without_a_receipt(&format!("{broker}{BATCHES}messages = 10"));
    assert_eq!((record.counts.failed, record.counts.unresolved), (10, 0));
    let sent = sent.load(Ordering::SeqCst);
    assert!((2..=10).contains(&sent), "sent {sent} times");
}

#[test]
fn a_refusal_that_cannot_pass_fails_at_once() {
    let (_, sent) = always_refused(TOPIC_TERMINATED);
    assert_eq!(sent, 1);
}

#[test]
fn messages_that_are_refused_for_a_while_are_stored_later() {
    let refusals = AtomicUsize::new(0);
    let server = Scripted::start(move |request| match request {
        Request::Send { producer, last, .. } if refusals.fetch_add(1, Ordering::SeqCst) < 2 => {
            Some(vec![send_error(producer, last, PERSISTENCE_ERROR)])
        }
        _ => None,
    });
    assert_acknowledged(&record_of(&format!("{}{BATCHES}messages = 10", server.broker("resend = true"))), 10);
}
