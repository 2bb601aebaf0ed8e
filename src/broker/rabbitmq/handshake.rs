//! Opens a connection: TLS, the login, limits, the virtual host.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use super::codec::{
    Frame, Malformed, Method, PROTOCOL_HEADER, TooLong, append_open, append_start_ok, append_tune_ok, decode,
};
use super::config::RabbitmqOptions;
use super::connect::{GUEST, one_of, refusal};
use crate::broker::{ClientError, FailureClass, Setup};
use crate::measure::{ConditionKind, Subject, SubjectKind};
use crate::net::connect::{self, encrypted, within};
use crate::net::transport::{ReadBuffer, Transport, WriteBuffer};
use crate::net::{tcp, tls};
use crate::printable::printable;
use crate::scenario::{SaslMechanism, Security};

/// The largest frame that is written and read: the server's own default.
const MAX_FRAME_BYTES: u32 = 128 << 10;

/// What every frame may have: `frame-min-size` of the specification.
const MIN_FRAME_BYTES: u32 = 4096;

type ConnectError = connect::ConnectError<ClientError>;

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

impl From<ConnectError> for ClientError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Refused(refusal) => refusal,
            ConnectError::Io(_) => ClientError::lost(error.to_string()),
            ConnectError::Timeout(_) => ClientError::late(error.to_string()),
            ConnectError::Malformed(_) => ClientError::passing(FailureClass::Other, error.to_string()),
            ConnectError::Incompatible(_) => ClientError::lasting(FailureClass::Other, error.to_string()),
        }
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

/// Opens connections with the scenario's settings.
pub struct Connector {
    setup: Arc<Setup<RabbitmqOptions>>,
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

    /// A connection for `role`, which its name on the server tells, to the first server that answers, from the one of this number on, and its place among the scenario's addresses.
    ///
    /// # Errors
    /// When no address answers, or one refuses the login or does not have the virtual host.
    pub async fn connect(&self, role: &str, first: usize) -> Result<(Opened, usize), ClientError> {
        let Setup { config, timeout, conditions, .. } = &*self.setup;
        let open = |place: usize| async move {
            let address = &config.addresses[place];
            let node = Subject::new(conditions, SubjectKind::Node, address);
            let opening = within(*timeout, self.open(role, address));
            Ok(node.during(ConditionKind::Connecting, "no answer yet", opening).await?)
        };
        one_of(&config.addresses, first, open).await
    }

    async fn open(&self, role: &str, address: &str) -> Result<Opened, ConnectError> {
        let Setup { options, run_id, .. } = &*self.setup;
        let stream = tcp::connect(address).await?;
        let transport = match &self.tls {
            Some(tls) => encrypted(tls.clone(), address, stream).await?,
            None => Transport::Plain(stream),
        };
        let mut out = WriteBuffer::default();
        out.bytes.extend_from_slice(PROTOCOL_HEADER);
        let mut opened = Opened {
            transport,
            read_buffer: ReadBuffer::new(MAX_FRAME_BYTES as usize),
            channel_max: u16::MAX,
            frame_max: MAX_FRAME_BYTES as usize,
            heartbeat: options.heartbeat,
            server: None,
        };
        loop {
            out.flush_all(&opened.transport).await?;
            match opened.read_buffer.next(decode)? {
                Some(Frame::Method(0, Method::Start { properties, mechanisms })) => {
                    let mechanism = self.login.mechanism;
                    if !mechanisms.split(|byte| *byte == b' ').any(|one| one == mechanism.as_bytes()) {
                        let message = format!("the server offers no login by {mechanism}, but by {}", text(mechanisms));
                        return Err(ConnectError::Incompatible(message));
                    }
                    opened.server = version(properties).map(|version| format!("RabbitMQ {version}"));
                    let name = format!("{run_id}-{role}");
                    append_start_ok(&mut out.bytes, &name, mechanism, &self.login.response)?;
                }
                Some(Frame::Method(0, Method::Tune { channel_max, frame_max, heartbeat_secs })) => {
                    // 0: the server has no limit.
                    let smaller = |theirs: u32, ours: u32| if theirs == 0 { ours } else { theirs.min(ours) };
                    let channels = smaller(channel_max.into(), u16::MAX.into());
                    let frame_bytes = smaller(frame_max, MAX_FRAME_BYTES).max(MIN_FRAME_BYTES);
                    let heartbeat = smaller(heartbeat_secs.into(), options.heartbeat.as_secs() as u32);
                    opened.channel_max = channels as u16;
                    opened.frame_max = frame_bytes as usize;
                    opened.heartbeat = Duration::from_secs(heartbeat.into());
                    append_tune_ok(&mut out.bytes, channels as u16, frame_bytes, heartbeat as u16);
                    append_open(&mut out.bytes, &options.virtual_host)?;
                }
                Some(Frame::Method(0, Method::OpenOk)) => return Ok(opened),
                Some(Frame::Method(0, Method::Close { code, text })) => {
                    return Err(ConnectError::Refused(refusal(code, self::text(text))));
                }
                Some(Frame::Heartbeat) => {}
                Some(other) => return Err(ConnectError::Malformed(format!("unexpected frame: {other:?}"))),
                None => {
                    opened.transport.readable().await?;
                    opened.read_buffer.fill(&opened.transport)?;
                }
            }
        }
    }
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
}
