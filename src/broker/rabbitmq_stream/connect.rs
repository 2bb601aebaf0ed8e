//! From an address to a connection that is ready for its work: properties, login, tuning, virtual host.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::codec::command::{self, Request, read_pairs, read_strings};
use super::codec::frame::{Frame, decode};
use super::codec::{Malformed, code};
use super::config::RabbitmqStreamOptions;
use super::error::class_of;
use crate::broker::transport::{PolledStream, ReadBuffer, Transport, WriteBuffer};
use crate::broker::{BrokerError, FailureClass, tls};
use crate::scenario::BrokerConfig;

/// The user that every new server has, who may connect from the server's own host only.
const GUEST: &str = "guest";

/// Larger than any chunk a server keeps: it ends one when it has this much to write or 4096 entries.
const MOST_FRAME_BYTES: usize = 512 << 20;

/// Connects, always in the same way.
pub struct Dialer {
    options: RabbitmqStreamOptions,
    tls: Option<Arc<ClientConfig>>,
    username: String,
    password: String,
    client_id: String,
    timeout: Duration,
}

/// A connection that is ready for its work.
pub struct Session {
    pub transport: Transport,
    pub read_buffer: ReadBuffer,
    pub write_buffer: WriteBuffer,
    /// Largest frame that may be written.
    pub frame_max: usize,
    /// `None`: neither side expects any.
    pub heartbeat: Option<Duration>,
    pub server: Server,
    correlation: u32,
}

/// What the server says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Server {
    pub version: String,
    /// `host:port` under which it wants to be known.
    pub advertised: Option<String>,
}

/// Why there is no connection, or no answer.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// With one of the protocol's codes.
    #[error("{what}: {}", code::name(*code))]
    Refused { what: &'static str, code: u16 },
    #[error("{0}")]
    Disagreed(String),
}

impl Dialer {
    /// # Errors
    /// When a secret, certificate or key cannot be read.
    pub fn new(
        config: &BrokerConfig,
        options: &RabbitmqStreamOptions,
        client_id: &str,
        timeout: Duration,
    ) -> Result<Self, BrokerError> {
        let refused = |reason: String| BrokerError::Configuration { broker: "rabbitmq-stream", reason };
        let (username, password) = match &config.security.sasl {
            Some(sasl) => (sasl.username.clone(), sasl.password.reveal().map_err(refused)?),
            None => (GUEST.to_owned(), GUEST.to_owned()),
        };
        if username.len() + password.len() > usize::from(u16::MAX) || options.virtual_host.len() > 255 {
            return Err(refused("the user's name, the password or the virtual host is too long".to_owned()));
        }
        if options.busy_poll && config.security.tls.is_some() {
            return Err(refused("`busy_poll` is for connections without TLS".to_owned()));
        }
        Ok(Dialer {
            options: options.clone(),
            tls: config
                .security
                .tls
                .as_ref()
                .map(|tls| tls::TlsIdentity::read(tls)?.client_config())
                .transpose()
                .map_err(refused)?,
            username,
            password,
            client_id: client_id.to_owned(),
            timeout,
        })
    }

    pub fn options(&self) -> &RabbitmqStreamOptions {
        &self.options
    }

    /// A connection whose two sides watch each other.
    ///
    /// # Errors
    /// When the server does not answer in time or refuses something.
    pub async fn dial(&self, address: &str) -> Result<Session, DialError> {
        self.within(self.connect(address, Some(self.options.heartbeat))).await
    }

    /// One that may be silent for as long as nothing is asked.
    ///
    /// # Errors
    /// As [`Dialer::dial`].
    pub async fn dial_without_heartbeat(&self, address: &str) -> Result<Session, DialError> {
        self.within(self.connect(address, None)).await
    }

    /// Waits no longer than an answer may take.
    ///
    /// # Errors
    /// Those of `work`, or that it took too long.
    pub async fn within<T>(&self, work: impl Future<Output = Result<T, DialError>>) -> Result<T, DialError> {
        timeout(self.timeout, work).await.unwrap_or(Err(DialError::Late(self.timeout)))
    }

    async fn connect(&self, address: &str, heartbeat: Option<Duration>) -> Result<Session, DialError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let transport = match &self.tls {
            None if self.options.busy_poll => Transport::Polled(PolledStream::new(stream)?),
            None => Transport::Direct(stream),
            Some(tls) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
                encrypt(stream, host, tls.clone()).await?
            }
        };
        let mut session = Session {
            transport,
            read_buffer: ReadBuffer::new(MOST_FRAME_BYTES),
            write_buffer: WriteBuffer::default(),
            frame_max: 0,
            heartbeat: None,
            server: Server::default(),
            correlation: 0,
        };
        let properties = [
            ("product", "brokermark"),
            ("version", env!("CARGO_PKG_VERSION")),
            ("connection_name", self.client_id.as_str()),
        ];
        let said = session.ask(&Request::peer_properties(&properties), "the exchange of properties").await?;
        let find = |pairs: Vec<(String, String)>, wanted: &str| {
            pairs.into_iter().find(|(key, _)| key == wanted).map(|(_, value)| value)
        };
        session.server.version = find(read_pairs(&said)?, "version").unwrap_or_else(|| "?".to_owned());
        let mechanisms = read_strings(&session.ask(&Request::sasl_handshake(), "the login").await?)?;
        if !mechanisms.iter().any(|mechanism| mechanism == "PLAIN") {
            let offered = mechanisms.join(", ");
            return Err(DialError::Disagreed(format!("the server does not let in by PLAIN, but by {offered}")));
        }
        session.ask(&Request::sasl_plain(&self.username, &self.password), "the login").await?;
        self.tune(&mut session, heartbeat).await?;
        let said = session.ask(&Request::open(&self.options.virtual_host), "the virtual host").await?;
        let said = read_pairs(&said)?;
        let host = find(said.clone(), "advertised_host");
        session.server.advertised =
            host.zip(find(said, "advertised_port")).map(|(host, port)| format!("{host}:{port}"));
        Ok(session)
    }

    /// Takes the smaller of what both sides want, where 0 is no limit and no heartbeat.
    async fn tune(&self, session: &mut Session, heartbeat: Option<Duration>) -> Result<(), DialError> {
        let (frame_max, theirs) = loop {
            match session.next().await? {
                Frame::Tune { frame_max, heartbeat } => break (frame_max, heartbeat),
                Frame::Heartbeat => {}
                other => return Err(DialError::Disagreed(format!("not how a login ends: {other:?}"))),
            }
        };
        let ours = u32::try_from(self.options.frame_bytes.unwrap_or(0)).unwrap_or(0);
        let smaller =
            |ours: u32, theirs: u32| if ours == 0 || theirs == 0 { ours.max(theirs) } else { ours.min(theirs) };
        let frame_max = smaller(ours, frame_max);
        let seconds = heartbeat.map_or(0, |heartbeat| match theirs {
            0 => 0,
            theirs => theirs.min(u32::try_from(heartbeat.as_secs()).unwrap_or(u32::MAX)),
        });
        command::tune(&mut session.write_buffer.bytes, frame_max, seconds);
        session.frame_max = if frame_max == 0 { i32::MAX as usize } else { frame_max as usize };
        session.heartbeat = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
        session.flush().await
    }
}

impl Session {
    /// Sends a request and waits for its answer: what follows its code. `what` says in errors what was refused.
    ///
    /// # Errors
    /// When the connection fails, or the server refuses.
    pub async fn ask(&mut self, request: &Request, what: &'static str) -> Result<Vec<u8>, DialError> {
        self.correlation += 1;
        let asked = self.correlation;
        request.write(&mut self.write_buffer.bytes, asked);
        self.flush().await?;
        loop {
            match self.next().await? {
                Frame::Response { key, correlation, code, rest } if key == request.key && correlation == asked => {
                    return match code {
                        code::OK => Ok(rest.to_vec()),
                        code => Err(DialError::Refused { what, code }),
                    };
                }
                Frame::Close { reason, .. } => {
                    return Err(DialError::Disagreed(format!("the server closes the connection: {reason}")));
                }
                _ => {}
            }
        }
    }

    /// Writes everything.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn flush(&mut self) -> Result<(), DialError> {
        while !self.write_buffer.flush(&self.transport)? {
            self.transport.writable().await?;
        }
        Ok(())
    }

    /// The next frame that comes.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn next(&mut self) -> Result<Frame<'_>, DialError> {
        // Looked for twice: the borrow checker does not let go of a frame that was not returned.
        while !self.read_buffer.has_next(decode)? {
            self.transport.readable().await?;
            self.read_buffer.fill(&self.transport)?;
        }
        self.read_buffer.next(decode)?.ok_or(DialError::Malformed(Malformed::Short { what: "frame" }))
    }
}

/// Shakes hands and starts the task that encrypts.
///
/// # Errors
/// When the server does not shake hands or is not trusted.
async fn encrypt(stream: TcpStream, host: &str, config: Arc<ClientConfig>) -> io::Result<Transport> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| io::Error::other(format!("{host} is no name that a certificate can be for")))?;
    let mut encrypted = TlsConnector::from(config).connect(name, stream).await?;
    let (ours, mut theirs) = UnixStream::pair()?;
    // Either end of it ends the other: the task lives as long as the connection.
    tokio::spawn(async move { copy_bidirectional(&mut encrypted, &mut theirs).await });
    Ok(Transport::Bridged(ours))
}

impl DialError {
    pub fn class(&self) -> FailureClass {
        match self {
            DialError::Io(_) => FailureClass::ConnectionLost,
            DialError::Late(_) => FailureClass::Timeout,
            DialError::Refused { code, .. } => class_of(*code),
            DialError::Malformed(_) | DialError::Disagreed(_) => FailureClass::Other,
        }
    }

    /// As the engine is told of it, where nothing can run without this connection.
    pub fn into_broker_error(self, address: &str) -> BrokerError {
        let (broker, address, reason) = ("rabbitmq-stream", address.to_owned(), self.to_string());
        match self {
            _ if self.class() == FailureClass::Authorisation => BrokerError::Authorisation { broker, address, reason },
            DialError::Disagreed(_) | DialError::Refused { .. } => {
                BrokerError::Client { broker, reason: format!("{address}: {reason}") }
            }
            DialError::Io(_) | DialError::Late(_) | DialError::Malformed(_) => {
                BrokerError::Unreachable { broker, address, reason }
            }
        }
    }
}
