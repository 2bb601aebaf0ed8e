use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use super::*;
use crate::net::token::TokenSource;
use crate::secrets::Secret;

/// Answers requests one by one, and returns the first line and the authorization of each.
fn answering(answers: Vec<String>) -> (String, thread::JoinHandle<Vec<(String, bool)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = thread::spawn(move || {
        answers
            .into_iter()
            .map(|answer| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                let head: Vec<_> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                let (answer, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
                let length = body.len();
                write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
                    .unwrap();
                (first, head.iter().any(|line| line.eq_ignore_ascii_case("authorization: bearer good")))
            })
            .collect()
    });
    (url, serving)
}

#[tokio::test]
async fn next_broker_gets_the_same_request_and_token() {
    let (owner, at_owner) = answering(vec!["204 No Content".to_owned()]);
    let (entrance, at_entrance) =
        answering(vec![format!("307 Temporary Redirect\r\nLocation: {owner}/admin/v2/persistent/a/b/c")]);
    let token = Token::new(TokenSource::Secret(Secret::Inline("good".to_owned())), Duration::from_secs(5)).unwrap();
    let admin = Admin::new(&[entrance], Some(Arc::new(token)), None, Duration::from_secs(10));
    let name = TopicName::new("a/b", "c", true);
    assert_eq!(admin.create(&name, 1).await, Ok((0, true)));
    let expected = vec![("PUT /admin/v2/persistent/a/b/c HTTP/1.1".to_owned(), true)];
    assert_eq!(at_entrance.join().unwrap(), expected);
    assert_eq!(at_owner.join().unwrap(), expected);
}

/// The redirect leads to another host, which the cluster names or not. A token may be allowed to look a topic up, and not to list brokers.
#[tokio::test]
async fn a_token_goes_to_no_host_that_the_cluster_does_not_name() {
    const DENIED: &str = "403 Forbidden";
    let own = r#"{"brokerUrl":"pulsar://localhost:6650","httpUrl":"http://localhost:8080"}"#;
    for (brokers, lookup, is_named) in [
        ("200 OK\r\n\r\n[\"other:8080\",\"localhost:8080\"]", None, true),
        ("200 OK\r\n\r\n[\"other:8080\"]", None, false),
        (DENIED, Some(format!("200 OK\r\n\r\n{own}")), true),
        (DENIED, Some(format!("200 OK\r\n\r\n{}", own.replace("localhost", "other"))), false),
        (DENIED, Some(DENIED.to_owned()), false),
    ] {
        let (owner, at_owner) = answering(if is_named { vec!["204 No Content".to_owned()] } else { Vec::new() });
        let owner = owner.replace("127.0.0.1", "localhost");
        let redirect = format!("307 Temporary Redirect\r\nLocation: {owner}/admin/v2/persistent/a/b/c");
        let is_looked_up = lookup.is_some();
        let answers = [redirect, brokers.to_owned()].into_iter().chain(lookup).collect();
        let (entrance, at_entrance) = answering(answers);
        let token = Token::new(TokenSource::Secret(Secret::Inline("good".to_owned())), Duration::from_secs(5)).unwrap();
        let admin = Admin::new(&[entrance], Some(Arc::new(token)), None, Duration::from_secs(10));
        let created = admin.create(&TopicName::new("a/b", "c", true), 1).await;
        let asked = at_entrance.join().unwrap();
        assert_eq!(asked[1], ("GET /admin/v2/brokers HTTP/1.1".to_owned(), true));
        let of_topic = ("GET /lookup/v2/topic/persistent/a/b/c HTTP/1.1".to_owned(), true);
        assert_eq!(asked.get(2), is_looked_up.then_some(&of_topic));
        let asked: Vec<bool> = at_owner.join().unwrap().into_iter().map(|(_, has_token)| has_token).collect();
        if is_named {
            assert_eq!((created, asked), (Ok((0, true)), vec![true]));
        } else {
            let error = created.unwrap_err().to_string();
            assert!(error.contains(&format!("redirects to {owner}")) && error.contains("token"), "{error}");
            assert_eq!(error.contains("may not list brokers"), is_looked_up, "{error}");
        }
    }
}

#[tokio::test]
async fn a_right_that_lacks_is_no_login_that_is_wrong() {
    for (status, is_login) in [("401 Unauthorized", true), ("403 Forbidden", false)] {
        let (url, _) = answering(vec![format!("{status}\r\n\r\n{{\"reason\":\"of c\"}}")]);
        let admin = Admin::new(&[url], None, None, Duration::from_secs(10));
        let error = admin.create(&TopicName::new("a/b", "c", true), 1).await.unwrap_err();
        assert!(error.to_string().ends_with("of c"), "{error}");
        assert_eq!(matches!(error, BrokerError::Authorisation { .. }), is_login, "{error:?}");
    }
}

#[test]
fn partitions_have_names_of_their_own() {
    let topic = TopicName::new("public/default", "orders", true);
    assert_eq!(topic.parts(0), [Arc::<str>::from("persistent://public/default/orders")]);
    assert_eq!(&*topic.parts(2)[1], "persistent://public/default/orders-partition-1");
    assert_eq!(topic.admin_path(), "persistent/public/default/orders");
    let passing = TopicName::new("public/default", "orders", false);
    assert_eq!(passing.parts(0), [Arc::<str>::from("non-persistent://public/default/orders")]);
    assert_eq!(passing.admin_path(), "non-persistent/public/default/orders");
}

#[tokio::test]
async fn interface_that_is_gone_is_tried_once() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (there, asked) = answering(vec!["204 No Content".to_owned(), "204 No Content".to_owned()]);
    let admin = Admin::new(&[format!("http://{gone}"), there], None, None, Duration::from_secs(10));
    let name = TopicName::new("a/b", "c", true);
    assert_eq!(admin.create(&name, 1).await, Ok((0, true)));
    assert_eq!(admin.entrance.load(Ordering::Relaxed), 1, "the next question goes to the one that answered");
    assert_eq!(admin.delete(&name, false).await, Ok(()));
    assert_eq!(asked.join().unwrap().len(), 2);
    let error = Admin::new(&[format!("http://{gone}")], None, None, Duration::from_secs(10)).create(&name, 1).await;
    assert!(error.unwrap_err().to_string().contains(&format!("http://{gone} (`broker.pulsar.admin`)")));
}
