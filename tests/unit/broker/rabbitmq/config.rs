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
        ("prefetch = 4\nacknowledge = 'automatic'", "no effect"),
        ("heartbeat = '1500ms'", "whole seconds"),
        ("message_ttl = '500us'", "whole milliseconds"),
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
    let expected = [
        ("x-queue-type", Value::Text("classic")),
        ("x-max-priority", Value::Number(5)),
        ("x-message-ttl", Value::Number(2000)),
        ("x-max-length", Value::Number(7)),
        ("x-max-length-bytes", Value::Number(1000)),
        ("x-overflow", Value::Text("reject-publish")),
        ("x-dead-letter-exchange", Value::Text("")),
        ("x-dead-letter-routing-key", Value::Text("dead")),
        ("x-single-active-consumer", Value::True),
    ];
    assert_eq!(all.queue_arguments(1), expected);
    let quorum = [
        ("x-queue-type", Value::Text("quorum")),
        ("x-quorum-initial-group-size", Value::Number(3)),
        ("x-delivery-limit", Value::Number(3)),
    ];
    assert_eq!(options("priority = 5\ndelivery_limit = 3").queue_arguments(3), quorum);
}

#[test]
fn several_groups_get_a_fanout_exchange() {
    assert_eq!(options("").exchange(1), None);
    assert_eq!(options("").exchange(2), Some(Exchange::Fanout));
    assert_eq!(options("exchange = 'topic'").exchange(1), Some(Exchange::Topic));
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
