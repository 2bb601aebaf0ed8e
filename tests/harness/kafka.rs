//! Real Kafka servers: the one that `scripts/test` starts, and further ones for tests that kill them.

use std::path::Path;
use std::process::Command;

/// `host:port` of the server that `scripts/test` starts.
pub fn address() -> String {
    variable("BROKERMARK_KAFKA")
}

/// What `scripts/test` says of its servers. A test that needs them fails without them: it must not seem to have passed.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set, so there is no real Kafka to test against: run `scripts/test`, which starts one, or leave \
             these tests out with `cargo test -- --skip real_`"
        )
    })
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

/// Makes a topic, as somebody else would.
#[cfg(feature = "kafka")]
pub fn make_topic(address: &str, name: &str, partitions: i32) {
    use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};

    let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    let made = administrate(address, async |client| client.create_topics([&topic], &AdminOptions::new()).await);
    made.unwrap()[0].as_ref().unwrap();
    super::eventually("the new topic is known", || topics(address).contains(name));
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

/// A server of a test's own, to be killed at will.
pub struct Server {
    instance: String,
    port: u16,
}

impl Server {
    /// Starts one that listens on `port` and the four after it.
    pub fn start(instance: &str, port: u16) -> Self {
        address();
        let server = Server { instance: format!("test-{instance}"), port };
        server.control("up");
        server
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn kill(&self) {
        self.control("kill");
    }

    /// Starts it again on the same data.
    pub fn restart(&self) {
        self.control("restart");
    }

    fn control(&self, command: &str) {
        let output = self.command(command).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn command(&self, command: &str) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/brokers");
        let mut process = Command::new(script);
        process
            .args([command, "kafka"])
            .env("BROKERMARK_INSTANCE", &self.instance)
            .env("BROKERMARK_KAFKA_PORT", self.port.to_string())
            // A killed server may come back after 2 s instead of 9 s.
            .env("BROKERMARK_KAFKA_PROPERTIES", "broker.session.timeout.ms=2000");
        process
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that has failed must not fail a second time here.
        let _ = self.command("down").output();
    }
}
