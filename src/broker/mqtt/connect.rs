//! Opens connections: TLS, the login, the session; and what the server allows.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustls::ClientConfig;
#[cfg(target_os = "linux")]
use socket2::SockRef;

use super::codec::{Malformed, Packet, decode, property};
use super::config::{MqttOptions, Version};
use super::encode::{Connect, MAX_PACKET_BYTES, PINGREQ, append_subscribe};
use super::reason::{FAILURE, connection_refusal, refusal, told};
use crate::broker::servers::Servers;
use crate::broker::{ClientError, KeptOpen, Setup};
use crate::measure::Conditions;
use crate::net::connect::{self, encrypted};
use crate::net::idle::{INTERVAL, KeepAlive};
use crate::net::transport::{ReadBuffer, Transport, WriteBuffer};
use crate::net::{tcp, tls};

/// Of a server that has no `$share/…`.
pub const NO_SHARES: &str =
    "the server has no shared subscriptions: set `broker.mqtt.shared` to false, and use groups of one member";

pub type ConnectError = connect::ConnectError<ClientError>;

impl From<Malformed> for ConnectError {
    fn from(malformed: Malformed) -> Self {
        ConnectError::Malformed(malformed.to_string())
    }
}

/// Who connects.
#[derive(Debug, Clone, Default)]
pub struct Client {
    pub id: String,
    /// How long the server keeps its session.
    pub session_expiry: Duration,
    /// Whether it leaves the scenario's will.
    pub has_will: bool,
}

/// What a client subscribes to.
pub struct Filter {
    text: String,
    /// Whether the server has not confirmed the subscription. A session exists before it, and is there again without it if the connection was
    /// lost in between.
    is_missing: AtomicBool,
}

impl Filter {
    pub fn new(text: String, is_missing: bool) -> Self {
        Filter { text, is_missing: AtomicBool::new(is_missing) }
    }
}

/// What the server allows on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowed {
    /// Messages without an acknowledgement.
    pub receive_maximum: u16,
    /// Bytes of a packet, its head included.
    pub packet_bytes: usize,
    pub topic_aliases: u16,
    /// `None`: silence has no limit.
    pub keep_alive: Option<Duration>,
}

/// A connection that is ready.
pub struct Opened {
    pub address: String,
    pub transport: Transport,
    pub read_buffer: ReadBuffer,
    pub allowed: Allowed,
    /// Whether the server has kept the session.
    pub session_present: bool,
    version: Version,
}

/// Opens connections with the scenario's settings.
pub struct Connector {
    addresses: Vec<String>,
    tls: Option<Arc<ClientConfig>>,
    login: Option<(String, String)>,
    pub options: MqttOptions,
    timeout: Duration,
    conditions: Conditions,
}

impl Connector {
    /// # Errors
    /// When a secret, certificate or key cannot be read.
    pub fn new(setup: &Setup<MqttOptions>) -> Result<Self, String> {
        let Setup { config, options, timeout, conditions, .. } = setup;
        let login = config.security.sasl.as_ref();
        let login = login.map(|sasl| Ok::<_, String>((sasl.username.clone(), sasl.password.reveal()?))).transpose()?;
        Ok(Connector {
            addresses: config.addresses.clone(),
            tls: tls::client_config(config.security.tls.as_ref())?,
            login,
            options: options.clone(),
            timeout: *timeout,
            conditions: conditions.clone(),
        })
    }

    /// A connection to the first server that answers, from the one of this number on. With a `filter`, messages come to it.
    ///
    /// # Errors
    /// Why no server can be used.
    pub async fn connect(&self, first: usize, client: &Client, filter: Option<&Filter>) -> Result<Opened, ClientError> {
        self.first_of(first, client, filter, &self.conditions).await
    }

    /// As [`Connector::connect`], and keeps the connection alive, which carries no messages.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub async fn idle(self: Arc<Self>, first: usize, client: Client) -> Result<KeptOpen, ClientError> {
        let opened = self.first_of(first, &client, None, &Conditions::default()).await?;
        let Opened { address, transport, read_buffer, allowed, version, .. } = opened;
        let handle = move |read_buffer: &mut ReadBuffer, _: &mut Vec<u8>| {
            while let Some(packet) =
                read_buffer.next(|bytes, most| decode(bytes, most, version)).map_err(io::Error::other)?
            {
                if let Packet::Disconnect { code, properties } = packet {
                    return Err(io::Error::other(told(code, properties)));
                }
            }
            Ok(())
        };
        // A server may close a connection after one and a half times the limit.
        let interval = allowed.keep_alive.map_or(INTERVAL, |limit| limit / 2);
        let keep_alive = KeepAlive { interval, heartbeat: PINGREQ.to_vec(), handle };
        Ok(Box::pin(async move {
            ClientError::lost(keep_alive.until_lost(&address, transport, read_buffer, MAX_PACKET_BYTES).await)
        }))
    }

    async fn first_of(
        &self,
        first: usize,
        client: &Client,
        filter: Option<&Filter>,
        conditions: &Conditions,
    ) -> Result<Opened, ClientError> {
        let mut servers = Servers::new(&self.addresses, first, self.timeout, conditions);
        loop {
            let address = servers.next()?;
            let opening = async {
                let mut opened = self.open(address, client, filter.is_some()).await?;
                if let Some(Filter { text, is_missing }) = filter {
                    is_missing.fetch_or(!opened.session_present, Ordering::Relaxed);
                    if is_missing.load(Ordering::Relaxed) {
                        opened.subscribe(text, self.options.qos, false).await?;
                        is_missing.store(false, Ordering::Relaxed);
                    }
                }
                Ok(opened)
            };
            if let Some((opened, _)) = servers.attempt(opening).await? {
                return Ok(opened);
            }
        }
    }

    async fn open(&self, address: &str, client: &Client, subscribes: bool) -> Result<Opened, ConnectError> {
        let stream = tcp::connect(address).await?;
        let transport = match &self.tls {
            Some(tls) => encrypted(tls.clone(), address, stream).await?,
            None => Transport::Plain(stream),
        };
        let MqttOptions { version, qos, shared, retain, keep_alive, receive_maximum, ref will, .. } = self.options;
        let will = will.as_ref().filter(|_| client.has_will);
        // A will is delayed for no longer than the session lasts (MQTT 5, 3.1.3.2.2).
        let session_expiry = will.map_or(client.session_expiry, |will| will.delay);
        let login = self.login.as_ref().map(|(user, password)| (user.as_str(), password.as_str()));
        let mut out = WriteBuffer::default();
        let connect = Connect {
            version,
            client_id: &client.id,
            clean_start: client.session_expiry.is_zero(),
            keep_alive_s: keep_alive.as_secs() as u16,
            session_expiry_s: session_expiry.as_secs() as u32,
            receive_maximum: receive_maximum.get(),
            will,
            login,
        };
        connect.append_to(&mut out.bytes);
        out.flush_all(&transport).await?;
        let mut read_buffer = ReadBuffer::new(MAX_PACKET_BYTES);
        let (session_present, properties) = loop {
            match read_buffer.next(|bytes, most| decode(bytes, most, version))? {
                Some(Packet::Connack { session_present, code: 0, properties }) => break (session_present, properties),
                Some(Packet::Connack { code, properties, .. }) => {
                    return Err(ConnectError::Refused(connection_refusal(code, properties, version)));
                }
                Some(other) => return Err(ConnectError::Malformed(format!("it begins with {other:?}"))),
                None => {
                    transport.readable().await?;
                    read_buffer.fill(&transport)?;
                }
            }
        };
        let number = |id| properties.number(id);
        let incompatible = |sentence: String| Err(ConnectError::Incompatible(sentence));
        if let Some(most) = number(property::MAXIMUM_QOS).filter(|most| *most < qos.into()) {
            return incompatible(format!("the server allows QoS {most} at most: set `broker.mqtt.qos`"));
        }
        if retain && number(property::RETAIN_AVAILABLE) == Some(0) {
            return incompatible("the server retains no messages: remove `broker.mqtt.retain`".to_owned());
        }
        if subscribes && shared && number(property::SHARED_AVAILABLE) == Some(0) {
            return incompatible(NO_SHARES.to_owned());
        }
        if let Some(most) = number(property::SESSION_EXPIRY).filter(|most| u64::from(*most) < session_expiry.as_secs())
        {
            let key = if will.is_some() { "will.delay" } else { "session_expiry" };
            return incompatible(format!("the server keeps sessions for {most} s at most: set `broker.mqtt.{key}`"));
        }
        let keep_alive = number(property::SERVER_KEEP_ALIVE).map_or(keep_alive, |s| Duration::from_secs(s.into()));
        let allowed = Allowed {
            // Without the property, as many as there are packet ids (MQTT 5, 3.2.2.3.3).
            receive_maximum: number(property::RECEIVE_MAXIMUM).map_or(u16::MAX, |most| most.max(1) as u16),
            packet_bytes: number(property::MAXIMUM_PACKET).map_or(MAX_PACKET_BYTES, |most| most as usize),
            topic_aliases: number(property::TOPIC_ALIAS_MAXIMUM).unwrap_or(0) as u16,
            keep_alive: Some(keep_alive).filter(|limit| !limit.is_zero()),
        };
        Ok(Opened { address: address.to_owned(), transport, read_buffer, allowed, session_present, version })
    }
}

impl Opened {
    /// Subscribes, with or without the retained messages of before. Messages that come before the answer stay in the buffer.
    ///
    /// # Errors
    /// When the connection fails, or the server refuses or lowers the quality of service.
    pub async fn subscribe(&mut self, filter: &str, qos: u8, retained: bool) -> Result<(), ConnectError> {
        let mut out = WriteBuffer::default();
        append_subscribe(&mut out.bytes, self.version, filter, qos, retained);
        self.write(out).await?;
        let version = self.version;
        loop {
            let mut granted = None;
            self.read_buffer.has_next(|bytes, most| {
                let mut read = 0;
                while granted.is_none()
                    && let Some((packet, length)) = decode(&bytes[read..], most, version)?
                {
                    granted = match packet {
                        Packet::Suback { codes, properties } => match codes.first() {
                            Some(&code) if code < FAILURE => Some(Ok(code)),
                            code => Some(Err(refusal(code.copied().unwrap_or(FAILURE), properties))),
                        },
                        Packet::Disconnect { code, properties } => Some(Err(refusal(code, properties))),
                        _ => None,
                    };
                    read += length;
                }
                Ok::<_, Malformed>(None::<((), usize)>)
            })?;
            match granted.transpose().map_err(ConnectError::Refused)? {
                Some(granted) if granted < qos => {
                    let message = format!("the server grants QoS {granted} at most: set `broker.mqtt.qos`");
                    return Err(ConnectError::Incompatible(message));
                }
                Some(_) => return Ok(()),
                None => self.read().await?,
            }
        }
    }

    /// Sends packets that end with a `PINGREQ`, and returns the text of the last message that comes before the answer to it.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn ask(&mut self, request: &[u8]) -> Result<Option<String>, ConnectError> {
        let mut out = WriteBuffer::default();
        out.bytes.extend_from_slice(request);
        self.write(out).await?;
        let (mut text, version) = (None, self.version);
        loop {
            match self.read_buffer.next(|bytes, most| decode(bytes, most, version))? {
                Some(Packet::Publish(published)) => {
                    text = Some(String::from_utf8_lossy(published.payload).into_owned())
                }
                Some(Packet::Pingresp) => return Ok(text),
                Some(Packet::Disconnect { code, properties }) => {
                    return Err(ConnectError::Malformed(told(code, properties)));
                }
                Some(_) => {}
                None => self.read().await?,
            }
        }
    }

    /// Writes everything.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn write(&mut self, mut out: WriteBuffer) -> Result<(), ConnectError> {
        Ok(out.flush_all(&self.transport).await?)
    }

    async fn read(&mut self) -> Result<(), ConnectError> {
        self.transport.readable().await?;
        self.read_buffer.fill(&self.transport)?;
        Ok(())
    }
}

/// Acknowledges to the server's TCP at once what was read. By default (`set_tcp_nodelay false`), mosquitto has Nagle's algorithm (RFC 9293,
/// section 3.7.4): it holds small packets back until those before them are acknowledged, which Linux does 40 ms later where nothing is
/// sent meanwhile. The option (`TCP_QUICKACK`, tcp(7)) lasts until the next exchange. With TLS, a task at the other end reads.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables))]
pub fn acknowledge_at_once(transport: &Transport) {
    #[cfg(target_os = "linux")]
    if let Transport::Plain(stream) = transport {
        let _ = SockRef::from(stream).set_tcp_quickack(true);
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/mqtt/connect.rs"]
pub(super) mod tests;
