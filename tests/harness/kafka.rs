//! Real Kafka servers: the one that `scripts/test` starts, and further ones for tests that kill them.

use super::server::{Server, variable};

/// `host:port` of the server that `scripts/test` starts.
pub fn address() -> String {
    variable("BROKERMARK_KAFKA")
}

/// The login of the secured listeners' user, whose password this variable has.
pub fn sasl(mechanism: &str, password: &str) -> String {
    let user = variable("BROKERMARK_KAFKA_USER");
    format!(
        "[broker.security.sasl]\nmechanism = \"{mechanism}\"\nusername = \"{user}\"\npassword = {{ env = \"{password}\" }}\n"
    )
}

/// The authority of the listeners with TLS.
pub fn tls() -> String {
    format!("[broker.security.tls]\nca = \"{}\"\n", variable("BROKERMARK_KAFKA_CA"))
}

/// The topics there are, without Kafka's own.
#[cfg(feature = "kafka")]
pub fn topics(address: &str) -> std::collections::BTreeSet<String> {
    use rdkafka::consumer::{BaseConsumer, Consumer};

    let client: BaseConsumer = rdkafka::ClientConfig::new().set("bootstrap.servers", address).create().unwrap();
    let metadata = client.fetch_metadata(None, super::PATIENCE).unwrap();
    let names = metadata.topics().iter().map(|topic| topic.name().to_owned());
    names.filter(|name| !name.starts_with("__")).collect()
}

/// Messages that a topic holds, as the server itself counts them.
#[cfg(feature = "kafka")]
pub fn messages(address: &str, topic: &str) -> u64 {
    use rdkafka::consumer::{BaseConsumer, Consumer};

    let client: BaseConsumer = rdkafka::ClientConfig::new().set("bootstrap.servers", address).create().unwrap();
    let metadata = client.fetch_metadata(Some(topic), super::PATIENCE).unwrap();
    let partitions = metadata.topics()[0].partitions().iter();
    let held = partitions.map(|partition| {
        let (low, high) = client.fetch_watermarks(topic, partition.id(), super::PATIENCE).unwrap();
        (high - low) as u64
    });
    held.sum()
}

/// The node that leads the first partition of a topic, and how many nodes have all of its messages.
#[cfg(feature = "kafka")]
pub fn leader(address: &str, topic: &str) -> Option<(usize, usize)> {
    use rdkafka::consumer::{BaseConsumer, Consumer};

    let client: BaseConsumer = rdkafka::ClientConfig::new().set("bootstrap.servers", address).create().unwrap();
    let metadata = client.fetch_metadata(Some(topic), super::PATIENCE).ok()?;
    let partition = metadata.topics().first()?.partitions().first()?;
    Some((usize::try_from(partition.leader()).ok()?, partition.isr().len()))
}

/// The nodes that have a copy of the first partition of a topic.
#[cfg(all(feature = "kafka", feature = "kafka-native"))]
pub fn replicas(address: &str, topic: &str) -> Vec<usize> {
    use rdkafka::consumer::{BaseConsumer, Consumer};

    let client: BaseConsumer = rdkafka::ClientConfig::new().set("bootstrap.servers", address).create().unwrap();
    let metadata = client.fetch_metadata(Some(topic), super::PATIENCE).unwrap();
    metadata.topics()[0].partitions()[0].replicas().iter().map(|node| *node as usize).collect()
}

/// Makes a topic, as somebody else would.
#[cfg(feature = "kafka")]
pub fn make_topic(address: &str, name: &str, partitions: i32) {
    use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};

    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let made = administrate(address, async |client| client.create_topics([&topic], &AdminOptions::new()).await);
    made.unwrap()[0].as_ref().unwrap();
    super::eventually("the new topic is known", || topics(address).contains(name));
}

/// Up to where a group has committed, and where the partition ends, for each partition of a topic.
#[cfg(feature = "kafka")]
pub fn committed(address: &str, group: &str, topic: &str, partitions: i32) -> Vec<(u64, u64)> {
    use rdkafka::consumer::{BaseConsumer, Consumer};
    use rdkafka::{Offset, TopicPartitionList};

    let mut config = rdkafka::ClientConfig::new();
    let client: BaseConsumer = config.set("bootstrap.servers", address).set("group.id", group).create().unwrap();
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition(topic, partition);
    }
    let committed = client.committed_offsets(list, super::PATIENCE).unwrap();
    let each = committed.elements().into_iter().map(|element| {
        let (_, end) = client.fetch_watermarks(topic, element.partition(), super::PATIENCE).unwrap();
        let done = match element.offset() {
            Offset::Offset(offset) => offset as u64,
            _ => 0,
        };
        (done, end as u64)
    });
    each.collect()
}

/// A setting of a topic, as the server has it.
#[cfg(feature = "kafka")]
pub fn topic_setting(address: &str, topic: &str, key: &str) -> String {
    use rdkafka::admin::{AdminOptions, ResourceSpecifier};

    let described = administrate(address, async |client| {
        client.describe_configs([&ResourceSpecifier::Topic(topic)], &AdminOptions::new()).await
    });
    let resource = described.unwrap().remove(0).unwrap();
    resource.get(key).and_then(|entry| entry.value.clone()).unwrap()
}

#[cfg(feature = "kafka")]
pub fn remove_topic(address: &str, name: &str) {
    use rdkafka::admin::AdminOptions;

    let removed = administrate(address, async |client| client.delete_topics(&[name], &AdminOptions::new()).await);
    removed.unwrap()[0].as_ref().unwrap();
}

#[cfg(feature = "kafka")]
fn administrate<T>(
    address: &str,
    work: impl AsyncFnOnce(rdkafka::admin::AdminClient<rdkafka::client::DefaultClientContext>) -> T,
) -> T {
    let client = rdkafka::ClientConfig::new().set("bootstrap.servers", address).create().unwrap();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work(client))
}

/// An unsigned web token, which expires so many seconds from now.
pub fn web_token(expires_in_s: i64) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    let now_s = jiff::Timestamp::now().as_second();
    let claims = format!(r#"{{"sub":"load","iat":{},"exp":{}}}"#, now_s - 7200, now_s + expires_in_s);
    format!("{}.{}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#), URL_SAFE_NO_PAD.encode(claims))
}

/// Runs a command of Kafka's own tools, by the name of its class.
pub fn tool(class: &str, arguments: &[&str]) {
    let libraries = std::path::Path::new(&variable("BROKERMARK_KAFKA_LIBS")).join("*");
    let mut command = std::process::Command::new("java");
    command.arg("-cp").arg(libraries).arg(class).args(arguments);
    super::Running::start(&mut command).finish(super::PATIENCE).expect(0);
}

/// A server of a test's own, with these lines in its configuration.
pub fn server_with(instance: &str, port: u16, properties: &str) -> Server {
    Server::start("kafka", instance, port, &[("BROKERMARK_KAFKA_PROPERTIES", properties)])
}

/// A server of a test's own, which listens on `port` and the five after it.
pub fn server(instance: &str, port: u16) -> Server {
    // A killed server may come back after 5 s instead of 9 s. With 2 s a busy machine's server is taken for dead although it is
    // not; its metadata then names no broker at all, after which librdkafka 2.12.1 sometimes connects to none any more.
    server_with(instance, port, "broker.session.timeout.ms=5000")
}
