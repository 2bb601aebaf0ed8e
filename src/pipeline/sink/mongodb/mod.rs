//! MongoDB, or whatever speaks its protocol: each batch is one `insert` command.
//!
//! The documents are written as BSON straight from the batch (<https://bsonspec.org/spec.html>) and sent with the official
//! driver's raw command, not its `insert_many`: that would build each document a second time, and hides which rows were
//! duplicates in an ordered insert. The command: <https://www.mongodb.com/docs/manual/reference/command/insert/>.

mod answer;
mod bson;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::error::Error;
use mongodb::options::{ClientOptions, Credential, ServerAddress, Tls, TlsOptions};
use mongodb::{Client, Database as Handle};
use serde::Deserialize;

use self::bson::{ARRAY, DOCUMENT, NULL, TEXT, Writer};
use super::{CONNECT, Database, Opening, RowCount, Sink, SinkError, Written};
use crate::measure::{Clock, FailureClass};
use crate::pipeline::batch::{Batch, Field, Row};
use crate::scenario::deserialize::{duration, secret};
use crate::scenario::{Secret, SinkDescriptor, SinkNeeds};

/// A command is a document, which is 16 MiB at most, and holds 100,000 rows at most.
const MOST_BYTES: usize = 12 << 20;
const MOST_ROWS: usize = 50_000;

pub const DESCRIPTOR: SinkDescriptor = SinkDescriptor {
    kind: "mongodb",
    check_options: |options| {
        let options = Options::read(options)?;
        Ok(SinkNeeds { fields: options.fields, offsets: options.document_id == DocumentId::Offset })
    },
};

/// The keys of a sink of this kind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    /// `host:port` of one server, or of several of a replica set.
    address: Option<String>,
    #[serde(default)]
    addresses: Vec<String>,
    replica_set: Option<String>,
    database: String,
    collection: String,
    /// The JSON fields that a document has.
    fields: Vec<String>,
    /// Whether it also has `producer_ts`, `consumer_ts` (seconds since 1970) and `latency` (seconds, at receipt).
    #[serde(default = "yes")]
    timestamps: bool,
    #[serde(default = "yes")]
    ordered: bool,
    /// `"majority"`, or how many servers.
    write_concern: Option<WriteConcern>,
    #[serde(default)]
    document_id: DocumentId,
    username: Option<String>,
    #[serde(default, deserialize_with = "secret")]
    password: Option<Secret>,
    #[serde(default)]
    tls: bool,
    /// PEM file of the authorities to trust; otherwise those of Mozilla.
    ca: Option<PathBuf>,
    #[serde(default = "a_minute", deserialize_with = "duration")]
    timeout: Duration,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum WriteConcern {
    Servers(i32),
    Named(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DocumentId {
    /// `topic/partition-offset`, so that a message that is written again is not a new row. The topic is its CRC-32, as eight
    /// hexadecimal digits: with whole names, which are long, FerretDB took a fifth fewer rows.
    #[default]
    Offset,
    /// The server's.
    Generated,
}

fn yes() -> bool {
    true
}

fn a_minute() -> Duration {
    Duration::from_secs(60)
}

impl Options {
    fn read(table: toml::Table) -> Result<Self, toml::de::Error> {
        use serde::de::Error;
        let options: Options = table.try_into()?;
        let hosts: Vec<&String> = options.hosts().collect();
        if hosts.is_empty() || hosts.iter().any(|host| ServerAddress::parse(host).is_err() || host.contains('@')) {
            return Err(Error::custom("a mongodb sink needs an `address` or `addresses`, each `host:port`"));
        }
        if matches!(options.write_concern, Some(WriteConcern::Servers(..=0))) {
            return Err(Error::custom(
                "with a `write_concern` of 0 the server does not report whether a row was written",
            ));
        }
        if options.username.is_some() != options.password.is_some() {
            return Err(Error::custom("a `username` and its `password` go together"));
        }
        Ok(options)
    }

    /// The write concern that each insertion asks for.
    fn durability(&self) -> BTreeMap<String, String> {
        let concern = match &self.write_concern {
            None => "the server's default".to_owned(),
            Some(WriteConcern::Servers(servers)) => servers.to_string(),
            Some(WriteConcern::Named(name)) => name.clone(),
        };
        BTreeMap::from([("write-concern".to_owned(), concern)])
    }

    fn hosts(&self) -> impl Iterator<Item = &String> {
        self.address.iter().chain(&self.addresses)
    }
}

pub fn open(opening: &Opening<'_>) -> Result<Box<dyn Database>, String> {
    let options = Options::read(opening.options.clone()).map_err(|error| error.message().to_owned())?;
    let failed = |error: Error| format!("mongodb: {error}");
    let hosts = options.hosts().map(ServerAddress::parse).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut client = ClientOptions::builder()
        .direct_connection(options.replica_set.is_none().then_some(hosts.len() == 1))
        .hosts(hosts)
        .repl_set_name(options.replica_set.clone())
        .connect_timeout(options.timeout.min(CONNECT))
        .server_selection_timeout(options.timeout.min(Duration::from_secs(2)))
        // One more for the row count.
        .max_pool_size(u32::try_from(opening.connections).unwrap_or(u32::MAX).saturating_add(1))
        .build();
    if let (Some(username), Some(password)) = (&options.username, &options.password) {
        client.credential = Some(Credential::builder().username(username.clone()).password(password.reveal()?).build());
    }
    if options.tls {
        client.tls = Some(Tls::Enabled(TlsOptions::builder().ca_file_path(options.ca.clone()).build()));
    }
    let client = Client::with_options(client).map_err(failed)?;
    Ok(Box::new(MongoDb(Collection {
        database: client.database(&options.database),
        columns: opening.columns.to_vec(),
        topic: crc32fast::hash(opening.topic.as_bytes()),
        clock: opening.clock,
        options,
    })))
}

/// What all connections share; the driver pools them.
#[derive(Clone)]
struct Collection {
    database: Handle,
    columns: Vec<usize>,
    topic: u32,
    clock: Clock,
    options: Options,
}

struct MongoDb(Collection);

impl Database for MongoDb {
    fn connection(&self) -> Box<dyn Sink> {
        Box::new(self.0.clone())
    }
}

impl Sink for Collection {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), SinkError>> {
        async move { self.run(command(&doc! { "ping": 1 })?).await.map(drop) }.boxed()
    }

    fn write<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<Written, SinkError>> {
        async move {
            let mut written = Written::default();
            let mut next = 0;
            let mut ordered = self.options.ordered;
            while next < batch.rows.len() {
                let (insert, end) = self.insert(batch, next, ordered);
                let answer = match self.run(raw(insert)?).await {
                    Ok(answer) => answer,
                    Err(error) if error.retriable => return Err(error),
                    // These are refused for good; the rows before are written, and those after are tried.
                    Err(error) => {
                        written.refused.extend(vec![(error.class, error.message); end - next]);
                        next = end;
                        continue;
                    }
                };
                let tried = answer::account(&answer, end - next, ordered, self.options.document_id, &mut written)?;
                // An ordered insert ends at the first row that is refused. The rows after it are tried without order.
                ordered &= tried == end - next;
                next += tried;
            }
            Ok(written)
        }
        .boxed()
    }

    fn row_count(&mut self) -> BoxFuture<'_, Result<RowCount, SinkError>> {
        async move {
            let collection = &self.options.collection;
            // From what the server knows of the collection. `count` goes through all documents in some servers of the
            // protocol, which takes FerretDB minutes and gigabytes where there are millions.
            let ask = doc! { "aggregate": collection, "pipeline": [{ "$collStats": { "count": {} } }], "cursor": {} };
            let of = format!("documents of {}.{collection}", self.options.database);
            let durability = self.options.durability();
            let held = |count| RowCount { count, of, life: String::new(), durability };
            let answer = match self.database.run_raw_command(command(&ask)?).await {
                Ok(answer) => answer,
                Err(error) if answer::is_of_no_collection(&error) => return Ok(held(0)),
                Err(error) => return Err(answer::failure(&error)),
            };
            Ok(held(answer::counted(&answer)))
        }
        .boxed()
    }
}

impl Collection {
    async fn run(&self, command: RawDocumentBuf) -> Result<Document, SinkError> {
        match tokio::time::timeout(self.options.timeout, self.database.run_raw_command(command)).await {
            Ok(answer) => answer.map_err(|error| answer::failure(&error)),
            Err(_) => {
                let message = format!("no answer within {:?}", self.options.timeout);
                Err(SinkError::disconnected(FailureClass::Timeout, message))
            }
        }
    }

    /// The command for the rows from `first` on, and behind which row it ends.
    fn insert(&self, batch: &Batch, first: usize, ordered: bool) -> (Vec<u8>, usize) {
        let mut bson = Writer { bytes: Vec::with_capacity(batch.rows.len().min(MOST_ROWS) * 200 + 256) };
        let mut end = first;
        bson.document(|bson| {
            bson.text("insert", &self.options.collection);
            bson.boolean("ordered", ordered);
            match &self.options.write_concern {
                None => {}
                Some(WriteConcern::Servers(servers)) => {
                    bson.nested(DOCUMENT, "writeConcern", |bson| bson.integer("w", i64::from(*servers)))
                }
                Some(WriteConcern::Named(name)) => bson.nested(DOCUMENT, "writeConcern", |bson| bson.text("w", name)),
            }
            bson.nested(ARRAY, "documents", |bson| {
                let mut index = String::new();
                for (row, message) in batch.rows.iter().enumerate().skip(first).take(MOST_ROWS) {
                    // A row that is too large is alone in its command, so that no other is refused with it.
                    if row > first && bson.bytes.len() + batch.payload(message).len() > MOST_BYTES {
                        break;
                    }
                    index.clear();
                    // Writing to a string cannot fail.
                    let _ = std::fmt::Write::write_fmt(&mut index, format_args!("{}", row - first));
                    bson.nested(DOCUMENT, &index, |bson| self.write_row(bson, batch, row, message));
                    end = row + 1;
                }
            });
        });
        (bson.bytes, end)
    }

    fn write_row(&self, bson: &mut Writer, batch: &Batch, row: usize, message: &Row) {
        if self.options.document_id == DocumentId::Offset {
            bson.key(TEXT, "_id");
            bson.measured(|bytes| {
                // Writing to memory cannot fail.
                let _ = write!(bytes, "{:08x}/{}-{}", self.topic, message.partition, message.offset);
            });
        }
        for (name, column) in self.options.fields.iter().zip(&self.columns) {
            match batch.field(row, *column) {
                Some(Field::Text(text)) => bson.text(name, text),
                Some(Field::Integer(number)) => bson.integer(name, number),
                Some(Field::Float(number)) => bson.float(name, number),
                Some(Field::Boolean(value)) => bson.boolean(name, value),
                Some(Field::Null) | None => bson.key(NULL, name),
            }
        }
        if self.options.timestamps {
            let epoch_ns = self.clock.epoch_unix_ns() as i64;
            let seconds = |ns: i64| epoch_ns.saturating_add(ns) as f64 / 1e9;
            bson.float("consumer_ts", seconds(message.received_ns as i64));
            if let Some(intended_ns) = message.intended_ns {
                bson.float("producer_ts", seconds(intended_ns));
                bson.float("latency", (message.received_ns as i64).saturating_sub(intended_ns) as f64 / 1e9);
            }
        }
    }
}

fn command(document: &Document) -> Result<RawDocumentBuf, SinkError> {
    RawDocumentBuf::try_from(document).map_err(|error| impossible(error.to_string()))
}

fn raw(bytes: Vec<u8>) -> Result<RawDocumentBuf, SinkError> {
    RawDocumentBuf::from_bytes(bytes).map_err(|error| impossible(error.to_string()))
}

fn impossible(message: String) -> SinkError {
    SinkError { class: FailureClass::Other, message, retriable: false, disconnected: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::Bson;

    async fn collection(more: &str) -> Collection {
        let text = format!("address = '127.0.0.1:1'\ndatabase = 'd'\ncollection = 'c'\nfields = ['a', 'b']\n{more}");
        let options = Options::read(text.parse().unwrap()).unwrap();
        let hosts: Vec<ServerAddress> = options.hosts().map(|host| ServerAddress::parse(host).unwrap()).collect();
        let client = Client::with_options(ClientOptions::builder().hosts(hosts).build()).unwrap();
        let (database, topic) = (client.database("d"), 42);
        Collection { database, columns: vec![0, 1], topic, clock: Clock::start(), options }
    }

    #[tokio::test]
    async fn the_command_is_what_the_driver_reads_as_bson() {
        let batch = Batch::of(&[r#"{"a":"x\u00e9","b":1.5}"#, r#"{"b":null,"a":-7}"#], &["a", "b"]);
        let collection = collection("write_concern = 'majority'\ntimestamps = false").await;
        let (bytes, end) = collection.insert(&batch, 0, true);
        let command = Document::try_from(raw(bytes).unwrap()).unwrap();
        let expected = doc! {
            "insert": "c",
            "ordered": true,
            "writeConcern": { "w": "majority" },
            "documents": [
                { "_id": "0000002a/0-0", "a": "xé", "b": 1.5 },
                { "_id": "0000002a/0-1", "a": -7_i64, "b": Bson::Null },
            ],
        };
        assert_eq!((command, end), (expected, 2));
        let (rest, _) = collection.insert(&batch, 1, false);
        let rest = Document::try_from(raw(rest).unwrap()).unwrap();
        assert_eq!(rest.get_array("documents").unwrap().len(), 1);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |text: &str| {
            let text = format!("database = 'd'\ncollection = 'c'\nfields = []\n{text}");
            Options::read(text.parse().unwrap()).unwrap_err().message().to_owned()
        };
        assert!(refused("").contains("address"));
        assert!(refused("address = 'u:p@h:1'").contains("host:port"));
        assert!(refused("address = 'h:1'\nwrite_concern = 0").contains("write_concern"));
        assert!(refused("address = 'h:1'\nusername = 'u'").contains("password"));
    }
}
