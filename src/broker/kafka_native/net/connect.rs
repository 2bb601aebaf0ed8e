//! Opens connections to nodes of a cluster: TCP, TLS, the versions of requests, and the login by SASL: PLAIN (RFC 4616), SCRAM (RFC 5802), that is
//! SCRAM-SHA-256 (RFC 7677) and SCRAM-SHA-512, OAUTHBEARER (RFC 7628), and AWS_MSK_IAM (`msk_iam`).

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use rustls::ClientConfig;
use sha2::{Digest, Sha256, Sha512};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::super::error::CallError;
use super::control::ControlConnection;
use super::msk_iam;
use crate::measure::{ConditionKind, Conditions, Subject, SubjectKind};
use crate::net::connect::encrypt;
use crate::net::tcp;
use crate::net::token::Token;
use crate::scenario::{Sasl, SaslMechanism, Security};

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
            SaslMechanism::ScramSha256 => by_scram(connection, Hash::Sha256, sasl, &password).await,
            SaslMechanism::ScramSha512 => by_scram(connection, Hash::Sha512, sasl, &password).await,
            // The other mechanisms are refused with the scenario.
            _ => connection.sasl_authenticate(format!("\0{}\0{password}", sasl.username).into_bytes()).await.map(drop),
        }
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

/// The mechanisms of logins, best first.
pub const MECHANISMS: &[SaslMechanism] = &[
    SaslMechanism::ScramSha512,
    SaslMechanism::ScramSha256,
    SaslMechanism::Plain,
    SaslMechanism::OauthBearer,
    SaslMechanism::AwsMskIam,
];

async fn by_scram(
    connection: &mut ControlConnection,
    hash: Hash,
    sasl: &Sasl,
    password: &str,
) -> Result<(), CallError> {
    let nonce = format!("{:032x}", rand::random::<u128>());
    let scram = Scram::begin(hash, &sasl.username, password, nonce);
    let refused = |reason: &str| CallError::Authorisation(reason.to_owned());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| refused("a SCRAM message is not text"));
    let first = text(&connection.sasl_authenticate(scram.first().into_bytes()).await?)?;
    let proof = scram.prove(&first).map_err(refused)?;
    let last = text(&connection.sasl_authenticate(proof.message.clone().into_bytes()).await?)?;
    if proof.is_confirmed_by(&last) { Ok(()) } else { Err(refused("the broker does not know the password")) }
}

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

/// Which hash is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

/// A server that asks for more rounds wants to keep the client busy.
const MAX_ROUNDS: u32 = 1 << 20;

/// A server that asks for fewer makes it cheap to guess the password from what it hears (RFC 7677, section 4; `ScramMechanism` of Kafka has
/// the same minimum).
const MIN_ROUNDS: u32 = 4096;

/// A login that has begun.
struct Scram<'a> {
    hash: Hash,
    password: &'a str,
    nonce: String,
    first_bare: String,
}

/// The last message to the server, and what it must answer.
struct Proof {
    message: String,
    server_signature: Vec<u8>,
}

impl<'a> Scram<'a> {
    /// `nonce` is random text without commas.
    fn begin(hash: Hash, username: &str, password: &'a str, nonce: String) -> Self {
        let name = username.replace('=', "=3D").replace(',', "=2C");
        Scram { hash, password, first_bare: format!("n={name},r={nonce}"), nonce }
    }

    /// The first message to the server.
    fn first(&self) -> String {
        format!("n,,{}", self.first_bare)
    }

    /// The answer to the server's first message.
    ///
    /// # Errors
    /// When the message is malformed or is not an answer to this client.
    fn prove(&self, server_first: &str) -> Result<Proof, &'static str> {
        let attribute = |name: &str| server_first.split(',').find_map(|part| part.strip_prefix(name));
        let malformed = "the server's first SCRAM message is malformed";
        let nonce = attribute("r=").filter(|nonce| nonce.starts_with(&self.nonce)).ok_or(malformed)?;
        let salt = attribute("s=").and_then(|salt| STANDARD.decode(salt).ok()).ok_or(malformed)?;
        let rounds = attribute("i=").and_then(|rounds| rounds.parse::<u32>().ok()).ok_or(malformed)?;
        if !(MIN_ROUNDS..=MAX_ROUNDS).contains(&rounds) {
            return Err("the server asks for a number of SCRAM rounds that is not between 4096 and 1048576");
        }
        let salted = self.salted(&salt, rounds);
        let client_key = self.hash.mac(&salted, &[b"Client Key"]);
        let stored_key = self.hash.digest(&client_key);
        let last_bare = format!("c=biws,r={nonce}");
        let signed = format!("{},{server_first},{last_bare}", self.first_bare);
        let signature = self.hash.mac(&stored_key, &[signed.as_bytes()]);
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, signature)| key ^ signature).collect();
        let server_key = self.hash.mac(&salted, &[b"Server Key"]);
        Ok(Proof {
            message: format!("{last_bare},p={}", STANDARD.encode(proof)),
            server_signature: self.hash.mac(&server_key, &[signed.as_bytes()]),
        })
    }

    /// `Hi` of the RFC, which is PBKDF2 with one block.
    fn salted(&self, salt: &[u8], rounds: u32) -> Vec<u8> {
        let password = self.password.as_bytes();
        let mut last = self.hash.mac(password, &[salt, &1_u32.to_be_bytes()]);
        let mut salted = last.clone();
        for _ in 1..rounds {
            last = self.hash.mac(password, &[&last]);
            salted.iter_mut().zip(&last).for_each(|(sum, byte)| *sum ^= byte);
        }
        salted
    }
}

impl Proof {
    /// Whether the server knows the password as well.
    fn is_confirmed_by(&self, server_last: &str) -> bool {
        let signature = server_last.split(',').find_map(|part| part.strip_prefix("v="));
        signature.and_then(|signature| STANDARD.decode(signature).ok()).as_ref() == Some(&self.server_signature)
    }
}

impl Hash {
    pub(super) fn mac(self, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Hash::Sha256 => mac::<Hmac<Sha256>>(key, parts),
            Hash::Sha512 => mac::<Hmac<Sha512>>(key, parts),
        }
    }

    pub(super) fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha256 => Sha256::digest(bytes).to_vec(),
            Hash::Sha512 => Sha512::digest(bytes).to_vec(),
        }
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("a key of HMAC may have any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The exchange of RFC 7677, section 3.
    #[test]
    fn the_exchange_is_that_of_the_rfc() {
        let scram = Scram::begin(Hash::Sha256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO".to_owned());
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let proof = scram
            .prove("r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
            .unwrap();
        let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(proof.message, last);
        assert!(proof.is_confirmed_by("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!proof.is_confirmed_by("v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
        assert!(!proof.is_confirmed_by("e=invalid-proof"));
    }

    #[test]
    fn scram_server_with_wrong_nonce_or_rounds_is_refused() {
        let scram = Scram::begin(Hash::Sha512, "a=b,c", "secret", "mine".to_owned());
        assert_eq!(scram.first(), "n,,n=a=3Db=2Cc,r=mine");
        for wrong in
            ["r=other,s=AAAA,i=4096", "r=mine1,s=AAAA,i=4095", "r=mine1,s=AAAA,i=4000000000", "r=mine1,s=%,i=4096", ""]
        {
            assert!(scram.prove(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_text_of_a_server_is_refused_or_proves_nothing(
            nonce in "(mine)?[ -~]{0,8}",
            salt in "[A-Za-z0-9+/=]{0,12}|\\PC{0,4}",
            rounds in "4096|[0-9]{0,3}|\\PC{0,4}",
            last in "(v=)?\\PC{0,12}",
        ) {
            let scram = Scram::begin(Hash::Sha256, "user", "secret", "mine".to_owned());
            if let Ok(proof) = scram.prove(&format!("r={nonce},s={salt},i={rounds}")) {
                prop_assert!(nonce.starts_with("mine") && !proof.is_confirmed_by(&last));
            }
        }
    }
}
