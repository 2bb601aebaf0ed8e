//! What a scenario *is* once it has been read and checked: plain typed values, with nothing left to validate.
//!
//! The other modules (load, broker, engine) work on these types only and may rely on what their docs promise:
//! counts are never zero, shares lie within their bounds, and whatever depends on another value agrees with it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Secret;
use super::content::Payload;
use super::distribution::RankRoles;
use super::group::{Backlog, ConsumerGroup};
use super::pipeline::Pipeline;
use super::share::Part;
use super::threshold::{Threshold, WhenInvalid};
use super::until::Until;
use super::watch::Watch;
pub use crate::net::Tls;

/// One fully described load: a scenario file with its overrides applied, at one point of its sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Names the run directory and the topics; `[a-zA-Z0-9._-]`, not empty.
    pub name: String,
    pub broker: BrokerConfig,
    /// Where the CPU and memory of the broker's processes are read.
    pub watch: Watch,
    pub topology: Topology,
    pub producers: Producers,
    pub load: Load,
    /// How producers of an open loop are woken.
    pub pacing: Pacing,
    pub payload: Payload,
    /// `None`: nothing is consumed, so nothing can be verified and no end-to-end latency is known.
    pub consumers: Option<Consumers>,
    /// What the consumers do with what they receive; `None`: they only look at it. With one, there are consumers of one
    /// group.
    pub pipeline: Option<Pipeline>,
    pub run: RunLimits,
    pub threads: Threads,
    /// What must hold for the run to exit with 0.
    pub thresholds: Vec<Threshold>,
    /// What a record whose figures cannot be trusted means where thresholds are set.
    pub when_invalid: WhenInvalid,
    pub output: Output,
    /// Which processes run producers and consumers, where several run the scenario.
    pub distribution: RankRoles,
    /// Where this is a part of a scenario that several processes run: which.
    pub part: Option<Part>,
}

/// The address of an endpoint inside this process.
pub const EMBEDDED: &str = "embedded";

/// Which broker, where, and how to reach it.
#[derive(Clone, PartialEq)]
pub struct BrokerConfig {
    /// A kind the registry knows (`brokermark brokers` lists them).
    pub kind: String,
    /// The client of the kind, where there is more than one.
    pub client: Option<&'static str>,
    /// `host:port` each, or the single word `embedded`. Empty only for kinds that need no address.
    pub addresses: Vec<String>,
    /// Client instances (or sockets): producers share them. At least 1, at most the number of producers where there are some.
    pub connections: usize,
    /// Handed to the client library untouched, in the order of the file.
    pub properties: Vec<(String, String)>,
    pub security: Security,
    /// The broker's own table (`[broker.kafka]`, `[broker.null]`, …), already checked by that broker.
    pub options: toml::Table,
}

/// Without the values of properties and options, which may be secrets.
impl fmt::Debug for BrokerConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&str> = self.properties.iter().map(|(key, _)| key.as_str()).collect();
        formatter
            .debug_struct("BrokerConfig")
            .field("kind", &self.kind)
            .field("client", &self.client)
            .field("addresses", &self.addresses)
            .field("connections", &self.connections)
            .field("properties", &keys)
            .field("security", &self.security)
            .field("options", &self.options.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl BrokerConfig {
    /// Whether the scenario asks for the endpoint that runs inside this process.
    pub fn is_embedded(&self) -> bool {
        self.addresses.iter().any(|address| address == EMBEDDED)
    }

    /// The first address, for people.
    pub fn first_address(&self) -> &str {
        self.addresses.first().map_or("HOST:PORT", String::as_str)
    }

    /// Who logs in with a password, for people.
    pub fn user_name(&self) -> &str {
        self.security.sasl.as_ref().map_or("NAME", |sasl| sasl.username.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Security {
    pub tls: Option<Tls>,
    /// With a name and a password.
    pub sasl: Option<Sasl>,
    /// SASL OAUTHBEARER, with this token; `sasl` is `None` then.
    pub bearer: Option<Secret>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sasl {
    pub mechanism: SaslMechanism,
    /// It and the password are empty where the mechanism has none.
    pub username: String,
    pub password: Secret,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SaslMechanism {
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    #[serde(rename = "OAUTHBEARER")]
    OauthBearer,
    /// By the client's certificate: without a name and a password.
    #[serde(rename = "EXTERNAL")]
    External,
}

impl SaslMechanism {
    /// As IANA registers it, and as a scenario writes it.
    pub fn name(self) -> &'static str {
        match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
            SaslMechanism::ScramSha512 => "SCRAM-SHA-512",
            SaslMechanism::OauthBearer => "OAUTHBEARER",
            SaslMechanism::External => "EXTERNAL",
        }
    }
}

/// The topics of a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// At least 1.
    pub topics: usize,
    /// Partitions of each topic, at least 1.
    pub partitions: u32,
    pub replication: u32,
    /// The topics are `{name}{0..}` (just `{name}` when there is one). `None`: a name unique to the run.
    pub name: Option<String>,
    /// Whether topics that brokermark created outlive the run.
    pub keep: bool,
    /// The topics must exist and are taken as they are: `partitions` and `replication` are not theirs.
    pub existing: bool,
    /// Settings of topics that brokermark creates, handed to the broker untouched, in the order of the file.
    pub config: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Producers {
    /// At least 1, but for a part of a scenario that only consumes.
    pub count: usize,
    pub placement: Placement,
    pub partitioning: Partitioning,
    /// The closed loop's window: messages of one producer that may await their outcome. In an open loop, the bound
    /// beyond which a producer falls behind its schedule. At least `batch`.
    pub in_flight: usize,
    /// Messages handed to the client in one call, and where the protocol can, sent as one unit. At least 1.
    pub batch: usize,
    pub confirm: Confirm,
    /// Every producer sends one batch and waits for all others' acknowledgements before the next.
    pub round_barrier: bool,
    pub keys: Keys,
    /// The headers of a message: those of the first list, or in turn those of each list. There is at least one.
    pub header_sets: Vec<Vec<(String, String)>>,
}

/// Which topic a producer writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Topic 0 gets the first `count / topics` producers, then topic 1, …: the count is divisible by the topics.
    Blocks,
    /// Producer `i` writes to topic `i mod topics`.
    RoundRobin,
}

/// Which partition of its topic a producer writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Partitioning {
    /// The client's choice, by key if there is one.
    Client,
    /// Each producer has one: of those on a topic, the first writes to partition 0, the second to 1, …
    Own,
    /// Each producer writes to all in turn.
    RoundRobin,
}

/// When a window opens again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confirm {
    /// With every acknowledged message.
    Message,
    /// Only when all messages of a batch have their outcome.
    Batch,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Keys {
    None,
    /// `distinct` keys in turn.
    RoundRobin {
        distinct: u64,
    },
    /// Uniform over `distinct` keys.
    Random {
        distinct: u64,
    },
    /// Key `k` of `distinct` with probability proportional to `1 / (k+1)^exponent`; `exponent > 0`.
    Zipf {
        distinct: u64,
        exponent: f64,
    },
}

/// What decides when a message is sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// As fast as the windows allow.
    Closed,
    /// By a schedule that does not wait for the broker.
    Open(Schedule),
}

/// The threads that carry the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Threads {
    /// `None`: one for each core that the process may use.
    pub count: Option<usize>,
    pub scheduling_policy: SchedulingPolicy,
}

/// How the kernel schedules them where cores are scarce (sched(7) of Linux).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingPolicy {
    /// `SCHED_BATCH`: a thread that wakes does not take the core from one that runs, such as one of a broker on the same machine.
    Batch,
    /// `SCHED_OTHER`, which processes have by default.
    #[default]
    Other,
}

impl SchedulingPolicy {
    /// That of a scenario which does not say: an open loop has to wake when a message is due, and a closed loop does not.
    pub fn of(load: &Load) -> Self {
        match load {
            Load::Closed => SchedulingPolicy::Batch,
            Load::Open(_) => SchedulingPolicy::Other,
        }
    }

    /// As the scenario has it.
    pub fn name(self) -> &'static str {
        match self {
            SchedulingPolicy::Batch => "batch",
            SchedulingPolicy::Other => "other",
        }
    }
}

/// How exactly an open loop keeps its intended times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// A producer is woken at most once in this time (> 0); all that came due meanwhile is sent at once, each message with
    /// its own intended time.
    pub wake_interval: Duration,
    /// Whether the pacing thread looks at the clock without a pause shortly before a message is due, instead of sleeping.
    pub spin: bool,
}

impl Default for Pacing {
    /// Waking a sleeping producer costs two context switches, about 10 µs of CPU: at 200 µs that is a twentieth of a core.
    fn default() -> Self {
        Pacing { wake_interval: Duration::from_micros(200), spin: false }
    }
}

/// Rates are of all producers together, already in messages per second (finite): a rate in bytes per second was divided by the mean
/// payload size when the scenario was read. A part of a schedule may have the rate 0, where another one has not.
#[derive(Debug, Clone, PartialEq)]
pub enum Schedule {
    Constant {
        rate: f64,
    },
    /// From one rate to another, linearly over `over` (> 0), then at the last.
    Ramp {
        from: f64,
        to: f64,
        over: Duration,
    },
    /// Each rate for its time, in turn, then the last for ever. Not empty.
    Steps(Vec<(f64, Duration)>),
    /// `base`, but `burst` during the first `length` of each `every` (`length < every`).
    Bursts {
        base: f64,
        burst: f64,
        every: Duration,
        length: Duration,
    },
    /// Independent exponential gaps with mean `1 / rate`.
    Poisson {
        rate: f64,
        seed: u64,
    },
}

impl Schedule {
    /// The rate of each part.
    pub fn rates(&self) -> impl Iterator<Item = f64> {
        let rates = match self {
            Schedule::Constant { rate } | Schedule::Poisson { rate, .. } => vec![*rate],
            Schedule::Ramp { from, to, .. } => vec![*from, *to],
            Schedule::Steps(steps) => steps.iter().map(|(rate, _)| *rate).collect(),
            Schedule::Bursts { base, burst, .. } => vec![*base, *burst],
        };
        rates.into_iter()
    }

    /// Whether nothing is due any more after its parts.
    pub fn comes_to_rest(&self) -> bool {
        match self {
            Schedule::Ramp { to, .. } => *to == 0.0,
            Schedule::Steps(steps) => steps.last().is_some_and(|(rate, _)| *rate == 0.0),
            Schedule::Constant { .. } | Schedule::Poisson { .. } | Schedule::Bursts { .. } => false,
        }
    }

    /// The same shape with every rate multiplied by this factor.
    pub fn scaled(&self, factor: f64) -> Schedule {
        match self {
            Schedule::Constant { rate } => Schedule::Constant { rate: rate * factor },
            Schedule::Ramp { from, to, over } => Schedule::Ramp { from: from * factor, to: to * factor, over: *over },
            Schedule::Steps(steps) => {
                Schedule::Steps(steps.iter().map(|(rate, length)| (rate * factor, *length)).collect())
            }
            Schedule::Bursts { base, burst, every, length } => {
                Schedule::Bursts { base: base * factor, burst: burst * factor, every: *every, length: *length }
            }
            Schedule::Poisson { rate, seed } => Schedule::Poisson { rate: rate * factor, seed: *seed },
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Consumers {
    /// Every group receives every message. There is at least one.
    pub groups: Vec<ConsumerGroup>,
    /// Consumers of each group, per topic.
    pub members: usize,
    pub from: StartFrom,
    /// Record the time from intended to received.
    pub end_to_end: bool,
    /// Of which messages.
    pub timing: Timing,
    /// Find lost, duplicated, reordered and corrupt messages.
    pub verify: bool,
    /// What the groups find when they begin; `None`: they begin before the load, but for those that are told otherwise.
    pub backlog: Option<Backlog>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StartFrom {
    Earliest,
    Latest,
}

/// Which messages' end-to-end latency consumers record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Timing {
    /// All, whichever process sent them.
    All,
    /// Those that their own process sent: one clock times both ends.
    Own,
}

/// How long a trial lasts.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLimits {
    /// The same load, not measured.
    pub warm_up: Duration,
    /// Whichever comes first ends the measurement; at least one is set.
    pub stop: Stop,
    /// How long outcomes are waited for after the load has ended, and consumers and pipelines that make no progress; under
    /// 10 minutes.
    pub drain_deadline: Duration,
    /// How long nothing may move before a load that no duration ends is ended.
    pub stall_deadline: Duration,
    /// How long consumers and pipelines are waited for after the load has ended, however much progress they make.
    pub catch_up_deadline: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stop {
    pub messages: Option<u64>,
    pub payload_bytes: Option<u64>,
    pub duration: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Run directories are made below this one.
    pub directory: PathBuf,
    pub formats: Vec<OutputFormat>,
}

/// What is written beside `records.jsonl` and `series.jsonl`, which every run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputFormat {
    /// `latency.hlog`, an HdrHistogram interval log.
    Hlog,
    /// `metrics.txt`, the figures for Prometheus.
    OpenMetrics,
}

/// The swept keys of one point with their values, as TOML.
pub type Point = BTreeMap<String, toml::Value>;

/// What a scenario expands to: its trials in the order in which they run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub name: String,
    /// The scenario as run: overrides applied, secrets masked.
    pub text: String,
    pub output: Output,
    /// The files that payloads are made from, by the path that the scenario has: what is in them is as much a part of the
    /// load as its text.
    pub payload_files: BTreeMap<String, PathBuf>,
    /// Between two trials.
    pub pause: Duration,
    /// When a point needs no further trial; `None`: all of them run.
    pub until: Option<Until>,
    pub trials: Vec<Trial>,
}

/// One execution of one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Index among the points of the sweep, from 0, in the order of the sweep.
    pub point_index: usize,
    pub point: Point,
    /// Which repetition of the point, from 1.
    pub trial: u32,
    pub scenario: Scenario,
    /// This point's scenario as JSON, secrets masked: what the record carries.
    pub document: serde_json::Value,
    /// The keys that it leaves out, with the values that they have.
    pub defaults: BTreeMap<String, serde_json::Value>,
}
