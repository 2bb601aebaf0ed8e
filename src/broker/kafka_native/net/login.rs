//! Logs in at a node by SASL: PLAIN (RFC 4616), SCRAM (RFC 5802) and OAUTHBEARER (RFC 7628).

use super::super::error::CallError;
use super::control::SequentialConnection;
use super::random_text::random_text;
use super::scram::{Hash, Scram};
use crate::scenario::{Sasl, SaslMechanism, Secret, Security};

/// What [`log_in`] can do, best first.
pub const MECHANISMS: &[SaslMechanism] =
    &[SaslMechanism::ScramSha512, SaslMechanism::ScramSha256, SaslMechanism::Plain, SaslMechanism::OauthBearer];

/// Logs in, if the scenario has credentials.
///
/// # Errors
/// When a secret cannot be read, or the node refuses the credentials.
pub async fn log_in(connection: &mut SequentialConnection, security: &Security) -> Result<(), CallError> {
    if let Some(token) = &security.bearer {
        return with_token(connection, token).await;
    }
    let Some(sasl) = &security.sasl else { return Ok(()) };
    let password = sasl.password.reveal().map_err(CallError::Authorisation)?;
    connection.shake_hands(sasl.mechanism.name()).await?;
    match sasl.mechanism {
        SaslMechanism::ScramSha256 => by_scram(connection, Hash::Sha256, sasl, &password).await,
        SaslMechanism::ScramSha512 => by_scram(connection, Hash::Sha512, sasl, &password).await,
        // The other mechanisms are refused with the scenario.
        _ => connection.authenticate(format!("\0{}\0{password}", sasl.username).into_bytes()).await.map(drop),
    }
}

async fn by_scram(
    connection: &mut SequentialConnection,
    hash: Hash,
    sasl: &Sasl,
    password: &str,
) -> Result<(), CallError> {
    let scram = Scram::begin(hash, &sasl.username, password, random_text());
    let refused = |reason: &str| CallError::Authorisation(reason.to_owned());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| refused("a SCRAM message is not text"));
    let first = text(&connection.authenticate(scram.first().into_bytes()).await?)?;
    let proof = scram.prove(&first).map_err(refused)?;
    let last = text(&connection.authenticate(proof.message.clone().into_bytes()).await?)?;
    if proof.is_confirmed_by(&last) { Ok(()) } else { Err(refused("the broker does not know the password")) }
}

async fn with_token(connection: &mut SequentialConnection, token: &Secret) -> Result<(), CallError> {
    let token = token.reveal().map_err(CallError::Authorisation)?;
    connection.shake_hands(SaslMechanism::OauthBearer.name()).await?;
    let answer = connection.authenticate(format!("n,,\x01auth=Bearer {token}\x01\x01").into_bytes()).await?;
    // RFC 7628, section 3.2.2: a server that refuses the token says why first.
    match answer.is_empty() {
        true => Ok(()),
        false => Err(CallError::Authorisation(String::from_utf8_lossy(&answer).into_owned())),
    }
}
