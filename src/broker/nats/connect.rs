//! Opens a publishing connection: the server's information, TLS, the login.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_nats::ConnectOptions;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use parking_lot::Mutex;
use rustls::ClientConfig;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::codec::{Frame, Malformed, decode};
use super::config::NatsOptions;
use crate::broker::servers::Servers;
use crate::broker::{ClientError, FailureClass, KeptOpen};
use crate::measure::Conditions;
use crate::net::connect::{self, encrypted};
use crate::net::idle::{INTERVAL, KeepAlive};
use crate::net::transport::{ReadBuffer, Transport, WriteBuffer};
use crate::net::{tcp, tls};
use crate::printable::printable;
use crate::scenario::BrokerConfig;

/// Longest answer that a publisher reads.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

pub type ConnectError = connect::ConnectError<ClientError>;

impl From<Malformed> for ConnectError {
    fn from(malformed: Malformed) -> Self {
        ConnectError::Malformed(malformed.to_string())
    }
}

/// Who the client is, with its secrets.
pub struct Login {
    user: Option<(String, String)>,
    token: Option<String>,
    /// The seed of an nkey.
    seed: Option<String>,
    /// The text of a file of `nsc`: a JWT and a seed.
    credentials: Option<String>,
}

impl Login {
    /// # Errors
    /// A sentence that names the secret or file which cannot be read.
    pub fn read(config: &BrokerConfig, options: &NatsOptions) -> Result<Self, String> {
        let user = config.security.sasl.as_ref();
        let user = user.map(|sasl| Ok::<_, String>((sasl.username.clone(), sasl.password.reveal()?))).transpose()?;
        let credentials = options.credentials.as_ref().map(|path| {
            let text = std::fs::read_to_string(path);
            text.map_err(|error| format!("`broker.nats.credentials`: {} cannot be read: {error}", path.display()))
        });
        Ok(Login {
            user,
            token: options.token.as_ref().map(|token| token.reveal()).transpose()?,
            seed: options.nkey.as_ref().map(|nkey| nkey.reveal()).transpose()?,
            credentials: credentials.transpose()?,
        })
    }

    /// For the crate's clients.
    ///
    /// # Errors
    /// When the credentials cannot be parsed.
    pub fn options(&self) -> Result<ConnectOptions, String> {
        let mut options = ConnectOptions::new();
        if let Some((user, password)) = &self.user {
            options = options.user_and_password(user.clone(), password.clone());
        }
        if let Some(token) = &self.token {
            options = options.token(token.clone());
        }
        if let Some(seed) = &self.seed {
            options = options.nkey(seed.clone());
        }
        match &self.credentials {
            None => Ok(options),
            Some(text) => options.credentials(text).map_err(|error| format!("`broker.nats.credentials`: {error}")),
        }
    }

    /// The `CONNECT` line for a server that sent `info`.
    fn line(&self, name: &str, has_tls: bool, info: &Info) -> Result<Vec<u8>, String> {
        let (jwt, seed) = match &self.credentials {
            Some(text) => {
                let mut parts = decorated(text);
                (parts.next(), parts.next())
            }
            None => (None, self.seed.as_deref()),
        };
        let key = seed.map(|seed| KeyPair::from_seed(seed.trim()).map_err(|error| format!("the nkey's seed: {error}")));
        let key = key.transpose()?;
        let sign = |key: &KeyPair| key.sign(info.nonce.as_bytes()).map_err(|error| error.to_string());
        let signature = key.as_ref().map(sign).transpose()?;
        let connect = Connect {
            verbose: false,
            pedantic: false,
            tls_required: has_tls,
            name,
            lang: "rust",
            version: env!("CARGO_PKG_VERSION"),
            protocol: 1,
            headers: true,
            no_responders: true,
            user: self.user.as_ref().map(|(user, _)| user.as_str()),
            pass: self.user.as_ref().map(|(_, password)| password.as_str()),
            auth_token: self.token.as_deref(),
            nkey: if jwt.is_none() { key.as_ref().map(KeyPair::public_key) } else { None },
            jwt,
            sig: signature.map(|signature| URL_SAFE_NO_PAD.encode(signature)),
        };
        // Serialisation fails only for maps whose keys are not strings; this type has no map.
        Ok([b"CONNECT ", &serde_json::to_vec(&connect).unwrap_or_default()[..], b"\r\n"].concat())
    }
}

/// What stands between the lines of dashes of a file of `nsc`: the JWT, and the seed.
fn decorated(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    let behind_begin = lines.clone().zip(lines.skip(1));
    behind_begin.filter(|(line, _)| line.starts_with("---") && line.contains("BEGIN")).map(|(_, text)| text)
}

/// `CONNECT` of the NATS client protocol.
#[derive(Serialize)]
struct Connect<'a> {
    verbose: bool,
    pedantic: bool,
    tls_required: bool,
    name: &'a str,
    lang: &'static str,
    version: &'static str,
    protocol: u8,
    headers: bool,
    no_responders: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pass: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nkey: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jwt: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sig: Option<String>,
}

/// `INFO` of the NATS client protocol: what the server tells of itself, at the beginning and when it changes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Info {
    pub version: String,
    pub max_payload: usize,
    nonce: String,
    tls_required: bool,
    tls_available: bool,
    /// Other servers of its cluster.
    connect_urls: Vec<String>,
    /// It shuts down after it has sent its clients away.
    #[serde(rename = "ldm")]
    pub lame_duck: bool,
}

/// A connection that is ready.
pub struct Opened {
    pub address: String,
    pub transport: Transport,
    pub read_buffer: ReadBuffer,
    pub info: Info,
}

/// Opens connections with the scenario's settings.
pub struct Connector {
    /// Those of the scenario, and those that servers have named.
    addresses: Mutex<Vec<String>>,
    tls: Option<Arc<ClientConfig>>,
    login: Login,
    name: String,
    timeout: Duration,
    conditions: Conditions,
}

impl Connector {
    /// # Errors
    /// When a certificate or key cannot be read.
    pub fn new(
        config: &BrokerConfig,
        login: Login,
        name: String,
        timeout: Duration,
        conditions: &Conditions,
    ) -> Result<Self, String> {
        let tls = tls::client_config(config.security.tls.as_ref())?;
        let addresses = Mutex::new(config.addresses.clone());
        Ok(Connector { addresses, tls, login, name, timeout, conditions: conditions.clone() })
    }

    /// A connection to the first server that answers, from the one of this number on, which hears the messages to `inbox`, of at most so
    /// many bytes.
    ///
    /// # Errors
    /// Why no server can be used.
    pub async fn connect(&self, first: usize, inbox: &[u8], most: usize) -> Result<Opened, ClientError> {
        self.first_of(first, inbox, most, &self.conditions).await
    }

    /// As [`Connector::connect`], and keeps the connection alive, which carries no messages.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub async fn idle(self: Arc<Self>, first: usize) -> Result<KeptOpen, ClientError> {
        let inbox = format!("_INBOX.{:032x}.", rand::random::<u128>());
        let opened = self.first_of(first, inbox.as_bytes(), MAX_ANSWER_BYTES, &Conditions::default()).await?;
        let handle = |read_buffer: &mut ReadBuffer, out: &mut Vec<u8>| {
            while let Some(frame) = read_buffer.next(decode).map_err(io::Error::other)? {
                match frame {
                    Frame::Ping => out.extend_from_slice(b"PONG\r\n"),
                    Frame::Error(error) => return Err(io::Error::other(text(error))),
                    Frame::Info(_) | Frame::Message(_) | Frame::Pong | Frame::Ok => {}
                }
            }
            Ok(())
        };
        let keep_alive = KeepAlive { interval: INTERVAL, heartbeat: b"PING\r\n".to_vec(), handle };
        Ok(Box::pin(async move {
            let Opened { address, transport, read_buffer, .. } = opened;
            ClientError::lost(keep_alive.until_lost(&address, transport, read_buffer, MAX_ANSWER_BYTES).await)
        }))
    }

    async fn first_of(
        &self,
        first: usize,
        inbox: &[u8],
        most: usize,
        conditions: &Conditions,
    ) -> Result<Opened, ClientError> {
        let addresses = self.addresses.lock().clone();
        let mut servers = Servers::new(&addresses, first, self.timeout, conditions);
        loop {
            let address = servers.next()?;
            if let Some((opened, _)) = servers.attempt(self.open(address, inbox, most)).await? {
                return Ok(opened);
            }
        }
    }

    /// Remembers the servers that one has named.
    pub fn learn(&self, info: &Info) {
        let mut addresses = self.addresses.lock();
        for address in &info.connect_urls {
            if !addresses.contains(address) {
                addresses.push(address.clone());
            }
        }
    }

    async fn open(&self, address: &str, inbox: &[u8], most: usize) -> Result<Opened, ConnectError> {
        let mut stream = tcp::connect(address).await?;
        let mut info = information(&mut stream).await?;
        let transport = match &self.tls {
            Some(_) if !info.tls_required && !info.tls_available => {
                return Err(ConnectError::Incompatible("the server does not offer TLS".to_owned()));
            }
            Some(tls) => encrypted(tls.clone(), address, stream).await?,
            None if info.tls_required => {
                let message = "the server wants TLS: set `[broker.security.tls]`, or `tls://` in the URL".to_owned();
                return Err(ConnectError::Incompatible(message));
            }
            None => Transport::Plain(stream),
        };
        let line = self.login.line(&self.name, self.tls.is_some(), &info).map_err(ConnectError::Incompatible)?;
        let mut out = WriteBuffer::default();
        out.bytes.extend_from_slice(&line);
        out.bytes.extend_from_slice(&[b"SUB ", inbox, b"> 1\r\nPING\r\n"].concat());
        out.flush_all(&transport).await?;
        let mut read_buffer = ReadBuffer::new(most);
        loop {
            match read_buffer.next(decode)? {
                Some(Frame::Pong) => break,
                Some(Frame::Error(text)) => return Err(ConnectError::Refused(refusal(text))),
                // With a login, it may tell more.
                Some(Frame::Info(json)) => info = parse(json)?,
                Some(_) => {}
                None => {
                    transport.readable().await?;
                    read_buffer.fill(&transport)?;
                }
            }
        }
        self.learn(&info);
        Ok(Opened { address: address.to_owned(), transport, read_buffer, info })
    }
}

/// The first line of a server. It sends no more before it has heard from its client.
async fn information(stream: &mut TcpStream) -> Result<Info, ConnectError> {
    let mut bytes = Vec::new();
    loop {
        match decode(&bytes, MAX_ANSWER_BYTES)? {
            Some((Frame::Info(json), _)) => return Ok(parse(json)?),
            Some((Frame::Error(text), _)) => return Err(ConnectError::Refused(refusal(text))),
            Some((other, _)) => return Err(ConnectError::Malformed(format!("it begins with {other:?}"))),
            None => {}
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            let message = "the server closed the connection before it told of itself";
            return Err(ConnectError::Io(io::Error::new(io::ErrorKind::UnexpectedEof, message)));
        }
    }
}

/// # Errors
/// When it is not the JSON of a server.
pub fn parse(json: &[u8]) -> Result<Info, Malformed> {
    serde_json::from_slice(json).map_err(|error| Malformed(format!("the server's information: {error}")))
}

/// Text of the server, shortened.
pub fn text(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes)).chars().take(500).collect()
}

/// What `-ERR` says (docs.nats.io, "NATS client protocol", `+OK/ERR`).
pub fn refusal(error: &[u8]) -> ClientError {
    let message = text(error);
    let lower = message.to_lowercase();
    // A login that came too late, or one more than the account may have connections ("maximum account active connections exceeded").
    let may_pass = lower.contains("timeout") || lower.contains("exceeded");
    let is_login = ["authoriz", "authenticat", "account"].iter().any(|word| lower.contains(word));
    if lower.contains("permissions violation") {
        ClientError::passing(FailureClass::Authorisation, message)
    } else if is_login && !may_pass {
        ClientError::lasting(FailureClass::Authorisation, message)
    } else {
        ClientError::passing(FailureClass::Refused, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_file_parts() {
        let file = "-----BEGIN NATS USER JWT-----\neyJ0.eyJq.x\n------END NATS USER JWT------\n\n*** IMPORTANT ***\n\
            -----BEGIN USER NKEY SEED-----\r\nSUAIO3FHUX5PNV\r\n------END USER NKEY SEED------\n";
        assert_eq!(decorated(file).collect::<Vec<_>>(), ["eyJ0.eyJq.x", "SUAIO3FHUX5PNV"]);
    }

    #[test]
    fn server_errors_have_classes() {
        for (text, class, lasting) in [
            ("Authorization Violation", FailureClass::Authorisation, true),
            ("User Authentication Expired", FailureClass::Authorisation, true),
            ("Permissions Violation for Publish to \"accounts\"", FailureClass::Authorisation, false),
            ("Stale Connection", FailureClass::Refused, false),
            ("Authentication Timeout", FailureClass::Refused, false),
            ("maximum account active connections exceeded", FailureClass::Refused, false),
            ("maximum connections exceeded", FailureClass::Refused, false),
        ] {
            let refusal = refusal(text.as_bytes());
            assert_eq!((refusal.class, refusal.lasting), (class, lasting), "{text}");
        }
    }
}
