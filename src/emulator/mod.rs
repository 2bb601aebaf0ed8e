//! Endpoints that run inside this process, for `address = "embedded"` and for `brokermark emulate`.

#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "sls")]
pub mod sls;
