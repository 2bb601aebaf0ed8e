//! Every kind of broker this build knows: adding one adds its line here.

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

/// All kinds of this build, in the order in which `brokermark brokers` lists them.
pub fn descriptors() -> &'static [Descriptor] {
    &[
        #[cfg(feature = "kafka")]
        super::kafka::DESCRIPTOR,
        super::null::DESCRIPTOR,
    ]
}

/// The kind of that name, if this build has it.
pub fn find(kind: &str) -> Option<&'static Descriptor> {
    descriptors().iter().find(|descriptor| descriptor.kind == kind)
}
