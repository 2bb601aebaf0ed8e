//! Takes the place of the emulator of SLS in a build without it: its settings are refused, and it does not start.

use std::convert::Infallible;
use std::net::SocketAddr;

use serde::{Deserialize, Deserializer};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct EmulatorOptions;

impl EmulatorOptions {
    /// # Errors
    /// Never: there is nothing to set.
    pub fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

impl<'de> Deserialize<'de> for EmulatorOptions {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(serde::de::Error::custom(super::NO_SLS))
    }
}

#[derive(Default)]
pub struct ListenOptions {
    pub listen: String,
    pub key: Option<Key>,
}

pub struct Key {
    pub id: String,
    pub secret: String,
    pub security_token: Option<String>,
}

pub struct Emulator(Infallible);

impl Emulator {
    /// # Errors
    /// Always.
    pub fn start(_: &EmulatorOptions, _: ListenOptions) -> Result<Self, String> {
        Err(super::NO_SLS.to_owned())
    }

    pub fn address(&self) -> SocketAddr {
        match self.0 {}
    }
}
