//! Every key of the language, for every command that takes a scenario: the key changes what the command does, or the command refuses it, or
//! it is one that the command says it decides itself.

use std::sync::LazyLock;
use std::time::Duration;

use clap::Parser;

use super::*;
use crate::cli::run::ceiling::REPLACED_KEYS as CEILING;
use crate::cli::search::REPLACED_KEYS as SEARCH;
use crate::cli::{Arguments, Verb};
use crate::evaluate::ceiling_trial;
use crate::scenario::{self, Plan, Point, RunLimits, Scenario, Share, Stop, Trial};

const BASE: &str = "broker = { kind = \"kafka\", address = \"127.0.0.1:9\" }\nproducers.count = 4\nload.rate = \"1k/s\"\n\
                    run.duration = \"5s\"\nthresholds.require = [\"failed = 0\"]\n";

/// A key with two values, and what it needs beside it.
struct Row {
    key: &'static str,
    given: &'static [&'static str],
    values: [&'static str; 2],
}

const fn row(key: &'static str, given: &'static [&'static str], values: [&'static str; 2]) -> Row {
    Row { key, given, values }
}

const LIBRDKAFKA: &[&str] = &["broker.client=librdkafka"];
const TLS: &[&str] = &["broker.security.tls={}"];
const SASL: &[&str] = &["broker.security.sasl={ mechanism = \"PLAIN\", username = \"a\", password = \"b\" }"];
const BEARER: &[&str] = &["broker.security.sasl={ mechanism = \"OAUTHBEARER\", token = \"t\" }"];
const OAUTH2: &[&str] = &[
    "broker.security.sasl={ mechanism = \"OAUTHBEARER\", oauth2 = { token_url = \"http://a\", client_id = \"b\", client_secret = \"c\" } }",
];
const ISSUER: &[&str] = &[
    "broker.security.sasl={ mechanism = \"OAUTHBEARER\", oauth2 = { issuer_url = \"http://a\", client_id = \"b\", client_secret = \"c\" } }",
];
const AWS: &[&str] = &[
    "broker.security.sasl={ mechanism = \"AWS_MSK_IAM\", aws = { access_key_id = \"a\", secret_access_key = \"b\" } }",
];
const CONSUMERS: &[&str] = &["consumers.members=1"];
const PIPELINE: &[&str] = &["pipeline.parse=none"];
const JSON: &[&str] = &["pipeline.parse=json", "payload.kind=template", "payload.text='{\"a\": 1}'"];
const REDIS: &str = "[{ kind = \"redis\", address = \"127.0.0.1:1\", command = \"set\", key = \"a\" }]";
const OTHER_REDIS: &str = "[{ kind = \"redis\", address = \"127.0.0.1:2\", command = \"set\", key = \"a\" }]";
const SINK: &[&str] = &[
    "payload.kind=template",
    "payload.text='{\"a\": 1}'",
    "pipeline.sinks=[{ kind = \"redis\", address = \"127.0.0.1:1\", command = \"set\", key = \"a\" }]",
];
const REDIS_BROKER: &[&str] = &["broker.kind=redis"];
const IDLE: &[&str] = &["broker.kind=redis", "idle_connections.count=10"];
const RANDOM: &[&str] = &["payload.kind=random"];
const KEYS: &[&str] = &["producers.keys={ kind = \"random\", distinct = 5 }"];
const THREE_TRIALS: &[&str] = &["sweep.trials=3"];
const POINTS: &[&str] =
    &["sweep.over={ \"producers.batch\" = [1, 2, 3], \"producers.in_flight\" = [10, 20, 30] }", "sweep.trials=2"];
const SHUFFLED: &[&str] =
    &["sweep.over={ \"producers.batch\" = [1, 2, 3], \"producers.in_flight\" = [10, 20, 30] }", "sweep.order=shuffled"];

const ROWS: &[Row] = &[
    row("broker.kind", &[], ["kafka", "pulsar"]),
    row("broker.client", &[], ["native", "librdkafka"]),
    row("broker.address", &[], ["127.0.0.1:1", "127.0.0.1:2"]),
    row("broker.addresses", &[], ["[\"127.0.0.1:1\"]", "[\"127.0.0.1:2\"]"]),
    row("broker.connections", &[], ["2", "4"]),
    row("broker.properties", LIBRDKAFKA, ["{ \"linger.ms\" = 1 }", "{ \"linger.ms\" = 2 }"]),
    row("broker.security", &[], ["{}", "{ tls = {} }"]),
    row("broker.watch", &[], ["{ processes = [1] }", "{ processes = [2] }"]),
    row("broker.watch.processes", &[], ["[1]", "[2]"]),
    row("broker.watch.metrics", &[], ["[\"http://127.0.0.1:1/m\"]", "[\"http://127.0.0.1:2/m\"]"]),
    row("broker.security.tls", &[], ["{}", "{ verify_host = false }"]),
    row(
        "broker.security.sasl",
        &[],
        [
            "{ mechanism = \"PLAIN\", username = \"a\", password = \"b\" }",
            "{ mechanism = \"PLAIN\", username = \"c\", password = \"b\" }",
        ],
    ),
    row("broker.security.tls.ca", TLS, ["a.txt", "b.txt"]),
    row("broker.security.tls.certificate", &["broker.security.tls={ key = \"a.txt\" }"], ["a.txt", "b.txt"]),
    row("broker.security.tls.key", &["broker.security.tls={ certificate = \"a.txt\" }"], ["a.txt", "b.txt"]),
    row("broker.security.tls.verify_host", TLS, ["true", "false"]),
    row("broker.security.sasl.mechanism", SASL, ["SCRAM-SHA-256", "SCRAM-SHA-512"]),
    row("broker.security.sasl.username", SASL, ["a", "c"]),
    row("broker.security.sasl.password", SASL, ["b", "c"]),
    row("broker.security.sasl.token", BEARER, ["t", "u"]),
    row(
        "broker.security.sasl.token_command",
        &["broker.security.sasl={ mechanism = \"OAUTHBEARER\" }"],
        ["[\"a\"]", "[\"a\", \"b\"]"],
    ),
    row(
        "broker.security.sasl.oauth2",
        &["broker.security.sasl={ mechanism = \"OAUTHBEARER\" }"],
        [
            "{ token_url = \"http://a\", client_id = \"b\", client_secret = \"c\" }",
            "{ token_url = \"http://b\", client_id = \"b\", client_secret = \"c\" }",
        ],
    ),
    row("broker.security.sasl.oauth2.issuer_url", ISSUER, ["http://a", "http://b"]),
    row("broker.security.sasl.oauth2.token_url", OAUTH2, ["http://a", "http://b"]),
    row("broker.security.sasl.oauth2.client_id", OAUTH2, ["a", "b"]),
    row("broker.security.sasl.oauth2.client_secret", OAUTH2, ["a", "b"]),
    row("broker.security.sasl.oauth2.scope", OAUTH2, ["a", "b"]),
    row("broker.security.sasl.oauth2.audience", OAUTH2, ["a", "b"]),
    row(
        "broker.security.sasl.aws",
        &["broker.security.sasl={ mechanism = \"AWS_MSK_IAM\" }"],
        ["{ region = \"a\" }", "{ region = \"b\" }"],
    ),
    row("broker.security.sasl.aws.region", AWS, ["a", "b"]),
    row("broker.security.sasl.aws.access_key_id", AWS, ["a", "b"]),
    row("broker.security.sasl.aws.secret_access_key", AWS, ["a", "b"]),
    row("broker.security.sasl.aws.session_token", AWS, ["a", "b"]),
    row("topology.topics", &[], ["1", "2"]),
    row("topology.partitions", &[], ["1", "2"]),
    row("topology.replication", &[], ["1", "2"]),
    row("topology.name", &[], ["a", "b"]),
    row("topology.keep", &[], ["true", "false"]),
    row("topology.existing", &["topology.name=a"], ["true", "false"]),
    row("topology.config", &[], ["{ a = \"1\" }", "{ a = \"2\" }"]),
    row("producers.count", &[], ["4", "8"]),
    row("producers.placement", &[], ["blocks", "round-robin"]),
    row("producers.partitioning", &[], ["client", "own"]),
    row("producers.in_flight", &[], ["10", "20"]),
    row("producers.batch", &[], ["1", "2"]),
    row("producers.confirm", &[], ["message", "batch"]),
    row("producers.round_barrier", &["load.model=closed"], ["true", "false"]),
    row("producers.keys", &[], ["{ kind = \"random\", distinct = 5 }", "{ kind = \"random\", distinct = 6 }"]),
    row("producers.headers", &[], ["{ a = \"1\" }", "{ a = \"2\" }"]),
    row("load.model", &["load.rate=1k/s"], ["open", "closed"]),
    row("load.rate", &[], ["1k/s", "2k/s"]),
    row(
        "load.schedule",
        &[],
        ["{ kind = \"poisson\", rate = \"1k/s\", seed = 1 }", "{ kind = \"poisson\", rate = \"1k/s\", seed = 2 }"],
    ),
    row(
        "load.schedule",
        &[],
        [
            "{ kind = \"bursts\", base = \"1k/s\", burst = \"3k/s\", every = \"2s\", for = \"1s\" }",
            "{ kind = \"bursts\", base = \"1k/s\", burst = \"4k/s\", every = \"2s\", for = \"1s\" }",
        ],
    ),
    row(
        "load.schedule",
        &[],
        [
            "{ kind = \"ramp\", from = \"1k/s\", to = \"3k/s\", over = \"2s\" }",
            "{ kind = \"ramp\", from = \"1k/s\", to = \"4k/s\", over = \"2s\" }",
        ],
    ),
    row(
        "load.schedule",
        &[],
        [
            "{ kind = \"steps\", steps = [{ rate = \"1k/s\", for = \"1s\" }] }",
            "{ kind = \"steps\", steps = [{ rate = \"1k/s\", for = \"2s\" }] }",
        ],
    ),
    row("load.pacing", &[], ["{ spin = true }", "{ spin = false }"]),
    row("payload.kind", &[], ["zeros", "random"]),
    row("payload.size", &[], ["100B", "200B"]),
    row("payload.compressibility", RANDOM, ["0.1", "0.2"]),
    row("payload.file", &["payload.kind=lines"], ["a.txt", "b.txt"]),
    row("payload.text", &["payload.kind=template"], ["a", "b"]),
    row("payload.dimension", &["payload.kind=vector"], ["16", "32"]),
    row("payload.range", &["payload.kind=log"], ["100", "200"]),
    row("payload.pool", &[], ["10", "20"]),
    row("payload.seed", RANDOM, ["1", "2"]),
    row(
        "payload.schema",
        &["payload.kind=schema"],
        ["{ type = \"json\", file = \"a.json\", id = 1 }", "{ type = \"json\", file = \"a.json\", id = 2 }"],
    ),
    row("payload.tombstones", KEYS, ["0.1", "0.2"]),
    row("consumers.groups", &[], ["1", "2"]),
    row("consumers.members", &[], ["1", "2"]),
    row("consumers.from", CONSUMERS, ["earliest", "latest"]),
    row("consumers.end_to_end", CONSUMERS, ["true", "false"]),
    row("consumers.timing", CONSUMERS, ["all", "own"]),
    row("consumers.verify", CONSUMERS, ["true", "false"]),
    row("consumers.properties", LIBRDKAFKA, ["{ \"fetch.min.bytes\" = 1 }", "{ \"fetch.min.bytes\" = 2 }"]),
    row("consumers.group", CONSUMERS, ["[{ rate = \"1k/s\" }]", "[{ rate = \"2k/s\" }]"]),
    row("consumers.backlog", CONSUMERS, ["{ messages = 10 }", "{ messages = 20 }"]),
    row("idle_connections.count", REDIS_BROKER, ["10", "20"]),
    row("idle_connections.connect_rate", IDLE, ["100/s", "200/s"]),
    row("idle_connections.churn", IDLE, ["1/s", "2/s"]),
    row("idle_connections.source_addresses", IDLE, ["[\"127.0.0.1\"]", "[\"127.0.0.2\"]"]),
    row("pipeline.parse", &["payload.kind=template", "payload.text='{\"a\": 1}'"], ["none", "json"]),
    row("pipeline.timestamp", JSON, ["a", "b"]),
    row("pipeline.broker_timestamp", JSON, ["true", "false"]),
    row("pipeline.batch", PIPELINE, ["10", "20"]),
    row("pipeline.linger", PIPELINE, ["1ms", "2ms"]),
    row("pipeline.writers", PIPELINE, ["1", "2"]),
    row("pipeline.instances", PIPELINE, ["1", "2"]),
    row("pipeline.group", PIPELINE, ["a", "b"]),
    row("pipeline.sinks_run", PIPELINE, ["in-order", "in-parallel"]),
    row("pipeline.commit", PIPELINE, ["after-write", "on-receipt"]),
    row("pipeline.producer_mode", PIPELINE, ["concurrent", "backlog"]),
    row("pipeline.wait_for_sinks", SINK, ["true", "false"]),
    row("pipeline.remove_rows", SINK, ["true", "false"]),
    row("pipeline.sinks", JSON, [REDIS, OTHER_REDIS]),
    row("run.warm_up", &[], ["1s", "2s"]),
    row("run.messages", &[], ["10", "20"]),
    row("run.payload_bytes", &[], ["10KiB", "20KiB"]),
    row("run.duration", &[], ["5s", "6s"]),
    row("run.drain_deadline", &[], ["1s", "2s"]),
    row("run.signal_deadline", &[], ["1s", "2s"]),
    row("run.catch_up_deadline", &[], ["1s", "2s"]),
    row("run.stall_deadline", &[], ["1s", "2s"]),
    row("run.threads", &[], ["1", "2"]),
    row("run.scheduling_policy", &[], ["batch", "other"]),
    row("sweep.over", &[], ["{ \"producers.batch\" = [1, 2] }", "{ \"producers.batch\" = [1, 3] }"]),
    row("sweep.trials", &[], ["2", "3"]),
    row("sweep.until", &["sweep.trials=6"], ["p99 ± 5 %", "p99 ± 6 %"]),
    row("sweep.trials_at_most", &["sweep.trials=6", "sweep.until=p99 ± 5 %"], ["10", "20"]),
    row("sweep.order", POINTS, ["sequential", "interleaved"]),
    row("sweep.seed", SHUFFLED, ["1", "2"]),
    row("sweep.combine", POINTS, ["cartesian", "zipped"]),
    row("sweep.pause", THREE_TRIALS, ["1s", "2s"]),
    row("faults", &[], ["[{ at = \"1s\", run = \"a\" }]", "[{ at = \"1s\", run = \"b\" }]"]),
    row(
        "faults",
        &[],
        [
            "[{ every = \"1s\", run = \"a\", undo = \"b\", for = \"500ms\" }]",
            "[{ every = \"1s\", run = \"a\", undo = \"c\", for = \"500ms\" }]",
        ],
    ),
    row("thresholds.require", &[], ["[\"failed = 0\"]", "[\"failed = 1\"]"]),
    row("thresholds.when_invalid", &[], ["fail", "ignore"]),
    row("output.directory", &[], ["a", "b"]),
    row("output.formats", &[], ["[\"hlog\"]", "[\"openmetrics\"]"]),
    row("distribution.writers", CONSUMERS, ["'0'", "'1'"]),
    row("distribution.readers", CONSUMERS, ["'0'", "'1'"]),
];

/// Rows name clients, brokers and sinks of these features.
const ARE_BUILT: bool = cfg!(all(feature = "kafka", feature = "kafka-native", feature = "pulsar", feature = "redis"));

/// The rows that this build can use.
fn rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| ARE_BUILT && (cfg!(feature = "schemas") || row.key != "payload.schema"))
}

/// All that a command does with a scenario.
type Effect = (Vec<(Scenario, Point)>, String);

fn plan_effect(plan: &Plan, scenario: impl Fn(&Scenario) -> Scenario) -> Effect {
    let trials = plan.trials.iter().map(|trial| (scenario(&trial.scenario), trial.point.clone())).collect();
    (trials, format!("{:?} {:?} {:?} {:?}", plan.output, plan.pause, plan.until, plan.payload_files))
}

/// What a command does with the scenario that it is given.
///
/// # Errors
/// When it refuses it.
fn effect(verb: &Verb) -> Result<Effect, String> {
    match verb {
        Verb::Run(run) => Ok(plan_effect(&run.source.load().map_err(|error| error.to_string())?, Scenario::clone)),
        Verb::Search(search) => {
            let planned = search.plan()?;
            let probe = |scenario: &Scenario| planned.probe(scenario);
            let (trials, rest) = plan_effect(planned.plan(), probe);
            // It probes the first trial again and again, and decides how often.
            Ok((trials.into_iter().take(1).collect(), format!("{rest} {:?}", planned.range())))
        }
        Verb::Ceiling(ceiling) => {
            let plan = ceiling.source.load().map_err(|error| error.to_string())?;
            let shape = |trial: &Trial| {
                let stop = Stop { duration: Some(Duration::from_secs(5)), ..Stop::default() };
                let limits = RunLimits { warm_up: Duration::ZERO, stop, ..trial.scenario.run.clone() };
                (ceiling_trial(trial, limits).scenario, trial.point.clone())
            };
            let mut shapes: Vec<(Scenario, Point)> = Vec::new();
            for shape in plan.trials.iter().map(shape) {
                if !shapes.contains(&shape) {
                    shapes.push(shape);
                }
            }
            Ok((shapes, format!("{:?} {:?}", plan.output, plan.payload_files)))
        }
        other => panic!("{other:?}"),
    }
}

/// The base scenario, and files that a key may name.
static FILES: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in
        [("scenario.toml", BASE), ("a.txt", "a\n"), ("b.txt", "bb\n"), ("a.json", "{\"type\": \"null\"}")]
    {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
});

/// What a command does with the base scenario and these overrides.
fn effect_of(command: &str, options: &[&str], overrides: &[String]) -> Result<Effect, String> {
    let scenario = FILES.path().join("scenario.toml");
    let words = ["brokermark", command, scenario.to_str().unwrap()].into_iter().chain(options.iter().copied());
    let set = overrides.iter().map(|one| format!("--set={one}"));
    let arguments =
        Arguments::try_parse_from(words.map(str::to_owned).chain(set)).map_err(|error| error.to_string())?;
    effect(&arguments.verb)
}

/// What a command always says that it takes instead: `search` its load and the length of its probes, `ceiling` that it measures without the
/// broker, as fast as possible, for `--measure`.
const SAID: [(&str, &[&str]); 2] =
    [("search", &["load.model", "run.duration"]), ("ceiling", &["broker", "load", "run.duration"])];

/// Whether a command decides this key.
fn decides(command: &str, keys: &ReplacedKeys, key: &str) -> bool {
    let said = SAID.iter().filter(|(of, _)| *of == command).flat_map(|(_, keys)| *keys);
    let is_within = |table: &str| key == table || key.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
    keys.keys.iter().chain(said).any(|table| is_within(table))
}

/// The settings of a row with this value.
fn overrides(row: &Row, value: &str) -> Vec<String> {
    let given = row.given.iter().map(|one| (*one).to_owned());
    given.chain([format!("{}={value}", row.key)]).collect()
}

/// `None` where a key has its effect, is refused, or is decided by the command.
fn ignored(command: &str, options: &[&str], decided: Option<&ReplacedKeys>, row: &Row) -> Option<String> {
    let [one, other] = row.values.map(|value| effect_of(command, options, &overrides(row, value)));
    let is_silent = match (&one, &other) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    (is_silent && !decided.is_some_and(|keys| decides(command, keys, row.key)))
        .then(|| format!("{command}: {}", row.key))
}

#[test]
fn each_key_has_an_effect_or_is_refused_by_each_command() {
    let mut found = Vec::new();
    for row in rows() {
        found.extend(ignored("run", &[], None, row));
        found.extend(ignored("search", &["--within=10min"], Some(&SEARCH), row));
        found.extend(ignored("ceiling", &[], Some(&CEILING), row));
    }
    assert!(found.is_empty(), "silently ignored: {found:#?}");
}

/// Otherwise the test above would take a row that nothing accepts for one that is refused.
#[test]
fn each_row_is_a_scenario_that_runs() {
    let refusal = |row: &Row| {
        let all = row.values.map(|value| effect_of("run", &[], &overrides(row, value)).err());
        all.into_iter().collect::<Option<Vec<String>>>().map(|reasons| (row.key, reasons))
    };
    let refused: Vec<(&str, Vec<String>)> = rows().filter_map(refusal).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn each_key_of_the_language_has_a_row() {
    let has_row = |key: &String| ROWS.iter().any(|row| row.key == key);
    let missing: Vec<String> = scenario::every_key().into_iter().filter(|key| !has_row(key)).collect();
    assert!(missing.is_empty(), "add rows for {missing:?}");
}

/// Values of any type that a broker's own key may have.
const ANY_VALUES: &[&str] = &[
    "true",
    "false",
    "1",
    "2",
    "9",
    "10",
    "20",
    "100000",
    "0.1",
    "0.2",
    "1ms",
    "2ms",
    "1s",
    "20s",
    "30s",
    "60s",
    "1KiB",
    "2KiB",
    "1MiB",
    "2MiB",
    "20MiB",
    "200MiB",
    "none",
    "gzip",
    "lz4",
    "snappy",
    "deflate",
    "all",
    "a",
    "b",
    "a/b",
    "http://a:1",
    "http://b:1",
    "[]",
    "[\"a:1\"]",
    "[\"b:1\"]",
    "{}",
    "{ rate = 5 }",
    "[{ rate = 5 }]",
    "[{ at = \"1s\", for = \"1s\" }]",
    "random",
    "murmur2",
    "range",
    "roundrobin",
    "sticky",
    "v1",
    "v4",
    "read-committed",
    "read-uncommitted",
    "cooperative-sticky",
    "earliest",
    "first",
    "last",
    "next",
    "shared",
    "exclusive",
    "failover",
    "wait-for-exclusive",
    "java-string-hash",
    "murmur3",
    "pub",
    "mpub",
    "dpub",
    "binary",
    "amqp",
    "opaque",
    "leader",
    "replica",
    "replicas",
    "address",
    "client-local",
    "balanced",
    "least-leaders",
    "key",
    "any",
];

#[test]
fn each_option_of_a_url_has_its_effect_or_is_refused() {
    let Verb::Run(run) = Arguments::try_parse_from(["brokermark", "run", "null://"].map(str::to_owned)).unwrap().verb
    else {
        panic!()
    };
    let effect_of_url = |url: &str| {
        let plan = run.source.with(Some(url), &[]).load().map_err(|error| error.to_string())?;
        Ok::<_, String>(plan_effect(&plan, Scenario::clone))
    };
    let (mut tried, mut refused, mut silent) = (0, Vec::new(), Vec::new());
    let kinds = engine::kinds();
    for kind in kinds.names() {
        let takes_addresses = kinds.broker(kind).unwrap().capabilities.addresses;
        // The log service itself needs a key.
        let url = match kind {
            "sls" => "sls://embedded".to_owned(),
            kind => format!("{kind}://{}", if takes_addresses { "127.0.0.1:9" } else { "" }),
        };
        let plain = effect_of_url(&url).unwrap();
        for key in scenario::own_keys_of(kind, kinds) {
            tried += 1;
            let of_value = |value: &&str| {
                let encoded = percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC);
                effect_of_url(&format!("{url}?{key}={encoded}")).ok()
            };
            // No further value is tried once one has an effect.
            let mut accepted = ANY_VALUES.iter().filter_map(of_value).peekable();
            if accepted.peek().is_none() {
                refused.push(format!("{kind}: {key}"));
            } else if accepted.all(|effect| effect == plain) {
                silent.push(format!("{kind}: {key}"));
            }
        }
    }
    assert!(silent.is_empty(), "silently ignored: {silent:#?}");
    // Some need another key beside them.
    assert!(refused.len() * 5 < tried, "no value is accepted, of {tried} keys, for {refused:#?}");
}

/// A share leaves out the thresholds, which `merge` judges over all shares.
#[test]
fn each_key_has_its_effect_in_a_share_or_is_refused() {
    let share = Share { number: 1, count: 2 };
    let is_silent = |row: &&Row| {
        let part = |value: &str| {
            let (trials, rest) = effect_of("run", &[], &overrides(row, value))?;
            let parts = trials.iter().map(|(scenario, point)| Ok((scenario.part(share)?, point.clone())));
            Ok::<_, String>((parts.collect::<Result<Vec<_>, String>>()?, rest))
        };
        matches!(row.values.map(part), [Ok(one), Ok(other)] if one == other)
    };
    let rows = ROWS.iter().filter(|row| ARE_BUILT && !row.key.starts_with("thresholds."));
    let silent: Vec<&str> = rows.filter(is_silent).map(|row| row.key).collect();
    assert!(silent.is_empty(), "silently ignored: {silent:?}");
}

#[test]
fn a_note_names_the_keys_that_do_not_apply() {
    let note = SEARCH.note("[run]\nmessages = 5\nduration = \"3s\"\n[sweep]\ntrials = 3\n").unwrap();
    assert!(note.ends_with("do not apply: `run.messages`, `sweep.trials`"), "{note}");
    assert_eq!(SEARCH.note("[run]\nduration = \"3s\"\n"), None);
    let note = CEILING.note("pipeline.parse = \"none\"\n").unwrap();
    assert!(note.ends_with("`pipeline`"), "{note}");
}

#[test]
#[cfg(feature = "nsq")]
fn a_search_names_what_a_workload_without_a_rate_leaves_out() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let workload = "topics: 1\nmessageSize: 100\nproducerRate: 0\ntestDurationMinutes: 1\nlogIntervalMillis: 10\n";
    let driver = "driverClass: io.openmessaging.benchmark.driver.nsq.NsqBenchmarkDriver\nnsqdHost: localhost\n";
    let (workload, driver) = (file("workload.yaml", workload), file("driver.yaml", driver));
    let words = ["brokermark", "search", "--omb", &workload, &driver];
    let Verb::Search(search) = Arguments::try_parse_from(words).unwrap().verb else { panic!() };
    let notes = search.source.notes();
    assert!(notes.iter().any(|note| note.contains("`logIntervalMillis`")), "{notes:?}");
}
