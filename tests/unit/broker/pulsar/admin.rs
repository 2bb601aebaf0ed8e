use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::thread;

use super::*;
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
    let token = Token::read(Secret::Inline("good".to_owned())).unwrap();
    let admin = Admin::new(&[entrance], Some(Arc::new(token)), None, Duration::from_secs(10));
    let name = TopicName::new("a/b", "c", true);
    assert_eq!(admin.create(&name, 1).await, Ok((0, true)));
    let expected = vec![("PUT /admin/v2/persistent/a/b/c HTTP/1.1".to_owned(), true)];
    assert_eq!(at_entrance.join().unwrap(), expected);
    assert_eq!(at_owner.join().unwrap(), expected);
}

/// The redirect leads to another host, which the cluster has or has not among its brokers.
#[tokio::test]
async fn a_token_goes_to_no_host_that_the_cluster_does_not_name() {
    for is_named in [true, false] {
        let (owner, at_owner) = answering(if is_named { vec!["204 No Content".to_owned()] } else { Vec::new() });
        let owner = owner.replace("127.0.0.1", "localhost");
        let brokers = if is_named { "[\"other:8080\",\"localhost:8080\"]" } else { "[\"other:8080\"]" };
        let (entrance, at_entrance) = answering(vec![
            format!("307 Temporary Redirect\r\nLocation: {owner}/admin/v2/persistent/a/b/c"),
            format!("200 OK\r\n\r\n{brokers}"),
        ]);
        let token = Token::read(Secret::Inline("good".to_owned())).unwrap();
        let admin = Admin::new(&[entrance], Some(Arc::new(token)), None, Duration::from_secs(10));
        let created = admin.create(&TopicName::new("a/b", "c", true), 1).await;
        assert_eq!(at_entrance.join().unwrap()[1], ("GET /admin/v2/brokers HTTP/1.1".to_owned(), true));
        let asked: Vec<bool> = at_owner.join().unwrap().into_iter().map(|(_, has_token)| has_token).collect();
        if is_named {
            assert_eq!((created, asked), (Ok((0, true)), vec![true]));
        } else {
            let error = created.unwrap_err().to_string();
            assert!(error.contains(&format!("redirects to {owner}")) && error.contains("token"), "{error}");
        }
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

#[test]
fn the_quorum_of_acknowledgements_is_the_number_of_copies() {
    let text = r#"{"bookkeeperEnsemble":3,"bookkeeperWriteQuorum":3,"bookkeeperAckQuorum":2,"managedLedgerMaxMarkDeleteRate":0.0}"#;
    let found = durability(serde_json::from_str(text).ok());
    assert_eq!((found.copies, found.settings["write-quorum"].as_str()), (Some(2), "3"));
    assert_eq!(durability(None), Durability::default());
}

/// What a topic's statistics and policies show of the subscription `slow`.
fn removal(backlog: u64, expired: u64, time_to_live: Option<i64>, quotas: &str) -> Option<Removal> {
    let subscription = format!(r#"{{"msgOutCounter":600,"msgBacklog":{backlog},"totalMsgExpired":{expired}}}"#);
    let stats = format!(r#"{{"msgInCounter":1000,"subscriptions":{{"slow":{subscription}}}}}"#);
    let stats: TopicStats = serde_json::from_str(&stats).unwrap();
    let quotas: BTreeMap<String, BacklogQuota> = serde_json::from_str(quotas).unwrap();
    stats.removal(time_to_live, quotas.into_values(), &["slow".to_owned(), "other".to_owned()])
}

#[test]
fn expired_and_evicted_messages_are_told_with_their_policy() {
    let undelivered = |counts: [u64; 2]| RemovalExtent::Undelivered(counts.to_vec());
    let expired = removal(0, 40, Some(5), "{}").unwrap();
    assert_eq!(expired.rules, [RemovalRule::new(RemovalCause::TimeToLive, "message_ttl_in_seconds", "5")]);
    assert_eq!(expired.extent, undelivered([400, 0]));
    let quota = r#"{"destination_storage":{"limit":-1,"limitSize":10485760,"limitTime":-1,"policy":"consumer_backlog_eviction"}}"#;
    let evicted = removal(0, 0, Some(5), quota).unwrap();
    assert_eq!(evicted.rules, [RemovalRule::new(RemovalCause::Eviction, "consumer_backlog_eviction", "10485760 B")]);
    assert_eq!(removal(3, 40, Some(5), "{}").unwrap().extent, undelivered([0, 0]), "some may still be delivered");
}

#[test]
fn rule_that_removed_nothing_is_not_blamed() {
    assert_eq!(removal(0, 0, Some(5), "{}"), None, "nothing has expired");
    assert_eq!(removal(0, 40, None, "{}"), None);
    let holding = r#"{"destination_storage":{"limitSize":10,"limitTime":-1,"policy":"producer_request_hold"}}"#;
    assert_eq!(removal(0, 0, None, holding), None);
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

#[test]
fn publish_rate_of_a_namespace_is_told_in_words() {
    let told = |rates: &str| {
        let policies: Policies = serde_json::from_str(&format!("{{\"publishMaxMessageRate\":{rates}}}")).unwrap();
        policies.publish_max_message_rate.values().find_map(PublishRate::told)
    };
    let rate = |messages, bytes| {
        told(&format!(
            r#"{{"standalone":{{"publishThrottlingRateInMsg":{messages},"publishThrottlingRateInByte":{bytes}}}}}"#
        ))
    };
    assert_eq!(rate(100, -1).as_deref(), Some("100 messages/s"));
    assert_eq!(rate(100, 5000).as_deref(), Some("100 messages/s and 5000 bytes/s"));
    assert_eq!((rate(0, 0), told("{}")), (None, None));
}
