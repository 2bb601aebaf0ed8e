use std::future::{pending, ready};

use futures_util::future::{Either, FutureExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::*;

fn soon(limit: Duration) -> Instant {
    Instant::now() + limit
}

fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[tokio::test]
async fn a_silent_first_address_is_passed() {
    let silent = silent::at("127.0.0.2:0").await;
    let answering = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addresses = [silent.address, answering.local_addr().unwrap()];
    let began = Instant::now();
    let connected = first_of(&addresses, soon(LIMIT)).await.unwrap();
    assert_eq!(connected.stream.peer_addr().unwrap(), addresses[1]);
    assert!(began.elapsed() >= HEAD_START, "the first address had its time");
    let [passed] = &connected.passed[..] else { panic!("{:?}", connected.passed) };
    assert_eq!(passed.address, silent.address);
    assert!(passed.reason.starts_with("no answer within"), "{passed}");
}

#[tokio::test]
async fn an_address_that_refuses_costs_no_time() {
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let answering = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr();
    let kept = TcpListener::bind("127.0.0.3:0").await.unwrap();
    let began = Instant::now();
    let all = [refusing, answering.unwrap(), kept.local_addr().unwrap()];
    let connected = first_of(&all, soon(LIMIT)).await.unwrap();
    assert!(began.elapsed() < HEAD_START);
    assert!(connected.passed[0].reason.contains("refused"), "{:?}", connected.passed);
}

#[tokio::test]
async fn an_error_names_every_address_that_was_tried() {
    let silent = silent::at("127.0.0.2:0").await;
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let addresses = [silent.address, refusing];
    let attempts = first_of(&addresses, soon(HEAD_START * 2)).await.unwrap_err();
    let error = Unreachable::Name { attempts }.to_string();
    assert!(error.contains(&format!("{refusing}: ")) && error.contains("refused"), "{error}");
    assert!(error.contains(&format!("{}: no answer within", silent.address)), "{error}");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_named() {
    let error = connect("nowhere.invalid:9092").await.unwrap_err().to_string();
    assert!(error.contains("\"nowhere.invalid\" does not resolve"), "{error}");
}

#[test]
fn families_are_tried_in_turn_and_each_address_once() {
    let sorted = addresses(&["[::1]:1", "[::2]:1", "[::1]:1", "127.0.0.1:1", "127.0.0.2:1"]);
    let expected = addresses(&["[::1]:1", "127.0.0.1:1", "[::2]:1", "127.0.0.2:1"]);
    assert_eq!(interleaved(&sorted), expected);
    assert_eq!(interleaved(&addresses(&["127.0.0.1:1", "[::1]:1"])), addresses(&["127.0.0.1:1", "[::1]:1"]));
}

#[tokio::test]
async fn a_silent_attempt_does_not_hold_up_the_next() {
    let attempts = vec![Either::Left(pending()), Either::Right(ready(Ok::<_, ()>(7)))];
    assert_eq!(in_turn(attempts, Duration::from_millis(1)).await, Ok((7, vec![])));
}

#[tokio::test]
async fn a_failed_attempt_makes_room_for_the_next_at_once() {
    let attempts = [Err("one"), Err("two"), Ok(3)].map(ready).into();
    let ended = in_turn(attempts, Duration::from_secs(3600)).now_or_never();
    assert_eq!(ended, Some(Ok((3, vec!["one", "two"]))));
}

#[tokio::test]
async fn every_error_is_returned_when_all_fail() {
    let (end, ended) = oneshot::channel();
    let late = ended.map(|_: Result<(), _>| Err::<(), _>("late"));
    let early = ready(Err("early")).inspect(move |_| end.send(()).unwrap());
    let attempts = vec![Either::Left(late), Either::Right(early)];
    assert_eq!(in_turn(attempts, Duration::from_millis(1)).await, Err(vec!["early", "late"]));
}

#[tokio::test]
async fn connections_come_from_the_source_that_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let from = |source: &str| connecting_from(source.parse().unwrap(), connect(&address));
    let (_connected, accepted) = tokio::join!(from("127.0.0.9"), listener.accept());
    assert_eq!(accepted.unwrap().1.ip().to_string(), "127.0.0.9");
    let error = from("192.0.2.1").await.unwrap_err().to_string();
    assert!(error.contains("from 192.0.2.1"), "{error}");
}
