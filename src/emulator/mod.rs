//! Endpoints that run inside this process, for `address = "embedded"` and for `brokermark emulate`.

#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "sls-emulator")]
pub mod sls;
#[cfg(all(feature = "sls", not(feature = "sls-emulator")))]
#[path = "no_sls.rs"]
pub mod sls;

/// Why `sls://embedded` and `brokermark emulate sls` do not work in a build without the emulator.
pub const NO_SLS: &str =
    "this build has no emulator of the log service: build brokermark with the feature `sls-emulator`";
