//! Several servers of one broker: the first that answers is taken.

use std::time::Duration;

use super::{ClientError, FailureClass};
use crate::measure::{ConditionKind, Conditions, Subject, SubjectKind};
use crate::net::connect::{ConnectError, within};

impl From<ConnectError<ClientError>> for ClientError {
    fn from(error: ConnectError<ClientError>) -> Self {
        match error {
            ConnectError::Refused(refusal) => refusal,
            ConnectError::Io(_) => ClientError::lost(error.to_string()),
            ConnectError::Timeout(_) => ClientError::late(error.to_string()),
            ConnectError::Malformed(_) => ClientError::passing(FailureClass::Other, error.to_string()),
            ConnectError::Incompatible(_) => ClientError::lasting(FailureClass::Other, error.to_string()),
        }
    }
}

/// The servers that may be tried, and why those that were tried are left out.
pub struct Servers<'a> {
    addresses: &'a [String],
    /// Place of the server that is tried next.
    place: usize,
    tried: usize,
    /// Time of each attempt.
    timeout: Duration,
    conditions: &'a Conditions,
    failure: ClientError,
}

impl<'a> Servers<'a> {
    /// All of `addresses`, from the one of the number `first` on. `timeout` is the time of all attempts together.
    pub fn new(addresses: &'a [String], first: usize, timeout: Duration, conditions: &'a Conditions) -> Self {
        let (count, failure) = (addresses.len().max(1), ClientError::lost(String::new()));
        Servers { addresses, place: first % count, tried: 0, timeout: timeout / count as u32, conditions, failure }
    }

    /// The server that is to be tried next.
    ///
    /// # Errors
    /// Why each server was left out, when all have been tried.
    pub fn next(&self) -> Result<&'a str, ClientError> {
        if self.tried == self.addresses.len() { Err(self.failure.clone()) } else { Ok(&self.addresses[self.place]) }
    }

    /// What this server gives, and its place among the addresses; `None`: the next one is to be tried.
    ///
    /// # Errors
    /// When it refuses the credentials, as the others would.
    pub async fn attempt<T>(
        &mut self,
        opening: impl Future<Output = Result<T, ConnectError<ClientError>>>,
    ) -> Result<Option<(T, usize)>, ClientError> {
        let (address, count) = (&self.addresses[self.place], self.addresses.len());
        let node = Subject::new(self.conditions, SubjectKind::Node, address);
        let opening = within(self.timeout, opening);
        let mut failure = match node.during(ConditionKind::Connecting, "no answer yet", opening).await {
            Ok(opened) => return Ok(Some((opened, self.place))),
            Err(error) => ClientError::from(error),
        };
        // A caller that asks for one server knows which it is.
        if count > 1 {
            failure.message = format!("{address}: {}", failure.message);
        }
        if failure.class == FailureClass::Authorisation {
            return Err(failure);
        }
        if self.tried > 0 {
            failure.message = format!("{}; {}", self.failure.message, failure.message);
            failure.lasting &= self.failure.lasting;
        }
        self.failure = failure;
        self.place = (self.place + 1) % count;
        self.tried += 1;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn silent_servers_share_the_time() {
        let addresses = ["a:1".to_owned(), "b:1".to_owned()];
        let (begin, timeout, conditions) = (Instant::now(), Duration::from_secs(10), Conditions::default());
        let mut servers = Servers::new(&addresses, 3, timeout, &conditions);
        let failure = loop {
            match servers.next() {
                Ok(_) => assert_eq!(servers.attempt(pending::<Result<(), _>>()).await, Ok(None)),
                Err(failure) => break failure,
            }
        };
        assert_eq!(begin.elapsed(), timeout);
        assert_eq!(failure, ClientError::late("b:1: no response within 5s; a:1: no response within 5s"));
    }

    #[tokio::test]
    async fn refused_login_is_the_answer_of_all_servers() {
        let addresses = ["a:1".to_owned(), "b:1".to_owned()];
        let conditions = Conditions::default();
        let mut servers = Servers::new(&addresses, 0, Duration::from_secs(10), &conditions);
        let refused = ConnectError::Refused(ClientError::lasting(FailureClass::Authorisation, "no"));
        assert!(servers.attempt::<()>(async { Err(ConnectError::Malformed("HTTP".to_owned())) }).await.is_ok());
        let failure = servers.attempt::<()>(async { Err(refused) }).await.unwrap_err();
        assert_eq!(failure, ClientError::lasting(FailureClass::Authorisation, "b:1: no"));
    }
}
