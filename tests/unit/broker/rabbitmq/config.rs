use super::*;

fn options(text: &str) -> RabbitmqOptions {
    toml::from_str(text).unwrap()
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for (text, word) in [
        ("queue = 'classic'\ndelivery_limit = 3", "quorum"),
        ("length_limit = 3\noverflow = 'reject-publish-dlx'", "classic"),
        ("overflow = 'drop-head'", "length_limit"),
        ("dead_letter_routing_key = 'a'", "dead_letter_exchange"),
        ("confirms = false\nmandatory = true", "confirms"),
        ("acknowledge = 'automatic'\nrequeue = 0.1", "acknowledge"),
        ("acknowledge = 'each'\nacknowledge_every = 5", "multiple"),
        ("prefetch = 4\nacknowledge_every = 5", "prefetch"),
    ] {
        let refusal = options(text).check().unwrap_err();
        assert!(refusal.contains(word), "{text}: {refusal}");
    }
    assert_eq!(RabbitmqOptions::default().check(), Ok(()));
}

#[test]
fn options_out_of_range_are_refused() {
    for text in ["heartbeat = '10ms'", "heartbeat = '20h'", "requeue = 1.5", "prefetch = 0", "priority = 0"] {
        assert!(toml::from_str::<RabbitmqOptions>(text).is_err(), "{text}");
    }
}

#[test]
fn queue_arguments_hold_every_option() {
    let all = options(
        "queue = 'classic'\npriority = 5\nmessage_ttl = '2s'\nlength_limit = 7\nlength_limit_bytes = '1KB'\n\
         overflow = 'reject-publish'\ndead_letter_exchange = ''\ndead_letter_routing_key = 'dead'\n\
         single_active_consumer = true",
    );
    let arguments = all.queue_arguments(1);
    for (name, value) in [
        ("x-queue-type", text("classic")),
        ("x-max-priority", number(5)),
        ("x-message-ttl", number(2000)),
        ("x-max-length", number(7)),
        ("x-max-length-bytes", number(1000)),
        ("x-overflow", text("reject-publish")),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text("dead")),
        ("x-single-active-consumer", AMQPValue::Boolean(true)),
    ] {
        assert_eq!(arguments.inner().get(name), Some(&value), "{name}");
    }
    let quorum = options("priority = 5\ndelivery_limit = 3").queue_arguments(3);
    assert_eq!(quorum.inner().len(), 3, "{quorum:?}");
    assert_eq!(quorum.inner().get("x-quorum-initial-group-size"), Some(&number(3)));
    assert_eq!(quorum.inner().get("x-delivery-limit"), Some(&number(3)));
}

#[test]
fn several_groups_get_a_fanout_exchange() {
    assert_eq!(options("").exchange_kind(1), None);
    assert_eq!(options("").exchange_kind(2), Some(ExchangeKind::Fanout));
    assert_eq!(options("exchange = 'topic'").exchange_kind(1), Some(ExchangeKind::Topic));
}

#[test]
fn removal_rules_of_queues_that_remove() {
    let rules = |text| options(text).removal_rules().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(rules("length_limit = 7\noverflow = 'reject-publish'\ndead_letter_exchange = ''"), [""; 0]);
    let all = rules("message_ttl = '2s'\nlength_limit = 7\nlength_limit_bytes = '1KB'\ndelivery_limit = 3");
    let expected = [
        "time to live (x-message-ttl = 2000 ms)",
        "retention (x-max-length = 7)",
        "retention (x-max-length-bytes = 1000)",
        "delivery limit (x-delivery-limit = 3)",
    ];
    assert_eq!(all, expected);
}
