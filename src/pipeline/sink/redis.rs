//! Redis: each batch is one pipeline of commands, by default within MULTI and EXEC.
//!
//! Replies are read one by one: Redis may refuse single rows, or all of them for a while.
//! Protocol: <https://redis.io/docs/latest/develop/interact/transactions/>.

mod durability;

use std::borrow::Cow;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ErrorKind, IntoConnectionInfo, Pipeline, RedisConnectionInfo,
    RedisError, TlsCertificates, Value,
};
use serde::Deserialize;

use super::{CONNECT, Database, Opening, RowCount, Sink, SinkError, Written};
use crate::measure::FailureClass;
use crate::net::address;
use crate::pipeline::batch::{Batch, Field};
use crate::scenario::deserialize::{duration, secret};
use crate::scenario::{Secret, SinkDescriptor, SinkNeeds};

pub const DESCRIPTOR: SinkDescriptor = SinkDescriptor {
    kind: "redis",
    check_options: |options| {
        let options = Options::read(options)?;
        Ok(SinkNeeds { fields: options.key.into_iter().collect(), offsets: false })
    },
};

/// The keys of a sink of this kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    /// `host:port`.
    address: String,
    #[serde(default)]
    command: Command,
    /// The JSON field that is the key, or, for `hset`, the field of the hash. `xadd` needs none.
    key: Option<String>,
    /// Stands before the key.
    #[serde(default)]
    prefix: String,
    /// The hash that `hset` fills, the stream that `xadd` appends to.
    name: Option<String>,
    #[serde(default = "yes")]
    transaction: bool,
    #[serde(default)]
    database: i64,
    username: Option<String>,
    #[serde(default, deserialize_with = "secret")]
    password: Option<Secret>,
    #[serde(default)]
    tls: bool,
    /// PEM file of the authorities to trust; otherwise those of the system.
    ca: Option<std::path::PathBuf>,
    #[serde(default = "a_minute", deserialize_with = "duration")]
    timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Command {
    #[default]
    Set,
    Hset,
    Xadd,
}

impl Options {
    fn read(table: toml::Table) -> Result<Self, toml::de::Error> {
        use serde::de::Error;
        let options: Options = table.try_into()?;
        if options.key.is_none() && options.command != Command::Xadd {
            return Err(Error::custom("a redis sink needs a `key`: the JSON field that is the key of a row"));
        }
        if options.name.is_none() && options.command != Command::Set {
            return Err(Error::custom("this command needs the `name` of its hash or stream"));
        }
        // A URL is refused because it may hold a password, which a record would show.
        if address::split(&options.address).is_none_or(|(host, _)| host.contains(['@', '/'])) {
            return Err(Error::custom("`address` is not `host:port`"));
        }
        Ok(options)
    }
}

fn yes() -> bool {
    true
}

fn a_minute() -> Duration {
    Duration::from_secs(60)
}

pub fn open(opening: &Opening<'_>) -> Result<Box<dyn Database>, String> {
    let options = Options::read(opening.options.clone()).map_err(|error| error.message().to_owned())?;
    let client = client(&options).map_err(|reason| format!("redis at {}: {reason}", options.address))?;
    Ok(Box::new(Redis { client, options, column: opening.columns.first().copied() }))
}

fn client(options: &Options) -> Result<Client, String> {
    let (host, port) = address::split(&options.address).ok_or("the address has no port")?;
    let host = host.to_owned();
    let addr = match options.tls {
        false => ConnectionAddr::Tcp(host, port),
        true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
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
}

impl Database for Redis {
    fn connection(&self) -> Box<dyn Sink> {
        Box::new(Connection {
            client: self.client.clone(),
            options: self.options.clone(),
            column: self.column,
            connection: None,
        })
    }
}

struct Connection {
    client: Client,
    options: Options,
    column: Option<usize>,
    connection: Option<MultiplexedConnection>,
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

    fn write<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<Written, SinkError>> {
        async move {
            let pipeline = self.pipeline(batch);
            let replies = self.connection()?.req_packed_commands(&pipeline, 0, pipeline.len()).await.map_err(lost)?;
            self.account(replies)
        }
        .boxed()
    }

    fn row_count(&mut self) -> BoxFuture<'_, Result<RowCount, SinkError>> {
        async move {
            let name = self.command_name();
            let connection = self.connection()?;
            let ask = |section: &'static str| {
                let mut command = redis::cmd("INFO");
                command.arg(section);
                command
            };
            let commands: String = ask("commandstats").query_async(connection).await.map_err(lost)?;
            let server: String = ask("server").query_async(connection).await.map_err(lost)?;
            let life = server.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default().to_owned();
            let of = format!("{name} commands that succeeded, of all clients");
            let durability = durability::durability(connection).await;
            Ok(RowCount { count: succeeded(&commands, name), of, life, durability })
        }
        .boxed()
    }
}

impl Connection {
    fn connection(&mut self) -> Result<&mut MultiplexedConnection, SinkError> {
        self.connection.as_mut().ok_or_else(|| SinkError::disconnected(FailureClass::ConnectionLost, "not connected"))
    }

    fn command_name(&self) -> &'static str {
        match self.options.command {
            Command::Set => "SET",
            Command::Hset => "HSET",
            Command::Xadd => "XADD",
        }
    }

    fn pipeline(&self, batch: &Batch) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(batch.rows.len() + 2);
        if self.options.transaction {
            pipeline.cmd("MULTI");
        }
        let name = self.options.name.as_deref().unwrap_or_default();
        let command = self.command_name();
        for (index, row) in batch.rows.iter().enumerate() {
            let payload = batch.payload(row);
            let command = pipeline.cmd(command);
            match self.options.command {
                Command::Set => command.arg(&*self.key(batch, index)).arg(payload),
                Command::Hset => command.arg(name).arg(&*self.key(batch, index)).arg(payload),
                Command::Xadd => command.arg(name).arg("*").arg("payload").arg(payload),
            };
        }
        if self.options.transaction {
            pipeline.cmd("EXEC");
        }
        pipeline
    }

    fn key<'a>(&self, batch: &'a Batch, row: usize) -> Cow<'a, str> {
        let text = match self.column.and_then(|column| batch.field(row, column)) {
            Some(Field::Text(text)) => Cow::Borrowed(text),
            Some(Field::Integer(number)) => Cow::Owned(number.to_string()),
            Some(Field::Float(number)) => Cow::Owned(number.to_string()),
            Some(Field::Boolean(value)) => Cow::Owned(value.to_string()),
            Some(Field::Null) | None => Cow::Borrowed("null"),
        };
        if self.options.prefix.is_empty() { text } else { Cow::Owned(format!("{}{text}", self.options.prefix)) }
    }

    /// From one reply for each command to the result of each row.
    fn account(&self, mut replies: Vec<Value>) -> Result<Written, SinkError> {
        if self.options.transaction {
            let executed = replies.pop();
            match executed {
                Some(Value::Array(each)) => replies = each,
                // Nothing was executed; the reason is with the command that was not queued.
                executed => {
                    let refused = replies.into_iter().chain(executed).find_map(error);
                    return Err(refused.map_or_else(malformed, |refused| refused.of_a_batch()));
                }
            }
        }
        let mut written = Written::default();
        for reply in replies {
            match error(reply) {
                None => written.rows += 1,
                Some(refusal) if refusal.of_a_batch().retriable => return Err(refusal.of_a_batch()),
                Some(refusal) => written.refused.push((FailureClass::Refused, refusal.0)),
            }
        }
        Ok(written)
    }
}

/// The errors with which Redis refuses all commands for a while.
const AWAY: [&str; 7] = ["LOADING", "BUSY", "READONLY", "MASTERDOWN", "NOREPLICAS", "CLUSTERDOWN", "TRYAGAIN"];

/// An error of a command: a word in capitals, and a sentence.
struct Refusal(String);

fn error(reply: Value) -> Option<Refusal> {
    match reply {
        Value::ServerError(error) => {
            Some(Refusal(format!("{} {}", error.code(), error.details().unwrap_or_default()).trim_end().to_owned()))
        }
        _ => None,
    }
}

impl Refusal {
    /// The error of a whole batch. The words: <https://redis.io/docs/latest/develop/reference/protocol-spec/>
    /// and `src/server.c` of Redis 7.
    fn of_a_batch(&self) -> SinkError {
        let contains = |word: &str| self.0.contains(word);
        let (class, retriable) = match () {
            () if contains("OOM") || contains("maxmemory") => (FailureClass::Full, true),
            () if contains("MISCONF") => (FailureClass::Full, true),
            () if contains("NOAUTH") || contains("WRONGPASS") || contains("NOPERM") => {
                (FailureClass::Authorisation, true)
            }
            () if AWAY.into_iter().any(contains) => (FailureClass::Refused, true),
            () => (FailureClass::Refused, false),
        };
        SinkError { class, message: self.0.clone(), retriable, disconnected: false }
    }
}

fn malformed() -> SinkError {
    SinkError {
        class: FailureClass::Other,
        message: "Redis answered EXEC with something else than a list".to_owned(),
        retriable: true,
        disconnected: true,
    }
}

fn lost(error: RedisError) -> SinkError {
    let text = [error.code(), error.detail()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let refusal = Refusal(if text.is_empty() { error.to_string() } else { text }).of_a_batch();
    if error.is_timeout() {
        return SinkError::disconnected(FailureClass::Timeout, error.to_string());
    }
    if error.is_io_error() || error.is_connection_dropped() || error.is_connection_refusal() {
        return SinkError::disconnected(FailureClass::ConnectionLost, error.to_string());
    }
    let class = match error.kind() {
        ErrorKind::AuthenticationFailed => FailureClass::Authorisation,
        _ => refusal.class,
    };
    // The login is tried again: the account may be corrected meanwhile.
    SinkError { class, retriable: true, disconnected: true, ..refusal }
}

/// How often a command was executed without an error: `cmdstat_set:calls=3,…,rejected_calls=0,failed_calls=1`.
fn succeeded(statistics: &str, command: &str) -> u64 {
    let prefix = format!("cmdstat_{}:", command.to_lowercase());
    let Some(line) = statistics.lines().find_map(|line| line.strip_prefix(&prefix)) else { return 0 };
    let figure = |name: &str| {
        let value = line.trim_end().split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0)
    };
    figure("calls").saturating_sub(figure("failed_calls"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Clock;

    fn connection(options: &str) -> Result<Box<dyn Database>, String> {
        let options: toml::Table = options.parse().unwrap();
        open(&Opening { options: &options, columns: &[0], topic: "t", clock: Clock::start(), connections: 1 })
    }

    #[test]
    fn a_batch_is_one_transaction() {
        let options: Options = toml::from_str("address = 'h:1'\nkey = 'device_id'\nprefix = 'p:'").unwrap();
        let client = client(&options).unwrap();
        let connection = Connection { client, options, column: Some(0), connection: None };
        let batch = Batch::of(&[r#"{"device_id":"a"}"#, r#"{"device_id":7}"#], &["device_id"]);
        let packed = String::from_utf8(connection.pipeline(&batch).get_packed_pipeline()).unwrap();
        let words: Vec<&str> = packed.split("\r\n").filter(|word| !word.starts_with(['$', '*'])).collect();
        let expected = ["MULTI", "SET", "p:a", r#"{"device_id":"a"}"#, "SET", "p:7", r#"{"device_id":7}"#, "EXEC", ""];
        assert_eq!(words, expected);
    }

    #[test]
    fn a_server_that_cannot_take_anything_right_now_is_told_from_a_row_that_it_never_takes() {
        let account = |transaction: bool, replies: &str| {
            let text = format!("address = 'h:1'\nkey = 'a'\ntransaction = {transaction}");
            let options: Options = toml::from_str(&text).unwrap();
            let connection =
                Connection { client: client(&options).unwrap(), options, column: Some(0), connection: None };
            connection.account(
                replies.split_inclusive("\r\n").map(|one| redis::parse_redis_value(one.as_bytes()).unwrap()).collect(),
            )
        };
        for word in ["LOADING", "READONLY", "MASTERDOWN", "NOPERM", "OOM", "NOAUTH", "BUSY", "CLUSTERDOWN"] {
            let error = account(false, &format!("+OK\r\n-{word} a reason\r\n")).unwrap_err();
            assert!(error.retriable && error.message.contains(word), "{error:?}");
            let aborted = format!("+OK\r\n-{word} a reason\r\n-EXECABORT Transaction discarded\r\n");
            let error = account(true, &aborted).unwrap_err();
            assert!(error.retriable && error.message.contains(word), "{error:?}");
        }
        let written = account(false, "+OK\r\n-WRONGTYPE it is a list\r\n").unwrap();
        assert_eq!(written.rows, 1);
        assert_eq!(written.refused, [(FailureClass::Refused, "WRONGTYPE it is a list".to_owned())]);
    }

    #[test]
    fn what_redis_counts_is_what_succeeded() {
        let text = "# Commandstats\r\ncmdstat_set:calls=10,usec=5,rejected_calls=2,failed_calls=3\r\n";
        assert_eq!((succeeded(text, "SET"), succeeded(text, "HSET")), (7, 0));
    }

    #[test]
    fn what_is_missing_is_said() {
        assert!(connection("address = 'h:1'").err().unwrap().contains("key"));
        assert!(connection("address = 'h:1'\nkey = 'a'\ncommand = 'hset'").err().unwrap().contains("name"));
        assert!(connection("address = 'h'\nkey = 'a'").err().unwrap().contains("port"));
        assert!(connection("address = 'redis://:pw@h:1'\nkey = 'a'").err().unwrap().contains("host:port"));
    }
}
