use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::RedisBroker;
use super::*;
use crate::broker::{Broker, Topic, scripted};

/// Accepts a client and answers its first commands, each of which it sends when the one before it is answered.
async fn accept(listener: &TcpListener, commands: usize) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    for _ in 0..commands {
        assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
        stream.write_all(b"+OK\r\n").await.unwrap();
    }
    stream
}

#[tokio::test]
async fn a_topic_waits_for_no_connection_once_that_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let setup = scripted::setup("redis", listener.local_addr().unwrap(), options(""));
    let conditions = setup.conditions.clone();
    // Each client is named and asks for a sign of life; the second one also asks for information.
    let accepted = async { (accept(&listener, 2).await, accept(&listener, 3).await) };
    let (broker, (server, _admin)) = tokio::join!(RedisBroker::connect(setup), accepted);
    let topic = Topic { name: "orders".to_owned(), partitions: 1, replication: 1 };
    let mut producer = broker.unwrap().producer(0, &topic).await.unwrap();
    assert!(producer.submit(&[scripted::message()]).await.is_ok_and(|taken| taken == 1));
    // It is not acknowledged.
    drop(server);
    let mut server = accept(&listener, 2).await;
    assert!(server.read(&mut [0; 64]).await.unwrap() > 0, "the connection is in use");
    scripted::assert_topic_has_its_connection(&conditions);
}

fn sent(number: u32) -> Sent {
    Sent { send_tag: SendTag::new(0, u64::from(number), 0, 0, true), bytes: number, route: 0 }
}

fn with(messages: u32, copies: bool) -> InFlight {
    let mut in_flight = InFlight::default();
    in_flight.awaited.extend((0..messages).map(|number| Awaited::Message(Some(sent(number)))));
    in_flight.uncovered = copies;
    in_flight.await_copies(&options("wait_replicas = 2"), &mut Vec::new());
    in_flight.pending = messages as usize;
    in_flight
}

/// The sizes of the messages that were acknowledged, and of those that failed with why.
fn outcomes(in_flight: &mut InFlight, options: &RedisOptions, replies: &[&[u8]]) -> (Vec<u32>, Vec<(u32, String)>) {
    let mut settled = Vec::new();
    for bytes in replies {
        let (reply, length) = Reply::decode(bytes, 1 << 20).unwrap().unwrap();
        assert_eq!(length, bytes.len());
        in_flight.settle(reply, options, &mut settled).unwrap();
    }
    let acknowledged = settled.iter().filter(|(_, failure)| failure.is_none()).map(|(sent, _)| sent.bytes).collect();
    let failed = settled.iter().filter_map(|(sent, failure)| Some((sent.bytes, failure.as_ref()?.message.clone())));
    (acknowledged, failed.collect())
}

fn options(keys: &str) -> RedisOptions {
    toml::from_str(keys).unwrap()
}

/// Another process waits for a topic that can be found. A channel never can, and a list not before its first message.
#[tokio::test]
async fn only_streams_are_found_once_they_are_created() {
    for (keys, finds) in [("", true), ("mode = 'list'", false), ("mode = 'pubsub'", false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let setup = scripted::setup("redis", listener.local_addr().unwrap(), options(keys));
        let accepted = async { (accept(&listener, 2).await, accept(&listener, 3).await) };
        let (broker, _servers) = tokio::join!(RedisBroker::connect(setup), accepted);
        assert_eq!(broker.unwrap().finds_created(), finds, "{keys}");
    }
}

/// Also those that are the only members of their groups.
#[tokio::test]
async fn consumers_begin_at_the_servers_in_turn() {
    let (first, second) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let mut setup = scripted::setup("redis", first.local_addr().unwrap(), options("mode = 'pubsub'"));
    setup.config.addresses.push(second.local_addr().unwrap().to_string());
    let accepted = async { (accept(&first, 2).await, accept(&first, 3).await) };
    let (broker, _servers) = tokio::join!(RedisBroker::connect(setup), accepted);
    let broker = broker.unwrap();
    for (number, begins_at) in [(0, 0), (1, 1), (2, 0)] {
        let subscription = scripted::subscription(number);
        let asked = tokio::select! {
            _ = first.accept() => 0,
            _ = second.accept() => 1,
            _ = broker.consumer(&subscription) => panic!("no server has answered"),
        };
        assert_eq!(asked, begins_at, "consumer {number}");
    }
}

#[test]
fn replies_settle_messages_in_their_order() {
    let mut in_flight = with(3, false);
    let replies: [&[u8]; 3] = [b"$3\r\n1-0\r\n", b"-OOM command not allowed\r\n", b"$3\r\n1-1\r\n"];
    let (acknowledged, failed) = outcomes(&mut in_flight, &options(""), &replies);
    assert_eq!(acknowledged, [0, 2]);
    assert_eq!(failed, [(1, "OOM command not allowed".to_owned())]);
    assert_eq!(in_flight.pending, 0);
}

#[test]
fn reply_that_nothing_awaits_ends_the_connection() {
    assert!(InFlight::default().settle(Reply::Done, &options(""), &mut Vec::new()).is_err());
}

#[test]
fn messages_wait_for_their_replicas() {
    let options = options("wait_replicas = 2");
    let mut in_flight = with(2, true);
    let (acknowledged, failed) = outcomes(&mut in_flight, &options, &[b"$3\r\n1-0\r\n", b"$3\r\n1-1\r\n"]);
    assert_eq!((acknowledged.len(), failed.len()), (0, 0), "WAIT has no reply yet");
    let (_, failed) = outcomes(&mut in_flight, &options, &[b":1\r\n"]);
    assert_eq!(failed.len(), 2);
    assert!(failed[0].1.contains("1 of 2 replicas"), "{failed:?}");
    let failure = ClientError::passing(FailureClass::Unavailable, failed[0].1.clone());
    assert_eq!(condition(&failure), ConditionKind::NotEnoughReplicas);
    let (acknowledged, _) = outcomes(&mut with(2, true), &options, &[b"$3\r\n1-0\r\n", b"$3\r\n1-1\r\n", b":2\r\n"]);
    assert_eq!(acknowledged, [0, 1]);
}

/// The server executes nothing of a connection while it waits: with a command for each message, `appendfsync everysec` would carry one a second.
#[test]
fn messages_behind_a_wait_have_the_next_one_in_common() {
    let options = options("wait_local_file = true\nack_timeout = '8s'");
    let mut in_flight = with(2, true);
    let mut out = Vec::new();
    for number in 2..5 {
        in_flight.awaited.push_back(Awaited::Message(Some(sent(number))));
        (in_flight.pending, in_flight.uncovered) = (in_flight.pending + 1, true);
        in_flight.await_copies(&options, &mut out);
    }
    assert!(out.is_empty(), "the server waits already");
    let stored = b"$3\r\n1-0\r\n";
    let both = b"*2\r\n:1\r\n:0\r\n";
    assert_eq!(outcomes(&mut in_flight, &options, &[stored, stored, both]).0, [0, 1]);
    in_flight.await_copies(&options, &mut out);
    in_flight.await_copies(&options, &mut out);
    assert_eq!(out, b"*4\r\n$7\r\nWAITAOF\r\n$1\r\n1\r\n$1\r\n0\r\n$4\r\n3000\r\n");
    assert_eq!(outcomes(&mut in_flight, &options, &[stored, stored, stored, both]).0, [2, 3, 4]);
    assert_eq!(in_flight.pending, 0);
    out.clear();
    in_flight.await_copies(&options, &mut out);
    assert!(out.is_empty(), "nothing is to be waited for");
}

#[test]
fn messages_wait_for_the_file() {
    let options = options("wait_local_file = true");
    let replies = |last: &'static [u8]| [b"$3\r\n1-0\r\n", last];
    assert_eq!(outcomes(&mut with(1, true), &options, &replies(b"*2\r\n:1\r\n:0\r\n")).0, [0]);
    let (_, failed) = outcomes(&mut with(1, true), &options, &replies(b"*2\r\n:0\r\n:0\r\n"));
    assert!(failed[0].1.contains("append-only file"), "{failed:?}");
    let refused = b"-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.\r\n";
    assert!(outcomes(&mut with(1, true), &options, &replies(refused)).1[0].1.contains("appendonly is disabled"));
    assert_eq!(Reply::decode(b"*2\r\n:1\r\n", 100), Ok(None), "half of a reply");
}

#[test]
fn overdue_message_fails_and_its_reply_is_unmatched() {
    let mut in_flight = with(3, false);
    let late = in_flight.take_overdue(|sent| sent.bytes < 2);
    assert_eq!(late.len(), 2);
    assert_eq!(in_flight.pending, 1);
    let replies: [&[u8]; 3] = [b"$3\r\n1-0\r\n", b"$3\r\n1-1\r\n", b"$3\r\n1-2\r\n"];
    assert_eq!(outcomes(&mut in_flight, &options(""), &replies).0, [2]);
    assert_eq!(in_flight.take_unmatched(), 2);
}

#[test]
fn commands_are_those_of_the_mode() {
    for (keys, expected, arguments) in [
        ("", &b"$4\r\nXADD\r\n$1\r\nt\r\n"[..], 2),
        ("max_length = 9", b"$4\r\nXADD\r\n$1\r\nt\r\n$6\r\nMAXLEN\r\n$1\r\n~\r\n$1\r\n9\r\n", 5),
        ("max_length = 9\nexact = true", b"$4\r\nXADD\r\n$1\r\nt\r\n$6\r\nMAXLEN\r\n$1\r\n=\r\n$1\r\n9\r\n", 5),
        ("mode = 'pubsub'", b"$7\r\nPUBLISH\r\n$1\r\nt\r\n", 2),
        ("mode = 'pubsub'\nsubscribe = 'sharded'", b"$8\r\nSPUBLISH\r\n$1\r\nt\r\n", 2),
        ("mode = 'list'", b"$5\r\nLPUSH\r\n$1\r\nt\r\n", 2),
    ] {
        assert_eq!(command("t", &options(keys)), (expected.to_vec(), arguments), "{keys}");
    }
}
