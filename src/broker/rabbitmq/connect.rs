//! Opens a connection: TLS, the login, limits, the virtual host. What the server refuses.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use super::codec::{
    Frame, HEARTBEAT, Malformed, Method, PROTOCOL_HEADER, TooLong, append_open, append_start_ok, append_tune_ok, decode,
};
use super::config::RabbitmqOptions;
use crate::broker::servers::Servers;
use crate::broker::{ClientError, FailureClass, KeptOpen, Setup};
use crate::measure::Conditions;
use crate::net::connect::{self, encrypted};
use crate::net::idle::{INTERVAL, KeepAlive};
use crate::net::transport::{ReadBuffer, Transport, WriteBuffer};
use crate::net::{tcp, tls};
use crate::printable::printable;
use crate::scenario::{SaslMechanism, Security};

/// The user of a new server, which lets it in from its own host only.
const GUEST: &str = "guest";

/// The largest frame that is written and read: the server's own default.
const MAX_FRAME_BYTES: u32 = 128 << 10;

/// What every frame may have: `frame-min-size` of the specification.
const MIN_FRAME_BYTES: u32 = 4096;

pub type ConnectError = connect::ConnectError<ClientError>;

impl From<Malformed> for ConnectError {
    fn from(malformed: Malformed) -> Self {
        ConnectError::Malformed(malformed.to_string())
    }
}

impl From<TooLong> for ConnectError {
    fn from(too_long: TooLong) -> Self {
        ConnectError::Incompatible(too_long.to_string())
    }
}

/// How the user logs in: a mechanism of SASL, and what it says.
struct Login {
    mechanism: &'static str,
    response: Vec<u8>,
}

impl Login {
    /// # Errors
    /// When the password cannot be read.
    fn read(security: &Security) -> Result<Self, String> {
        let plain = |user: &str, password: &str| Login {
            mechanism: "PLAIN",
            response: ["", user, password].join("\0").into_bytes(),
        };
        Ok(match &security.sasl {
            Some(sasl) if sasl.mechanism == SaslMechanism::External => {
                Login { mechanism: "EXTERNAL", response: Vec::new() }
            }
            Some(sasl) => plain(&sasl.username, &sasl.password.reveal()?),
            None => plain(GUEST, GUEST),
        })
    }
}

/// What a connection is for; its name on the server tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Producer,
    Consumer,
    /// Neither.
    Idle,
    /// Requests about topics. Nothing crosses it between them, heartbeats neither.
    Admin,
}

/// A connection that is ready for channels.
pub struct Opened {
    pub transport: Transport,
    pub read_buffer: ReadBuffer,
    pub channel_max: u16,
    /// Largest frame that may be written.
    pub frame_max: usize,
    pub heartbeat: Duration,
    /// As in `RabbitMQ 4.0.5`; `None`: the server does not tell.
    pub server: Option<String>,
}

impl Opened {
    /// Writes `out`, and reads until `answer` finds its answer in a frame.
    ///
    /// # Errors
    /// Those of `answer`, and when the connection is lost or the server closes it.
    pub async fn ask<T>(
        &mut self,
        out: &mut WriteBuffer,
        mut answer: impl FnMut(Frame<'_>) -> Result<Option<T>, ConnectError>,
    ) -> Result<T, ConnectError> {
        out.flush_all(&self.transport).await?;
        loop {
            while let Some(frame) = self.read_buffer.next(decode)? {
                if let Frame::Method(0, Method::Close { code, text }) = frame {
                    return Err(ConnectError::Refused(refusal(code, self::text(text))));
                }
                if let Some(answer) = answer(frame)? {
                    return Ok(answer);
                }
            }
            self.transport.readable().await?;
            self.read_buffer.fill(&self.transport)?;
        }
    }
}

/// Opens connections with the scenario's settings.
pub struct Connector {
    pub setup: Arc<Setup<RabbitmqOptions>>,
    tls: Option<Arc<ClientConfig>>,
    login: Login,
}

impl Connector {
    /// # Errors
    /// When a secret, certificate or key cannot be read.
    pub fn new(setup: Arc<Setup<RabbitmqOptions>>) -> Result<Self, String> {
        let security = &setup.config.security;
        Ok(Connector { tls: tls::client_config(security.tls.as_ref())?, login: Login::read(security)?, setup })
    }

    /// A connection to the first server that answers, from the one of this number on, and its place among the scenario's addresses.
    ///
    /// # Errors
    /// Why no server can be used.
    pub async fn connect(&self, role: Role, first: usize) -> Result<(Opened, usize), ClientError> {
        self.first_of(role, first, &self.setup.conditions).await
    }

    /// As [`Connector::connect`], and keeps the connection alive, which carries no messages.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub async fn idle(self: Arc<Self>, first: usize) -> Result<KeptOpen, ClientError> {
        let (opened, place) = self.first_of(Role::Idle, first, &Conditions::default()).await?;
        let handle = |read_buffer: &mut ReadBuffer, _: &mut Vec<u8>| {
            while let Some(frame) = read_buffer.next(decode).map_err(io::Error::other)? {
                if let Frame::Method(0, Method::Close { text, .. }) = frame {
                    return Err(io::Error::other(self::text(text)));
                }
            }
            Ok(())
        };
        // A server that wants no heartbeats is shown them nevertheless, from time to time.
        let interval = if opened.heartbeat.is_zero() { INTERVAL } else { opened.heartbeat / 2 };
        let keep_alive = KeepAlive { interval, heartbeat: HEARTBEAT.to_vec(), handle };
        Ok(Box::pin(async move {
            let (address, Opened { transport, read_buffer, .. }) = (&self.setup.config.addresses[place], opened);
            let most = MAX_FRAME_BYTES as usize;
            ClientError::lost(keep_alive.until_lost(address, transport, read_buffer, most).await)
        }))
    }

    async fn first_of(
        &self,
        role: Role,
        first: usize,
        conditions: &Conditions,
    ) -> Result<(Opened, usize), ClientError> {
        let Setup { config, timeout, .. } = &*self.setup;
        let mut servers = Servers::new(&config.addresses, first, *timeout, conditions);
        loop {
            let address = servers.next()?;
            if let Some(opened) = servers.attempt(self.open(role, address)).await? {
                return Ok(opened);
            }
        }
    }

    async fn open(&self, role: Role, address: &str) -> Result<Opened, ConnectError> {
        let Setup { options, run_id, .. } = &*self.setup;
        let stream = tcp::connect(address).await?;
        let transport = match &self.tls {
            Some(tls) => encrypted(tls.clone(), address, stream).await?,
            None => Transport::Plain(stream),
        };
        let mut opened = Opened {
            transport,
            read_buffer: ReadBuffer::new(MAX_FRAME_BYTES as usize),
            channel_max: u16::MAX,
            frame_max: MAX_FRAME_BYTES as usize,
            heartbeat: options.heartbeat,
            server: None,
        };
        let mut out = WriteBuffer::default();
        out.bytes.extend_from_slice(PROTOCOL_HEADER);
        let mechanism = self.login.mechanism;
        let start = opened.ask(&mut out, |frame| match frame {
            Frame::Method(0, Method::Start { properties, mechanisms }) => {
                if !mechanisms.split(|byte| *byte == b' ').any(|one| one == mechanism.as_bytes()) {
                    let message = format!("the server offers no login by {mechanism}, but by {}", text(mechanisms));
                    return Err(ConnectError::Incompatible(message));
                }
                Ok(Some(version(properties)))
            }
            other => unexpected(other),
        });
        opened.server = start.await?.map(|version| format!("RabbitMQ {version}"));
        let name = format!("{run_id}-{}", format!("{role:?}").to_lowercase());
        append_start_ok(&mut out.bytes, &name, mechanism, &self.login.response)?;
        // 0: the server has no limit.
        let smaller = |theirs: u32, ours: u32| if theirs == 0 { ours } else { theirs.min(ours) };
        let tune = opened.ask(&mut out, |frame| match frame {
            Frame::Method(0, Method::Tune { channel_max, frame_max, heartbeat_secs }) => Ok(Some((
                smaller(channel_max.into(), u16::MAX.into()) as u16,
                smaller(frame_max, MAX_FRAME_BYTES).max(MIN_FRAME_BYTES),
                smaller(heartbeat_secs.into(), options.heartbeat.as_secs() as u32) as u16,
            ))),
            other => unexpected(other),
        });
        let (channel_max, frame_max, heartbeat_secs) = tune.await?;
        opened.channel_max = channel_max;
        opened.frame_max = frame_max as usize;
        opened.heartbeat = Duration::from_secs(heartbeat_secs.into());
        let heartbeat_secs = if role == Role::Admin { 0 } else { heartbeat_secs };
        append_tune_ok(&mut out.bytes, channel_max, frame_max, heartbeat_secs);
        append_open(&mut out.bytes, &options.virtual_host)?;
        let open = opened.ask(&mut out, |frame| match frame {
            Frame::Method(0, Method::OpenOk) => Ok(Some(())),
            other => unexpected(other),
        });
        open.await?;
        Ok(opened)
    }
}

/// # Errors
/// Except for a heartbeat, which may come at any time.
fn unexpected<T>(frame: Frame<'_>) -> Result<Option<T>, ConnectError> {
    match frame {
        Frame::Heartbeat => Ok(None),
        other => Err(ConnectError::Malformed(format!("unexpected frame: {other:?}"))),
    }
}

/// Why the server closes a channel or the connection, as it says it: "PRECONDITION_FAILED - inequivalent arg …". Codes: section 1.2 of the
/// specification.
pub fn refusal(code: u16, message: String) -> ClientError {
    let class = match code {
        404 => FailureClass::UnknownTopic,
        403 => FailureClass::Authorisation,
        // Also for a virtual host that does not exist, and, by rabbit_reader.erl, where there are too many connections: "connection refused:
        // node connection limit (10) is reached".
        530 if message.contains("refused") && !message.contains("connection limit") => FailureClass::Authorisation,
        // rabbit_channel.erl, check_msg_size: "message size 20 is larger than configured max size 10".
        406 if message.contains("larger than") => FailureClass::TooLarge,
        // CONNECTION_FORCED: the server shuts down, or an operator has closed the connection.
        320 => FailureClass::ConnectionLost,
        _ => FailureClass::Refused,
    };
    ClientError { class, message, lasting: class == FailureClass::Authorisation }
}

/// Words of the server.
pub fn text(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes)).into_owned()
}

/// The value of the property `version`, a long string.
fn version(properties: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"\x07versionS";
    let place = properties.windows(NAME.len()).position(|bytes| bytes == NAME)?;
    let (length, rest) = properties[place + NAME.len()..].split_first_chunk()?;
    Some(text(rest.get(..u32::from_be_bytes(*length) as usize)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_among_server_properties() {
        let properties = b"\x07productS\0\0\0\x08RabbitMQ\x07versionS\0\0\0\x054.0.5";
        assert_eq!(version(properties).as_deref(), Some("4.0.5"));
        assert_eq!(version(&properties[..properties.len() - 1]), None);
        assert_eq!(version(b"HTTP/1.1"), None);
    }

    #[test]
    fn refusals_have_classes() {
        let refused = FailureClass::Refused;
        for (code, words, class) in [
            (403, "ACCESS_REFUSED - Login was refused using …", FailureClass::Authorisation),
            (530, "NOT_ALLOWED - access to vhost '/' refused for user 'me'", FailureClass::Authorisation),
            (530, "NOT_ALLOWED - vhost billing not found", refused),
            (530, "NOT_ALLOWED - connection refused: node connection limit (10) is reached", refused),
            (530, "NOT_ALLOWED - access to vhost '/' refused for user 'me': connection limit (9) is reached", refused),
            (530, "NOT_ALLOWED - connection refused for user 'me': user connection limit (9) is reached", refused),
        ] {
            let refusal = refusal(code, words.to_owned());
            // A connection of before may be gone with the next attempt; a login stays wrong.
            assert_eq!((refusal.class, refusal.lasting), (class, class == FailureClass::Authorisation), "{words}");
        }
    }
}
