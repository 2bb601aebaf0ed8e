use std::path::Path;

use super::*;
use crate::scenario::parse_for;

/// A scenario on a kind of broker, if this build has it.
fn scenario(kind: &str, more: &str) -> Option<Scenario> {
    let kinds = engine::kinds();
    kinds.broker(kind)?;
    let text = format!("broker.kind = \"{kind}\"\nbroker.address = \"h:1\"\nrun.messages = 1\n{more}\n");
    Some(parse_for(kinds, &text, "a.toml", &[], Path::new("")).unwrap().trials.remove(0).scenario)
}

#[test]
fn a_right_is_given_by_the_brokers_own_tool() {
    let remedy = |scenario: &Scenario, client| right(scenario, &Opened { client, error: None });
    if let Some(kafka) = scenario("kafka", "") {
        let acls = "kafka-acls.sh --bootstrap-server h:1 --add --allow-principal User:NAME";
        let prefixed = "--resource-pattern-type prefixed";
        let consumer = format!("{acls} --consumer --topic brokermark- --group brokermark- {prefixed}");
        assert_eq!(remedy(&kafka, "consumer"), consumer);
        assert_eq!(durability(&kafka), format!("{acls} --operation DescribeConfigs --topic brokermark- {prefixed}"));
        assert!(
            topics(&kafka, "TopicAuthorizationFailed").contains("--operation Create")
                && topics(&kafka, "TopicAuthorizationFailed").ends_with("--set topology.existing=true")
        );
        assert!(!topics(&kafka, "PolicyViolation").contains("kafka-acls"), "a policy is no right");
        assert!(removal(&kafka).starts_with(acls) && removal(&kafka).contains("topology.keep"));
        assert!(users(&kafka.broker, "orders").ends_with("--all-groups lists the readers of orders"));
    }
    if let Some(pulsar) = scenario("pulsar", "broker.pulsar.namespace = \"shop/eu\"") {
        assert!(
            remedy(&pulsar, "producer").ends_with("grant-permission shop/eu --role NAME --actions produce,consume")
        );
        assert_eq!(
            removal(&pulsar).split(';').next(),
            Some(
                "pulsar-admin tenants update shop --admin-roles NAME, with the roles that pulsar-admin tenants get shop lists"
            )
        );
        assert!(!topics(&pulsar, "forbidden").contains("existing"), "it does not say what its topics look like");
    }
    if let Some(rabbitmq) = scenario("rabbitmq-stream", "") {
        assert_eq!(remedy(&rabbitmq, "producer"), "rabbitmqctl set_permissions -p / NAME '.*' '.*' '.*'");
    }
    if let Some(nsq) = scenario("nsq", "") {
        assert!(users(&nsq.broker, "orders").starts_with("curl 'http://h:4151/stats?topic=orders'"));
    }
}

#[test]
fn topic_of_another_shape_is_left_alone_or_adopted() {
    let Some(kafka) = scenario("kafka", "topology.name = \"orders\"") else { return };
    let both = "--set topology.name=A-NEW-NAME; to take one that exists: --set topology.existing=true";
    assert_eq!(topics(&kafka, "it exists"), both);
    let existing = scenario("kafka", "topology = { name = \"orders\", existing = true }").unwrap();
    let create = "kafka-topics.sh --bootstrap-server h:1 --create --topic orders --partitions 4; ";
    assert!(topics(&existing, "it does not exist").starts_with(create));
    let too_many = "cannot be created: is `topology.replication` more than the brokers?";
    assert_eq!(topics(&kafka, too_many), "--set topology.replication=… with what the broker can do");
    let denied = topics(&kafka, "TopicAuthorizationFailed");
    assert!(
        denied.contains("--operation Create --operation Describe --topic orders "),
        "no other name helps: {denied}"
    );
    assert!(!topics(&existing, "TopicAuthorizationFailed").contains("kafka-topics.sh"), "it may be there");
}

#[test]
fn what_the_port_is_decides_what_helps() {
    let Some(nsq) = scenario("nsq", "") else { return };
    let helps = |reason: &str| connection(&nsq.broker, "h:1", reason);
    assert_eq!(helps(ANSWERS_LIKE_HTTP), "--set broker.address=h:4150, or where else nsq listens");
    assert_eq!(helps(SPEAKS_TLS), "--set broker.security.tls=true");
    assert!(helps("no response within 20s").contains("says nothing"));
    assert!(helps("unexpected end of file").contains("if the port wants TLS"));
}
