//! Opens a connection to nsqd: IDENTIFY, the negotiated layers, AUTH and SUB.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use std::{fmt, io};

use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::codec::{Frame, HEARTBEAT, MAGIC, Malformed, OK, command, decode};
use super::config::{Compression, NsqOptions};
use super::upgraded_stream::{self, Agreed};
use crate::broker::{BrokerError, FailureClass};
use crate::measure::{ConditionKind, Conditions, Subject, SubjectKind};
use crate::net::connect::{self, encrypt, within};
use crate::net::transport::{ReadBuffer, Transport, WriteBuffer};
use crate::net::{tcp, tls};
use crate::printable::printable;
use crate::scenario::BrokerConfig;

/// RDY where the scenario names none.
const RDY: u64 = 2500;

/// Opens connections with the scenario's settings.
pub struct Connector {
    options: NsqOptions,
    tls: Option<Arc<ClientConfig>>,
    auth: Option<String>,
    client_id: String,
    timeout: Duration,
    conditions: Conditions,
}

/// What a connection is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    Writer,
    Reader {
        topic: String,
        channel: String,
    },
    /// Has nsqd make a channel, and is sent nothing: a connection begins with RDY 0 (NSQ's protocol specification, `RDY`).
    ChannelMaker {
        topic: String,
        channel: String,
    },
}

/// A connection that is ready for its work.
pub struct Session {
    pub transport: Transport,
    pub read_buffer: ReadBuffer,
    pub server: Server,
    /// What was sent so far, as it was compressed; `None`: nothing is compressed.
    pub compressed_bytes: Option<Arc<AtomicU64>>,
}

/// nsqd's answer to IDENTIFY.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Server {
    pub version: String,
    pub max_rdy_count: u64,
    #[serde(default)]
    tls_v1: bool,
    #[serde(default)]
    snappy: bool,
    #[serde(default)]
    deflate: bool,
    #[serde(default)]
    deflate_level: u32,
    #[serde(default)]
    auth_required: bool,
}

#[derive(Serialize)]
struct Identify<'a> {
    client_id: &'a str,
    user_agent: &'static str,
    feature_negotiation: bool,
    heartbeat_interval: u128,
    tls_v1: bool,
    snappy: bool,
    deflate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    deflate_level: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_buffer_size: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_buffer_timeout: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg_timeout: Option<u128>,
}

impl Connector {
    /// # Errors
    /// When a secret, certificate or key cannot be read.
    pub fn new(
        config: &BrokerConfig,
        options: &NsqOptions,
        client_id: &str,
        timeout: Duration,
        conditions: &Conditions,
    ) -> Result<Self, BrokerError> {
        Ok(Connector {
            conditions: conditions.clone(),
            options: options.clone(),
            tls: tls::client_config(config.security.tls.as_ref()).map_err(BrokerError::Configuration)?,
            auth: options
                .auth_secret
                .as_ref()
                .map(|secret| secret.reveal())
                .transpose()
                .map_err(BrokerError::Configuration)?,
            client_id: client_id.to_owned(),
            timeout,
        })
    }

    pub fn options(&self) -> &NsqOptions {
        &self.options
    }

    /// # Errors
    /// When nsqd does not respond in time, refuses a command, or lacks a feature that the scenario asks for.
    pub async fn connect(&self, address: &str, role: &Role) -> Result<Session, ConnectError> {
        let connecting = self.connect_now(address, role);
        self.node(address).during(ConditionKind::Connecting, "no answer yet", connecting).await
    }

    /// The nsqd at `address`, as what can be held up.
    pub fn node(&self, address: &str) -> Subject {
        Subject::new(&self.conditions, SubjectKind::Node, address)
    }

    async fn connect_now(&self, address: &str, role: &Role) -> Result<Session, ConnectError> {
        within(self.timeout, async {
            let (stream, server) = self.identify(address).await?;
            let mut session = self.upgrade(address, stream, server).await?;
            let mut out = WriteBuffer::default();
            if let Some(secret) = &self.auth
                && session.server.auth_required
            {
                command::auth(&mut out.bytes, secret.as_bytes());
                response(&mut session, &mut out).await?;
            }
            if let Role::Reader { topic, channel } | Role::ChannelMaker { topic, channel } = role {
                let rdy = self.rdy(&session.server)?;
                command::subscribe(&mut out.bytes, topic, channel);
                expect_ok(&response(&mut session, &mut out).await?)?;
                if matches!(role, Role::Reader { .. }) {
                    command::ready(&mut out.bytes, rdy);
                    out.flush_all(&session.transport).await?;
                }
            }
            Ok(session)
        })
        .await
    }

    async fn identify(&self, address: &str) -> Result<(TcpStream, Server), ConnectError> {
        let mut stream = tcp::connect(address).await?;
        let mut hello = MAGIC.to_vec();
        command::identify(&mut hello, &self.identity());
        stream.write_all(&hello).await?;
        let data = read_frame(&mut stream, self.most()).await?;
        let server = serde_json::from_slice(&data).map_err(|_| {
            let reason = format!("it does not negotiate features; it responded: {}", text(&data));
            ConnectError::Incompatible(reason)
        })?;
        Ok((stream, server))
    }

    /// Adds the negotiated encryption and compression to a connection.
    async fn upgrade(&self, address: &str, stream: TcpStream, server: Server) -> Result<Session, ConnectError> {
        let agreed = self.agree(&server)?;
        let sent = Arc::<AtomicU64>::default();
        let transport = match &self.tls {
            Some(tls) => {
                let mut stream = encrypt(tls.clone(), address, stream).await?;
                expect_ok(&read_frame(&mut stream, self.most()).await?)?;
                Transport::Upgraded(upgraded_stream::start(stream, agreed, sent.clone())?)
            }
            None if agreed != Agreed::None => {
                Transport::Upgraded(upgraded_stream::start(stream, agreed, sent.clone())?)
            }
            None => Transport::Plain(stream),
        };
        let compressed_bytes = (agreed != Agreed::None).then_some(sent);
        let read_buffer = ReadBuffer::new(self.most());
        let mut session = Session { transport, read_buffer, server, compressed_bytes };
        if agreed != Agreed::None {
            expect_ok(&response(&mut session, &mut WriteBuffer::default()).await?)?;
        }
        Ok(session)
    }

    fn identity(&self) -> Vec<u8> {
        let options = &self.options;
        let identify = Identify {
            client_id: &self.client_id,
            user_agent: concat!("brokermark/", env!("CARGO_PKG_VERSION")),
            feature_negotiation: true,
            heartbeat_interval: options.heartbeat.as_millis(),
            tls_v1: self.tls.is_some(),
            snappy: options.compression == Compression::Snappy,
            deflate: options.compression == Compression::Deflate,
            deflate_level: options.deflate_level,
            output_buffer_size: options.output_buffer_size(),
            output_buffer_timeout: options.output_buffer_timeout.map(|timeout| timeout.as_millis()),
            msg_timeout: options.message_timeout.map(|timeout| timeout.as_millis()),
        };
        // Serialisation fails only for maps whose keys are not strings; this type has no map.
        serde_json::to_vec(&identify).unwrap_or_default()
    }

    /// The compression that both sides support. A feature that the scenario asks for and nsqd lacks is an error.
    fn agree(&self, server: &Server) -> Result<Agreed, ConnectError> {
        let missing = |what: &str, option: &str| {
            Err(ConnectError::Incompatible(format!("nsqd does not offer {what}: start it with {option}")))
        };
        if self.tls.is_some() && !server.tls_v1 {
            return missing("TLS", "-tls-cert and -tls-key");
        }
        if server.auth_required && self.auth.is_none() {
            let message = "nsqd asks for authorisation: set `broker.nsq.auth_secret`".to_owned();
            return Err(ConnectError::Refused(Refusal { class: FailureClass::Authorisation, message }));
        }
        match self.options.compression {
            Compression::None => Ok(Agreed::None),
            Compression::Snappy if server.snappy => Ok(Agreed::Snappy),
            Compression::Snappy => missing("snappy", "-snappy=true"),
            Compression::Deflate if server.deflate => Ok(Agreed::Deflate { level: server.deflate_level.clamp(1, 9) }),
            Compression::Deflate => missing("deflate", "-deflate=true"),
        }
    }

    fn rdy(&self, server: &Server) -> Result<u64, ConnectError> {
        let most = server.max_rdy_count;
        match self.options.rdy {
            None => Ok(RDY.min(most)),
            Some(rdy) if rdy <= most => Ok(rdy),
            Some(rdy) => Err(ConnectError::Incompatible(format!(
                "`broker.nsq.rdy` is {rdy}, but nsqd allows {most}: lower it, or start nsqd with -max-rdy-count={rdy}"
            ))),
        }
    }

    fn most(&self) -> usize {
        self.options.frame_bytes as usize
    }
}

/// The data of the next response. Reads no byte beyond it: TLS or compression may begin there.
async fn read_frame(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), most: usize) -> Result<Vec<u8>, ConnectError> {
    loop {
        let mut size = [0; 4];
        stream.read_exact(&mut size).await?;
        // Rejects an impossible size before it waits for so many bytes.
        decode(&size, most)?;
        // The buffer grows with the bytes that arrive, not by the announced size.
        let mut bytes = size.to_vec();
        (&mut *stream).take(u64::from(u32::from_be_bytes(size))).read_to_end(&mut bytes).await?;
        match decode(&bytes, most)? {
            Some((Frame::Response(data), _)) if data == HEARTBEAT => stream.write_all(b"NOP\n").await?,
            Some((frame, _)) => return data_of(frame).map(<[u8]>::to_vec),
            None => return Err(ConnectError::Io(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// Sends the bytes of `out` and waits for the response.
async fn response(session: &mut Session, out: &mut WriteBuffer) -> Result<Vec<u8>, ConnectError> {
    loop {
        out.flush_all(&session.transport).await?;
        match session.read_buffer.next(decode)? {
            Some(Frame::Response(data)) if data == HEARTBEAT => command::nothing(&mut out.bytes),
            Some(frame) => return data_of(frame).map(<[u8]>::to_vec),
            None => {
                session.transport.readable().await?;
                session.read_buffer.fill(&session.transport)?;
            }
        }
    }
}

fn data_of(frame: Frame<'_>) -> Result<&[u8], ConnectError> {
    match frame {
        Frame::Response(data) => Ok(data),
        Frame::Error(error) => Err(ConnectError::Refused(Refusal::new(error))),
        Frame::Message(_) => Err(ConnectError::Incompatible("it delivers messages before the subscription".to_owned())),
    }
}

fn expect_ok(data: &[u8]) -> Result<(), ConnectError> {
    match data == OK {
        true => Ok(()),
        false => Err(ConnectError::Incompatible(format!("it responded with {} instead of OK", text(data)))),
    }
}

/// Why there is no connection to nsqd.
pub type ConnectError = connect::ConnectError<Refusal>;

/// A command that nsqd refused.
#[derive(Debug)]
pub struct Refusal {
    pub class: FailureClass,
    pub message: String,
}

impl Refusal {
    /// Reads the data of an error frame.
    pub fn new(error: &[u8]) -> Self {
        Refusal { class: class_of(error), message: text(error) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl From<Malformed> for ConnectError {
    fn from(malformed: Malformed) -> Self {
        ConnectError::Malformed(malformed.to_string())
    }
}

impl ConnectError {
    /// The condition that it shows.
    pub fn condition(&self) -> ConditionKind {
        match self {
            ConnectError::Refused(Refusal { class, .. }) => ConditionKind::from_failure(*class),
            ConnectError::Incompatible(_) => ConditionKind::Refused,
            ConnectError::Io(_) | ConnectError::Timeout(_) | ConnectError::Malformed(_) => ConditionKind::Connecting,
        }
    }

    /// The error of a trial that cannot run without this connection.
    pub fn into_broker_error(self, address: &str) -> BrokerError {
        let (address, reason) = (address.to_owned(), self.to_string());
        match self {
            ConnectError::Refused(Refusal { class: FailureClass::Authorisation, .. }) => {
                BrokerError::Authorisation { address, reason }
            }
            ConnectError::Incompatible(_) => BrokerError::Configuration(format!("{address}: {reason}")),
            ConnectError::Refused(_) => BrokerError::Client(format!("{address}: {reason}")),
            ConnectError::Io(_) | ConnectError::Timeout(_) | ConnectError::Malformed(_) => {
                BrokerError::Unreachable { address, reason }
            }
        }
    }
}

/// nsqd's words, shortened.
pub fn text(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes)).chars().take(500).collect()
}

/// The class of an error frame's data: `E_BAD_TOPIC PUB topic name "!" is not valid`.
pub fn class_of(error: &[u8]) -> FailureClass {
    let (code, detail) = match error.iter().position(|byte| *byte == b' ') {
        Some(blank) => error.split_at(blank),
        None => (error, &[][..]),
    };
    match code {
        b"E_BAD_TOPIC" | b"E_BAD_CHANNEL" => FailureClass::UnknownTopic,
        b"E_BAD_MESSAGE" | b"E_BAD_BODY" if contains(detail, b"too big") => FailureClass::TooLarge,
        b"E_AUTH_DISABLED" | b"E_AUTH_FAILED" | b"E_AUTH_ERROR" | b"E_AUTH_FIRST" | b"E_UNAUTHORIZED" => {
            FailureClass::Authorisation
        }
        _ => FailureClass::Refused,
    }
}

/// Whether an error is about one delivered message, so that the connection continues. The message timed out; nsqd delivers
/// it again, and that delivery is counted.
pub fn is_about_a_delivery(error: &[u8]) -> bool {
    [&b"E_FIN_FAILED"[..], b"E_REQ_FAILED", b"E_TOUCH_FAILED"].iter().any(|code| error.starts_with(code))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_classes() {
        for (error, class) in [
            ("E_BAD_TOPIC PUB topic name \"!\" is not valid", FailureClass::UnknownTopic),
            ("E_BAD_MESSAGE MPUB message too big 2000 > 1000", FailureClass::TooLarge),
            ("E_BAD_BODY MPUB body too big 2000 > 1000", FailureClass::TooLarge),
            ("E_BAD_MESSAGE PUB invalid message body size 0", FailureClass::Refused),
            ("E_UNAUTHORIZED AUTH failed for PUB on \"a\" \"\"", FailureClass::Authorisation),
            ("E_INVALID", FailureClass::Refused),
        ] {
            assert_eq!(class_of(error.as_bytes()), class, "{error}");
        }
        assert!(is_about_a_delivery(b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight"));
    }
}
