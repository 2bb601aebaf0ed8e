//! The kinds of broker of this build. A new kind adds its line to the list below.

use serde::de::Error as _;

use super::{Broker, BrokerOptions};
use crate::scenario::tables::schema_of;
use crate::scenario::{Absent, BrokerConfig, Descriptor, Need};

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
    Descriptor {
        options_schema: schema_of::<B::Options>,
        check_options: |table| options::<B>(table).map(drop),
        refuses: refusal::<B>,
        contradicts: B::contradiction,
        remedy: remedy::<B>,
        ..B::DESCRIPTOR
    }
}

/// Why a broker refuses a configuration. A table that cannot be read is refused for that.
fn refusal<B: Broker>(config: &BrokerConfig) -> Option<String> {
    B::refusal(config, &options::<B>(config.options.clone()).ok()?)
}

fn remedy<B: Broker>(need: Need<'_>, config: &BrokerConfig) -> Option<String> {
    B::remedy(need, config, &options::<B>(config.options.clone()).ok()?)
}

/// Makes [`descriptors`], [`dispatch`] and [`ABSENT`] from one list of brokers: for each the cargo feature, the kind and the client, which
/// a build without it names, and the feature that adds TLS if that is another one. The last broker is in every build.
macro_rules! brokers {
    ($([$feature:literal $kind:literal $client:expr $(, tls $tls:literal)?] $broker:path,)* [] $own:path) => {
        /// All kinds of this build, in the order in which `brokermark brokers` lists them.
        pub fn descriptors() -> &'static [Descriptor] {
            const DESCRIPTORS: &[Descriptor] =
                &[$(#[cfg(feature = $feature)] descriptor::<$broker>(),)* descriptor::<$own>()];
            DESCRIPTORS
        }

        /// Runs `visitor` with the broker of that kind and client; `None` if this build has none.
        pub fn dispatch<V: Visitor>(kind: &str, client: Option<&str>, visitor: V) -> Option<V::Output> {
            $(
                #[cfg(feature = $feature)]
                if is_named::<$broker>(kind, client) {
                    return Some(visitor.visit::<$broker>());
                }
            )*
            is_named::<$own>(kind, client).then(|| visitor.visit::<$own>())
        }

        /// What this build does not have.
        pub const ABSENT: &[Absent] = &[$(
            #[cfg(not(feature = $feature))]
            Absent { kind: $kind, client: $client, security: false, feature: $feature },
            $(
                #[cfg(all(feature = $feature, not(feature = $tls)))]
                Absent { kind: $kind, client: $client, security: true, feature: $tls },
            )?
        )*];
    };
}

brokers! {
    ["kafka-native" "kafka" Some("native")] super::kafka_native::KafkaNativeBroker,
    ["kafka" "kafka" Some("librdkafka"), tls "kafka-tls"] super::kafka::KafkaBroker,
    ["mqtt" "mqtt" None] super::mqtt::MqttBroker,
    ["nats" "nats" None] super::nats::NatsBroker,
    ["nsq" "nsq" None] super::nsq::NsqBroker,
    ["pulsar" "pulsar" Some("native")] super::pulsar::PulsarBroker,
    ["pulsar-rs" "pulsar" Some("pulsar-rs")] super::pulsar::PulsarCrateBroker,
    ["redis" "redis" None] super::redis::RedisBroker,
    ["sls" "sls" None] super::sls::SlsBroker,
    ["rabbitmq" "rabbitmq" None] super::rabbitmq::RabbitmqBroker,
    ["rabbitmq-stream" "rabbitmq-stream" None] super::rabbitmq_stream::RabbitmqStreamBroker,
    [] super::null::NullBroker
}

fn is_named<B: Broker>(kind: &str, client: Option<&str>) -> bool {
    kind == B::DESCRIPTOR.kind && client == B::DESCRIPTOR.client
}

/// The kind of that name with its default client, if this build has it.
pub fn find(kind: &str) -> Option<&'static Descriptor> {
    descriptors().iter().find(|descriptor| descriptor.kind == kind)
}
