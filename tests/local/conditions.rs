//! What holds messages up is told while it lasts, and is in the record: on scripted servers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use brokermark::measure::ConditionKind;
use brokermark::record::{Condition, Limiter, ReasonKind, Record};

use crate::harness::{Bench, Finished, PATIENCE, finding};

/// 5 s at 20 messages/s, which are not measured for longer than that.
const LOAD: &str = "[load]\nrate = \"20/s\"\n[run]\nduration = \"5s\"\ndrain_deadline = \"10s\"\n";

/// Runs a scenario in which messages are held up, and expects to be told so in words.
fn told(scenario: &str, words: &str) -> Finished {
    let bench = Bench::new(scenario);
    let mut running = bench.start(&[]);
    running.await_stderr(words);
    running.finish(PATIENCE)
}

/// The same, of a run that ends well: its record.
fn held_up(scenario: &str, words: &str) -> Record {
    told(scenario, words).expect(0).record()
}

fn of_kind(record: &Record, kind: ConditionKind) -> &Condition {
    let found = record.conditions.iter().find(|condition| condition.kind == kind);
    found.unwrap_or_else(|| panic!("{:?}", record.conditions))
}

/// Whether it is so now: from the first time that this is asked until so much later.
fn for_a_while(begin: &Mutex<Option<Instant>>, length: Duration) -> bool {
    begin.lock().unwrap().get_or_insert_with(Instant::now).elapsed() < length
}

#[cfg(feature = "pulsar")]
mod pulsar {
    use super::*;
    use crate::harness::scripted_pulsar::{Request, Scripted, close_producer, error, receipt};

    /// The broker closes the producer, and answers with `answer` for a while when it is to be opened again.
    fn not_opened_again(kind: ConditionKind, answer: fn(u64) -> Vec<u8>) -> Finished {
        let (begin, is_closed) = (Mutex::new(None), AtomicBool::new(false));
        let server = Scripted::start(move |request| match request {
            Request::Send { producer, first, .. } if first >= 20 && !is_closed.swap(true, Ordering::SeqCst) => {
                begin.lock().unwrap().replace(Instant::now());
                Some(vec![receipt(producer, first), close_producer(producer)])
            }
            Request::OpenProducer { request } if is_closed.load(Ordering::SeqCst) => {
                for_a_while(&begin, Duration::from_millis(2500)).then(|| vec![answer(request)])
            }
            _ => None,
        });
        told(&format!("{}{LOAD}", server.broker("")), kind.phrase())
    }

    /// What the broker refuses for now, by a number of `ServerError`, is told until it opens the producer.
    macro_rules! passing {
        ($($name:ident: $error:literal $words:literal is $kind:ident;)*) => {$(
            #[test]
            fn $name() {
                let ended = not_opened_again(ConditionKind::$kind, |request| error(request, $error));
                let record = ended.expect(0).record();
                let found = of_kind(&record, ConditionKind::$kind);
                assert!(found.end_ns.is_some() && found.lasted_ns > 1_500_000_000, "{found:?}");
                assert!(found.words.starts_with($words), "{found:?}");
                let limited_by = &record.verdict.limited_by;
                assert_eq!(limited_by.limiter, Limiter::Broker, "{limited_by:?}");
                assert!(limited_by.evidence.contains(found.kind.phrase()), "{limited_by:?}");
            }
        )*};
    }

    passing! {
        pulsar_producer_that_a_backlog_quota_holds_is_told: 7 "ProducerBlockedQuotaExceededError" is BacklogQuota;
        pulsar_producer_that_others_keep_out_is_told: 16 "ProducerBusy" is Fenced;
        pulsar_broker_that_is_not_ready_is_told: 6 "ServiceNotReady" is Refused;
    }

    /// What another attempt cannot help ends the load.
    macro_rules! lasting {
        ($($name:ident: $error:literal $words:literal is $kind:ident;)*) => {$(
            #[test]
            fn $name() {
                let ended = not_opened_again(ConditionKind::$kind, |request| error(request, $error));
                let record = ended.expect(1).record();
                let found = of_kind(&record, ConditionKind::$kind);
                assert!(found.words.starts_with($words), "{found:?}");
                let missing = finding(&record, ReasonKind::MissingMessages).unwrap();
                assert!(missing.evidence.contains(found.kind.phrase()), "{missing:?}");
            }
        )*};
    }

    lasting! {
        pulsar_topic_that_is_gone_is_told: 11 "TopicNotFound" is TopicGone;
        pulsar_access_that_is_taken_away_is_told: 4 "AuthorizationError" is Denied;
    }

    /// An empty answer closes the connection.
    #[test]
    fn pulsar_broker_that_hangs_up_is_told_until_it_is_connected() {
        let record = not_opened_again(ConditionKind::Connecting, |_| Vec::new()).expect(0).record();
        let found = of_kind(&record, ConditionKind::Connecting);
        assert!(found.end_ns.is_some() && found.lasted_ns > 1_500_000_000, "{found:?}");
    }
}

/// A server with an alarm keeps the connection and reads nothing. What it confirms afterwards is counted in the same run, whose rate then
/// is the wanted one.
#[test]
#[cfg(feature = "rabbitmq-stream")]
fn rabbitmq_server_that_confirms_nothing_is_told() {
    use std::sync::mpsc;

    use crate::harness::scripted_rabbitmq::frames::confirm;
    use crate::harness::scripted_rabbitmq::{Reaction, Scripted};
    let (is_told, told) = mpsc::channel::<()>();
    let (told, sent) = (Mutex::new(told), Mutex::new(0));
    let server = Scripted::start(0, move |published| {
        let mut sent = sent.lock().unwrap();
        *sent += published.ids.len();
        if *sent > 20 {
            // An error: it was told before.
            let _ = told.lock().unwrap().recv();
        }
        Reaction { frames: vec![confirm(&published.ids)], ..Reaction::default() }
    });
    let broker = format!("broker = {{ kind = \"rabbitmq-stream\", address = \"{}\" }}\n", server.address());
    let bench = Bench::new(&format!("{broker}{LOAD}"));
    let mut running = bench.start(&[]);
    running.await_stderr("connected, and nothing is answered");
    drop(is_told);
    let record = running.finish(PATIENCE).expect(0).record();
    assert_eq!(record.counts.unresolved, 0);
    let blocked = of_kind(&record, ConditionKind::Unanswered);
    assert!(blocked.end_ns.is_some() && blocked.words.contains("alarm"), "{blocked:?}");
    let limited_by = &record.verdict.limited_by;
    assert_eq!(limited_by.limiter, Limiter::Broker, "{limited_by:?}");
    assert!(limited_by.evidence.contains("nothing is answered"), "{limited_by:?}");
}

/// A server that ends the connection, and lets no publisher in any more.
#[test]
#[cfg(feature = "rabbitmq-stream")]
fn rabbitmq_access_that_is_taken_away_is_told() {
    use crate::harness::scripted_rabbitmq::frames::confirm;
    use crate::harness::scripted_rabbitmq::{Reaction, Refusing, Scripted, Tuning};
    const DECLARE_PUBLISHER: u16 = 1;
    const ACCESS_REFUSED: u16 = 0x10;
    let refuses = Some(Refusing { key: DECLARE_PUBLISHER, code: ACCESS_REFUSED, after: 1 });
    let sent = Mutex::new(0);
    let server = Scripted::tuned(Tuning { refuses, ..Tuning::default() }, move |published| {
        let mut sent = sent.lock().unwrap();
        *sent += published.ids.len();
        Reaction { frames: vec![confirm(&published.ids)], hang_up: *sent > 20, ..Reaction::default() }
    });
    let broker = format!("broker = {{ kind = \"rabbitmq-stream\", address = \"{}\" }}\n", server.address());
    let record = held_up(&format!("{broker}{LOAD}"), "access denied");
    let denied = of_kind(&record, ConditionKind::Denied);
    assert!(denied.end_ns.is_none() && denied.lasted_ns > 1_500_000_000, "{denied:?}");
    let missing = finding(&record, ReasonKind::MissingMessages).unwrap();
    assert!(missing.evidence.contains("access denied"), "{missing:?}");
}

/// The server removes the publisher of a stream, and refuses with `code` to let it be declared again.
#[cfg(feature = "rabbitmq-stream")]
fn not_declared_again(code: u16, kind: ConditionKind, words: &str) {
    use crate::harness::scripted_rabbitmq::frames::{confirm, metadata_update};
    use crate::harness::scripted_rabbitmq::{Reaction, Refusing, Scripted, Tuning};
    const DECLARE_PUBLISHER: u16 = 1;
    let refuses = Some(Refusing { key: DECLARE_PUBLISHER, code, after: 1 });
    let sent = Mutex::new(0);
    let server = Scripted::tuned(Tuning { refuses, ..Tuning::default() }, move |published| {
        let mut sent = sent.lock().unwrap();
        *sent += published.ids.len();
        let mut frames = vec![confirm(&published.ids)];
        if *sent > 20 {
            frames.push(metadata_update(0x06, "removed"));
        }
        Reaction { frames, ..Reaction::default() }
    });
    let options = "rabbitmq-stream = { reconnect = \"1s\" }";
    let broker = format!("broker = {{ kind = \"rabbitmq-stream\", address = \"{}\", {options} }}\n", server.address());
    let topology = "topology = { name = \"removed\", keep = true }\n";
    let record = held_up(&format!("{broker}{topology}{LOAD}"), kind.phrase());
    let found = of_kind(&record, kind);
    assert!(found.lasted_ns > 1_500_000_000 && found.words.contains(words), "{found:?}");
}

/// The protocol has no code of its own for an alarm, nor for a publisher that was declared before.
#[test]
#[cfg(feature = "rabbitmq-stream")]
fn rabbitmq_alarm_that_keeps_a_publisher_out_is_told() {
    not_declared_again(0x11, ConditionKind::Refused, "alarm");
}

#[test]
#[cfg(feature = "rabbitmq-stream")]
fn rabbitmq_stream_without_a_leader_is_told() {
    not_declared_again(0x06, ConditionKind::WaitingForLeader, "stream not available");
}

/// What an nsqd does with those who come.
enum Served {
    Well,
    /// It hangs up on everybody.
    Down,
    /// It lets no client publish, and hangs up behind its refusal, as nsqd does.
    Refused,
}

/// An nsqd that is so behind so many commands of a connection.
fn nsqd(serves: impl Fn(usize) -> Served + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serves = Arc::new(serves);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serves = serves.clone();
            // The test sees what the client makes of an error.
            std::thread::spawn(move || serve_nsq(stream, &*serves));
        }
    });
    address
}

fn serve_nsq(mut stream: TcpStream, serves: &dyn Fn(usize) -> Served) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut commands = 0;
    reader.read_exact(&mut [0; 4])?;
    loop {
        let mut command = String::new();
        if reader.read_line(&mut command)? == 0 {
            return Ok(());
        }
        let served = serves(commands);
        let (kind, answer) = match command.split_whitespace().next() {
            _ if matches!(served, Served::Down) => return Ok(()),
            Some("NOP") => continue,
            Some("IDENTIFY") => (0, &br#"{"version":"scripted","max_rdy_count":2500}"#[..]),
            _ if matches!(served, Served::Refused) => (1, &b"E_UNAUTHORIZED AUTH failed for PUB on \"topic\" \"\""[..]),
            _ => (0, &b"OK"[..]),
        };
        let mut size = [0; 4];
        reader.read_exact(&mut size)?;
        io::copy(&mut (&mut reader).take(u32::from_be_bytes(size).into()), &mut io::sink())?;
        commands += 1;
        let size = (answer.len() as u32 + 4).to_be_bytes();
        stream.write_all(&[&size[..], &[0, 0, 0, kind], answer].concat())?;
        if kind == 1 {
            return Ok(());
        }
    }
}

/// The record of a run at an nsqd that serves so for a while.
#[cfg(feature = "nsq")]
fn at_nsqd(kind: ConditionKind, serves: fn() -> Served) -> Record {
    let begin = Mutex::new(None);
    let address = nsqd(move |commands| {
        let has_begun = commands > 20 || begin.lock().unwrap().is_some();
        let is_so = has_begun && for_a_while(&begin, Duration::from_millis(2500));
        if is_so { serves() } else { Served::Well }
    });
    let broker = format!("broker = {{ kind = \"nsq\", address = \"{address}\", nsq = {{ http_addresses = [] }} }}\n");
    let record = held_up(&format!("{broker}{LOAD}"), &format!("node {address}: {}", kind.phrase()));
    let found = of_kind(&record, kind);
    assert!(found.end_ns.is_some() && found.lasted_ns > 1_500_000_000, "{found:?}");
    assert_eq!(found.names, [&*address]);
    record
}

#[test]
#[cfg(feature = "nsq")]
fn nsqd_that_is_gone_is_told_while_it_is_connected_to() {
    at_nsqd(ConditionKind::Connecting, || Served::Down);
}

/// Whoever publishes is let in, refused, and let in again.
#[test]
#[cfg(feature = "nsq")]
fn nsqd_that_denies_access_is_told_until_it_takes_a_message() {
    let record = at_nsqd(ConditionKind::Denied, || Served::Refused);
    assert!(record.counts.failed > 0 && record.counts.acknowledged > 0, "{:?}", record.counts);
    assert!(of_kind(&record, ConditionKind::Denied).words.starts_with("E_UNAUTHORIZED"), "{:?}", record.conditions);
}

/// A server that takes connections and says nothing.
#[test]
#[cfg(feature = "nsq")]
fn a_silent_server_is_told_before_the_load() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let bench = Bench::new(&format!("broker = {{ kind = \"nsq\", address = \"{address}\" }}\nrun.messages = 1"));
    let mut running = bench.start(&[]);
    running.await_stderr(&format!("preparing 1s · node {address}: connecting"));
    running.signal(libc::SIGINT);
    running.finish(PATIENCE).expect(130);
}
