//! Several servers of one broker: the first that answers is taken.

use std::time::Duration;

use super::{ClientError, FailureClass};
use crate::measure::{ConditionKind, Conditions, Subject, SubjectKind};
use crate::net::connect::{ConnectError, within};

/// The servers that may be tried, and why those that were tried are left out.
pub struct Servers<'a> {
    addresses: &'a [String],
    /// Number of the server that is tried first.
    first: usize,
    /// Time of all attempts together.
    timeout: Duration,
    conditions: &'a Conditions,
    reasons: Vec<String>,
}

impl<'a> Servers<'a> {
    pub fn new(addresses: &'a [String], first: usize, timeout: Duration, conditions: &'a Conditions) -> Self {
        Servers { addresses, first, timeout, conditions, reasons: Vec::new() }
    }

    /// The server that is to be tried next.
    ///
    /// # Errors
    /// Why each server was left out, with its address, when all have been tried.
    pub fn next(&self) -> Result<&'a str, ClientError> {
        let count = self.addresses.len();
        match self.reasons.len() {
            tried if tried < count => Ok(&self.addresses[(self.first + tried) % count]),
            _ => Err(ClientError::lost(self.reasons.join("; "))),
        }
    }

    /// What the server at `address` gives; `None`: the next one is to be tried.
    ///
    /// # Errors
    /// When it refuses the credentials, as the others would.
    pub async fn attempt<T>(
        &mut self,
        address: &str,
        opening: impl Future<Output = Result<T, ConnectError<ClientError>>>,
    ) -> Result<Option<T>, ClientError> {
        let node = Subject::new(self.conditions, SubjectKind::Node, address);
        let opening = within(self.timeout / self.addresses.len() as u32, opening);
        match node.during(ConditionKind::Connecting, "no answer yet", opening).await {
            Ok(opened) => Ok(Some(opened)),
            Err(ConnectError::Refused(refusal)) if refusal.class == FailureClass::Authorisation => {
                Err(ClientError { message: format!("{address}: {}", refusal.message), ..refusal })
            }
            Err(error) => {
                self.reasons.push(format!("{address}: {error}"));
                Ok(None)
            }
        }
    }
}
