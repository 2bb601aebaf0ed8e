//! Several servers of one broker: the first that answers is taken.

use std::time::Duration;

use super::{ClientError, FailureClass};
use crate::measure::{ConditionKind, Conditions, Subject, SubjectKind};
use crate::net::connect::{ConnectError, within};

/// What `open` makes of the first server that answers, from the one of number `first` on. All of them together have `timeout`.
///
/// # Errors
/// Why each server was left out, with its address; only the refusal, if one refuses the credentials.
pub async fn first_answering<T>(
    addresses: &[String],
    first: usize,
    timeout: Duration,
    conditions: &Conditions,
    open: impl AsyncFn(&str) -> Result<T, ConnectError<ClientError>>,
) -> Result<T, ClientError> {
    let limit = timeout / addresses.len() as u32;
    let mut reasons = Vec::new();
    for address in addresses.iter().cycle().skip(first % addresses.len()).take(addresses.len()) {
        let node = Subject::new(conditions, SubjectKind::Node, address);
        let opening = within(limit, open(address));
        match node.during(ConditionKind::Connecting, "no answer yet", opening).await {
            Ok(opened) => return Ok(opened),
            Err(ConnectError::Refused(refusal)) if refusal.class == FailureClass::Authorisation => {
                return Err(ClientError { message: format!("{address}: {}", refusal.message), ..refusal });
            }
            Err(error) => reasons.push(format!("{address}: {error}")),
        }
    }
    Err(ClientError::lost(reasons.join("; ")))
}
