//! The kinds of broker of this build. A new kind adds its line to the list below.

use serde::de::Error as _;

use super::{Broker, BrokerOptions};
use crate::scenario::{Absent, BrokerConfig, Descriptor};

/// Work that is the same for every broker, written once and compiled for each.
pub trait Visitor {
    type Output;

    fn visit<B: Broker>(self) -> Self::Output;
}

/// The options of a broker, read and checked.
///
/// # Errors
/// Serde's, for a key that does not exist or a value that cannot be; it names those that exist.
pub fn options<B: Broker>(table: toml::Table) -> Result<B::Options, toml::de::Error> {
    let options: B::Options = table.try_into()?;
    options.check().map_err(toml::de::Error::custom)?;
    Ok(options)
}

/// What the scenario language has to know of a broker.
const fn descriptor<B: Broker>() -> Descriptor {
    Descriptor { check_options: |table| options::<B>(table).map(drop), refuses: refusal::<B>, ..B::DESCRIPTOR }
}

/// Why a broker refuses a configuration. A table that cannot be read is refused for that.
fn refusal<B: Broker>(config: &BrokerConfig) -> Option<String> {
    B::refusal(config, &options::<B>(config.options.clone()).ok()?)
}

/// Makes [`descriptors`] and [`dispatch`] from one list of brokers.
macro_rules! brokers {
    ($($(#[$feature:meta])? $broker:path,)*) => {
        /// All kinds of this build, in the order in which `brokermark brokers` lists them.
        pub fn descriptors() -> &'static [Descriptor] {
            const DESCRIPTORS: &[Descriptor] = &[$($(#[$feature])? descriptor::<$broker>(),)*];
            DESCRIPTORS
        }

        /// Runs `visitor` with the broker of that kind and client; `None` if this build has none.
        pub fn dispatch<V: Visitor>(kind: &str, client: Option<&str>, visitor: V) -> Option<V::Output> {
            $(
                $(#[$feature])?
                if kind == <$broker as Broker>::DESCRIPTOR.kind && client == <$broker as Broker>::DESCRIPTOR.client {
                    return Some(visitor.visit::<$broker>());
                }
            )*
            None
        }
    };
}

brokers! {
    #[cfg(feature = "kafka-native")]
    super::kafka_native::KafkaNativeBroker,
    #[cfg(feature = "kafka")]
    super::kafka::KafkaBroker,
    #[cfg(feature = "nsq")]
    super::nsq::NsqBroker,
    #[cfg(feature = "pulsar")]
    super::pulsar::PulsarBroker,
    #[cfg(feature = "pulsar-rs")]
    super::pulsar::PulsarCrateBroker,
    #[cfg(feature = "sls")]
    super::sls::SlsBroker,
    #[cfg(feature = "rabbitmq-stream")]
    super::rabbitmq_stream::RabbitmqStreamBroker,
    super::null::NullBroker,
}

/// What this build does not have.
pub const ABSENT: &[Absent] = &[
    #[cfg(not(any(feature = "kafka", feature = "kafka-native")))]
    Absent { kind: "kafka", client: None, security: false, feature: "kafka-native" },
    #[cfg(not(feature = "kafka"))]
    Absent { kind: "kafka", client: Some("librdkafka"), security: false, feature: "kafka" },
    #[cfg(all(feature = "kafka", not(feature = "kafka-tls")))]
    Absent { kind: "kafka", client: Some("librdkafka"), security: true, feature: "kafka-tls" },
    #[cfg(not(feature = "kafka-native"))]
    Absent { kind: "kafka", client: Some("native"), security: false, feature: "kafka-native" },
    #[cfg(not(feature = "nsq"))]
    Absent { kind: "nsq", client: None, security: false, feature: "nsq" },
    #[cfg(not(feature = "pulsar"))]
    Absent { kind: "pulsar", client: None, security: false, feature: "pulsar" },
    #[cfg(not(feature = "pulsar-rs"))]
    Absent { kind: "pulsar", client: Some("pulsar-rs"), security: false, feature: "pulsar-rs" },
    #[cfg(not(feature = "rabbitmq-stream"))]
    Absent { kind: "rabbitmq-stream", client: None, security: false, feature: "rabbitmq-stream" },
    #[cfg(not(feature = "sls"))]
    Absent { kind: "sls", client: None, security: false, feature: "sls" },
];

/// The kind of that name with its default client, if this build has it.
pub fn find(kind: &str) -> Option<&'static Descriptor> {
    descriptors().iter().find(|descriptor| descriptor.kind == kind)
}
