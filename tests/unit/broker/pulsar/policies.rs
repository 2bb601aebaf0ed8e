use super::*;

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
    let stats =
        format!(r#"{{"msgInCounter":1000,"bytesInCounter":10485760,"subscriptions":{{"slow":{subscription}}}}}"#);
    let stats: TopicStats = serde_json::from_str(&stats).unwrap();
    let quotas: BTreeMap<String, BacklogQuota> = serde_json::from_str(quotas).unwrap();
    stats.removal(time_to_live, quotas.into_values(), &["slow".to_owned(), "other".to_owned()])
}

#[test]
fn expired_and_evicted_messages_are_told_with_their_policy() {
    let undelivered = |some_are_left| {
        RemovalExtent::Undelivered(vec![Undelivered { messages: 400, some_are_left }, Undelivered::default()])
    };
    let expired = removal(0, 40, Some(5), "{}").unwrap();
    assert_eq!(expired.rules, [RemovalRule::new(RemovalCause::TimeToLive, "message_ttl_in_seconds", "5")]);
    assert_eq!(expired.extent, undelivered(false));
    let quota = r#"{"destination_storage":{"limit":-1,"limitSize":10485760,"limitTime":-1,"policy":"consumer_backlog_eviction"}}"#;
    let evicted = removal(0, 0, Some(5), quota).unwrap();
    assert_eq!(evicted.rules, [RemovalRule::new(RemovalCause::Eviction, "consumer_backlog_eviction", "10485760 B")]);
    assert_eq!(removal(3, 40, Some(5), "{}").unwrap().extent, undelivered(true), "some may still be delivered");
}

#[test]
fn rule_that_removed_nothing_is_not_blamed() {
    assert_eq!(removal(0, 0, Some(5), "{}"), None, "nothing has expired");
    assert_eq!(removal(0, 40, None, "{}"), None);
    let large = r#"{"destination_storage":{"limitSize":10485761,"limitTime":-1,"policy":"consumer_backlog_eviction"}}"#;
    assert_eq!(removal(0, 0, None, large), None, "less was published than the quota allows");
    let holding = r#"{"destination_storage":{"limitSize":10,"limitTime":-1,"policy":"producer_request_hold"}}"#;
    assert_eq!(removal(0, 0, None, holding), None);
}

#[test]
fn publish_rate_of_a_namespace_is_told_in_words() {
    let told = |rates: &str| {
        let policies: Policies = serde_json::from_str(&format!("{{\"publishMaxMessageRate\":{rates}}}")).unwrap();
        policies.publish_rate()
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
