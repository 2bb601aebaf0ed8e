//! Opens connections to nodes of a cluster: TCP, TLS, the versions of requests, and the login by SASL: PLAIN (RFC 4616),
//! OAUTHBEARER (RFC 7628), SCRAM (`scram`), and AWS_MSK_IAM (`msk_iam`).

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::time::timeout;

use super::super::error::CallError;
use super::control::{ControlConnection, MAX_THROTTLE};
use super::msk_iam;
use super::scram::{self, Hash};
use crate::measure::{ConditionKind, Conditions, Subject, SubjectKind};
use crate::net::connect::halves;
use crate::net::token::Token;
use crate::scenario::{SaslMechanism, Security};

/// How connections are opened.
pub struct Connector {
    pub tls: Option<Arc<ClientConfig>>,
    pub security: Security,
    /// Of SASL OAUTHBEARER.
    pub token: Option<Token>,
    /// The addresses that the scenario names; others are known from the cluster's metadata.
    pub given: Vec<String>,
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

    /// Reports that a response of `node` asks the client to wait (KIP-219), and for how long: that may be longer than what is left of the run.
    pub fn throttled(&self, node: &Subject, asked: Duration) {
        let words = throttle_words(asked);
        node.begin(ConditionKind::Throttled, &words);
        self.conditions.reword(ConditionKind::Throttled, SubjectKind::Node, &words);
    }

    async fn open_now(&self, address: &str) -> Result<ControlConnection, CallError> {
        let opened = timeout(self.timeout, self.open_socket(address)).await;
        let is_given = self.given.iter().any(|given| given == address);
        let told = |error: CallError| if is_given { error.at(address) } else { error.at(address).named_by_broker() };
        let mut connection = opened.unwrap_or(Err(CallError::Timeout(self.timeout))).map_err(told)?;
        connection.api_versions().await.map_err(|error| explain(error, self.has_certificate()))?;
        self.log_in(&mut connection, address).await?;
        Ok(connection)
    }

    fn has_certificate(&self) -> bool {
        self.security.tls.as_ref().is_some_and(|tls| tls.certificate.is_some())
    }

    async fn open_socket(&self, address: &str) -> Result<ControlConnection, CallError> {
        let (reader, writer) = halves(self.tls.as_ref(), address).await?;
        Ok(ControlConnection::new(reader, writer, self.client_id.clone(), self.timeout))
    }

    /// Logs in, if the scenario has credentials.
    ///
    /// # Errors
    /// When a secret cannot be read, there is no token, or the node refuses the credentials.
    async fn log_in(&self, connection: &mut ControlConnection, address: &str) -> Result<(), CallError> {
        if let Some(token) = &self.token {
            // An issuer that is away may come back, as a node may.
            return with_token(connection, &token.current().await.map_err(CallError::Lost)?).await;
        }
        if let Some(aws) = &self.security.aws {
            return msk_iam::log_in(connection, aws, address).await;
        }
        let Some(sasl) = &self.security.sasl else { return Ok(()) };
        let password = sasl.password.reveal().map_err(CallError::Authorisation)?;
        connection.sasl_handshake(sasl.mechanism.name()).await?;
        match sasl.mechanism {
            SaslMechanism::ScramSha256 => scram::log_in(connection, Hash::Sha256, sasl, &password).await,
            SaslMechanism::ScramSha512 => scram::log_in(connection, Hash::Sha512, sasl, &password).await,
            // The other mechanisms are refused with the scenario.
            _ => connection.sasl_authenticate(format!("\0{}\0{password}", sasl.username).into_bytes()).await.map(drop),
        }
    }
}

/// What the client does that is to wait for so long.
pub fn throttle_words(asked: Duration) -> String {
    let again = if asked > MAX_THROTTLE { format!("; it asks again after {MAX_THROTTLE:?}") } else { String::new() };
    format!("a response asks the client to wait for {asked:?} (its quota){again}")
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

/// The mechanisms of logins, best first.
pub const MECHANISMS: &[SaslMechanism] = &[
    SaslMechanism::ScramSha512,
    SaslMechanism::ScramSha256,
    SaslMechanism::Plain,
    SaslMechanism::OauthBearer,
    SaslMechanism::AwsMskIam,
];

async fn with_token(connection: &mut ControlConnection, token: &str) -> Result<(), CallError> {
    connection.sasl_handshake(SaslMechanism::OauthBearer.name()).await?;
    let answer = connection.sasl_authenticate(format!("n,,\x01auth=Bearer {token}\x01\x01").into_bytes()).await?;
    // RFC 7628, section 3.2.2: a server that refuses the token says why first.
    if answer.is_empty() {
        Ok(())
    } else {
        Err(CallError::Authorisation(String::from_utf8_lossy(&answer).into_owned()))
    }
}
