//! Opens a connection (properties, login, tuning, virtual host), and takes frames from its read buffer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::time::sleep;

use super::codec::command::{self, Request};
use super::codec::frame::{ConsumerUpdate, Frame, decode, read_highest_version, read_pairs, read_strings};
use super::codec::{ConnectError, FILTERED, Malformed, Refusal, VERSION, code, key};
use super::config::{ConnectTo, MIN_FRAME_BYTES, RabbitmqStreamOptions};
use crate::broker::BrokerError;
use crate::measure::host::tasks::polling;
use crate::measure::{ConditionKind, Conditions, Subject, SubjectKind};
use crate::net::connect::{encrypted, within};
use crate::net::transport::{PolledStream, ReadBuffer, Transport, WriteBuffer};
use crate::net::{address, tcp, tls};
use crate::scenario::{BrokerConfig, Sasl, SaslMechanism};

/// The user of a new server. It may connect from the server's own host only.
const GUEST: &str = "guest";

/// Larger than any chunk of a server, which ends a chunk at this size or at 4096 entries.
const MAX_FRAME_BYTES: usize = 512 << 20;

/// The time that the first attempts to recover a connection have.
const MIN_RECOVERY: Duration = Duration::from_secs(2);

/// Between attempts to reach a node through a load balancer.
const BALANCER_PAUSE: Duration = Duration::from_millis(5);

/// How long a server may take to answer when a connection is closed.
pub const FAREWELL: Duration = Duration::from_secs(1);

/// The reason that it is given.
pub const LEAVE: &str = "the trial is over";

/// Opens connections with the scenario's settings.
pub struct Connector {
    options: RabbitmqStreamOptions,
    tls: Option<Arc<ClientConfig>>,
    /// The scenario's.
    addresses: Vec<String>,
    login: Login,
    client_id: String,
    timeout: Duration,
    /// Where it is reported what holds messages up.
    pub conditions: Conditions,
}

/// How the user logs in.
enum Login {
    Plain {
        username: String,
        password: String,
    },
    /// The certificate of the connection identifies the client.
    External,
}

impl Login {
    fn mechanism(&self) -> SaslMechanism {
        match self {
            Login::Plain { .. } => SaslMechanism::Plain,
            Login::External => SaslMechanism::External,
        }
    }

    fn request(&self) -> Request {
        match self {
            Login::Plain { username, password } => Request::sasl_plain(username, password),
            Login::External => Request::sasl_external(),
        }
    }

    /// Bytes of the name and the password.
    fn bytes(&self) -> usize {
        match self {
            Login::Plain { username, password } => username.len() + password.len(),
            Login::External => 0,
        }
    }
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
    /// Streams whose publishers and subscriptions the server has removed, and why.
    pub removed: Vec<(String, u16)>,
    /// What the server has said of subscriptions that share their streams.
    pub updates: Vec<ConsumerUpdate>,
    correlation: u32,
}

/// The server's properties.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Server {
    pub version: String,
    /// The `host:port` that the server advertises.
    pub advertised: Option<String>,
}

impl Connector {
    /// # Errors
    /// When a secret, certificate or key cannot be read.
    pub fn new(
        config: &BrokerConfig,
        options: &RabbitmqStreamOptions,
        client_id: &str,
        timeout: Duration,
        conditions: &Conditions,
    ) -> Result<Self, BrokerError> {
        let login = match &config.security.sasl {
            Some(sasl) if sasl.mechanism == SaslMechanism::External => Login::External,
            Some(Sasl { username, password, .. }) => Login::Plain {
                username: username.clone(),
                password: password.reveal().map_err(BrokerError::Configuration)?,
            },
            None => Login::Plain { username: GUEST.to_owned(), password: GUEST.to_owned() },
        };
        if login.bytes() > usize::from(u16::MAX) || options.virtual_host.len() > 255 {
            return Err(BrokerError::Configuration(
                "the user's name, the password or the virtual host is too long".to_owned(),
            ));
        }
        if options.busy_poll && config.security.tls.is_some() {
            return Err(BrokerError::Configuration("`busy_poll` is for connections without TLS".to_owned()));
        }
        Ok(Connector {
            conditions: conditions.clone(),
            options: options.clone(),
            tls: tls::client_config(config.security.tls.as_ref()).map_err(BrokerError::Configuration)?,
            addresses: config.addresses.clone(),
            login,
            client_id: client_id.to_owned(),
            timeout,
        })
    }

    pub fn options(&self) -> &RabbitmqStreamOptions {
        &self.options
    }

    /// A connection with heartbeats.
    ///
    /// # Errors
    /// When the server does not respond within `limit` or refuses a request.
    pub async fn connect(&self, address: &str, limit: Duration) -> Result<Session, ConnectError> {
        let node = Subject::new(&self.conditions, SubjectKind::Node, address);
        node.during(ConditionKind::Connecting, "no answer yet", within(limit, self.open_node(address))).await
    }

    /// Opens a connection to a node. Load balancers are asked in turn until it is the node that answers; one that is silent or fails does not
    /// hold up the others.
    async fn open_node(&self, address: &str) -> Result<Session, ConnectError> {
        let heartbeat = Some(self.options.heartbeat);
        if self.options.connect_to != ConnectTo::LoadBalancer || self.addresses.iter().any(|own| own == address) {
            return self.open(address, heartbeat).await;
        }
        let mut failures = 0;
        for balancer in self.addresses.iter().cycle() {
            match within(self.recovery_limit(failures), self.open(balancer, heartbeat)).await {
                Ok(session) if session.server.advertised.as_deref() == Some(address) => return Ok(session),
                Ok(session) => {
                    failures = 0;
                    session.close().await;
                }
                // A slow one is given more time in the next round.
                Err(ConnectError::Timeout(_)) => failures += 1,
                Err(error) => {
                    failures += 1;
                    if failures >= self.addresses.len() {
                        return Err(error);
                    }
                }
            }
            sleep(BALANCER_PAUSE).await;
        }
        Err(ConnectError::Incompatible("there is no address".to_owned()))
    }

    /// A connection that may be silent between requests.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub async fn connect_without_heartbeat(&self, address: &str, limit: Duration) -> Result<Session, ConnectError> {
        within(limit, self.open(address, None)).await
    }

    /// The scenario's timeout.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How long an attempt to recover a connection may take: so short at first that a node which does not answer delays the
    /// others little, and longer each time, so that a slow one is reached in the end.
    pub fn recovery_limit(&self, attempt: usize) -> Duration {
        MIN_RECOVERY.saturating_mul(1 << (attempt / 4).min(8)).min(self.timeout)
    }

    async fn open(&self, address: &str, heartbeat: Option<Duration>) -> Result<Session, ConnectError> {
        let mut session = Session::over(self.transport(address).await?);
        let properties = [
            ("product", "brokermark"),
            ("version", env!("CARGO_PKG_VERSION")),
            ("connection_name", self.client_id.as_str()),
        ];
        let response = session.request(&Request::peer_properties(&properties), "the exchange of properties").await?;
        session.server.version = find(&read_pairs(&response)?, "version").unwrap_or_else(|| "?".to_owned());
        let mechanisms = read_strings(&session.request(&Request::sasl_handshake(), "the login").await?)?;
        let own = self.login.mechanism().name();
        if !mechanisms.iter().any(|mechanism| mechanism == own) {
            let offered = mechanisms.join(", ");
            return Err(ConnectError::Incompatible(format!(
                "the server offers the login by {offered}, but not by {own}"
            )));
        }
        session.request(&self.login.request(), "the login").await?;
        self.tune(&mut session, heartbeat).await?;
        let response = session.request(&Request::open(&self.options.virtual_host), "the virtual host").await?;
        let properties = read_pairs(&response)?;
        let advertised = find(&properties, "advertised_host").zip(find(&properties, "advertised_port"));
        session.server.advertised = advertised.map(|(host, port)| address::joined(&host, port));
        self.check_abilities(&mut session).await?;
        Ok(session)
    }

    /// Whether the server has what the scenario wants of it.
    async fn check_abilities(&self, session: &mut Session) -> Result<(), ConnectError> {
        let RabbitmqStreamOptions { filter, filters, single_active_consumer, .. } = &self.options;
        let filtering = "cannot filter messages: leave `filter` and `filters` out, or use RabbitMQ 3.13 or later";
        let sharing = "has no single active consumers: leave them out, or use RabbitMQ 3.11 or later";
        let wanted = [
            (filter.is_some() || !filters.is_empty(), key::PUBLISH, FILTERED, filtering),
            // The server does not list `ConsumerUpdate`, which it sends itself; `StreamStats` is of the same release.
            (*single_active_consumer, key::STREAM_STATS, VERSION, sharing),
        ];
        if !wanted.iter().any(|(is_wanted, ..)| *is_wanted) {
            return Ok(());
        }
        let versions = session.request(&Request::exchange_command_versions(), "the exchange of versions").await?;
        for (_, command, version, lack) in wanted.into_iter().filter(|(is_wanted, ..)| *is_wanted) {
            if read_highest_version(&versions, command)? < version {
                return Err(ConnectError::Incompatible(format!("the server {lack}")));
            }
        }
        Ok(())
    }

    async fn transport(&self, address: &str) -> Result<Transport, ConnectError> {
        let stream = tcp::connect(address).await?;
        let Some(tls) = &self.tls else {
            return Ok(match self.options.busy_poll {
                true => Transport::Polled(PolledStream::new(stream, |poll| polling(poll))?),
                false => Transport::Plain(stream),
            });
        };
        Ok(encrypted(tls.clone(), address, stream).await?)
    }

    /// Agrees on the smaller of both sides' values, where 0 means no limit and no heartbeat.
    async fn tune(&self, session: &mut Session, heartbeat: Option<Duration>) -> Result<(), ConnectError> {
        let (frame_max, theirs) = loop {
            match session.next().await? {
                Frame::Tune { frame_max, heartbeat } => break (frame_max, heartbeat),
                Frame::Heartbeat => {}
                other => {
                    let reason = format!("the server sent an unexpected frame after the login: {other:?}");
                    return Err(ConnectError::Incompatible(reason));
                }
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
        if frame_max != 0 && u64::from(frame_max) < MIN_FRAME_BYTES {
            let reason = format!("the server takes frames of {frame_max} bytes at most: raise its `stream.frame_max`");
            return Err(ConnectError::Incompatible(reason));
        }
        session.frame_max = if frame_max == 0 { i32::MAX as usize } else { frame_max as usize };
        session.heartbeat = (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
        session.flush().await
    }
}

fn find(properties: &[(String, String)], wanted: &str) -> Option<String> {
    properties.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.clone())
}

impl Session {
    /// A connection on which nothing has been said.
    pub fn over(transport: Transport) -> Self {
        Session {
            transport,
            read_buffer: ReadBuffer::new(MAX_FRAME_BYTES),
            write_buffer: WriteBuffer::default(),
            frame_max: 0,
            heartbeat: None,
            server: Server::default(),
            removed: Vec::new(),
            updates: Vec::new(),
            correlation: 0,
        }
    }

    /// Sends a request and returns what follows the code of its response. `what` names the request in errors.
    ///
    /// # Errors
    /// When the connection fails, or the server refuses.
    pub async fn request(&mut self, request: &Request, what: &'static str) -> Result<Vec<u8>, ConnectError> {
        self.correlation += 1;
        let own = self.correlation;
        request.write(&mut self.write_buffer.bytes, own);
        self.flush().await?;
        loop {
            match self.next().await? {
                Frame::Response { key, correlation, code, rest } if key == request.key && correlation == own => {
                    return match code {
                        code::OK => Ok(rest.to_vec()),
                        code => Err(ConnectError::Refused(Refusal { what, code })),
                    };
                }
                Frame::MetadataUpdate { code, stream } => {
                    let removed = (stream.to_owned(), code);
                    self.removed.push(removed);
                }
                Frame::ConsumerUpdate(update) => self.updates.push(update),
                _ => {}
            }
        }
    }

    /// Writes everything.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn flush(&mut self) -> Result<(), ConnectError> {
        Ok(self.write_buffer.flush_all(&self.transport).await?)
    }

    /// Waits for the next frame.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn next(&mut self) -> Result<Frame<'_>, ConnectError> {
        // Decoded twice, because the borrow checker rejects a loop that returns a borrowed frame.
        while !self.read_buffer.has_next(decode)? {
            self.transport.readable().await?;
            self.read_buffer.fill(&self.transport)?;
        }
        let next = next_frame(&mut self.read_buffer, &mut self.write_buffer, &self.transport)?;
        next.ok_or(Malformed::Short { what: "frame" }.into())
    }

    /// Takes leave of the server and closes the connection.
    pub async fn close(mut self) {
        // A server that does not respond is left without a word.
        let _ = within(FAREWELL, self.request(&Request::close(LEAVE), "the end")).await;
    }
}

/// The next frame that has arrived completely; `None`: no frame is complete. The server's `Close` is answered and ends the connection.
///
/// # Errors
/// When the server closes the connection, with its reason, or the bytes are not the protocol.
#[inline]
pub fn next_frame<'a>(
    read_buffer: &'a mut ReadBuffer,
    write_buffer: &mut WriteBuffer,
    transport: &Transport,
) -> Result<Option<Frame<'a>>, ConnectError> {
    let frame = read_buffer.next(decode)?;
    if let Some(Frame::Close { correlation, code, reason }) = frame {
        command::close_response(&mut write_buffer.bytes, correlation);
        // The server waits for it before it closes. A failed write changes nothing: the connection ends anyway.
        let _ = write_buffer.flush(transport);
        let message = format!("the server closes it: {} ({reason})", code::name(code));
        return Err(ConnectError::Io(io::Error::other(message)));
    }
    Ok(frame)
}
