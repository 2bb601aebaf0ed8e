//! Where batches are written to: a small trait, the list of kinds, and the proof that a database can be reached and written to, before any
//! row: at the begin of a trial, and for `brokermark doctor`. A new kind adds its lines to the list.

#[cfg(feature = "mongodb")]
mod mongodb;
#[cfg(feature = "redis")]
mod redis;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all, ready};
use tokio::time::timeout;

use super::batch::Batch;
use crate::measure::{Clock, FailureClass};
use crate::scenario::tables::schema_of;
use crate::scenario::{self, Absent, SinkDescriptor, SinkNeeds};

/// How long connecting may take at most.
#[cfg(any(feature = "mongodb", feature = "redis"))]
const CONNECT: Duration = Duration::from_secs(10);

/// Why a sink with authorities to trust, and nothing about TLS, is refused: its password would go in clear.
#[cfg(any(feature = "mongodb", feature = "redis"))]
const CA_WITHOUT_TLS: &str = "`ca` does nothing without TLS: write `tls = true` as well";

#[cfg(any(feature = "mongodb", feature = "redis"))]
fn a_minute() -> Duration {
    Duration::from_secs(60)
}

#[cfg(any(feature = "mongodb", feature = "redis"))]
fn yes() -> bool {
    true
}

/// A database, not yet connected to.
pub trait Database: Send + Sync {
    /// Its kind and address, for messages.
    fn place(&self) -> String;

    /// A connection that is not established yet.
    fn connection(&self) -> Box<dyn Sink>;
}

/// A connection to a database. Each writer has its own.
pub trait Sink: Send {
    /// Connects, or connects again.
    fn connect(&mut self) -> BoxFuture<'_, Result<(), SinkError>>;

    /// Writes all rows of the batch; it resolves when the database has acknowledged them, each as written, as a duplicate
    /// or as refused.
    fn write<'a>(&'a mut self, batch: &'a Batch) -> BoxFuture<'a, Result<WriteOutcome, SinkError>>;

    /// Proves, without writing a row, that rows may be written.
    fn prove(&mut self) -> BoxFuture<'_, Result<(), SinkError>>;

    /// The database's own count of the rows. It is asked for before the first row and after the last. `None`: it cannot count
    /// them.
    fn row_count(&mut self) -> BoxFuture<'_, Result<Option<RowCount>, SinkError>>;

    /// The settings that decide what the database's acknowledgements mean; empty where it does not tell them.
    fn durability(&mut self) -> BoxFuture<'_, Result<BTreeMap<String, String>, SinkError>>;

    /// Reads a sample of the rows after the last was written. `None`: it has none, or does not know what they should be.
    fn read_back(&mut self) -> BoxFuture<'_, Result<Option<ReadBack>, SinkError>> {
        ready(Ok(None)).boxed()
    }

    /// Whether there are no rows where this sink writes.
    fn is_empty(&mut self) -> BoxFuture<'_, Result<bool, SinkError>>;

    /// Removes all rows from where this sink writes.
    fn remove_rows(&mut self) -> BoxFuture<'_, Result<(), SinkError>>;
}

/// A sample of rows that were read after the last was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadBack {
    /// Keys that were read, and those that held what was written to them last.
    pub keys: u64,
    pub found: u64,
}

/// The results of a batch's rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WriteOutcome {
    pub rows: u64,
    /// Rows that the database has already.
    pub duplicates: u64,
    /// Rows that it refuses for good.
    pub refused: Vec<RefusedRow>,
}

/// A row that a database refuses for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRow {
    /// Number of the row in its batch.
    pub row: usize,
    pub class: FailureClass,
    /// Reason in the database's words.
    pub message: String,
}

/// The database's own count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowCount {
    pub count: u64,
    /// What is counted.
    pub of: String,
    /// Identifies the database's process: counts before and after a restart cannot be compared.
    pub life: String,
}

/// A batch was not written, or it is unknown whether it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SinkError {
    pub class: FailureClass,
    pub message: String,
    /// The same batch may succeed later.
    pub retriable: bool,
    /// The connection is broken.
    pub disconnected: bool,
}

impl SinkError {
    /// The connection is gone, or was never there.
    pub fn disconnected(class: FailureClass, message: impl Into<String>) -> Self {
        SinkError { class, message: message.into(), retriable: true, disconnected: true }
    }
}

/// What a sink is opened with.
pub struct Opening<'a> {
    pub options: &'a toml::Table,
    /// The batch's column for each of the fields that the sink needs, in its order.
    pub columns: &'a [usize],
    /// The topic of the messages.
    pub topic: &'a str,
    pub clock: Clock,
    /// Writers of all instances.
    pub connections: usize,
}

/// A kind of sink.
struct Kind {
    descriptor: SinkDescriptor,
    open: fn(&Opening<'_>) -> Result<Box<dyn Database>, String>,
}

const KINDS: &[Kind] = &[
    #[cfg(feature = "mongodb")]
    Kind { descriptor: mongodb::DESCRIPTOR, open: mongodb::open },
    #[cfg(feature = "redis")]
    Kind { descriptor: redis::DESCRIPTOR, open: redis::open },
];

/// What this build does not have.
pub const ABSENT: &[Absent] = &[
    #[cfg(not(feature = "mongodb"))]
    Absent { kind: "mongodb", client: None, security: false, feature: "mongodb" },
    #[cfg(not(feature = "redis"))]
    Absent { kind: "redis", client: None, security: false, feature: "redis" },
];

const DESCRIPTORS: [SinkDescriptor; KINDS.len()] = {
    let mut all = [SinkDescriptor { kind: "", options_schema: schema_of::<()>, check_options: nothing }; KINDS.len()];
    let mut index = 0;
    while index < KINDS.len() {
        all[index] = KINDS[index].descriptor;
        index += 1;
    }
    all
};

fn nothing(_: toml::Table) -> Result<SinkNeeds, toml::de::Error> {
    Ok(SinkNeeds::default())
}

/// All kinds of this build.
pub fn descriptors() -> &'static [SinkDescriptor] {
    const { &DESCRIPTORS }
}

/// Opens a sink of a scenario, without connecting; `columns` are those of the batch.
///
/// # Errors
/// When a secret or a file cannot be read, or this build does not have the kind.
pub fn open(
    sink: &scenario::Sink,
    columns: &[String],
    topic: &str,
    clock: Clock,
    connections: usize,
) -> Result<Box<dyn Database>, String> {
    let kind = KINDS.iter().find(|kind| kind.descriptor.kind == sink.kind);
    let kind = kind.ok_or_else(|| format!("this build has no sink of kind '{}'", sink.kind))?;
    let column = |field: &String| columns.iter().position(|name| name == field).unwrap_or_default();
    let columns: Vec<usize> = sink.needs.fields.iter().map(column).collect();
    (kind.open)(&Opening { options: &sink.options, columns: &columns, topic, clock, connections })
}

/// How long a sink may take to prove that it can be written to.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why a sink cannot be written to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SinkRefusal {
    #[error("cannot be written to: {}", .0.message.trim_end_matches('.'))]
    Unwritable(SinkError),
    #[error("cannot be written to: no answer within {PATIENCE:?}")]
    Silent,
    #[error(
        "holds rows already, and brokermark removes only its own: remove them, write elsewhere, or remove `pipeline.remove_rows`"
    )]
    HoldsRows,
}

/// What is known of a sink before any row.
#[derive(Debug)]
pub struct ExaminedSink {
    /// Its kind and address.
    pub place: String,
    /// The settings that decide what its acknowledgements mean, or why nothing can be written.
    pub found: Result<BTreeMap<String, String>, SinkRefusal>,
}

/// Examines every sink of a pipeline that reads `topic`. No row is written.
///
/// # Errors
/// When a secret or a file cannot be read.
pub async fn examine(config: &scenario::Pipeline, topic: &str) -> Result<Vec<ExaminedSink>, String> {
    let columns: Vec<String> = config.sinks.iter().flat_map(|sink| sink.needs.fields.clone()).collect();
    let clock = Clock::start();
    let open = |one| open(one, &columns, topic, clock, 1);
    let databases: Vec<Box<dyn Database>> = config.sinks.iter().map(open).collect::<Result<_, _>>()?;
    let examinations = databases.iter().map(|database| async {
        let found = match prove(&**database, config.remove_rows).await {
            Ok(mut sink) => {
                Ok(timeout(PATIENCE, sink.durability()).await.ok().and_then(Result::ok).unwrap_or_default())
            }
            Err(refusal) => Err(refusal),
        };
        ExaminedSink { place: database.place(), found }
    });
    Ok(join_all(examinations).await)
}

/// Proves that the sink can be written to, and, with `removes`, that it holds nothing where its rows will be removed. The connection
/// is returned.
pub(super) async fn prove(database: &dyn Database, removes: bool) -> Result<Box<dyn Sink>, SinkRefusal> {
    let proof = async {
        let mut sink = database.connection();
        sink.connect().await?;
        sink.prove().await?;
        let is_free = !removes || sink.is_empty().await?;
        Ok::<_, SinkError>((sink, is_free))
    };
    match timeout(PATIENCE, proof).await {
        Ok(Ok((sink, true))) => Ok(sink),
        Ok(Ok((_, false))) => Err(SinkRefusal::HoldsRows),
        Ok(Err(error)) => Err(SinkRefusal::Unwritable(error)),
        Err(_) => Err(SinkRefusal::Silent),
    }
}
