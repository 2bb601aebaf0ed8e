//! The clients of a crate, one for each of the scenario's connections.

use std::future::Future;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::broker::{BrokerError, ClientError, Setup};
use crate::measure::{ConditionKind, Subject, SubjectKind};

/// A trial's clients of the crate.
pub struct Clients<C> {
    /// One for each of the scenario's connections.
    #[cfg(feature = "pulsar-rs")]
    producing: Vec<C>,
    /// As many, made when the first consumer needs one: arriving messages must not delay receipts.
    consuming: OnceCell<Vec<C>>,
}

impl<C> Clients<C> {
    /// Connects those of the producers with `connect`, which is given an address: the scenario's addresses in turn. For a crate that takes
    /// one address and finds the other brokers by itself.
    ///
    /// # Errors
    /// Those of `connect`.
    #[cfg(feature = "pulsar-rs")]
    pub async fn connect<F, O>(setup: &Setup<O>, connect: impl Fn(String) -> F) -> Result<Self, BrokerError>
    where
        F: Future<Output = Result<C, BrokerError>>,
    {
        Ok(Clients { producing: connect_all(setup, connect).await?, consuming: OnceCell::new() })
    }

    /// For a broker whose producers use no client of the crate.
    pub fn for_consumers() -> Self {
        Clients {
            #[cfg(feature = "pulsar-rs")]
            producing: Vec::new(),
            consuming: OnceCell::new(),
        }
    }

    /// The client of the producer of this number.
    #[cfg(feature = "pulsar-rs")]
    pub fn producing(&self, number: usize) -> &C {
        &self.producing[number % self.producing.len()]
    }

    /// The client of the consumer of this number.
    ///
    /// # Errors
    /// Those of `connect`, which makes the first consumer's clients.
    pub async fn consuming<F, O>(
        &self,
        number: usize,
        setup: &Setup<O>,
        connect: impl Fn(String) -> F,
    ) -> Result<&C, BrokerError>
    where
        F: Future<Output = Result<C, BrokerError>>,
    {
        let clients = self.consuming.get_or_try_init(|| connect_all(setup, connect)).await?;
        Ok(&clients[number % clients.len()])
    }
}

async fn connect_all<C, F, O>(setup: &Setup<O>, connect: impl Fn(String) -> F) -> Result<Vec<C>, BrokerError>
where
    F: Future<Output = Result<C, BrokerError>>,
{
    let mut clients = Vec::with_capacity(setup.config.connections);
    for address in setup.config.addresses.iter().cycle().take(setup.config.connections) {
        let node = Subject::new(&setup.conditions, SubjectKind::Node, address);
        clients.push(node.during(ConditionKind::Connecting, "no answer yet", connect(address.clone())).await?);
    }
    Ok(clients)
}

/// Bounds what the crate tries again and again by itself.
///
/// # Errors
/// The crate's own, or that `limit` has passed.
pub async fn within<T, E: Into<ClientError>>(
    limit: Duration,
    attempt: impl Future<Output = Result<T, E>>,
) -> Result<T, ClientError> {
    match tokio::time::timeout(limit, attempt).await {
        Ok(result) => result.map_err(Into::into),
        Err(_) => Err(ClientError::late(format!("the client library did not succeed within {limit:?}"))),
    }
}
