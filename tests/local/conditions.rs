//! What holds messages up is told while it lasts, and is in the record: on scripted servers.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use brokermark::measure::ConditionKind;
use brokermark::record::{Condition, Limiter, Record};

use crate::harness::{Bench, PATIENCE};

/// 5 s at 20 messages/s, which are not measured for longer than that.
const LOAD: &str = "[load]\nrate = \"20/s\"\n[run]\nduration = \"5s\"\ndrain_deadline = \"10s\"\n";

/// Runs a scenario in which messages are held up, expects to be told so in words, and returns its record.
fn held_up(scenario: &str, words: &str) -> Record {
    let bench = Bench::new(scenario);
    let mut running = bench.start(&[]);
    running.await_stderr(words);
    running.finish(PATIENCE).expect(0).record()
}

fn of_kind(record: &Record, kind: ConditionKind) -> &Condition {
    let found = record.conditions.iter().find(|condition| condition.kind == kind);
    found.unwrap_or_else(|| panic!("{:?}", record.conditions))
}

/// Whether it is so now: from the first time that this is asked until so much later.
fn for_a_while(begin: &Mutex<Option<Instant>>, length: Duration) -> bool {
    begin.lock().unwrap().get_or_insert_with(Instant::now).elapsed() < length
}

/// The broker closes the producer when the quota is used up, and opens none until there is room.
#[test]
#[cfg(feature = "pulsar")]
fn pulsar_producer_that_a_backlog_quota_holds_is_told() {
    use crate::harness::scripted_pulsar::{Request, Scripted, close_producer, error, receipt};
    const QUOTA_EXCEEDED: u64 = 7;
    let (begin, is_closed) = (Mutex::new(None), AtomicBool::new(false));
    let server = Scripted::start(move |request| match request {
        Request::Send { producer, first, .. } if first >= 20 && !is_closed.swap(true, Ordering::SeqCst) => {
            begin.lock().unwrap().replace(Instant::now());
            Some(vec![receipt(producer, first), close_producer(producer)])
        }
        Request::OpenProducer { request } if is_closed.load(Ordering::SeqCst) => {
            for_a_while(&begin, Duration::from_millis(2500)).then(|| vec![error(request, QUOTA_EXCEEDED)])
        }
        _ => None,
    });
    let record = held_up(&format!("{}{LOAD}", server.broker("")), "held by a backlog quota");
    let quota = of_kind(&record, ConditionKind::BacklogQuota);
    assert!(quota.end_ns.is_some() && quota.lasted_ns > 1_500_000_000, "{quota:?}");
    assert!(quota.words.starts_with("ProducerBlockedQuotaExceededError"), "{quota:?}");
    let limited_by = &record.verdict.limited_by;
    assert_eq!(limited_by.limiter, Limiter::Broker, "{limited_by:?}");
    assert!(limited_by.evidence.contains("held by a backlog quota"), "{limited_by:?}");
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

/// An nsqd that takes messages, and hangs up on everybody while it is down.
fn nsqd(is_down: impl Fn(usize) -> bool + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let is_down = Arc::new(is_down);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let is_down = is_down.clone();
            // The test sees what the client makes of an error.
            std::thread::spawn(move || serve_nsq(stream, &*is_down));
        }
    });
    address
}

fn serve_nsq(mut stream: TcpStream, is_down: &dyn Fn(usize) -> bool) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut messages = 0;
    reader.read_exact(&mut [0; 4])?;
    loop {
        let mut command = String::new();
        if reader.read_line(&mut command)? == 0 || is_down(messages) {
            return Ok(());
        }
        let answer = match command.split_whitespace().next() {
            Some("NOP") => continue,
            Some("IDENTIFY") => &br#"{"version":"scripted","max_rdy_count":2500}"#[..],
            _ => b"OK",
        };
        let mut size = [0; 4];
        reader.read_exact(&mut size)?;
        io::copy(&mut (&mut reader).take(u32::from_be_bytes(size).into()), &mut io::sink())?;
        messages += 1;
        let size = (answer.len() as u32 + 4).to_be_bytes();
        stream.write_all(&[&size[..], &[0; 4], answer].concat())?;
    }
}

#[test]
#[cfg(feature = "nsq")]
fn nsqd_that_is_gone_is_told_while_it_is_connected_to() {
    let begin = Mutex::new(None);
    let address = nsqd(move |messages| {
        let has_begun = messages > 20 || begin.lock().unwrap().is_some();
        has_begun && for_a_while(&begin, Duration::from_millis(2500))
    });
    let broker = format!("broker = {{ kind = \"nsq\", address = \"{address}\", nsq = {{ http_addresses = [] }} }}\n");
    let record = held_up(&format!("{broker}{LOAD}"), &format!("node {address}: connecting"));
    let gone = of_kind(&record, ConditionKind::Connecting);
    assert!(gone.end_ns.is_some() && gone.lasted_ns > 1_500_000_000, "{gone:?}");
    assert_eq!(gone.names, [address]);
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
