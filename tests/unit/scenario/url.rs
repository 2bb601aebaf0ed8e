use super::*;

#[test]
fn a_password_of_any_characters_is_read_and_not_shown() {
    for character in (' '..='~').filter(|character| *character != '%') {
        let password = format!("zebra{character}giraffe");
        let read = parse_url(&format!("kafka://me:{password}@h:1/o"), crate::engine::kinds(), true).unwrap();
        let text: toml::Table = read.text.parse().unwrap();
        assert_eq!(text["broker"]["security"]["sasl"]["password"].as_str(), Some(password.as_str()));
        assert_eq!(text["broker"]["addresses"].as_array().unwrap()[0].as_str(), Some("h:1"));
        assert_eq!(read.origin.name(), "kafka://***@h:1/o");
    }
}

#[test]
fn hosts_are_read_as_people_write_them() {
    let refused = |url: &str| parse_url(url, crate::engine::kinds(), true).unwrap_err().to_string();
    let read = parse_url("kafka://a:1, b/my%20orders", crate::engine::kinds(), true).unwrap();
    assert!(read.text.contains(r#"addresses = ["a:1", "b:9092"]"#), "{}", read.text);
    assert!(read.text.contains("name = \"my orders\""), "{}", read.text);
    let read = parse_url("kafka://me:hunter2@a:1, kafka://b:2,kafka://c/orders", crate::engine::kinds(), true).unwrap();
    assert!(read.text.contains(r#"addresses = ["a:1", "b:2", "c:9092"]"#), "{}", read.text);
    let twice = refused("kafka://me:hunter2@a:1,kafka://me:hunter2@b:2");
    assert!(twice.contains("name the user once") && !twice.contains("hunter2"), "{twice}");
    assert!(refused("SASL_SSL://h:9093").contains("kafka+tls://USER:PASSWORD@HOST:9093"));
    assert!(refused("PLAINTEXT://h:9093").contains("kafka://HOST:9092"));
    let doubled = refused("sls://https://cn-hangzhou.log.aliyuncs.com/store");
    assert!(doubled.contains("`sls+tls://cn-hangzhou.log.aliyuncs.com`"), "{doubled}");
    assert!(refused("nsq://http://h:4150").contains("`nsq://h:4150`"));
    assert!(!refused("kafka://me:hunter2/a/b").contains("hunter2"));
    // Whether this is a password or a query cannot be told.
    assert!(
        refused("kafka://me:1/hunter2@h:1").contains("%2F") && !refused("kafka://me:1/hunter2@h:1").contains("hunter2")
    );
}

#[test]
fn a_url_that_says_a_key_twice_is_refused() {
    let read = |url: &str| parse_url(url, crate::engine::kinds(), true).map_err(|error| error.to_string());
    for (url, part) in [
        ("kafka://h?acks=1&acks=all", "`?acks=1` and `?acks=all` set the same key"),
        ("kafka://h?linger=1ms&broker.kafka.linger=2ms", "set the same key"),
        ("kafka://h?linger=1ms&broker.kafka={}", "set the same key"),
        ("kafka://h?broker.kind=pulsar", "`?broker.kind=pulsar` sets `broker.kind`, which the URL itself says"),
        ("kafka://h?broker.address=other:1", "sets `broker.address`"),
        ("kafka://h?broker.addresses=[\"other:1\"]", "sets `broker.addresses`"),
        ("kafka+tls://h?broker.security.tls=false", "sets `broker.security.tls`"),
        ("kafka+tls://h?broker.security={}", "sets `broker.security`"),
        ("kafka://h/orders?topology.name=other", "sets `topology.name`"),
        ("kafka://me:hunter2@h?broker.security.sasl.username=you", "sets `broker.security.sasl.username`"),
        ("kafka://me:hunter2@h?broker.security.sasl.password=zebra", "sets `broker.security.sasl.password`"),
    ] {
        let error = read(url).unwrap_err();
        assert!(error.contains(part) && !error.contains("hunter2") && !error.contains("zebra"), "{url}: {error}");
    }
    for url in [
        "kafka+tls://h?broker.security.tls.ca=a.pem",
        "kafka+tls://h?broker.security.tls={}",
        "kafka://me@h?broker.security.sasl.password=zebra",
        "kafka://me:hunter2@h?broker.security.sasl.mechanism=SCRAM-SHA-256",
        "kafka://h?topology.name=orders&topology.topics=2",
        "sls://?broker.address=embedded",
    ] {
        assert!(!read(url).is_err_and(|error| error.contains("sets")), "{url}: {:?}", read(url));
    }
}

#[test]
fn a_url_is_shown_without_its_user_and_without_secrets() {
    for (url, shown) in [
        ("kafka://a:1,b:2/orders?acks=all", "kafka://a:1,b:2/orders?acks=all"),
        ("kafka://me:hunter2@a:1", "kafka://***@a:1"),
        ("kafka://me:hun/ter@2@a:1/orders", "kafka://***@a:1/orders"),
        ("pulsar://a?token=hunter2&linger=1ms", "pulsar://a?token=***&linger=1ms"),
        ("kafka://me:hunter2/orders", "kafka://***"),
        ("null://", "null://"),
    ] {
        assert_eq!(masked(url), shown);
    }
}

#[test]
#[cfg(feature = "rabbitmq")]
fn amqp_urls_name_tls_and_a_virtual_host() {
    let read = |url: &str| {
        let scenario = parse_url(url, crate::engine::kinds(), true).unwrap_or_else(|error| panic!("{error}"));
        scenario.text.parse::<toml::Table>().unwrap()
    };
    for (url, address, host, topic) in [
        ("amqp://h/orders", "h:5672", None, Some("orders")),
        ("rabbitmq://h/%2F/orders", "h:5672", Some("/"), Some("orders")),
        ("amqp://h/eu%2Fshop/orders", "h:5672", Some("eu/shop"), Some("orders")),
        ("amqps://me:secret@h/shop/orders", "h:5671", Some("shop"), Some("orders")),
        ("amqp://h/%2f", "h:5672", Some("/"), None),
        ("amqps://h:1", "h:1", None, None),
    ] {
        let table = read(url);
        let broker = &table["broker"];
        assert_eq!(broker["kind"].as_str(), Some("rabbitmq"), "{url}");
        assert_eq!(broker["addresses"][0].as_str(), Some(address), "{url}");
        let own = broker.get("rabbitmq").map(|own| own["virtual_host"].as_str().unwrap());
        assert_eq!(own, host, "{url}");
        assert_eq!(table.get("topology").map(|topology| topology["name"].as_str().unwrap()), topic, "{url}");
        assert_eq!(
            broker.get("security").is_some_and(|security| security.get("tls").is_some()),
            url.starts_with("amqps")
        );
    }
    let twice =
        parse_url("amqp://h/shop/orders?virtual_host=other", crate::engine::kinds(), true).unwrap_err().to_string();
    assert!(twice.contains("virtual_host"), "{twice}");
    let deeper = parse_url("amqp://h/a/b/c", crate::engine::kinds(), true).unwrap_err().to_string();
    assert!(deeper.contains("cannot name a topic"), "{deeper}");
}

#[test]
#[cfg(feature = "nats")]
fn url_of_nats_with_tls_read_as_its_users_write_it() {
    for (url, has_tls) in [("nats://a,b:4333", false), ("tls://a,b:4333", true), ("nats+tls://a,b:4333", true)] {
        let scenario = parse_url(url, crate::engine::kinds(), true).unwrap_or_else(|error| panic!("{error}"));
        let expected = if has_tls { "\nsecurity.tls = true" } else { "" };
        let expected = format!("kind = \"nats\"\naddresses = [\"a:4222\", \"b:4333\"]{expected}");
        let scenario: toml::Table = scenario.text.parse().unwrap();
        assert_eq!(scenario["broker"].as_table(), Some(&expected.parse().unwrap()), "{url}");
    }
}
