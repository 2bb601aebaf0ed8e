//! The kinds of broker of this build. A new kind adds its line to the list below.

use super::Broker;
use crate::scenario::Descriptor;

/// Work that is the same for every broker, written once and compiled for each.
pub trait Visitor {
    type Output;

    fn visit<B: Broker>(self) -> Self::Output;
}

/// Makes [`descriptors`] and [`dispatch`] from one list of brokers.
macro_rules! brokers {
    ($($(#[$feature:meta])? $broker:path,)*) => {
        /// All kinds of this build, in the order in which `brokermark brokers` lists them.
        pub fn descriptors() -> &'static [Descriptor] {
            &[$($(#[$feature])? <$broker as Broker>::DESCRIPTOR,)*]
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
    #[cfg(feature = "kafka")]
    super::kafka::KafkaBroker,
    #[cfg(feature = "kafka-native")]
    super::kafka_native::KafkaNativeBroker,
    #[cfg(feature = "nsq")]
    super::nsq::NsqBroker,
    #[cfg(feature = "pulsar")]
    super::pulsar::PulsarBroker,
    #[cfg(feature = "sls")]
    super::sls::SlsBroker,
    #[cfg(feature = "rabbitmq-stream")]
    super::rabbitmq_stream::RabbitmqStreamBroker,
    super::null::NullBroker,
}

/// The kind of that name with its default client, if this build has it.
pub fn find(kind: &str) -> Option<&'static Descriptor> {
    descriptors().iter().find(|descriptor| descriptor.kind == kind)
}
