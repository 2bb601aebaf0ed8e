//! The node that coordinates a group or transactions: found by their name, and found again when another one coordinates them.

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::{FindCoordinatorRequest, GroupId};
use kafka_protocol::protocol::{Request, StrBytes};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::super::error::CallError;
use super::cluster::Cluster;
use super::control::SequentialConnection;
use crate::net::address;
use crate::net::backoff::Backoff;

/// Later versions ask for several groups at once.
const FIND_COORDINATOR: i16 = 3;

/// `COORDINATOR_LOAD_IN_PROGRESS`, `COORDINATOR_NOT_AVAILABLE` and `NOT_COORDINATOR`.
const LOADING: i16 = 14;
const NOT_AVAILABLE: i16 = 15;
const NOT_COORDINATOR: i16 = 16;

/// What is coordinated, by its number in a request.
const GROUP: i8 = 0;
const TRANSACTIONS: i8 = 1;

/// A group or the transactions with an id, and a connection to the node that coordinates them.
pub struct Coordinator {
    cluster: Arc<Cluster>,
    /// The group's name, or the transactions' id.
    name: String,
    kind: i8,
    /// How long the coordinator may be sought, and how long it may take for a response.
    timeout: Duration,
    connection: Mutex<Option<SequentialConnection>>,
}

impl Coordinator {
    pub fn new(cluster: Arc<Cluster>, group: &str, timeout: Duration) -> Self {
        Coordinator { cluster, name: group.to_owned(), kind: GROUP, timeout, connection: Mutex::default() }
    }

    /// That of the transactions with an id.
    pub fn of_transactions(cluster: Arc<Cluster>, id: &str, timeout: Duration) -> Self {
        Coordinator { kind: TRANSACTIONS, ..Coordinator::new(cluster, id, timeout) }
    }

    pub fn group(&self) -> GroupId {
        GroupId(StrBytes::from_string(self.name.clone()))
    }

    /// Sends a request to the coordinator, again where the coordinator moves or is not ready. `code`: the error code of a response.
    ///
    /// # Errors
    /// When no coordinator answers in time. Other error codes are left to the caller.
    pub async fn call<R: Request>(
        &self,
        request: &R,
        newest: i16,
        code: impl Fn(&R::Response) -> i16,
    ) -> Result<R::Response, CallError> {
        let deadline = Instant::now() + self.timeout;
        let mut backoff = Backoff::RECEIVE;
        let mut kept = self.connection.lock().await;
        loop {
            let open = match kept.take() {
                Some(open) => Ok(open),
                None => self.open().await,
            };
            let failed = match open {
                Err(error) => error,
                Ok(mut open) => match open.call(request, newest).await {
                    Err(error) => error,
                    Ok(response) => match code(&response) {
                        code @ (LOADING | NOT_AVAILABLE | NOT_COORDINATOR) => {
                            *kept = (code == LOADING).then_some(open);
                            CallError::Refused(code, None)
                        }
                        _ => {
                            *kept = Some(open);
                            return Ok(response);
                        }
                    },
                },
            };
            let may_pass = matches!(failed, CallError::Lost(_) | CallError::Timeout(_) | CallError::Refused(..));
            if !may_pass || Instant::now() >= deadline {
                return Err(failed);
            }
            backoff.pause().await;
        }
    }

    /// A connection to the node that is the coordinator now.
    async fn open(&self) -> Result<SequentialConnection, CallError> {
        let name = StrBytes::from_string(self.name.clone());
        let request = FindCoordinatorRequest::default().with_key(name).with_key_type(self.kind);
        let found = self.cluster.call(&request, FIND_COORDINATOR).await?;
        CallError::check(found.error_code)?;
        let mut connection = self.cluster.connector.open(&address::joined(&found.host, found.port)).await?;
        connection.set_timeout(self.timeout);
        Ok(connection)
    }
}
