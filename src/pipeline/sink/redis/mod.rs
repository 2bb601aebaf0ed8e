//! Redis: each batch is one pipeline of commands, by default within MULTI and EXEC.
//!
//! Replies are read one by one: Redis may refuse single rows, or all of them for a while.
//! Protocol: <https://redis.io/docs/latest/develop/interact/transactions/>.

mod place;
mod reply;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, IntoConnectionInfo, Pipeline, RedisConnectionInfo, RedisError,
    TlsCertificates, Value,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::place::KeySample;
use self::reply::{Sent, lost};
use super::{
    CA_WITHOUT_TLS, CONNECT, Database, Opening, ReadBack, RefusedRow, RowCount, Sink, SinkError, WriteOutcome,
    a_minute, yes,
};
use crate::measure::FailureClass;
use crate::net::address;
use crate::pipeline::batch::{Batch, Field};
use crate::scenario::tables::DurationText;
use crate::scenario::{Secret, SinkDescriptor, SinkNeeds};

pub const DESCRIPTOR: SinkDescriptor = SinkDescriptor {
    kind: "redis",
    options_schema: crate::scenario::tables::schema_of::<Options>,
    check_options: |options| {
        let options = Options::read(options)?;
        let is_anywhere = options.command == Command::Set && options.prefix.is_empty();
        let not_removable = is_anywhere.then_some("without a `prefix`, its keys are not told from others");
        Ok(SinkNeeds { fields: options.key.into_iter().collect(), offsets: false, not_removable })
    },
};

/// The keys of a sink of this kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Options {
    /// `host:port`.
    address: String,
    #[serde(default)]
    command: Command,
    /// The JSON field that is the key, or, for `hset`, the field of the hash. `xadd` needs none.
    key: Option<String>,
    /// Stands before the key. Not with `xadd`.
    #[serde(default)]
    prefix: String,
    /// The hash that `hset` fills, the stream that `xadd` appends to.
    name: Option<String>,
    #[serde(default = "yes")]
    transaction: bool,
    #[serde(default)]
    database: i64,
    username: Option<String>,
    #[serde(default)]
    password: Option<Secret>,
    #[serde(default)]
    tls: bool,
    /// PEM file of the authorities to trust; otherwise those of the system.
    #[schemars(extend("format" = "existing-file"))]
    ca: Option<std::path::PathBuf>,
    #[serde(default = "a_minute", with = "DurationText")]
    timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Command {
    #[default]
    Set,
    Hset,
    Xadd,
}

impl Command {
    fn name(self) -> &'static str {
        match self {
            Command::Set => "SET",
            Command::Hset => "HSET",
            Command::Xadd => "XADD",
        }
    }
}

impl Options {
    fn read(table: toml::Table) -> Result<Self, toml::de::Error> {
        use serde::de::Error;
        let says_tls = table.contains_key("tls");
        let options: Options = table.try_into()?;
        if options.ca.is_some() && !says_tls {
            return Err(Error::custom(CA_WITHOUT_TLS));
        }
        if options.username.is_some() && options.password.is_none() {
            return Err(Error::custom("a `username` goes with its `password`"));
        }
        if options.key.is_none() && options.command != Command::Xadd {
            return Err(Error::custom("a redis sink needs a `key`: the JSON field that is the key of a row"));
        }
        if options.name.is_none() && options.command != Command::Set {
            return Err(Error::custom("this command needs the `name` of its hash or stream"));
        }
        if options.name.is_some() && options.command == Command::Set {
            return Err(Error::custom("`name` has no effect with `command = \"set\"`: remove it"));
        }
        if !options.prefix.is_empty() && options.command == Command::Xadd {
            return Err(Error::custom("`prefix` has no effect with `command = \"xadd\"`: remove it"));
        }
        // A URL is refused because it may hold a password, which a record would show.
        if address::split(&options.address).is_none_or(|(host, _)| host.contains(['@', '/'])) {
            return Err(Error::custom("`address` is not `host:port`"));
        }
        Ok(options)
    }
}

pub fn open(opening: &Opening<'_>) -> Result<Box<dyn Database>, String> {
    let options = Options::read(opening.options.clone()).map_err(|error| error.message().to_owned())?;
    let client = client(&options).map_err(|reason| format!("redis at {}: {reason}", options.address))?;
    let samples = Arc::default();
    Ok(Box::new(Redis { client, options, column: opening.columns.first().copied(), samples }))
}

fn client(options: &Options) -> Result<Client, String> {
    let (host, port) = address::split(&options.address).ok_or("the address has no port")?;
    let host = host.trim_matches(['[', ']']).to_owned();
    let addr = if options.tls {
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host, port)
    };
    let mut login = RedisConnectionInfo::default().set_db(options.database);
    if let Some(username) = &options.username {
        login = login.set_username(username);
    }
    if let Some(password) = &options.password {
        login = login.set_password(password.reveal()?);
    }
    let text = |error: RedisError| error.to_string();
    let info = addr.into_connection_info().map_err(text)?.set_redis_settings(login);
    if !options.tls {
        return Client::open(info).map_err(text);
    }
    let read = |file: &std::path::PathBuf| {
        std::fs::read(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))
    };
    let root_cert = options.ca.as_ref().map(read).transpose()?;
    Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert }).map_err(text)
}

struct Redis {
    client: Client,
    options: Options,
    column: Option<usize>,
    samples: Arc<Mutex<Vec<Arc<Mutex<KeySample>>>>>,
}

impl Database for Redis {
    fn place(&self) -> String {
        format!("redis at {}", self.options.address)
    }

    fn connection(&self) -> Box<dyn Sink> {
        let sample = Arc::<Mutex<KeySample>>::default();
        self.samples.lock().push(sample.clone());
        Box::new(Connection {
            client: self.client.clone(),
            options: self.options.clone(),
            column: self.column,
            connection: None,
            sample,
            samples: self.samples.clone(),
        })
    }
}

struct Connection {
    client: Client,
    options: Options,
    column: Option<usize>,
    connection: Option<MultiplexedConnection>,
    /// Locked once a batch, by this connection alone.
    sample: Arc<Mutex<KeySample>>,
    /// Samples of all connections to this sink.
    samples: Arc<Mutex<Vec<Arc<Mutex<KeySample>>>>>,
}

impl Sink for Connection {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), SinkError>> {
        async move {
            self.connection = None;
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(self.options.timeout.min(CONNECT)))
                .set_response_timeout(Some(self.options.timeout));
            let connection = self.client.get_multiplexed_async_connection_with_config(&config);
            self.connection = Some(connection.await.map_err(lost)?);
            Ok(())
        }
        .boxed()
    }

    fn write<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<WriteOutcome, SinkError>> {
        async move {
            let (pipeline, rows) = self.pipeline(batch);
            self.sample.lock().begin();
            let replies = if rows.is_empty() {
                Vec::new()
            } else {
                self.connection()?.req_packed_commands(&pipeline, 0, pipeline.len()).await.map_err(lost)?
            };
            self.account(batch, &rows, replies)
        }
        .boxed()
    }

    fn prove(&mut self) -> BoxFuture<'_, Result<(), SinkError>> {
        async move {
            let options = self.options.clone();
            place::prove(self.connection()?, &options).await
        }
        .boxed()
    }

    fn durability(&mut self) -> BoxFuture<'_, Result<BTreeMap<String, String>, SinkError>> {
        async move { Ok(place::durability(self.connection()?).await) }.boxed()
    }

    fn row_count(&mut self) -> BoxFuture<'_, Result<Option<RowCount>, SinkError>> {
        async move {
            let options = self.options.clone();
            place::count(self.connection()?, &options).await
        }
        .boxed()
    }

    fn read_back(&mut self) -> BoxFuture<'_, Result<Option<ReadBack>, SinkError>> {
        async move {
            let (options, samples) = (self.options.clone(), self.samples.lock().clone());
            let samples: Vec<KeySample> = samples.iter().map(|sample| std::mem::take(&mut *sample.lock())).collect();
            place::read_back(self.connection()?, &options, samples.iter()).await
        }
        .boxed()
    }

    fn is_empty(&mut self) -> BoxFuture<'_, Result<bool, SinkError>> {
        async move {
            let options = self.options.clone();
            place::is_empty(self.connection()?, &options).await
        }
        .boxed()
    }

    fn remove_rows(&mut self) -> BoxFuture<'_, Result<(), SinkError>> {
        async move {
            let options = self.options.clone();
            place::remove(self.connection()?, &options).await
        }
        .boxed()
    }
}

impl Connection {
    fn connection(&mut self) -> Result<&mut MultiplexedConnection, SinkError> {
        self.connection.as_mut().ok_or_else(|| SinkError::disconnected(FailureClass::ConnectionLost, "not connected"))
    }

    /// The commands for the rows that have a key, and these rows.
    fn pipeline(&self, batch: &Batch) -> (Pipeline, Vec<Sent>) {
        let mut pipeline = Pipeline::with_capacity(batch.rows.len() + 2);
        let mut rows = Vec::with_capacity(batch.rows.len());
        if self.options.transaction {
            pipeline.cmd("MULTI");
        }
        let name = self.options.name.as_deref().unwrap_or_default();
        for (index, row) in batch.rows.iter().enumerate() {
            let payload = batch.payload(row);
            let command = self.options.command;
            if command == Command::Xadd {
                pipeline.cmd(command.name()).arg(name).arg("*").arg("payload").arg(payload);
                rows.push((index, 0));
                continue;
            }
            let Some(key) = self.key(batch, index) else { continue };
            let started = pipeline.cmd(command.name());
            let started = if command == Command::Hset { started.arg(name) } else { started };
            started.arg(&*key).arg(payload);
            rows.push((index, place::hash(&key)));
        }
        if self.options.transaction {
            pipeline.cmd("EXEC");
        }
        (pipeline, rows)
    }

    /// `None`: the message has none.
    fn key<'a>(&self, batch: &'a Batch, row: usize) -> Option<Cow<'a, str>> {
        let text = match self.column.and_then(|column| batch.field(row, column)) {
            Some(Field::Text(text)) => Cow::Borrowed(text),
            Some(Field::Integer(number)) => Cow::Owned(number.to_string()),
            Some(Field::Float(number)) => Cow::Owned(number.to_string()),
            Some(Field::Boolean(value)) => Cow::Owned(value.to_string()),
            Some(Field::Null) | None => return None,
        };
        Some(if self.options.prefix.is_empty() { text } else { Cow::Owned(format!("{}{text}", self.options.prefix)) })
    }

    /// The result of a batch of which `rows` have a key and were sent.
    fn account(&self, batch: &Batch, rows: &[Sent], replies: Vec<Value>) -> Result<WriteOutcome, SinkError> {
        let mut written = WriteOutcome::default();
        let mut stored = Vec::with_capacity(rows.len());
        if !rows.is_empty() {
            written = reply::account(replies, self.options.transaction, rows, |sent| stored.push(*sent))?;
        }
        let mut sent = rows.iter().map(|(row, _)| *row).peekable();
        let without_key = (0..batch.rows.len()).filter(|row| sent.next_if_eq(row).is_none());
        let refusal = |row| RefusedRow {
            row,
            class: FailureClass::Refused,
            message: "the field that is the key is null".to_owned(),
        };
        written.refused.extend(without_key.map(refusal));
        let rows = if self.options.command == Command::Xadd { &[] } else { &stored[..] };
        let key = |row| self.key(batch, row).map(Cow::into_owned);
        self.sample.lock().settle(rows, key, |row| batch.payload(&batch.rows[row]));
        Ok(written)
    }
}

#[cfg(test)]
#[path = "../../../../tests/unit/pipeline/sink/redis/mod.rs"]
mod tests;
