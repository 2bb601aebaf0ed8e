//! From an address to a connection that is ready for its work: IDENTIFY, what was negotiated, AUTH, SUB.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::codec::{Frame, HEARTBEAT, MAGIC, Malformed, OK, command, decode};
use super::config::{Compression, NsqOptions};
use super::error::class_of;
use super::upgraded_stream::{self, Agreed};
use crate::broker::transport::{ReadBuffer, Transport, WriteBuffer};
use crate::broker::{BrokerError, FailureClass, tls};
use crate::scenario::BrokerConfig;

/// RDY where the scenario names none.
const RDY: u64 = 2500;

/// Connects, always in the same way.
pub struct Dialer {
    options: NsqOptions,
    tls: Option<Arc<ClientConfig>>,
    auth: Option<String>,
    client_id: String,
    timeout: Duration,
}

/// What a connection is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    Writer,
    Reader { topic: String, channel: String },
}

/// A connection that is ready for its work.
pub struct Session {
    pub transport: Transport,
    pub read_buffer: ReadBuffer,
    pub server: Server,
}

/// What nsqd says of itself.
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

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// In nsqd's words.
    #[error("{message}")]
    Refused { class: FailureClass, message: String },
    #[error("{0}")]
    Disagreed(String),
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
    output_buffer_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_buffer_timeout: Option<u128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    msg_timeout: Option<u128>,
}

impl Dialer {
    /// # Errors
    /// When a secret, certificate or key cannot be read.
    pub fn new(
        config: &BrokerConfig,
        options: &NsqOptions,
        client_id: &str,
        timeout: Duration,
    ) -> Result<Self, BrokerError> {
        let refused = |reason: String| BrokerError::Configuration { broker: "nsq", reason };
        Ok(Dialer {
            options: options.clone(),
            tls: config
                .security
                .tls
                .as_ref()
                .map(|tls| tls::TlsIdentity::read(tls)?.client_config())
                .transpose()
                .map_err(refused)?,
            auth: options.auth_secret.as_ref().map(|secret| secret.reveal()).transpose().map_err(refused)?,
            client_id: client_id.to_owned(),
            timeout,
        })
    }

    pub fn options(&self) -> &NsqOptions {
        &self.options
    }

    /// # Errors
    /// When nsqd does not answer in time, refuses something, or cannot do what the scenario asks for.
    pub async fn dial(&self, address: &str, role: &Role) -> Result<Session, DialError> {
        timeout(self.timeout, self.connect(address, role)).await.unwrap_or(Err(DialError::Late(self.timeout)))
    }

    async fn connect(&self, address: &str, role: &Role) -> Result<Session, DialError> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut out = WriteBuffer::default();
        out.bytes.extend_from_slice(MAGIC);
        command::identify(&mut out.bytes, &self.identify());
        stream.write_all(&out.bytes).await?;
        out.clear();
        let said = read_frame(&mut stream, self.most()).await?;
        let server: Server = serde_json::from_slice(&said)
            .map_err(|_| DialError::Disagreed(format!("it does not negotiate features, but says: {}", text(&said))))?;
        let agreed = self.agree(&server)?;
        let transport = match &self.tls {
            Some(tls) => {
                let mut stream = encrypt(tls.clone(), address, stream).await?;
                expect_ok(&read_frame(&mut stream, self.most()).await?)?;
                Transport::Bridged(upgraded_stream::start(stream, agreed)?)
            }
            None if agreed != Agreed::None => Transport::Bridged(upgraded_stream::start(stream, agreed)?),
            None => Transport::Direct(stream),
        };
        let mut session = Session { transport, read_buffer: ReadBuffer::new(self.most()), server };
        if agreed != Agreed::None {
            expect_ok(&answer(&mut session, &mut out).await?)?;
        }
        if let Some(secret) = &self.auth
            && session.server.auth_required
        {
            command::auth(&mut out.bytes, secret.as_bytes());
            answer(&mut session, &mut out).await?;
        }
        if let Role::Reader { topic, channel } = role {
            let rdy = self.rdy(&session.server)?;
            command::subscribe(&mut out.bytes, topic, channel);
            expect_ok(&answer(&mut session, &mut out).await?)?;
            command::ready(&mut out.bytes, rdy);
            flush(&session.transport, &mut out).await?;
        }
        Ok(session)
    }

    fn identify(&self) -> Vec<u8> {
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
            output_buffer_size: options.output_buffer,
            output_buffer_timeout: options.output_buffer_timeout.map(|timeout| timeout.as_millis()),
            msg_timeout: options.message_timeout.map(|timeout| timeout.as_millis()),
        };
        // Serialising fails only for maps whose keys are no strings, and there is none.
        serde_json::to_vec(&identify).unwrap_or_default()
    }

    /// What both sides can do; a feature that was asked for and not granted is an error, never silently left out.
    fn agree(&self, server: &Server) -> Result<Agreed, DialError> {
        let missing = |what: &str, option: &str| {
            Err(DialError::Disagreed(format!("nsqd does not grant {what}: start it with {option}")))
        };
        if self.tls.is_some() && !server.tls_v1 {
            return missing("TLS", "-tls-cert and -tls-key");
        }
        if server.auth_required && self.auth.is_none() {
            let message = "nsqd asks for authorisation: give `broker.nsq.auth_secret`".to_owned();
            return Err(DialError::Refused { class: FailureClass::Authorisation, message });
        }
        match self.options.compression {
            Compression::None => Ok(Agreed::None),
            Compression::Snappy if server.snappy => Ok(Agreed::Snappy),
            Compression::Snappy => missing("snappy", "-snappy=true"),
            Compression::Deflate if server.deflate => Ok(Agreed::Deflate { level: server.deflate_level.clamp(1, 9) }),
            Compression::Deflate => missing("deflate", "-deflate=true"),
        }
    }

    fn rdy(&self, server: &Server) -> Result<u64, DialError> {
        let most = server.max_rdy_count;
        match self.options.rdy {
            None => Ok(RDY.min(most)),
            Some(rdy) if rdy <= most => Ok(rdy),
            Some(rdy) => Err(DialError::Disagreed(format!(
                "`broker.nsq.rdy` is {rdy}, but nsqd allows {most}: lower it, or start nsqd with -max-rdy-count={rdy}"
            ))),
        }
    }

    fn most(&self) -> usize {
        self.options.frame_bytes as usize
    }
}

async fn encrypt(
    config: Arc<ClientConfig>,
    address: &str,
    stream: TcpStream,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, DialError> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| DialError::Disagreed(format!("{host} is no name that a certificate can be for")))?;
    Ok(TlsConnector::from(config).connect(name, stream).await?)
}

/// The data of the next response, read byte for byte: what follows it may be of another layer.
async fn read_frame(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), most: usize) -> Result<Vec<u8>, DialError> {
    loop {
        let mut size = [0; 4];
        stream.read_exact(&mut size).await?;
        // A size that no frame has is refused before so much is waited for.
        decode(&size, most)?;
        // The buffer grows with what comes, not by what was announced.
        let mut bytes = size.to_vec();
        (&mut *stream).take(u64::from(u32::from_be_bytes(size))).read_to_end(&mut bytes).await?;
        match decode(&bytes, most)? {
            Some((Frame::Response(data), _)) if data == HEARTBEAT => stream.write_all(b"NOP\n").await?,
            Some((frame, _)) => return respond(frame).map(<[u8]>::to_vec),
            None => return Err(DialError::Io(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// Sends what is in `out` and waits for the response.
async fn answer(session: &mut Session, out: &mut WriteBuffer) -> Result<Vec<u8>, DialError> {
    loop {
        flush(&session.transport, out).await?;
        match session.read_buffer.next(decode)? {
            Some(Frame::Response(data)) if data == HEARTBEAT => command::nothing(&mut out.bytes),
            Some(frame) => return respond(frame).map(<[u8]>::to_vec),
            None => {
                session.transport.readable().await?;
                session.read_buffer.fill(&session.transport)?;
            }
        }
    }
}

async fn flush(transport: &Transport, out: &mut WriteBuffer) -> io::Result<()> {
    while !out.flush(transport)? {
        transport.writable().await?;
    }
    Ok(())
}

fn respond(frame: Frame<'_>) -> Result<&[u8], DialError> {
    match frame {
        Frame::Response(data) => Ok(data),
        Frame::Error(error) => Err(DialError::Refused { class: class_of(error), message: text(error) }),
        Frame::Message(_) => Err(DialError::Disagreed("it delivers messages before they were asked for".to_owned())),
    }
}

fn expect_ok(data: &[u8]) -> Result<(), DialError> {
    match data == OK {
        true => Ok(()),
        false => Err(DialError::Disagreed(format!("it should have said OK, but said: {}", text(data)))),
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(500).collect()
}

impl DialError {
    /// As the engine is told of it, where nothing can run without this connection.
    pub fn into_broker_error(self, address: &str) -> BrokerError {
        let (address, reason) = (address.to_owned(), self.to_string());
        match self {
            DialError::Refused { class: FailureClass::Authorisation, .. } => {
                BrokerError::Authorisation { broker: "nsq", address, reason }
            }
            DialError::Disagreed(_) => {
                BrokerError::Configuration { broker: "nsq", reason: format!("{address}: {reason}") }
            }
            DialError::Refused { .. } => BrokerError::Client { broker: "nsq", reason: format!("{address}: {reason}") },
            DialError::Io(_) | DialError::Late(_) | DialError::Malformed(_) => {
                BrokerError::Unreachable { broker: "nsq", address, reason }
            }
        }
    }
}
