//! MongoDB, or a server that speaks its protocol: each batch is one `insert` command.
//!
//! The documents are written as BSON straight from the batch, without a document in between (<https://bsonspec.org/spec.html>) and sent with the official
//! driver's raw command, not its `insert_many`: that would build each document a second time, and hides which rows were
//! duplicates in an ordered insert. The command: <https://www.mongodb.com/docs/manual/reference/command/insert/>.

mod answer;
mod options;

use std::collections::BTreeMap;
use std::io::Write;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use mongodb::bson::{Document, RawDocumentBuf, doc};
use mongodb::{Client, Database as Handle};

use self::options::{DocumentId, Options, TIMESTAMPS, WriteConcern, client_options};
use super::{Database, Opening, RefusedRow, RowCount, Sink, SinkError, WriteOutcome};
use crate::measure::{Clock, FailureClass};
use crate::pipeline::batch::{Batch, Field, Row};
use crate::scenario::{SinkDescriptor, SinkNeeds};

/// A command is a document, which is 16 MiB at most, and holds 100,000 rows at most.
const MAX_BYTES: usize = 12 << 20;
const MAX_ROWS: usize = 50_000;

pub const DESCRIPTOR: SinkDescriptor = SinkDescriptor {
    kind: "mongodb",
    options_schema: crate::scenario::tables::schema_of::<Options>,
    check_options: |options| {
        let options = Options::read(options)?;
        let offsets = options.document_id == DocumentId::Offset;
        Ok(SinkNeeds { fields: options.fields, offsets, not_removable: None })
    },
};

pub fn open(opening: &Opening<'_>) -> Result<Box<dyn Database>, String> {
    let options = Options::read(opening.options.clone()).map_err(|error| error.message().to_owned())?;
    let client = client_options(&options, opening.connections)?;
    let client = Client::with_options(client).map_err(|error| format!("mongodb: {error}"))?;
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
    fn place(&self) -> String {
        let hosts: Vec<&str> = self.0.options.hosts().map(String::as_str).collect();
        format!("mongodb at {}", hosts.join(", "))
    }

    fn connection(&self) -> Box<dyn Sink> {
        Box::new(self.0.clone())
    }
}

impl Sink for Collection {
    fn connect(&mut self) -> BoxFuture<'_, Result<(), SinkError>> {
        async move { self.run(command(&doc! { "ping": 1 })?).await.map(drop) }.boxed()
    }

    fn write<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<WriteOutcome, SinkError>> {
        async move {
            let mut written = WriteOutcome::default();
            let mut next = 0;
            let mut ordered = self.options.ordered;
            while next < batch.rows.len() {
                let (insert, end) = self.insert(batch, next, ordered);
                let answer = match self.run(raw(insert)?).await {
                    Ok(answer) => answer,
                    Err(error) if error.retriable => return Err(error),
                    // These are refused for good; the rows before are written, and those after are tried.
                    Err(error) => {
                        let refusal = |row| RefusedRow { row, class: error.class, message: error.message.clone() };
                        written.refused.extend((next..end).map(refusal));
                        next = end;
                        continue;
                    }
                };
                let tried =
                    answer::account(&answer, next, end - next, ordered, self.options.document_id, &mut written)?;
                // An ordered insert ends at the first row that is refused. The rows after it are tried without order.
                ordered &= tried == end - next;
                next += tried;
            }
            Ok(written)
        }
        .boxed()
    }

    /// Tries to insert a document that every server refuses after it has checked the user's permission: an `_id` cannot be a list
    /// (<https://www.mongodb.com/docs/manual/core/document/#the-_id-field>).
    fn prove(&mut self) -> BoxFuture<'_, Result<(), SinkError>> {
        async move {
            let mut insert = doc! { "insert": &self.options.collection, "documents": [{ "_id": [0] }] };
            match &self.options.write_concern {
                None => {}
                Some(WriteConcern::Servers(servers)) => drop(insert.insert("writeConcern", doc! { "w": servers })),
                Some(WriteConcern::Named(name)) => drop(insert.insert("writeConcern", doc! { "w": name })),
            }
            answer::proven(&self.run(command(&insert)?).await?)
        }
        .boxed()
    }

    fn durability(&mut self) -> BoxFuture<'_, Result<BTreeMap<String, String>, SinkError>> {
        ready(Ok(self.options.durability())).boxed()
    }

    fn row_count(&mut self) -> BoxFuture<'_, Result<Option<RowCount>, SinkError>> {
        async move {
            let collection = &self.options.collection;
            // From what the server knows of the collection. `count` goes through all documents in some servers of the
            // protocol, which takes FerretDB minutes and gigabytes where there are millions.
            let ask = doc! { "aggregate": collection, "pipeline": [{ "$collStats": { "count": {} } }], "cursor": {} };
            let of = format!("documents of {}.{collection}", self.options.database);
            let held = |count| Some(RowCount { count, of, life: String::new() });
            let answer = match self.database.run_raw_command(command(&ask)?).await {
                Ok(answer) => answer,
                Err(error) if answer::is_of_no_collection(&error) => return Ok(held(0)),
                Err(error) => return Err(answer::failure(&error)),
            };
            Ok(held(answer::counted(&answer)))
        }
        .boxed()
    }

    fn is_empty(&mut self) -> BoxFuture<'_, Result<bool, SinkError>> {
        async move {
            let find = doc! { "find": &self.options.collection, "limit": 1, "singleBatch": true };
            Ok(answer::first_batch(&self.run(command(&find)?).await?).is_empty())
        }
        .boxed()
    }

    fn remove_rows(&mut self) -> BoxFuture<'_, Result<(), SinkError>> {
        async move {
            let all = doc! { "q": {}, "limit": 0 };
            let delete = doc! { "delete": &self.options.collection, "deletes": [all] };
            answer::removed(&self.run(command(&delete)?).await?)
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
        let mut bson = BsonWriter { bytes: Vec::with_capacity(batch.rows.len().min(MAX_ROWS) * 200 + 256) };
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
                for (row, message) in batch.rows.iter().enumerate().skip(first).take(MAX_ROWS) {
                    // A row that is too large is alone in its command, so that no other is refused with it.
                    if row > first && bson.bytes.len() + batch.payload(message).len() > MAX_BYTES {
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

    fn write_row(&self, bson: &mut BsonWriter, batch: &Batch, row: usize, message: &Row) {
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
            let [consumer_ts, producer_ts, latency] = TIMESTAMPS;
            bson.float(consumer_ts, seconds(message.received_ns as i64));
            if let Some(intended_ns) = message.intended_ns {
                bson.float(producer_ts, seconds(intended_ns));
                bson.float(latency, (message.received_ns as i64).saturating_sub(intended_ns) as f64 / 1e9);
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

const FLOAT: u8 = 0x01;
const TEXT: u8 = 0x02;
const DOCUMENT: u8 = 0x03;
const ARRAY: u8 = 0x04;
const BOOLEAN: u8 = 0x08;
const NULL: u8 = 0x0a;
const INTEGER: u8 = 0x12;

/// Appends elements to a document.
struct BsonWriter {
    pub bytes: Vec<u8>,
}

impl BsonWriter {
    /// A key ends at a zero byte, so it cannot have one.
    pub fn key(&mut self, kind: u8, name: &str) {
        self.bytes.push(kind);
        self.bytes.extend(name.bytes().filter(|byte| *byte != 0));
        self.bytes.push(0);
    }

    pub fn document(&mut self, content: impl FnOnce(&mut BsonWriter)) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        content(self);
        self.bytes.push(0);
        let length = (self.bytes.len() - begin) as u32;
        self.bytes[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
    }

    pub fn nested(&mut self, kind: u8, name: &str, content: impl FnOnce(&mut BsonWriter)) {
        self.key(kind, name);
        self.document(content);
    }

    /// A text's bytes, led by their number and followed by a zero, which counts.
    pub fn measured(&mut self, content: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        content(&mut self.bytes);
        self.bytes.push(0);
        let length = (self.bytes.len() - begin - 4) as u32;
        self.bytes[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
    }

    pub fn text(&mut self, name: &str, text: &str) {
        self.key(TEXT, name);
        self.measured(|bytes| bytes.extend_from_slice(text.as_bytes()));
    }

    pub fn integer(&mut self, name: &str, number: i64) {
        self.key(INTEGER, name);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    pub fn float(&mut self, name: &str, number: f64) {
        self.key(FLOAT, name);
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    pub fn boolean(&mut self, name: &str, value: bool) {
        self.key(BOOLEAN, name);
        self.bytes.push(u8::from(value));
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Bson;
    use mongodb::options::{ClientOptions, ServerAddress};

    use super::*;

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
        let batch = Batch::from_payloads(&[r#"{"a":"x\u00e9","b":1.5}"#, r#"{"b":null,"a":-7}"#], &["a", "b"]);
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
}
