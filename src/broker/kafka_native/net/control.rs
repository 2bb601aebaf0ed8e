//! A connection that is used for one request after the other. A task that sends several at once takes it apart.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, RequestHeader, ResponseHeader, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::super::codec::layout;
use super::super::codec::responses::{NodeVersions, read_versions};
use super::super::error::{CallError, UNSUPPORTED_VERSION, describe};
use crate::net::connect;

/// Most bytes of a response that is taken: a fetch is asked for far less.
pub const MAX_RESPONSE_BYTES: usize = 256 << 20;

/// How long a broker's throttle is kept at most: a quota's window is 11 seconds by default, and the throttle at most as long.
pub const MAX_THROTTLE: Duration = Duration::from_secs(60);

/// Room that is made for a response before it arrives. It grows with what arrives beyond that, which is copied then.
const MAX_AHEAD: usize = 8 << 20;

/// After this share of a session, a new one is begun. Kafka's own client does so after 85 % to 95 % (`ExponentialBackoff` of
/// `SaslClientAuthenticator`).
const SESSION_SHARE: f64 = 0.85;

/// A connection that is ready for requests.
pub struct ControlConnection {
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub versions: NodeVersions,
    client_id: String,
    /// Limit for the response to each request.
    pub timeout: Duration,
    /// When a new login is due: the node closes the connection when the session of the last one ends (KIP-368). `None`: it does not end.
    pub session_due: Option<Instant>,
    /// Whether the node has told its versions, which it tells every client, and answered nothing else.
    is_new: bool,
    next_correlation: i32,
}

impl NodeVersions {
    /// The newest version of request `key` that the node supports, between `oldest` and `newest`.
    ///
    /// # Errors
    /// When both sides have no version in common.
    pub fn newest_common(&self, key: i16, oldest: i16, newest: i16) -> Result<i16, CallError> {
        let found = self.requests.iter().find(|(found, ..)| *found == key);
        let common = found.map(|(_, least, most)| (oldest.max(*least), newest.min(*most)));
        common.filter(|(least, most)| least <= most).map(|(_, most)| most).ok_or_else(|| {
            let name = ApiKey::try_from(key).map_or_else(|_| key.to_string(), |known| format!("{known:?}"));
            let supported = match found {
                Some((_, least, most)) => format!("versions {least} to {most} of the request {name}"),
                None => format!("no request {name}"),
            };
            CallError::Unsupported(format!(
                "the broker supports {supported}, and `client = \"native\"` needs one of {oldest} to {newest}: \
                 use a broker of Kafka 2.1 or newer, or `client = \"librdkafka\"`"
            ))
        })
    }
}

impl ControlConnection {
    /// Of an open connection, on which nothing was asked yet. `timeout`: for the response to each request.
    pub fn new(
        reader: Box<dyn AsyncRead + Send + Unpin>,
        writer: Box<dyn AsyncWrite + Send + Unpin>,
        client_id: String,
        timeout: Duration,
    ) -> Self {
        let (versions, session_due, is_new) = (NodeVersions::default(), None, false);
        ControlConnection { reader, writer, versions, client_id, timeout, session_due, is_new, next_correlation: 0 }
    }

    /// Sends `request` in the newest version up to `newest` that both sides know, and waits for the response.
    ///
    /// # Errors
    /// When the connection is lost, or the response is late or malformed. The connection cannot be used then.
    pub async fn call<R: Request>(&mut self, request: &R, newest: i16) -> Result<R::Response, CallError> {
        let (mut body, version) = self.call_body(request, newest).await?;
        layout::check(&body, R::KEY, version)?;
        R::Response::decode(&mut body, version).map_err(malformed)
    }

    /// As [`ControlConnection::call`], with the response as it came, and its version.
    ///
    /// # Errors
    /// As [`ControlConnection::call`].
    pub async fn call_body<R: Request>(&mut self, request: &R, newest: i16) -> Result<(Bytes, i16), CallError> {
        let (oldest, newest) = match layout::versions(R::KEY) {
            Some((oldest, known)) => (oldest.max(R::VERSIONS.min), known.min(newest)),
            None => (R::VERSIONS.min, newest),
        };
        let version = self.versions.newest_common(R::KEY, oldest, newest.min(R::VERSIONS.max))?;
        Ok((self.call_raw(request, version).await?, version))
    }

    /// As [`ControlConnection::call_body`], in a version that the crate `kafka-protocol` does not know: `adapt` makes the body of one of version
    /// `known`. Their headers are alike.
    ///
    /// # Errors
    /// As [`ControlConnection::call`].
    pub async fn call_adapted<R: Request>(
        &mut self,
        request: &R,
        known: i16,
        version: i16,
        adapt: impl FnOnce(&mut BytesMut),
    ) -> Result<Bytes, CallError> {
        let correlation = self.take_correlation();
        let mut frame = request_frame(request, known, correlation, &self.client_id)?;
        // Behind the length and the request's key.
        frame[6..8].copy_from_slice(&version.to_be_bytes());
        let mut body = BytesMut::new();
        request.encode(&mut body, known).map_err(inexpressible)?;
        frame.truncate(frame.len() - body.len());
        adapt(&mut body);
        frame.unsplit(body);
        set_length(&mut frame);
        self.exchange(&frame, R::Response::header_version(known), correlation).await
    }

    fn take_correlation(&mut self) -> i32 {
        let correlation = self.next_correlation;
        self.next_correlation = correlation.wrapping_add(1);
        correlation
    }

    /// The response's body, in a version that is not checked.
    async fn call_raw<R: Request>(&mut self, request: &R, version: i16) -> Result<Bytes, CallError> {
        let correlation = self.take_correlation();
        let frame = request_frame(request, version, correlation, &self.client_id)?;
        self.exchange(&frame, R::Response::header_version(version), correlation).await
    }

    /// Sends a request, and waits for the response's body.
    async fn exchange(&mut self, frame: &[u8], header_version: i16, correlation: i32) -> Result<Bytes, CallError> {
        let limit = self.timeout;
        let exchange = async {
            self.writer.write_all(frame).await?;
            self.writer.flush().await?;
            read_frame(&mut self.reader).await
        };
        let answer = timeout(limit, exchange).await.unwrap_or(Err(CallError::Timeout(limit)));
        let mut response = answer.map_err(|error| if self.is_new { without_login(error) } else { error })?;
        self.is_new = false;
        take_header(&mut response, header_version, correlation)?;
        Ok(response)
    }

    /// Asks for the versions of requests that the node supports.
    ///
    /// # Errors
    /// When it does not tell them.
    // A broker that does not know the newest version of this request answers in the oldest, as KIP-511 says.
    pub async fn api_versions(&mut self) -> Result<(), CallError> {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("brokermark"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        let mut version = 3;
        let mut body = self.call_raw(&request, version).await?;
        if body.get(..2) == Some(&UNSUPPORTED_VERSION.to_be_bytes()) {
            version = 0;
            body = self.call_raw(&ApiVersionsRequest::default(), version).await?;
        }
        self.versions = read_versions(&body, version)?;
        CallError::check(self.versions.code)?;
        self.is_new = true;
        Ok(())
    }

    /// Names the mechanism of a login.
    ///
    /// # Errors
    /// When the node does not offer it.
    pub async fn sasl_handshake(&mut self, mechanism: &str) -> Result<(), CallError> {
        self.is_new = false;
        let request = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_string(mechanism.to_owned()));
        let response = self.call(&request, 1).await?;
        if response.error_code == 0 {
            return Ok(());
        }
        let offered: Vec<&str> = response.mechanisms.iter().map(|name| name.as_str()).collect();
        let offered = if offered.is_empty() {
            "no mechanism at this listener: name the port of one with SASL, or remove `broker.security.sasl`".to_owned()
        } else {
            offered.join(", ")
        };
        Err(CallError::Authorisation(format!("the broker does not offer SASL {mechanism}, but {offered}")))
    }

    /// Sends a message of a login, and returns the answer.
    ///
    /// # Errors
    /// When the node refuses it.
    pub async fn sasl_authenticate(&mut self, message: Vec<u8>) -> Result<Bytes, CallError> {
        let request = SaslAuthenticateRequest::default().with_auth_bytes(message.into());
        let response = self.call(&request, 2).await?;
        match response.error_code {
            0 => {
                let lifetime = u64::try_from(response.session_lifetime_ms).ok().filter(|lifetime| *lifetime > 0);
                let due = lifetime.map(|lifetime| Duration::from_millis(lifetime).mul_f64(SESSION_SHARE));
                self.session_due = due.map(|due| Instant::now() + due);
                Ok(response.auth_bytes)
            }
            code => {
                let message = response.error_message.as_ref().map(|message| message.as_str());
                Err(CallError::Authorisation(describe(code, message)))
            }
        }
    }

    /// Whether its session is about to end: another connection is to be opened before the next request.
    pub fn is_expiring(&self) -> bool {
        self.session_due.is_some_and(|due| due <= Instant::now())
    }

    pub fn client_id(&self) -> &str {
        &self.client_id
    }
}

/// A whole request: its length, its header and its body.
///
/// # Errors
/// When `request` holds what `version` cannot say.
pub fn request_frame<R: Request>(
    request: &R,
    version: i16,
    correlation: i32,
    client_id: &str,
) -> Result<BytesMut, CallError> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation)
        .with_client_id(Some(StrBytes::from_string(client_id.to_owned())));
    let mut frame = BytesMut::from(&[0; 4][..]);

    header.encode(&mut frame, R::header_version(version)).map_err(inexpressible)?;
    request.encode(&mut frame, version).map_err(inexpressible)?;
    set_length(&mut frame);
    Ok(frame)
}

/// Writes the length of what comes after it.
fn set_length(frame: &mut BytesMut) {
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
}

/// The next response, without its length.
///
/// # Errors
/// When the connection ends, or the response is larger than [`MAX_RESPONSE_BYTES`].
pub async fn read_frame(reader: &mut (impl AsyncRead + Unpin)) -> Result<Bytes, CallError> {
    let length = reader.read_u32().await?;
    if let Some(port) = connect::protocol_of_size(length) {
        return Err(CallError::Malformed(port.to_owned()));
    }
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > MAX_RESPONSE_BYTES {
        return Err(CallError::Malformed(format!("a response of {length} bytes")));
    }
    // What is announced takes room for so much at once, of which the system provides what is written to.
    let mut frame = BytesMut::with_capacity(length.min(MAX_AHEAD));
    let mut rest = reader.take(length as u64);
    while frame.len() < length {
        if rest.read_buf(&mut frame).await? == 0 {
            return Err(CallError::Lost("the broker closed the connection".to_owned()));
        }
    }
    Ok(frame.freeze())
}

/// Takes the header from a response.
///
/// # Errors
/// When it answers another request.
pub fn take_header(response: &mut Bytes, header_version: i16, correlation: i32) -> Result<(), CallError> {
    let header = ResponseHeader::decode(response, header_version).map_err(malformed)?;
    if header.correlation_id == correlation {
        return Ok(());
    }
    Err(CallError::Malformed(format!("it answers request {}, not {correlation}", header.correlation_id)))
}

/// A listener with SASL ends the connection of a client that asks for anything else first.
fn without_login(error: CallError) -> CallError {
    match error {
        CallError::Lost(reason) => CallError::Lost(format!(
            "it ends the connection at the first request ({reason}): if this port wants a login, set `[broker.security.sasl]`, or name \
             the port of a listener without SASL"
        )),
        other => other,
    }
}

fn malformed(error: impl std::fmt::Display) -> CallError {
    CallError::Malformed(error.to_string())
}

fn inexpressible(error: impl std::fmt::Display) -> CallError {
    CallError::Unsupported(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn another_protocol_is_named() {
        let error = read_frame(&mut &b"HTTP/1.1 400 Bad Request"[..]).await.unwrap_err();
        assert!(error.to_string().contains("answers like HTTP"), "{error}");
    }
}
