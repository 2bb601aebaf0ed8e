//! The crate's connection, for topics: opened, opened again when it is lost, and asked for channels. What the server refuses.

use std::io::ErrorKind as IoErrorKind;
use std::sync::Arc;
use std::time::Instant;

use async_compat::CompatExt;
use lapin::tcp::RustlsConnector;
use lapin::uri::{AMQPAuthority, AMQPQueryString, AMQPScheme, AMQPUri, AMQPUserInfo, SASLMechanism};
use lapin::{AsyncTcpStream, Channel, Connection, ConnectionProperties, Error, ErrorKind};
use tokio::sync::Mutex;

use super::config::RabbitmqOptions;
use crate::broker::adapter::within;
use crate::broker::{BrokerError, ClientError, FailureClass, Setup};
use crate::measure::{ConditionKind, Subject, SubjectKind};
use crate::net::backoff::Backoff;
use crate::net::{address, tcp, tls};
use crate::scenario::SaslMechanism;

/// The user of a new server, which lets it in from its own host only.
pub const GUEST: &str = "guest";

/// A connection on which topics are created, looked up and deleted.
pub struct Link {
    setup: Arc<Setup<RabbitmqOptions>>,
    current: Mutex<Open>,
}

struct Open {
    connection: Arc<Connection>,
    /// Where it goes to, as an index of the scenario's addresses, and what holds that node up.
    address: usize,
    node: Subject,
}

impl Link {
    /// # Errors
    /// When no address answers, or one refuses the login or does not have the virtual host.
    pub async fn new(setup: &Arc<Setup<RabbitmqOptions>>) -> Result<Self, BrokerError> {
        let opened = open_one_of(setup, 0).await;
        let opened = opened.map_err(|failure| failure.at(&setup.config.addresses.join(", ")))?;
        Ok(Link { current: Mutex::new(Open::new(setup, opened)), setup: setup.clone() })
    }

    /// A channel. A lost connection is opened again, at this node or another one.
    ///
    /// # Errors
    /// When there is no connection, and none could be opened for `broker.rabbitmq.reconnect` since it was lost.
    pub async fn channel(&self) -> Result<Channel, ClientError> {
        let connection = self.connection().await?;
        within(self.setup.timeout, connection.create_channel()).await
    }

    async fn connection(&self) -> Result<Arc<Connection>, ClientError> {
        // Others who need it wait here until it is back.
        let mut current = self.current.lock().await;
        if current.connection.status().connected() {
            return Ok(current.connection.clone());
        }
        let until = Instant::now() + self.setup.options.reconnect;
        let mut backoff = Backoff::RECONNECT;
        loop {
            // Its own node last: the others are there if it is not.
            match open_one_of(&self.setup, current.address + 1).await {
                Ok(opened) => {
                    *current = Open::new(&self.setup, opened);
                    return Ok(current.connection.clone());
                }
                Err(failure) if failure.lasting || Instant::now() >= until => return Err(failure),
                Err(failure) => current.node.begin(ConditionKind::Connecting, &failure.message),
            }
            backoff.pause().await;
        }
    }

    pub async fn close(&self) {
        let current = self.current.lock().await;
        // It may have been closed before.
        let _ = within(self.setup.timeout, current.connection.close(200, "the trial has ended".into())).await;
    }
}

impl Open {
    fn new(setup: &Setup<RabbitmqOptions>, (connection, address): (Connection, usize)) -> Self {
        let node = Subject::new(&setup.conditions, SubjectKind::Node, &setup.config.addresses[address]);
        Open { connection: Arc::new(connection), address, node }
    }
}

/// What `open` makes at the place of the first address where it can, beginning with the one of this number, and this place.
///
/// # Errors
/// That of the last address, or one that other addresses would not mend.
pub async fn one_of<C, F: Future<Output = Result<C, ClientError>>>(
    addresses: &[String],
    first: usize,
    open: impl Fn(usize) -> F,
) -> Result<(C, usize), ClientError> {
    let mut failure = ClientError::lost("there is no address");
    for place in (first..first + addresses.len()).map(|place| place % addresses.len()) {
        match open(place).await {
            Ok(opened) => return Ok((opened, place)),
            Err(error) if addresses.len() == 1 || error.lasting => return Err(error),
            Err(error) => {
                failure = ClientError { message: format!("{}: {}", addresses[place], error.message), ..error }
            }
        }
    }
    Err(failure)
}

async fn open_one_of(setup: &Setup<RabbitmqOptions>, first: usize) -> Result<(Connection, usize), ClientError> {
    let addresses = &setup.config.addresses;
    one_of(addresses, first, |place| open(setup, &addresses[place])).await
}

async fn open(setup: &Setup<RabbitmqOptions>, address: &str) -> Result<Connection, ClientError> {
    let refused = |reason: String| ClientError::lasting(FailureClass::Other, reason);
    let tls = tls::client_config(setup.config.security.tls.as_ref()).map_err(refused)?;
    let uri = uri(setup, address).map_err(refused)?;
    let properties = ConnectionProperties::default().with_connection_name(format!("{}-admin", setup.run_id).into());
    let runtime = lapin::runtime::default_runtime()?;
    let target = address.to_owned();
    // Names with several addresses and certificates are handled as by every other client here.
    let transport = async move |_, _| {
        let stream = AsyncTcpStream::Plain(tcp::connect(&target).await?.compat());
        match &tls {
            Some(config) => {
                let connector = RustlsConnector::from(config.clone());
                Ok(stream.into_rustls(&connector, address::host(&target)).await?)
            }
            None => Ok(stream),
        }
    };
    within(setup.timeout, Connection::connector(uri, runtime, transport, properties)).await
}

/// Who logs in, and where. The crate connects by our own means, so that its host and port are not used.
fn uri(setup: &Setup<RabbitmqOptions>, address: &str) -> Result<AMQPUri, String> {
    let heartbeat = Some(setup.options.heartbeat.as_secs() as u16);
    let mut query = AMQPQueryString { heartbeat, ..AMQPQueryString::default() };
    let mut userinfo = AMQPUserInfo { username: GUEST.to_owned(), password: GUEST.to_owned() };
    match &setup.config.security.sasl {
        Some(sasl) if sasl.mechanism == SaslMechanism::External => {
            query.auth_mechanism = Some(SASLMechanism::External);
        }
        Some(sasl) => {
            userinfo = AMQPUserInfo { username: sasl.username.clone(), password: sasl.password.reveal()? };
        }
        None => {}
    }
    let authority = AMQPAuthority { userinfo, host: address::host(address).to_owned(), port: 0 };
    Ok(AMQPUri { scheme: AMQPScheme::AMQP, authority, vhost: setup.options.virtual_host.clone(), query })
}

impl From<Error> for ClientError {
    fn from(error: Error) -> Self {
        let (class, message) = match error.kind() {
            ErrorKind::ProtocolError(error) => return refusal(error.get_id(), error.get_message().to_string()),
            ErrorKind::IOError(cause) if cause.kind() == IoErrorKind::TimedOut => {
                (FailureClass::Timeout, cause.to_string())
            }
            ErrorKind::IOError(cause) => (FailureClass::ConnectionLost, cause.to_string()),
            ErrorKind::MissingHeartbeatError
            | ErrorKind::InvalidChannelState(..)
            | ErrorKind::InvalidConnectionState(_) => (FailureClass::ConnectionLost, error.to_string()),
            _ => (FailureClass::Other, error.to_string()),
        };
        ClientError::passing(class, message)
    }
}

/// Why the server closes a channel or the connection, as it says it: "PRECONDITION_FAILED - inequivalent arg …". Codes: section 1.2 of the
/// specification.
pub fn refusal(code: u16, message: String) -> ClientError {
    let class = match code {
        404 => FailureClass::UnknownTopic,
        403 => FailureClass::Authorisation,
        // Also for a virtual host that does not exist.
        530 if message.contains("refused") => FailureClass::Authorisation,
        // rabbit_channel.erl, check_msg_size: "message size 20 is larger than configured max size 10".
        406 if message.contains("larger than") => FailureClass::TooLarge,
        // CONNECTION_FORCED: the server shuts down, or an operator has closed the connection.
        320 => FailureClass::ConnectionLost,
        _ => FailureClass::Refused,
    };
    ClientError { class, message, lasting: class == FailureClass::Authorisation }
}
