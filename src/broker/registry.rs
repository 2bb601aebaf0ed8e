//! Every kind of broker this build knows: adding one adds its line to the list at the end.

use super::Broker;

/// What a kind of broker is called and can do, known without connecting to it.
#[derive(Debug, Clone, Copy)]
pub struct Descriptor {
    /// As in `broker.kind`.
    pub kind: &'static str,
    /// One line for people.
    pub summary: &'static str,
    pub capabilities: Capabilities,
    /// Checks the broker's own table (`[broker.<kind>]`) without connecting. The error is serde's, so that it names
    /// the unknown key and those that exist.
    pub check_options: fn(toml::Table) -> Result<(), toml::de::Error>,
}

/// What the scenario language may ask of a kind of broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Needs `broker.addresses`.
    pub addresses: bool,
    /// Has an endpoint in this process: `address = "embedded"`.
    pub embedded: bool,
    pub partitions: bool,
    pub replication: bool,
    pub keys: bool,
    pub headers: bool,
    pub consumers: bool,
    /// More than one consumer group, each of which receives everything.
    pub groups: bool,
    pub tls: bool,
    pub sasl: bool,
    /// Passes `broker.properties` to a client library.
    pub properties: bool,
}

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

        /// Runs `visitor` with the broker of that kind; `None` if this build has none.
        pub fn dispatch<V: Visitor>(kind: &str, visitor: V) -> Option<V::Output> {
            $(
                $(#[$feature])?
                if kind == <$broker as Broker>::DESCRIPTOR.kind {
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
    super::null::NullBroker,
}

/// The kind of that name, if this build has it.
pub fn find(kind: &str) -> Option<&'static Descriptor> {
    descriptors().iter().find(|descriptor| descriptor.kind == kind)
}
