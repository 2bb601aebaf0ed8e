//! Opens connections to Redis: TLS, the login, the database; and asks what only one answer is wanted for.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::codec::{Malformed, Value, append_command, shown, value};
use super::config::RedisOptions;
use crate::broker::servers::Servers;
use crate::broker::{ClientError, FailureClass, KeptOpen, Setup};
use crate::measure::Conditions;
use crate::net::connect::{self, encrypted};
use crate::net::idle::{INTERVAL, KeepAlive};
use crate::net::transport::{ReadBuffer, Transport, WriteBuffer};
use crate::net::{tcp, tls};

/// Longest value of a reply: Redis's own limit of a value (`proto-max-bulk-len`).
pub const MAX_VALUE_BYTES: usize = 512 << 20;

pub type ConnectError = connect::ConnectError<ClientError>;

impl From<Malformed> for ConnectError {
    fn from(malformed: Malformed) -> Self {
        ConnectError::Malformed(malformed.to_string())
    }
}

/// A connection that is ready.
pub struct Opened {
    pub address: String,
    pub transport: Transport,
    pub read_buffer: ReadBuffer,
}

/// Opens connections with the scenario's settings.
pub struct Connector {
    pub addresses: Vec<String>,
    tls: Option<Arc<ClientConfig>>,
    /// User and password; without a user, the server's `default`.
    login: Option<(String, String)>,
    database: u32,
    resp: u8,
    name: String,
    /// Of each question, and of connecting.
    pub timeout: Duration,
    conditions: Conditions,
}

impl Connector {
    /// # Errors
    /// When a secret, certificate or key cannot be read.
    pub fn new(setup: &Setup<RedisOptions>) -> Result<Self, String> {
        let Setup { config, options, run_id, timeout, conditions, .. } = setup;
        let login = config.security.sasl.as_ref();
        let login = login.map(|sasl| Ok::<_, String>((sasl.username.clone(), sasl.password.reveal()?))).transpose()?;
        Ok(Connector {
            addresses: config.addresses.clone(),
            tls: tls::client_config(config.security.tls.as_ref())?,
            login,
            database: options.database,
            resp: options.resp,
            name: run_id.clone(),
            timeout: *timeout,
            conditions: conditions.clone(),
        })
    }

    /// A connection to the first server that answers, from the one of this number on.
    ///
    /// # Errors
    /// Why no server can be used.
    pub async fn connect(&self, first: usize) -> Result<Opened, ClientError> {
        self.first_of(first, &self.conditions).await
    }

    /// As [`Connector::connect`], and keeps the connection alive, which carries no messages.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub async fn idle(self: Arc<Self>, first: usize) -> Result<KeptOpen, ClientError> {
        let Opened { address, transport, read_buffer } = self.first_of(first, &Conditions::default()).await?;
        let mut heartbeat = Vec::new();
        append_command(&mut heartbeat, &[b"PING"]);
        let handle = |read_buffer: &mut ReadBuffer, _: &mut Vec<u8>| {
            while read_buffer.next(value).map_err(io::Error::other)?.is_some() {}
            Ok(())
        };
        let keep_alive = KeepAlive { interval: INTERVAL, heartbeat, handle };
        Ok(Box::pin(async move {
            ClientError::lost(keep_alive.until_lost(&address, transport, read_buffer, MAX_VALUE_BYTES).await)
        }))
    }

    async fn first_of(&self, first: usize, conditions: &Conditions) -> Result<Opened, ClientError> {
        let mut servers = Servers::new(&self.addresses, first, self.timeout, conditions);
        loop {
            let address = servers.next()?;
            if let Some((opened, _)) = servers.attempt(self.open(address)).await? {
                return Ok(opened);
            }
        }
    }

    async fn open(&self, address: &str) -> Result<Opened, ConnectError> {
        let stream = tcp::connect(address).await?;
        let transport = match &self.tls {
            Some(tls) => encrypted(tls.clone(), address, stream).await?,
            None => Transport::Plain(stream),
        };
        let mut opened =
            Opened { address: address.to_owned(), transport, read_buffer: ReadBuffer::new(MAX_VALUE_BYTES) };
        if let Some((user, password)) = &self.login {
            opened.ask(&[b"AUTH", user.as_bytes(), password.as_bytes()]).await?;
        }
        if self.resp == 3 {
            opened.ask(&[b"HELLO", b"3"]).await.map_err(|error| match error {
                ConnectError::Refused(refusal) if refusal.message.contains("unknown command") => {
                    ConnectError::Incompatible("the server does not know `broker.redis.resp = 3`".to_owned())
                }
                other => other,
            })?;
        }
        if self.database > 0 {
            opened.ask(&[b"SELECT", self.database.to_string().as_bytes()]).await?;
        }
        // For people who look at the server; some logins may not.
        let named = opened.ask(&[b"CLIENT", b"SETNAME", self.name.as_bytes()]).await;
        let named = match named {
            Err(error @ (ConnectError::Io(_) | ConnectError::Malformed(_))) => return Err(error),
            other => other,
        };
        // A server that loads its data refuses it, and one that wants a login.
        match (opened.ask(&[b"PING"]).await, named) {
            // A server with too many clients says so and closes the connection.
            (Err(ConnectError::Io(_)), Err(refusal)) => Err(refusal),
            (Err(error), _) => Err(error),
            (Ok(_), _) => Ok(opened),
        }
    }
}

impl Opened {
    /// Sends a command and waits for its reply.
    ///
    /// # Errors
    /// When the connection fails, or the server refuses.
    pub async fn ask(&mut self, command: &[&[u8]]) -> Result<Value, ConnectError> {
        let mut encoded = Vec::new();
        append_command(&mut encoded, command);
        self.ask_encoded(&encoded).await
    }

    /// As [`Opened::ask`], a command that is encoded already.
    pub async fn ask_encoded(&mut self, command: &[u8]) -> Result<Value, ConnectError> {
        let mut out = WriteBuffer::default();
        out.bytes.extend_from_slice(command);
        out.flush_all(&self.transport).await?;
        loop {
            match self.read_buffer.next(value)? {
                Some(Value::Error(text)) => return Err(ConnectError::Refused(refusal(text.as_bytes()))),
                Some(reply) => return Ok(reply),
                None => {
                    self.transport.readable().await?;
                    self.read_buffer.fill(&self.transport)?;
                }
            }
        }
    }
}

/// A connection for single questions, opened again where it was lost.
pub struct Admin {
    pub connector: Arc<Connector>,
    connection: Mutex<Option<Opened>>,
}

impl Admin {
    pub fn new(connector: Arc<Connector>) -> Self {
        Admin { connector, connection: Mutex::default() }
    }

    /// The reply to a command.
    ///
    /// # Errors
    /// When no server answers in time, or it refuses.
    pub async fn ask(&self, command: &[&[u8]]) -> Result<Value, ClientError> {
        let mut connection = self.connection.lock().await;
        let mut is_fresh = false;
        loop {
            let mut opened = match connection.take() {
                Some(opened) => opened,
                None => {
                    is_fresh = true;
                    self.connector.connect(0).await?
                }
            };
            let limit = self.connector.timeout;
            match timeout(limit, opened.ask(command)).await {
                Ok(Ok(reply)) => {
                    *connection = Some(opened);
                    return Ok(reply);
                }
                Ok(Err(ConnectError::Refused(refusal))) => {
                    *connection = Some(opened);
                    return Err(refusal);
                }
                Ok(Err(error)) if is_fresh => return Err(ClientError::lost(error.to_string())),
                // It was lost while nothing was asked.
                Ok(Err(_)) => {}
                Err(_) => return Err(ClientError::late(format!("no reply within {limit:?}"))),
            }
        }
    }
}

/// What an error of the server says (its first word, by Redis's source: `shared.*err` in server.c).
pub fn refusal(error: &[u8]) -> ClientError {
    let message = shown(error);
    let code = message.split(' ').next().unwrap_or_default();
    match code {
        "NOAUTH" | "WRONGPASS" => ClientError::lasting(FailureClass::Authorisation, message),
        "NOPERM" => ClientError::passing(FailureClass::Authorisation, message),
        "ERR" if message.contains("AUTH") || message.contains("invalid password") => {
            ClientError::lasting(FailureClass::Authorisation, message)
        }
        "OOM" => ClientError::passing(FailureClass::Full, message),
        "LOADING" | "MASTERDOWN" | "BUSY" | "TRYAGAIN" | "CLUSTERDOWN" | "READONLY" | "MISCONF" | "NOREPLICAS" => {
            ClientError::passing(FailureClass::Unavailable, message)
        }
        "NOGROUP" => ClientError::passing(FailureClass::UnknownTopic, message),
        "MOVED" | "ASK" | "CROSSSLOT" => {
            let message =
                format!("{message}: this is a node of a Redis Cluster, whose slots brokermark does not follow");
            ClientError::passing(FailureClass::Refused, message)
        }
        _ => ClientError::passing(FailureClass::Refused, message),
    }
}

/// The value of a line `name:value` of `INFO`.
pub fn field<'a>(information: &'a str, name: &str) -> Option<&'a str> {
    information.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

/// Name and version of the server, as `INFO` tells them.
pub fn server(information: &str) -> Option<String> {
    match field(information, "valkey_version") {
        Some(version) => Some(format!("Valkey {version}")),
        None => field(information, "redis_version").map(|version| format!("Redis {version}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_errors_have_classes() {
        for (text, class, lasting) in [
            ("WRONGPASS invalid username-password pair or user is disabled.", FailureClass::Authorisation, true),
            ("NOAUTH Authentication required.", FailureClass::Authorisation, true),
            ("NOPERM this user has no permissions to run the 'xadd' command", FailureClass::Authorisation, false),
            ("OOM command not allowed when used memory > 'maxmemory'.", FailureClass::Full, false),
            ("READONLY You can't write against a read only replica.", FailureClass::Unavailable, false),
            ("NOREPLICAS Not enough good replicas to write.", FailureClass::Unavailable, false),
            ("MOVED 3999 127.0.0.1:6381", FailureClass::Refused, false),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", FailureClass::Refused, false),
        ] {
            let refusal = refusal(text.as_bytes());
            assert_eq!((refusal.class, refusal.lasting), (class, lasting), "{text}");
        }
    }
}
