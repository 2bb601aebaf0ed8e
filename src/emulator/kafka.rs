//! librdkafka's mock cluster: a Kafka endpoint inside this process, for the quick start and for tests.
//!
//! It speaks the real protocol over loopback, but it is not a broker: it keeps at most 5 MiB of each partition in memory, and
//! works in one thread. Its figures do not describe Kafka, and every record of it is marked so.

use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer};

/// Brokers of the mock cluster, so that topics may have three replicas.
const BROKERS: &str = "3";

/// A running mock cluster; it ends when it is dropped.
pub struct EmbeddedKafka {
    /// The client to which the cluster belongs.
    client: BaseProducer,
}

impl EmbeddedKafka {
    /// # Errors
    /// When loopback ports cannot be opened.
    pub fn start() -> Result<Self, String> {
        let client: BaseProducer = ClientConfig::new()
            .set("test.mock.num.brokers", BROKERS)
            .create()
            .map_err(|error| format!("the embedded cluster does not start: {error}"))?;
        Ok(EmbeddedKafka { client })
    }

    fn cluster(&self) -> MockCluster<'_, DefaultProducerContext> {
        self.client.client().mock_cluster().expect("the client was made with a cluster")
    }

    /// Creates a topic. The cluster does not support the request for it.
    ///
    /// # Errors
    /// librdkafka's error, as for a replication factor above the number of brokers.
    pub fn create_topic(&self, name: &str, partitions: u32, replication: u32) -> Result<(), String> {
        self.cluster().create_topic(name, partitions as i32, replication as i32).map_err(|error| error.to_string())
    }

    /// `host:port` of its brokers, separated by commas.
    pub fn address(&self) -> String {
        self.cluster().bootstrap_servers()
    }
}
