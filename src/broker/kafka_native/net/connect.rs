//! Opens connections to nodes of a cluster: TCP, TLS, the versions of requests, and the login.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::super::error::CallError;
use super::control::ControlConnection;
use super::sasl;
use crate::measure::{ConditionKind, Conditions, Subject, SubjectKind};
use crate::net::connect::encrypt;
use crate::net::tcp;
use crate::scenario::Security;

/// How connections are opened.
pub struct Connector {
    pub tls: Option<Arc<ClientConfig>>,
    pub security: Security,
    pub client_id: String,
    /// Limit for each step of opening, and for the response to each request of a [`ControlConnection`].
    pub timeout: Duration,
    /// Where it reports a node that keeps it waiting.
    pub conditions: Conditions,
}

impl Connector {
    /// Connects to `address` (`host:port`), asks for versions, and logs in.
    ///
    /// # Errors
    /// When it does not answer in time, or refuses the credentials.
    pub async fn open(&self, address: &str) -> Result<ControlConnection, CallError> {
        self.node(address).during(ConditionKind::Connecting, "no answer yet", self.open_now(address)).await
    }

    /// The node at `address`, as what can be held up.
    pub fn node(&self, address: &str) -> Subject {
        Subject::new(&self.conditions, SubjectKind::Node, address)
    }

    async fn open_now(&self, address: &str) -> Result<ControlConnection, CallError> {
        let opened = timeout(self.timeout, self.open_socket(address)).await;
        let mut connection =
            opened.unwrap_or(Err(CallError::Timeout(self.timeout))).map_err(|error| error.at(address))?;
        connection.api_versions().await.map_err(|error| explain(error, self.has_certificate()))?;
        sasl::log_in(&mut connection, &self.security).await?;
        Ok(connection)
    }

    fn has_certificate(&self) -> bool {
        self.security.tls.as_ref().is_some_and(|tls| tls.certificate.is_some())
    }

    async fn open_socket(&self, address: &str) -> Result<ControlConnection, CallError> {
        let stream = tcp::connect(address).await?;
        let (reader, writer): (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>) = match &self.tls
        {
            None => {
                let (reader, writer) = stream.into_split();
                (Box::new(reader), Box::new(writer))
            }
            Some(config) => {
                let stream = encrypt(config.clone(), address, stream).await;
                let stream = stream.map_err(|error| CallError::Lost(format!("TLS: {error}")))?;
                let (reader, writer) = tokio::io::split(stream);
                (Box::new(reader), Box::new(writer))
            }
        };
        Ok(ControlConnection::new(reader, writer, self.client_id.clone(), self.timeout))
    }
}

/// A server that asks for a certificate ends the connection after the handshake, with one of these alerts (RFC 8446, section 6.2).
fn explain(error: CallError, has_certificate: bool) -> CallError {
    let is_missing = |text: &str| text.contains("CertificateRequired") || text.contains("BadCertificate");
    match error {
        CallError::Lost(reason) if !has_certificate && is_missing(&reason) => CallError::Authorisation(format!(
            "it asks for a certificate ({reason}): set `broker.security.tls.certificate` and `broker.security.tls.key`"
        )),
        other => other,
    }
}
