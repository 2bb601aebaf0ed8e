//! From an address to a greeted connection.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::broker::ClientError;
use crate::broker::pulsar::codec::frame::{Frame, put_command};
use crate::broker::pulsar::codec::proto::{
    AuthData, AuthResponse, Connect, FeatureFlags, FromBroker, Kind, ServerError, ToBroker,
};
use crate::broker::pulsar::retry::refused;
use crate::measure::Conditions;
use crate::net::connect::halves;
use crate::net::token::Token;

/// `ProtocolVersion` v19: what is used here has been there since v15.
const PROTOCOL_VERSION: i32 = 19;

/// The default of `maxMessageSize`, for a broker that does not state it.
const MAX_MESSAGE: usize = 5 << 20;

/// How connections are made.
pub struct SocketSettings {
    pub tls: Option<Arc<ClientConfig>>,
    pub token: Option<Arc<Token>>,
    /// Whether the client's certificate identifies it.
    pub certified: bool,
    /// Time limit for connecting and greeting.
    pub timeout: Duration,
    pub keep_alive: Duration,
    /// How long a message may await its receipt.
    pub send_timeout: Duration,
    /// Where it is reported what holds producers up.
    pub conditions: Conditions,
    /// What the namespace lets them publish, in words; `None`: it has no limit, as far as is known.
    pub publish_rate: Option<String>,
}

/// The broker's response to `Connect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    pub server_version: String,
    /// Most bytes of a message.
    pub max_message: usize,
}

/// A connection that has been greeted.
pub struct Opened {
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub greeting: Greeting,
    /// What came after the greeting.
    pub received: Vec<u8>,
}

/// The name and version that brokers log.
pub fn client_version() -> String {
    format!("brokermark-{}", env!("CARGO_PKG_VERSION"))
}

/// Connects to `address` (`host:port`) and greets.
pub async fn open(settings: &SocketSettings, address: &str, proxy_to: Option<&str>) -> Result<Opened, ClientError> {
    let broken = |error: std::io::Error| ClientError::lost(error.to_string());
    let (mut reader, mut writer) = halves(settings.tls.as_ref(), address).await.map_err(broken)?;
    let mut greeting = Vec::new();
    let token = match &settings.token {
        Some(token) => Some(token.current().await.map_err(ClientError::lost)?),
        None => None,
    };
    put_command(&mut greeting, &connect(settings, token.as_deref(), proxy_to));
    writer.write_all(&greeting).await.map_err(broken)?;
    writer.flush().await.map_err(broken)?;
    let (greeting, received) = await_greeting(&mut reader).await?;
    Ok(Opened { reader, writer, greeting, received })
}

fn connect(settings: &SocketSettings, token: Option<&str>, proxy_to: Option<&str>) -> ToBroker {
    // A broker without authentication ignores the method.
    let method = match token {
        Some(_) => Some("token"),
        None => settings.certified.then_some("tls"),
    };
    let connect = Connect {
        client_version: client_version(),
        auth_data: token.map(|token| token.as_bytes().to_vec()),
        auth_method_name: method.map(str::to_owned),
        protocol_version: Some(PROTOCOL_VERSION),
        proxy_to_broker_url: proxy_to.map(str::to_owned),
        feature_flags: Some(FeatureFlags { supports_auth_refresh: Some(true) }),
    };
    ToBroker { kind: Kind::Connect.into(), connect: Some(Box::new(connect)), ..ToBroker::default() }
}

/// The response to a broker that authenticates the client again, because its token has expired.
pub fn auth_response(token: &str) -> ToBroker {
    let response = AuthResponse {
        client_version: Some(client_version()),
        response: Some(AuthData {
            auth_method_name: Some("token".to_owned()),
            auth_data: Some(token.as_bytes().to_vec()),
        }),
        protocol_version: Some(PROTOCOL_VERSION),
    };
    ToBroker { kind: Kind::AuthResponse.into(), auth_response: Some(Box::new(response)), ..ToBroker::default() }
}

async fn await_greeting(reader: &mut (impl AsyncRead + Unpin)) -> Result<(Greeting, Vec<u8>), ClientError> {
    let mut received = Vec::with_capacity(1 << 10);
    loop {
        let first = Frame::first(&received, MAX_MESSAGE).map_err(|error| ClientError::lost(error.to_string()))?;
        if let Some((frame, size)) = first {
            let command = FromBroker::decode(frame.command).map_err(|error| ClientError::lost(error.to_string()))?;
            if let Some(error) = command.error {
                let failure = refused(error.error, &error.message);
                // Before the login: there are `brokerMaxConnections` or `brokerMaxConnectionsPerIp`, until others end (`ServerCnx.channelActive`).
                let is_full = error.error == i32::from(ServerError::NotAllowedError);
                return Err(ClientError { lasting: failure.lasting && !is_full, ..failure });
            }
            if let Some(connected) = command.connected {
                let max_message = connected.max_message_size.and_then(|size| usize::try_from(size).ok());
                let max_message = max_message.filter(|size| *size > 0).unwrap_or(MAX_MESSAGE);
                received.drain(..size);
                return Ok((Greeting { server_version: connected.server_version, max_message }, received));
            }
            return Err(match Kind::try_from(command.kind) {
                Ok(Kind::AuthChallenge) => {
                    let reason =
                        "the broker asks for an authentication other than a token, which brokermark does not support";
                    refused(ServerError::AuthenticationError.into(), reason)
                }
                _ => ClientError::lost(format!("the broker responded to the greeting with command {}", command.kind)),
            });
        }
        if reader.read_buf(&mut received).await.map_err(|error| ClientError::lost(error.to_string()))? == 0 {
            return Err(ClientError::lost("the broker closed the connection instead of greeting"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::FailureClass;
    use crate::broker::pulsar::codec::proto::Refusal;

    #[tokio::test]
    async fn a_broker_with_too_many_connections_may_take_one_later() {
        for (error, class, lasting) in [
            (ServerError::NotAllowedError, FailureClass::Refused, false),
            (ServerError::AuthenticationError, FailureClass::Authorisation, true),
        ] {
            let message = "Reached the maximum number of connections".to_owned();
            let refusal = Some(Box::new(Refusal { request_id: u64::MAX, error: error.into(), message }));
            let command = FromBroker { kind: Kind::Error.into(), error: refusal, ..FromBroker::default() };
            let command = prost::Message::encode_to_vec(&command);
            let size = command.len() as u32;
            let frame = [(size + 4).to_be_bytes().as_slice(), size.to_be_bytes().as_slice(), &command].concat();
            let failure = await_greeting(&mut &frame[..]).await.unwrap_err();
            assert_eq!((failure.class, failure.lasting), (class, lasting), "{error:?}");
        }
    }
}
