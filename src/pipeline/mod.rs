//! Consumers that parse what they receive, gather it in batches and write it to databases.
//!
//! - `instance`: a member of the group. It receives, fills batches and commits.
//! - `writer`: the instance's writers, each with a connection to every sink. A batch is written again until the sink has it, or the run ends.
//! - `batch`: messages side by side, with the fields that sinks need of them.
//! - `commit`: which instance has which partition, and up to which offset it is done, while batches end in any order.
//! - [`sink`]: the databases, and whether one can be written to, before any row.
//! - `figures`: what is measured.
//!
//! A message is committed after it was written (unless the scenario asks otherwise). If this process ends before, the next
//! member of the group receives it again.

mod batch;
mod commit;
mod figures;
mod instance;
pub mod sink;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use batch::Messages;
pub use batch::{Batch, Field, Parser, Row, Unparsable};
use commit::Assignment;
pub use figures::{Figures, Latest, SinkFigures, Stage};
use sink::{Database, ReadBack, RowCount, Sink, SinkError};
pub use sink::{ExaminedSink, SinkRefusal, examine};
use writer::SinkConnection;

use crate::broker::Consumer;
use crate::measure::host::ProcessUsage;
use crate::measure::{ArrivalRecorder, Clock, Errors};
use crate::scenario;

/// How long to wait for the databases' own counts, all at the same time.
const ASK: Duration = Duration::from_secs(60);

/// The row count of a sink's database, if it can count the rows, or why it is not known.
pub type Counted = Result<Option<RowCount>, String>;

/// What a database is asked.
type Question<T> = for<'a> fn(&'a mut (dyn Sink + 'static)) -> BoxFuture<'a, Result<T, SinkError>>;

/// What the instances are to do.
#[derive(Debug, Clone, Copy)]
enum Order {
    Work,
    /// Finish the messages that were taken, until then at most.
    Finish(Instant),
}

/// What all instances share.
struct PipelineShared {
    clock: Clock,
    config: scenario::Pipeline,
    /// The fields that sinks need, each once.
    columns: Vec<String>,
    databases: Vec<Box<dyn Database>>,
    figures: Vec<Arc<Mutex<Figures>>>,
    assignment: Assignment,
    received: AtomicU64,
    finished: AtomicU64,
    finished_foreign: AtomicU64,
}

impl PipelineShared {
    /// These messages are written or abandoned.
    fn finish(&self, messages: Messages) {
        self.finished_foreign.fetch_add(messages.foreign, Ordering::Release);
        self.finished.fetch_add(messages.all, Ordering::Release);
    }
}

/// A trial's pipeline.
pub struct Pipeline {
    shared: Arc<PipelineShared>,
    orders: watch::Sender<Order>,
    row_counts_before: Vec<Counted>,
    durability: Vec<BTreeMap<String, String>>,
    usage: ProcessUsage,
}

/// The outcome of a trial's pipeline.
pub struct Outcome {
    pub figures: Figures,
    /// Messages that each instance received, when the last one was, and its latest.
    pub instances: Vec<(u64, u64, Latest)>,
    /// The row counts of each sink's database, before and after.
    pub row_counts: Vec<(Counted, Counted)>,
    /// The settings that decide what each database's acknowledgements meant; empty where it does not tell them.
    pub durability: Vec<BTreeMap<String, String>>,
    /// Rows of each sink that were read after the last was written.
    pub read_back: Vec<Result<Option<ReadBack>, String>>,
    /// Why rows are left that were to be removed.
    pub removal_errors: Vec<String>,
    /// What this process used while the pipeline worked.
    pub usage: ProcessUsage,
    /// Messages it was behind at the end.
    pub consumer_lag: Option<u64>,
    /// When the load ended: messages that had been acknowledged, and those of them that were done.
    pub at_load_end: Option<(u64, u64)>,
}

impl Pipeline {
    /// Opens the sinks for messages of `topic`, which has so many partitions, proves that they can be written to, and asks their databases for their row counts.
    ///
    /// # Errors
    /// When a secret or a file cannot be read, and, unless the scenario waits for sinks, when one cannot be written to.
    pub async fn begin(
        config: &scenario::Pipeline,
        topic: &str,
        partitions: u32,
        clock: Clock,
    ) -> Result<Self, String> {
        let mut columns: Vec<String> = Vec::new();
        for field in config.sinks.iter().flat_map(|sink| &sink.needs.fields) {
            if !columns.contains(field) {
                columns.push(field.clone());
            }
        }
        let connections = config.instances * config.writers;
        let open = |one| sink::open(one, &columns, topic, clock, connections);
        let databases = config.sinks.iter().map(open).collect::<Result<_, _>>()?;
        let figures = || Arc::new(Mutex::new(Figures::for_sinks(config.sinks.len())));
        let shared = PipelineShared {
            clock,
            columns,
            databases,
            figures: (0..config.instances).map(|_| figures()).collect(),
            assignment: Assignment::new(config.instances, partitions as usize),
            config: config.clone(),
            received: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            finished_foreign: AtomicU64::new(0),
        };
        let mut pipeline = Pipeline {
            shared: Arc::new(shared),
            orders: watch::Sender::new(Order::Work),
            row_counts_before: Vec::new(),
            durability: Vec::new(),
            usage: ProcessUsage::now(),
        };
        if !config.wait_for_sinks {
            pipeline.prove().await?;
        }
        pipeline.row_counts_before = pipeline.ask(|sink| sink.row_count()).await;
        let durability = pipeline.ask(|sink| sink.durability()).await;
        pipeline.durability = durability.into_iter().map(Result::unwrap_or_default).collect();
        Ok(pipeline)
    }

    /// Proves that every sink can be written to, and that it holds nothing where its rows will be removed.
    async fn prove(&self) -> Result<(), String> {
        let removes = self.shared.config.remove_rows;
        let proofs = self.shared.databases.iter().map(|database| async move {
            sink::prove(&**database, removes).await.map_err(|refusal| match refusal {
                SinkRefusal::HoldsRows => refusal.to_string(),
                _ => {
                    format!("{refusal}; correct the sink, or set `pipeline.wait_for_sinks = true` to begin without it")
                }
            })
        });
        let mut proofs = join_all(proofs).await.into_iter().zip(&self.shared.databases);
        proofs.try_for_each(|(proof, database)| match proof {
            Ok(_) => Ok(()),
            Err(reason) => Err(format!("{} {reason}", database.place())),
        })
    }

    /// The clock of rates and of CPU time starts.
    pub fn start(&mut self) {
        self.usage = ProcessUsage::now();
    }

    /// The work of one instance, until [`Pipeline::finish`]; returns the errors of receiving.
    pub fn instance<C: Consumer>(
        &self,
        number: usize,
        consumer: C,
        recorder: ArrivalRecorder,
    ) -> impl Future<Output = Errors> + Send + 'static + use<C> {
        let writers = if self.shared.config.sinks.is_empty() { 0 } else { self.shared.config.writers };
        let connections = (0..writers).map(|_| self.connections()).collect();
        let instance = instance::Instance::new(consumer, recorder, self.shared.clone(), number, connections);
        instance.work(self.orders.subscribe())
    }

    fn connections(&self) -> Vec<SinkConnection> {
        self.sinks().map(|sink| SinkConnection { sink, connected: false }).collect()
    }

    /// What each sink's database answers, on a connection of its own, or why there is no answer.
    async fn ask<T>(&self, ask: Question<T>) -> Vec<Result<T, String>> {
        let answers = self.sinks().map(|mut sink| async move {
            let asked = async {
                sink.connect().await?;
                ask(&mut *sink).await
            };
            match timeout(ASK, asked).await {
                Ok(answer) => answer.map_err(|error| error.message),
                Err(_) => Err(format!("no answer within {ASK:?}")),
            }
        });
        join_all(answers).await
    }

    /// Removes the rows, if the scenario wants it; returns why some are left.
    async fn remove_rows(&self) -> Vec<String> {
        if !self.shared.config.remove_rows {
            return Vec::new();
        }
        let removed = self.ask(|sink| sink.remove_rows()).await;
        let places = self.shared.databases.iter().map(|database| database.place());
        let left = places
            .zip(removed)
            .filter_map(|(place, removed)| Some(format!("the rows in {place} are not removed: {}", removed.err()?)));
        left.collect()
    }

    /// A connection to each sink, not established.
    fn sinks(&self) -> impl Iterator<Item = Box<dyn Sink>> {
        self.shared.databases.iter().map(|database| database.connection())
    }

    /// Whether the group has assigned every instance its partitions, or none of them. In a group of the trial, every partition has an
    /// instance then; in another one, members elsewhere may have some.
    pub fn is_assigned(&self) -> bool {
        let PipelineShared { assignment, config, .. } = &*self.shared;
        assignment.is_assigned() && (config.group.is_some() || assignment.is_complete())
    }

    /// Messages that have been taken and are neither written nor abandoned.
    pub fn in_hand(&self) -> u64 {
        let finished = self.finished();
        self.shared.received.load(Ordering::Acquire).saturating_sub(finished)
    }

    /// Messages that are written or abandoned.
    pub fn finished(&self) -> u64 {
        self.shared.finished.load(Ordering::Acquire)
    }

    /// Those of them that this trial has sent.
    pub fn finished_own(&self) -> u64 {
        // What is counted as foreign may not be counted as finished yet.
        self.finished().saturating_sub(self.shared.finished_foreign.load(Ordering::Acquire))
    }

    /// How many messages the partitions of these instances are behind their `ends`; `None`: not known right now.
    pub fn consumer_lag(&self, ends: Option<&[u64]>) -> Option<u64> {
        self.shared.assignment.consumer_lag(ends?, Instant::now())
    }

    /// Orders the instances to finish what they have taken, by `deadline` at the latest. After a second order they finish at
    /// once.
    pub fn finish(&self, deadline: Instant) {
        self.orders.send_replace(Order::Finish(deadline));
    }

    /// The outcome after all instances have ended. The databases' own counts are waited for until `given_up` resolves.
    pub async fn outcome(
        self,
        consumer_lag: Option<u64>,
        at_load_end: Option<(u64, u64)>,
        given_up: impl Future<Output = ()>,
    ) -> Outcome {
        let usage = ProcessUsage::now().since(self.usage);
        let asked = async {
            DatabasesAfter {
                row_counts: self.ask(|sink| sink.row_count()).await,
                read_back: self.ask(|sink| sink.read_back()).await,
                removal_errors: self.remove_rows().await,
            }
        };
        let after = tokio::select! {
            after = asked => after,
            () = given_up => self.not_asked("the run was ended before it answered"),
        };
        self.outcome_with(usage, after, consumer_lag, at_load_end)
    }

    /// The outcome so far.
    pub fn so_far(&self, consumer_lag: Option<u64>) -> Outcome {
        self.outcome_with(
            ProcessUsage::now().since(self.usage),
            self.not_asked("it is asked when the trial has ended"),
            consumer_lag,
            None,
        )
    }

    /// For each sink, why nothing is known of its database.
    fn not_asked(&self, reason: &str) -> DatabasesAfter {
        let databases = &self.shared.databases;
        let left = |place: String| format!("the rows in {place} are not removed: {reason}");
        let places = databases.iter().filter(|_| self.shared.config.remove_rows).map(|database| database.place());
        DatabasesAfter {
            row_counts: databases.iter().map(|_| Err(reason.to_owned())).collect(),
            read_back: databases.iter().map(|_| Err(reason.to_owned())).collect(),
            removal_errors: places.map(left).collect(),
        }
    }

    fn outcome_with(
        &self,
        usage: ProcessUsage,
        after: DatabasesAfter,
        consumer_lag: Option<u64>,
        at_load_end: Option<(u64, u64)>,
    ) -> Outcome {
        let mut figures = Figures::for_sinks(self.shared.config.sinks.len());
        let mut instances = Vec::new();
        for one in &self.shared.figures {
            let one = one.lock();
            figures.merge(&one);
            instances.push((one.consumed, one.last_received_ns, one.latest.clone()));
        }
        Outcome {
            figures,
            instances,
            row_counts: self.row_counts_before.iter().cloned().zip(after.row_counts).collect(),
            durability: self.durability.clone(),
            read_back: after.read_back,
            removal_errors: after.removal_errors,
            usage,
            consumer_lag,
            at_load_end,
        }
    }
}

/// What the databases were asked when the last row was written.
struct DatabasesAfter {
    row_counts: Vec<Counted>,
    read_back: Vec<Result<Option<ReadBack>, String>>,
    removal_errors: Vec<String>,
}
