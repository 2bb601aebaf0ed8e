//! The scenario language: accepted scenarios with their meaning, and the errors of refused ones.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use brokermark::broker::registry::find;
use brokermark::engine;
use brokermark::measure::ConditionKind;
use brokermark::scenario::tables::{DurationText, schema_of};
use brokermark::scenario::{
    Absent, Backlog, BrokerConfig, Capabilities, CommitPolicy, Confirm, ConsumerGroup, Content, Descriptor, Keys,
    Kinds, Load, OutputFormat, Placement, Plan, ProducerMode, SaslMechanism, Scenario, ScenarioError, Schedule,
    SchedulingPolicy, Secret, Size, StartFrom, Threads, Work, WorkLaw, parse_for,
};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct RichOptions {
    acks: Option<Acks>,
    linger: Option<DurationText>,
    token: Option<u32>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Acks {
    #[serde(rename = "0")]
    None,
    #[serde(rename = "1")]
    Leader,
    All,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlainOptions {}

/// A kind that can do everything, and one that can do nothing but send.
const KINDS: [Descriptor; 2] = [
    Descriptor {
        kind: "rich",
        client: Some("full"),
        summary: "can do everything",
        capabilities: Capabilities {
            addresses: true,
            embedded: true,
            partitions: true,
            replication: true,
            keys: true,
            headers: true,
            own_headers: true,
            own_partition: true,
            null_payloads: true,
            consumers: true,
            groups: true,
            ordered: true,
            tls: true,
            sasl: &[
                SaslMechanism::Plain,
                SaslMechanism::ScramSha256,
                SaslMechanism::ScramSha512,
                SaslMechanism::OauthBearer,
                SaslMechanism::AwsMskIam,
                SaslMechanism::External,
            ],
            properties: true,
            topic_config: true,
            existing_topics: true,
            offsets: true,
            ..Capabilities::NONE
        },
        options_schema: schema_of::<RichOptions>,
        check_options: |table| table.try_into::<RichOptions>().map(drop),
        ..Descriptor::NONE
    },
    Descriptor {
        kind: "plain",
        summary: "only sends",
        options_schema: schema_of::<PlainOptions>,
        check_options: |table| table.try_into::<PlainOptions>().map(drop),
        ..Descriptor::NONE
    },
];

/// As `plain`, but what it takes can be received again.
fn echo() -> Descriptor {
    let capabilities = Capabilities { consumers: true, ..KINDS[1].capabilities };
    Descriptor { kind: "echo", capabilities, ..KINDS[1] }
}

/// Another client of `rich`, which lacks nearly everything.
fn lean() -> Descriptor {
    let capabilities = Capabilities { addresses: true, ..KINDS[1].capabilities };
    Descriptor { client: Some("lean"), alternative: Some("full"), capabilities, ..KINDS[0] }
}

/// Another client of `rich`, which does all but what its configuration has properties for.
fn strict() -> Descriptor {
    let refuses =
        |config: &BrokerConfig| (!config.properties.is_empty()).then(|| "it takes no `broker.properties`".to_owned());
    Descriptor { client: Some("strict"), alternative: Some("full"), refuses, ..KINDS[0] }
}

/// A client that this build does not have.
const ABSENT: &[Absent] = &[Absent { kind: "rich", client: Some("absent"), security: false, feature: "absent-client" }];
const ABSENT_SINKS: &[Absent] = &[Absent { kind: "absent", client: None, security: false, feature: "absent-sink" }];

fn with_sinks(brokers: &[Descriptor]) -> Kinds<'_> {
    Kinds { brokers, absent: ABSENT, absent_sinks: ABSENT_SINKS, ..engine::kinds() }
}

fn plan_with(text: &str, overrides: &[&str]) -> Result<Plan, ScenarioError> {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    let kinds = [KINDS[0], lean(), strict(), KINDS[1], echo()];
    parse_for(with_sinks(&kinds), text, "tests/try.toml", &overrides, Path::new(""))
}

fn plan(text: &str) -> Plan {
    plan_with(text, &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn scenario(text: &str) -> Scenario {
    plan(text).trials.remove(0).scenario
}

const MINIMAL: &str = "broker.kind = \"plain\"\nrun.messages = 1\n";
const RICH: &str = "[broker]\nkind = \"rich\"\naddress = \"localhost:9092\"\n";

/// Payloads that a pipeline can parse.
const JSON: &str = "[payload]\nkind = \"template\"\ntext = '{\"a\": 1}'\n";

#[test]
fn defaults_are_those_of_the_reference() {
    let scenario = scenario(MINIMAL);
    assert_eq!(scenario.name, "try");
    assert_eq!(scenario.broker.connections, 1);
    assert_fields!(scenario.topology, { topics: 1, partitions: 1, replication: 1 });
    assert!(!scenario.topology.keep && !scenario.topology.existing && scenario.topology.config.is_empty());
    let producers = scenario.producers;
    assert_fields!(producers, { count: 1, in_flight: 1000, batch: 1 });
    assert_eq!((producers.placement, producers.confirm), (Placement::RoundRobin, Confirm::Message));
    assert_eq!((producers.keys, producers.round_barrier), (Keys::None, false));
    assert_eq!(scenario.load, Load::Closed);
    assert_eq!(scenario.payload.content, Content::Zeros { size: Size::Fixed(100) });
    assert_eq!(scenario.consumers, None);
    assert_eq!((scenario.run.warm_up, scenario.run.drain_deadline), (Duration::ZERO, Duration::from_secs(30)));
    assert_eq!(scenario.threads, Threads { count: None, scheduling_policy: SchedulingPolicy::Batch });
    assert_eq!(scenario.output.directory, Path::new("results"));
    assert_eq!(scenario.output.formats, [OutputFormat::Hlog]);
}

#[test]
fn every_table_is_understood() {
    let scenario = scenario(
        r#"
name = "orders"
[broker]
kind = "rich"
addresses = ["localhost:9092", "[::1]:9093"]
connections = 99
[broker.properties]
"linger.ms" = 5
queue.buffering.max.ms = 1
socket.nagle.disable = true
[broker.rich]
acks = "all"
linger = "5ms"
[broker.security]
tls = true
[broker.security.sasl]
mechanism = "SCRAM-SHA-512"
username = "me"
password = { env = "PASSWORD" }
[topology]
topics = 2
partitions = 3
name = "orders"
keep = true
[producers]
count = 4
placement = "blocks"
in_flight = "1k"
batch = 10
confirm = "batch"
keys = { kind = "zipf", distinct = 1000, exponent = 1.1 }
headers = { trace = "abc", version = 2 }
[load]
rate = "1MiB/s"
[payload]
kind = "random"
size = { uniform = ["1KiB", "3KiB"] }
compressibility = 0.5
pool = 7
seed = 3
[consumers]
groups = 2
members = 3
from = "latest"
[run]
warm_up = "5s"
messages = "20M"
payload_bytes = "2GiB"
duration = "1min"
threads = 3
scheduling_policy = "batch"
[thresholds]
require = ["p99 < 10ms", "lost = 0"]
"#,
    );
    assert_eq!(scenario.broker.connections, 4, "no more connections than producers");
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        scenario.broker.properties,
        [pair("linger.ms", "5"), pair("queue.buffering.max.ms", "1"), pair("socket.nagle.disable", "true")]
    );
    assert_eq!(scenario.broker.security.sasl.unwrap().password, Secret::Env("PASSWORD".to_owned()));
    assert!(scenario.broker.security.tls.unwrap().verify_host);
    assert_eq!(scenario.producers.keys, Keys::Zipf { distinct: 1000, exponent: 1.1 });
    assert_eq!(scenario.producers.header_sets, [[pair("trace", "abc"), pair("version", "2")]]);
    assert_eq!(scenario.load, Load::Open(Schedule::Constant { rate: 512.0 }), "1 MiB/s of 2 KiB on average");
    assert_eq!((scenario.payload.pool, scenario.payload.seed), (7, 3));
    let consumers = scenario.consumers.unwrap();
    assert_eq!((&consumers.groups, consumers.members), (&vec![ConsumerGroup::default(); 2], 3));
    assert_eq!((consumers.from, consumers.backlog), (StartFrom::Latest, None));
    assert!(consumers.verify && consumers.end_to_end);
    assert_eq!(scenario.run.stop.messages, Some(20_000_000));
    assert_eq!(scenario.run.stop.payload_bytes, Some(2 << 30));
    assert_eq!(scenario.run.stop.duration, Some(Duration::from_secs(60)));
    assert_eq!(scenario.threads, Threads { count: Some(3), scheduling_policy: SchedulingPolicy::Batch });
    assert_eq!(scenario.thresholds.len(), 2);
}

#[test]
fn schedules_and_payloads() {
    let with = |more: &str| scenario(&format!("{MINIMAL}{more}"));
    let schedule = |text: &str| with(&format!("load.schedule = {text}")).load;
    let seconds = Duration::from_secs;
    assert_eq!(
        schedule(r#"{ kind = "ramp", from = "1k/s", to = "2k/s", over = "30s" }"#),
        Load::Open(Schedule::Ramp { from: 1e3, to: 2e3, over: seconds(30) })
    );
    assert_eq!(
        schedule(r#"{ kind = "steps", steps = [{ rate = "1/s", for = "1s" }, { rate = "2/s", for = "2s" }] }"#),
        Load::Open(Schedule::Steps(vec![(1.0, seconds(1)), (2.0, seconds(2))]))
    );
    assert_eq!(
        schedule(r#"{ kind = "bursts", base = "1/s", burst = "9/s", every = "10s", for = "1s" }"#),
        Load::Open(Schedule::Bursts { base: 1.0, burst: 9.0, every: seconds(10), length: seconds(1) })
    );
    assert_eq!(
        schedule(r#"{ kind = "poisson", rate = "10k/s", seed = 7 }"#),
        Load::Open(Schedule::Poisson { rate: 1e4, seed: 7 })
    );
    let size = |text: &str| match with(&format!("payload.size = {text}")).payload.content {
        Content::Zeros { size } => size,
        other => panic!("{other:?}"),
    };
    assert_eq!(size("32"), Size::Fixed(32));
    assert_eq!(
        size(r#"{ normal = { mean = "1KiB", deviation = "200B", max = "4KiB" } }"#),
        Size::Normal { mean: 1024.0, deviation: 200.0, max: 4096 }
    );
    assert_eq!(size(r#"{ choices = [["100B", 9], ["10KiB", 1]] }"#), Size::Choices(vec![(100, 9.0), (10_240, 1.0)]));
    let vector = with("payload.kind = \"vector\"\npayload.dimension = 1_048_576").payload;
    assert_eq!(vector.content, Content::Vector { dimension: 1 << 20 });
    assert_eq!(vector.pool, 16, "64 MiB of 4 MiB each");
    let lines = with("payload.kind = \"lines\"\npayload.file = \"rustfmt.toml\"\nload.rate = \"1B/s\"");
    assert!(matches!(lines.payload.content, Content::Lines { file } if file.ends_with("rustfmt.toml")));
    assert_eq!(lines.payload.pool, 3);
}

#[test]
fn a_folder_is_a_payload_for_each_of_its_files() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("b.json", "{}"), ("a.bin", "\n\n\n\n"), ("empty", "")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let path = |name: &str| folder.path().join(name);
    let plan = |kind: &str, file: &Path| {
        // A rate in bytes needs their sizes.
        let text =
            format!("{MINIMAL}payload = {{ kind = {kind:?}, file = '{}' }}\nload.rate = \"3B/s\"", file.display());
        plan_with(&text, &[])
    };
    let of_folder = plan("files", folder.path()).unwrap();
    let payload = &of_folder.trials[0].scenario.payload;
    assert_eq!(payload.content, Content::Files { files: vec![path("a.bin"), path("b.json")] });
    assert_eq!(payload.pool, 2);
    // What is in each is compared when a run goes on, and between ranks.
    assert_eq!(of_folder.payload_files.values().cloned().collect::<Vec<_>>(), ["a.bin", "b.json", "empty"].map(path));
    let one = plan("files", &path("b.json")).unwrap();
    assert_eq!(one.trials[0].scenario.payload.content, Content::Files { files: vec![path("b.json")] });
    for (kind, file, words) in [
        ("files", path("empty"), "nothing to send"),
        ("files", path("none"), "does not exist"),
        ("lines", folder.path().to_owned(), "cannot be read"),
    ] {
        let refused = plan(kind, &file).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
}

#[test]
fn open_loop_threads_wake_in_time_by_default() {
    let policy = |more: &str| scenario(&format!("{MINIMAL}{more}")).threads.scheduling_policy;
    assert_eq!(policy(""), SchedulingPolicy::Batch);
    assert_eq!(policy("load.rate = \"1/s\""), SchedulingPolicy::Other);
    assert_eq!(policy("run.scheduling_policy = \"other\""), SchedulingPolicy::Other);
    assert_eq!(policy("load.rate = \"1/s\"\nrun.scheduling_policy = \"batch\""), SchedulingPolicy::Batch);
}

#[test]
fn windows_fit_the_load() {
    let window = |more: &str| scenario(&format!("{MINIMAL}{more}")).producers.in_flight;
    assert_eq!(window("producers.count = 8192"), 12);
    assert_eq!(window("producers.batch = 5000"), 5000);
    assert_eq!(window("producers.round_barrier = true"), 1);
    assert_eq!(window("load.rate = \"1/s\""), 100_000);
    assert_eq!(window("load.rate = \"1/s\"\nproducers.count = 4096"), 100);
}

#[test]
fn the_first_client_is_the_default_and_others_may_be_swept() {
    let text = format!("{RICH}[run]\nmessages = 1\n");
    let clients = |plan: Plan| plan.trials.iter().map(|trial| trial.scenario.broker.client).collect::<Vec<_>>();
    assert_eq!(clients(plan(&text)), [Some("full")]);
    assert_eq!(clients(plan(MINIMAL)), [None]);
    assert_eq!(clients(plan_with(&text, &["broker.client=strict"]).unwrap()), [Some("strict")]);
    let swept = plan(&format!("{text}[sweep.over]\n\"broker.client\" = [\"strict\", \"full\"]\n"));
    assert_eq!(clients(swept), [Some("strict"), Some("full")]);
}

#[test]
fn sweeps_expand_in_order() {
    let trials = |sweep: &str| -> Vec<String> {
        let text = format!("{MINIMAL}[sweep]\n{sweep}");
        plan(&text)
            .trials
            .iter()
            .map(|trial| {
                let producers = trial.scenario.producers.count;
                let Content::Zeros { size } = &trial.scenario.payload.content else { panic!("zeros") };
                assert_eq!(trial.document.get("sweep"), None);
                format!("{}:{producers}×{}#{}", trial.point_index, size.largest(), trial.trial)
            })
            .collect()
    };
    let over = "[sweep.over]\n\"producers.count\" = { doubling = [1, 2] }\n\"payload.size\" = [\"1KiB\", \"2KiB\"]\n";
    let expand = |keys: &str| trials(&format!("{keys}\n{over}"));
    assert_eq!(expand(""), ["0:1×1024#1", "1:1×2048#1", "2:2×1024#1", "3:2×2048#1"]);
    assert_eq!(expand("combine = \"zipped\""), ["0:1×1024#1", "1:2×2048#1"]);
    assert_eq!(expand("combine = \"zipped\"\ntrials = 2")[1], "0:1×1024#2");
    assert_eq!(expand("combine = \"zipped\"\ntrials = 2\norder = \"interleaved\"")[1], "1:2×2048#1");
    let shuffled = expand("order = \"shuffled\"\ntrials = 3");
    let mut sorted = shuffled.clone();
    sorted.sort();
    assert_eq!(shuffled, expand("order = \"shuffled\"\ntrials = 3"));
    assert_ne!(shuffled, expand("order = \"shuffled\"\ntrials = 3\nseed = 2"));
    assert_eq!(sorted, expand("trials = 3"));
    // A block has one trial of every point, and blocks differ.
    let blocks: Vec<Vec<&str>> =
        shuffled.chunks(4).map(|block| block.iter().map(|trial| &trial[..1]).collect()).collect();
    for (block, trial) in blocks.iter().zip(1..) {
        assert_eq!(BTreeSet::from_iter(block).len(), 4, "{shuffled:?}");
        let all_of = shuffled[4 * (trial - 1)..4 * trial].iter().all(|one| one.ends_with(&format!("#{trial}")));
        assert!(all_of, "{shuffled:?}");
    }
    assert!(blocks[0] != blocks[1] || blocks[1] != blocks[2], "{shuffled:?}");
    assert_eq!(trials("trials = 2"), ["0:1×100#1", "0:1×100#2"]);
}

#[test]
fn spans_keep_their_units() {
    let values = |span: &str| -> Vec<String> {
        let text = format!("{MINIMAL}[sweep.over]\nrun.drain_deadline = {span}\n");
        plan(&text).trials.iter().map(|trial| trial.point["run.drain_deadline"].to_string()).collect()
    };
    assert_eq!(values("{ doubling = [\"1s\", \"9s\"] }"), ["\"1s\"", "\"2s\"", "\"4s\"", "\"8s\""]);
    assert_eq!(values("{ from = \"0.1s\", to = \"0.3s\", step = \"0.1s\" }"), ["\"0.1s\"", "\"0.2s\"", "\"0.3s\""]);
    let text = format!("{MINIMAL}[sweep.over]\n\"producers.count\" = {{ from = 1, to = 10, step = 3 }}\n");
    let counts: Vec<usize> = plan(&text).trials.iter().map(|trial| trial.scenario.producers.count).collect();
    assert_eq!(counts, [1, 4, 7, 10]);
}

#[test]
fn keys_named_as_an_end_of_a_span_are_swept_with_and_without_quotes() {
    let values = "[\"earliest\", \"latest\"]";
    for over in [format!("consumers.from = {values}"), format!("\"consumers.from\" = {values}")] {
        let text = format!("{RICH}[run]\nmessages = 1\n[consumers]\nverify = false\n[sweep.over]\n{over}\n");
        let plan = plan(&text);
        let from = plan.trials.iter().map(|trial| trial.scenario.consumers.as_ref().unwrap().from);
        assert_eq!(from.collect::<Vec<_>>(), [StartFrom::Earliest, StartFrom::Latest], "{over}");
        assert_eq!(plan.trials[1].point["consumers.from"].to_string(), "\"latest\"", "{over}");
    }
}

#[test]
fn swept_properties_replace_those_of_the_file() {
    for written in ["linger.ms = 5", "\"linger.ms\" = 5"] {
        let text = format!(
            "{RICH}[broker.properties]\n{written}\n[run]\nmessages = 1\n[sweep.over]\n\"broker.properties.linger.ms\" = [0, 9]\n"
        );
        let properties: Vec<_> = plan(&text).trials.into_iter().map(|trial| trial.scenario.broker.properties).collect();
        let linger = |value: &str| vec![("linger.ms".to_owned(), value.to_owned())];
        assert_eq!(properties, [linger("0"), linger("9")]);
    }
}

#[test]
fn overrides_change_anything() {
    let text =
        format!("{RICH}[broker.properties]\n\"linger.ms\" = 5\n[run]\nmessages = 1\n[load]\nmodel = \"closed\"\n");
    let plan = plan_with(
        &text,
        &[
            "producers.count=512",
            "run.duration=30s",
            "broker.addresses=[\"other:1\"]",
            "broker.properties.linger.ms=7",
            "load.rate=1k/s",
            "topology.name=2024-01-01",
        ],
    );
    let plan = plan.unwrap_or_else(|error| panic!("{error}"));
    let scenario = &plan.trials[0].scenario;
    assert_eq!(scenario.producers.count, 512);
    assert_eq!(scenario.run.stop.duration, Some(Duration::from_secs(30)));
    assert_eq!(scenario.broker.addresses, ["other:1"]);
    assert_eq!(scenario.broker.properties, [("linger.ms".to_owned(), "7".to_owned())]);
    assert_eq!(scenario.load, Load::Open(Schedule::Constant { rate: 1000.0 }));
    assert_eq!(scenario.topology.name.as_deref(), Some("2024-01-01"));
    insta::assert_snapshot!(plan.text, @r##"
    [broker]
    kind = "rich"
    addresses = ["other:1"]
    [broker.properties]
    "linger.ms" = 7
    [run]
    messages = 1
    duration = "30s"
    [load]
    rate = "1k/s"

    [producers]
    count = 512

    [topology]
    name = "2024-01-01"
    "##);
}

#[test]
fn overrides_reach_into_tables_however_they_are_written() {
    let set = ["producers.count=2", "producers.keys.kind=random", "producers.keys.distinct=3", "run.duration=1s"];
    for producers in ["", "producers.batch = 1", "producers = {}", "producers = { keys = {} }", "producers.keys = {}"] {
        let tables = format!("{producers}\nbroker = {{ kind = \"rich\", address = \"a:1\" }}\n");
        for run in ["run.messages = 1\n", "[run]\nmessages = 1\n"] {
            let plan =
                plan_with(&format!("{tables}{run}"), &set).unwrap_or_else(|error| panic!("{producers}: {error}"));
            let scenario = &plan.trials[0].scenario;
            assert_eq!((scenario.producers.count, scenario.producers.keys), (2, Keys::Random { distinct: 3 }));
            let again = plan_with(&plan.text, &[]).unwrap_or_else(|error| panic!("{}\n{error}", plan.text));
            assert_eq!(again.trials[0].scenario, *scenario);
        }
    }
}

#[test]
fn an_override_pins_a_swept_key() {
    let text = format!("{MINIMAL}[sweep.over]\n\"producers.count\" = [1, 2]\n\"producers.batch\" = [1, 2]\n");
    let plan = plan_with(&text, &["producers.count=5"]).unwrap();
    let counts: Vec<_> = plan.trials.iter().map(|trial| trial.scenario.producers.count).collect();
    assert_eq!(counts, [5, 5]);
    assert_eq!(plan.trials[0].point.keys().collect::<Vec<_>>(), ["producers.batch"]);
}

#[test]
fn secrets_show_nowhere() {
    let text = r#"
[broker]
kind = "rich"
address = "localhost:9092"
[broker.properties]
sasl.password = "hunter2"
[broker.security.sasl]
mechanism = "PLAIN"
username = "me"
password = "hunter2"
[run]
messages = 1
[sweep.over]
"broker.properties.ssl.key.password" = ["hunter2", "hunter2"]
"#;
    let plan = plan_with(text, &["consumers.properties.\"sasl.password\"=hunter2"]).unwrap();
    assert!(!format!("{plan:?}").contains("hunter2"), "{plan:#?}");
    let sasl = plan.trials[0].scenario.broker.security.sasl.clone().unwrap();
    assert_eq!(sasl.password.reveal().as_deref(), Ok("hunter2"));
    assert_eq!(plan.trials[0].document["broker"]["security"]["sasl"]["password"], "***");

    let broken =
        text.replace("mechanism = \"PLAIN\"", "mechanism = \"PLAN\"").replace("\"me\"\npassword", "5\npassword");
    let inline = "broker = { kind = \"rich\", security = { sasl = { password = \"hunter2\", mechanism = \"x\" } } }";
    let unclosed = "[broker.security.sasl]\npassword = \"hunter2\n";
    for text in [broken.as_str(), inline, unclosed] {
        let error = plan_with(text, &["broker.security.sasl.passwort=hunter2"]).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn a_threshold_on_a_condition_that_the_client_never_tells_is_refused() {
    let throttled = Descriptor { tells: |kind| kind == ConditionKind::Throttled, ..KINDS[1] };
    let planned = |descriptor: Descriptor, condition: &str| {
        let text = format!("{MINIMAL}thresholds.require = \"condition.{condition} < 5s\"\n");
        parse_for(with_sinks(&[descriptor]), &text, "tests/try.toml", &[], Path::new(""))
    };
    assert!(planned(throttled, "throttled").is_ok());
    let refusal = planned(throttled, "blocked").unwrap_err().to_string();
    assert!(refusal.contains("a broker of kind `plain` never tells `blocked`"), "{refusal}");
    assert!(refusal.contains("its conditions are `throttled`"), "{refusal}");
    assert!(planned(KINDS[1], "throttled").unwrap_err().to_string().contains("remove the threshold"));
    let rebalancing = Descriptor { tells: |_| true, ..KINDS[1] };
    assert!(planned(rebalancing, "rebalancing").unwrap_err().to_string().contains("add `[consumers]`"));
    for descriptor in engine::kinds().brokers {
        assert_eq!((descriptor.tells)(ConditionKind::Connecting), descriptor.kind != "null", "{}", descriptor.kind);
    }
}

#[test]
fn a_document_is_a_scenario_again() {
    let text = format!(
        "{RICH}[broker.properties]\na.b = 1\n[run]\nmessages = \"1k\"\n[sweep.over]\n\"producers.count\" = [3]\n"
    );
    let trial = plan(&text).trials.remove(0);
    let again: toml::Table = serde_json::from_value(trial.document.clone()).unwrap();
    assert_eq!(scenario(&again.to_string()), trial.scenario);
}

/// Each file of `refusals` is a scenario that is refused; its snapshot is the error as a user reads it. Its comments
/// `# --set key=value` are overrides.
#[test]
fn refusals() {
    insta::glob!("refusals/*.toml", |file| {
        let text = std::fs::read_to_string(file).unwrap();
        let overrides: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# --set ")).collect();
        let error = plan_with(&text, &overrides).expect_err("the scenario is accepted");
        insta::assert_snapshot!(error.to_string());
    });
}

#[test]
fn an_override_of_a_part_of_a_swept_value_is_refused() {
    let text = format!("{MINIMAL}[sweep.over]\n\"payload.size\" = [\"1KiB\", {{ uniform = [1, 9] }}]\n");
    let refused = plan_with(&text, &["payload.size.uniform=[1, 5]"]).unwrap_err().to_string();
    assert!(refused.starts_with("tests/try.toml:4:1: each value of `payload.size`"), "{refused}");
    assert!(refused.contains("`--set payload.size.uniform="), "{refused}");
    assert_eq!(plan_with(&text, &["payload.size=9"]).unwrap().trials.len(), 1);
}

#[test]
fn settings_of_topics_are_taken_with_dots_and_may_be_swept() {
    let text = format!(
        "{RICH}[topology.config]\ncleanup.policy = \"compact\"\n\"retention.ms\" = 1000\n[run]\nmessages = 1\n\
         [sweep.over]\n\"topology.config.min.insync.replicas\" = [1, 2]\n"
    );
    let trials = plan(&text).trials;
    let of = |trial: usize| trials[trial].scenario.topology.config.clone();
    let expected = |replicas: &str| {
        let settings = [("cleanup.policy", "compact"), ("retention.ms", "1000"), ("min.insync.replicas", replicas)];
        settings.map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    assert_eq!((of(0), of(1)), (expected("1").to_vec(), expected("2").to_vec()));
}

#[test]
fn a_property_is_one_key_with_quotes_and_without() {
    let group = format!(
        "{RICH}[run]\nmessages = 1\n[[consumers.group]]\nproperties = {{ \"fetch.min.bytes\" = 7 }}\n[sweep.over]\n\
         \"consumers.group[0].properties.fetch.min.bytes\" = [1, 2]\n"
    );
    let of = |plan: &Plan| {
        let consumers = plan.trials.iter().map(|trial| trial.scenario.consumers.clone().unwrap());
        consumers.flat_map(|mut consumers| consumers.groups.remove(0).properties).collect::<Vec<_>>()
    };
    let property = |value: &str| ("fetch.min.bytes".to_owned(), value.to_owned());
    assert_eq!(of(&plan(&group)), [property("1"), property("2")]);
    let pinned = plan_with(&group, &["consumers.group[0].properties.fetch.min.bytes=3"]).unwrap();
    assert_eq!(of(&pinned), [property("3")]);
    let twice = format!("{RICH}[broker.properties]\n\"linger.ms\" = 5\nlinger.ms = 10\n[run]\nmessages = 1\n");
    let refused = plan_with(&twice, &[]).unwrap_err().to_string();
    assert!(refused.contains("`broker.properties.\"linger.ms\"` is written twice"), "{refused}");
    let empty = format!("{RICH}[broker.properties]\nlinger = {{}}\n[run]\nmessages = 1\n");
    let refused = plan_with(&empty, &[]).unwrap_err().to_string();
    assert!(refused.contains("`broker.properties.linger` should be one value"), "{refused}");
    // What an override leaves empty is not the user's.
    let table = format!("{RICH}[broker.properties.linger]\nms = 5\n[run]\nmessages = 1\n");
    let overridden = plan_with(&table, &["broker.properties.linger.ms=7"]).unwrap();
    assert_eq!(overridden.trials[0].scenario.broker.properties, [("linger.ms".to_owned(), "7".to_owned())]);
}

#[test]
fn groups_have_settings_of_their_own_and_the_properties_of_all() {
    let scenario = scenario(&format!(
        "{RICH}[payload]\nsize = \"1KiB\"\n[load]\nrate = \"1k/s\"\n[consumers.properties]\nfetch.min.bytes = 1\nclient.rack = \"a\"\n\
         [[consumers.group]]\nwork = \"2ms\"\nrate = \"10k/s\"\nproperties = {{ fetch.min.bytes = 7 }}\n\
         [[consumers.group]]\nwork = {{ kind = \"lognormal\", mean = \"1ms\", sigma = 0.5, seed = 3 }}\n[consumers.backlog]\n\
         payload_bytes = \"1MiB\"\ncaught_up_within = \"1s\"\n[run]\nduration = \"10s\"\n"
    ));
    let consumers = scenario.consumers.unwrap();
    let property = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let (rack, common) = (property("client.rack", "a"), property("fetch.min.bytes", "1"));
    let work = |mean, law, seed| Some(Work { mean: Duration::from_millis(mean), law, seed });
    let expected = [
        ConsumerGroup {
            work: work(2, WorkLaw::Fixed, 1),
            rate: Some(10_000.0),
            properties: vec![rack.clone(), property("fetch.min.bytes", "7")],
            ..ConsumerGroup::default()
        },
        ConsumerGroup {
            work: work(1, WorkLaw::Lognormal { sigma: 0.5 }, 3),
            properties: vec![rack, common],
            ..ConsumerGroup::default()
        },
    ];
    let sorted = |group: &ConsumerGroup| {
        let mut group = group.clone();
        group.properties.sort();
        group
    };
    assert_eq!(consumers.groups.iter().map(sorted).collect::<Vec<_>>(), expected);
    let backlog = Backlog { messages: 1024, caught_up_within: Duration::from_secs(1) };
    assert_eq!(consumers.backlog, Some(backlog));
}

/// `run.messages` are those of the measured window.
#[test]
fn messages_of_the_warm_up_are_a_part_of_a_backlog() {
    let planned = |warm_up: &str| {
        let run = format!("[run]\nmessages = 2000\nwarm_up = \"{warm_up}\"\n");
        let backlog = "[load]\nrate = \"1k/s\"\n[consumers.backlog]\nmessages = 3000\n";
        plan_with(&format!("{RICH}{backlog}{run}"), &[]).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(planned("2s"), Ok(()));
    let refused = planned("1s").unwrap_err();
    assert!(refused.contains("ends after 3000 messages"), "{refused}");
}

#[test]
fn a_pipeline_is_a_group_of_consumers() {
    let scenario = scenario(&format!(
        "{RICH}{JSON}[pipeline]\ninstances = 8\ntimestamp = \"t\"\nlinger = \"5ms\"\n[consumers.properties]\na = 1\n[run]\nmessages = 1\n"
    ));
    let (consumers, pipeline) = (scenario.consumers.unwrap(), scenario.pipeline.unwrap());
    assert_eq!(consumers.groups.len(), 1);
    assert_eq!(consumers.members, 8);
    assert!(consumers.verify);
    assert_eq!(consumers.groups[0].properties, [("a".to_owned(), "1".to_owned())]);
    assert_fields!(pipeline, { batch: 3000, writers: 2, linger: Duration::from_millis(5) });
    assert_eq!((pipeline.commit, pipeline.producer_mode), (CommitPolicy::AfterWrite, ProducerMode::Concurrent));
}

#[test]
fn a_pipeline_refuses_unknown_sinks() {
    for (sink, words) in
        [("kind = \"cassandra\"", "unknown kind of sink \"cassandra\""), ("key = 1", "`kind` is missing")]
    {
        let text = format!("{RICH}{JSON}[run]\nmessages = 1\n[[pipeline.sinks]]\n{sink}\n");
        let refusal = plan_with(&text, &[]).unwrap_err().to_string();
        assert!(refusal.contains(words), "{refusal}");
    }
}

#[test]
fn a_pipeline_without_offsets_commits_on_receipt() {
    let plain = "broker.kind = \"echo\"\npayload.kind = \"random\"\nrun.messages = 1\npipeline.parse = \"none\"\n";
    let refusal = plan_with(plain, &[]).unwrap_err().to_string();
    assert!(refusal.contains("set `pipeline.commit = \"on-receipt\"`"), "{refusal}");
    assert!(plan_with(plain, &["pipeline.commit=on-receipt"]).is_ok());
    let refusal = plan_with(plain, &["pipeline.commit=on-receipt", "pipeline.parse=json"]).unwrap_err().to_string();
    assert!(refusal.contains("try.toml:2") && refusal.contains("not JSON"), "{refusal}");
}

#[cfg(all(feature = "redis", feature = "mongodb"))]
#[test]
fn a_sink_checks_its_own_keys_and_its_secrets_are_masked() {
    let text = |sink: &str| format!("{RICH}[run]\nmessages = 1\n[pipeline]\n[[pipeline.sinks]]\n{sink}\n{JSON}");
    let refused = |sink: &str| plan_with(&text(sink), &[]).unwrap_err().to_string();
    let refusal = refused("kind = \"redis\"\naddres = \"h:1\"\nkey = \"a\"");
    assert!(refusal.contains("try.toml:9") && refusal.contains("did you mean `address`?"), "{refusal}");
    assert!(refused("kind = \"redis\"\naddress = \"h:1\"").contains("needs a `key`"));
    let both = text(
        "kind = \"mongodb\"\naddress = \"h:1\"\ndatabase = \"d\"\ncollection = \"c\"\nfields = [\"a\"]\nusername = \"u\"\npassword = \"hunter2\"",
    );
    let plan = plan(&both);
    assert_eq!(plan.trials[0].scenario.pipeline.as_ref().unwrap().sinks[0].needs.fields, ["a"]);
    assert!(!plan.text.contains("hunter2") && !plan.trials[0].document.to_string().contains("hunter2"));
    assert!(!format!("{:?}", plan.trials[0].scenario).contains("hunter2"));
}

#[cfg(feature = "redis")]
#[test]
fn sinks_are_overridden_and_swept_by_their_numbers() {
    let sinks = "[[pipeline.sinks]]\nkind = \"redis\"\naddress = \"a:1\"\nkey = \"a\"\n";
    let text = format!("{RICH}{JSON}[run]\nmessages = 1\n{sinks}{sinks}");
    let sinks_of = |plan: &Plan, trial: usize| plan.trials[trial].scenario.pipeline.clone().unwrap().sinks;
    let option = |plan: &Plan, trial: usize, sink: usize, key: &str| {
        sinks_of(plan, trial)[sink].options.get(key).map(|value| value.to_string())
    };
    let plan = plan_with(&text, &["pipeline.sinks[1].address=b:2", "pipeline.sinks[1].transaction=false"]).unwrap();
    assert_eq!(option(&plan, 0, 0, "address").as_deref(), Some("\"a:1\""));
    assert_eq!(option(&plan, 0, 1, "address").as_deref(), Some("\"b:2\""));
    assert_eq!(option(&plan, 0, 1, "transaction").as_deref(), Some("false"));
    assert!(plan.text.contains("b:2"));

    let inline = format!(
        "{RICH}{JSON}[run]\nmessages = 1\n[pipeline]\nsinks = [{{ kind = \"redis\", address = \"a:1\", key = \"a\" }}]\n"
    );
    let plan = plan_with(&inline, &["pipeline.sinks[0].prefix=p"]).unwrap();
    assert_eq!(option(&plan, 0, 0, "prefix").as_deref(), Some("\"p\""));

    let swept = format!("{text}[sweep.over]\n\"pipeline.sinks[0].address\" = [\"c:3\", \"d:4\"]\n");
    let plan = plan_with(&swept, &[]).unwrap();
    assert_eq!([0, 1].map(|trial| option(&plan, trial, 0, "address").unwrap()), ["\"c:3\"", "\"d:4\""]);
    assert_eq!(plan.trials[0].point["pipeline.sinks[0].address"].as_str(), Some("c:3"));
    let pinned = plan_with(&swept, &["pipeline.sinks[0].address=e:5"]).unwrap();
    assert_eq!((pinned.trials.len(), option(&pinned, 0, 0, "address").as_deref()), (1, Some("\"e:5\"")));
}

#[cfg(feature = "redis")]
#[test]
fn a_sinks_authorities_lie_beside_the_scenario() {
    let sink = "[[pipeline.sinks]]\nkind = \"redis\"\naddress = \"a:1\"\nkey = \"a\"\ntls = true\nca = \"ca.pem\"\n";
    let text = format!("{RICH}{JSON}[run]\nmessages = 1\n{sink}");
    let kinds = [KINDS[0]];
    let plan = parse_for(with_sinks(&kinds), &text, "try.toml", &[], Path::new("/elsewhere")).unwrap();
    let sinks = &plan.trials[0].scenario.pipeline.as_ref().unwrap().sinks;
    assert_eq!(sinks[0].options["ca"].as_str(), Some("/elsewhere/ca.pem"));
}

#[test]
fn a_pipeline_without_producers_takes_its_topic_as_it_is() {
    let text = format!(
        "{RICH}{JSON}[topology]\nname = \"t\"\npartitions = 4\nkeep = true\n[pipeline]\nparse = \"none\"\n[run]\nduration = \"1s\"\n"
    );
    let refused = plan_with(&text.replace("[pipeline]\n", "[pipeline]\nproducer_mode = \"none\"\n"), &[]);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("`partitions` has no effect") && refused.contains("`keep` has no effect"), "{refused}");
    // An override is a decision.
    let plan = plan_with(&text, &["pipeline.producer_mode=none"]).unwrap();
    assert!(plan.trials[0].scenario.topology.existing);
}

#[test]
fn the_table_of_a_missing_file() {
    let error = brokermark::scenario::load(Path::new("nowhere.toml"), &[], engine::kinds()).unwrap_err().to_string();
    assert!(error.starts_with("nowhere.toml: the scenario cannot be read"), "{error}");
}

/// The reference's own examples: every fenced block of TOML parses, and whole tables are accepted.
#[test]
fn the_reference_shows_keys_that_exist() {
    let reference = include_str!("../../docs/SCENARIO.md");
    let blocks = reference.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut tables = 0;
    for block in blocks.filter(|block| block.starts_with('[')) {
        // Alternatives to the same key stand below each other; each is tried by itself elsewhere.
        let Ok(table) = toml::from_str::<toml::Table>(block) else { continue };
        tables += 1;
        let text = format!("{block}\n");
        let mut overrides = Vec::new();
        if !table.contains_key("broker") {
            overrides.extend(["broker.kind=rich", "broker.address=embedded"].map(str::to_owned));
        }
        if table.contains_key("thresholds") {
            overrides.push("consumers.verify=true".to_owned());
        }
        if !table.contains_key("run") {
            overrides.push("run.messages=1".to_owned());
        }
        // A broker that is built in checks its own table.
        let of_kind = |kind| {
            find(kind).copied().unwrap_or(Descriptor {
                kind,
                options_schema: schema_of::<serde_json::Value>,
                check_options: |_| Ok(()),
                ..KINDS[0]
            })
        };
        let kinds = [of_kind("kafka"), of_kind("pulsar"), KINDS[0]];
        let refused = match parse_for(with_sinks(&kinds), &text, "reference", &overrides, Path::new(".")) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert!(!refused.contains("unknown key") && !refused.contains("cannot be"), "{block}\n{refused}");
    }
    assert!(tables >= 8, "{tables}");
}

proptest::proptest! {
    /// Whatever happens to a scenario, it is accepted or refused in words.
    #[test]
    fn damaged_scenarios_never_panic(at: proptest::sample::Index, length in 0..20usize, inserted in "[\\[\\]{}=.\"'a-z0-9 \nµ-]{0,6}") {
        let text = format!(
            "{RICH}security = {{ sasl = {{ mechanism = \"PLAIN\", username = \"é\", password = \"hunter2\" }} }}\n\
             [producers]\ncount = 4 # µ\nkeys = {{ kind = \"zipf\", distinct = 10 }}\n[load]\nrate = \"1MiB/s\"\n[run]\n\
             duration = \"1s\"\n[sweep.over]\n\"payload.size\" = {{ doubling = [\"1KiB\", \"8KiB\"] }}\n\
             [thresholds]\nrequire = [\"p99 < 10ms\"]\n"
        );
        let mut characters: Vec<char> = text.chars().collect();
        let start = at.index(characters.len());
        let end = (start + length).min(characters.len());
        characters.splice(start..end, inserted.chars());
        let damaged: String = characters.into_iter().collect();
        if let Err(error) = plan_with(&damaged, &[]) {
            proptest::prop_assert!(!error.to_string().is_empty());
        }
    }
}

#[test]
fn parts_of_a_schedule_may_rest_where_another_sends() {
    let load = |schedule: &str, run: &str| {
        plan(&format!("broker = {{ kind = \"rich\", address = \"h:1\" }}\nload.schedule = {schedule}\nrun.{run}"))
            .trials[0]
            .scenario
            .load
            .clone()
    };
    let second = Duration::from_secs(1);
    let ramp = load("{ kind = \"ramp\", from = \"0/s\", to = \"10/s\", over = \"1s\" }", "messages = 5");
    assert_eq!(ramp, Load::Open(Schedule::Ramp { from: 0.0, to: 10.0, over: second }));
    let steps = "{ kind = \"steps\", steps = [{ rate = \"1/s\", for = \"1s\" }, { rate = \"0/s\", for = \"1s\" }] }";
    assert_eq!(load(steps, "duration = \"5s\""), Load::Open(Schedule::Steps(vec![(1.0, second), (0.0, second)])));
    let refused = |schedule: &str, run: &str| {
        let text = format!("broker = {{ kind = \"rich\", address = \"h:1\" }}\nload.schedule = {schedule}\nrun.{run}");
        plan_with(&text, &[]).unwrap_err().to_string()
    };
    assert!(refused(steps, "messages = 5").contains("may never be due"));
    let silent = "{ kind = \"bursts\", base = \"0/s\", burst = \"0/s\", every = \"2s\", for = \"1s\" }";
    assert!(refused(silent, "duration = \"5s\"").contains("every rate of the schedule is zero"));
}

#[test]
fn a_topic_that_exists_may_have_any_name() {
    let named = |name: &str, more: &str| {
        let broker = "broker = { kind = \"rich\", address = \"h:1\" }\nrun.messages = 5";
        plan_with(&format!("{broker}\ntopology = {{ name = {}, {more} }}", toml::Value::from(name)), &[])
    };
    for name in ["x".repeat(101).as_str(), "my orders", "größe/1"] {
        let plan = named(name, "existing = true").unwrap();
        assert_eq!(plan.trials[0].scenario.topology.name.as_deref(), Some(name));
        assert!(named(name, "existing = false").unwrap_err().to_string().contains("topology.existing = true"));
    }
    for name in ["", "a\u{1b}b", "x".repeat(256).as_str()] {
        assert!(named(name, "existing = true").unwrap_err().to_string().contains("cannot name a topic"), "{name:?}");
    }
}

#[test]
fn a_fault_is_not_taken_back_by_nothing() {
    let fault = "[[faults]]\nat = \"1s\"\nfor = \"1s\"\nrun = \"a\"\nundo = \"\"\n";
    let refused = plan_with(&format!("{MINIMAL}{fault}"), &[]).unwrap_err().to_string();
    assert!(refused.contains("`faults[0].undo` is empty"), "{refused}");
}

#[test]
fn the_url_of_an_issuer_has_no_login() {
    let oauth2 = |url: &str| {
        let sasl = format!(
            "{{ mechanism = \"OAUTHBEARER\", oauth2 = {{ token_url = \"{url}\", client_id = \"b\", client_secret = \"c\" }} }}"
        );
        plan_with(&format!("{RICH}security.sasl = {sasl}\n[run]\nmessages = 5\n"), &[])
    };
    assert!(oauth2("https://issuer/token").is_ok());
    let refused = oauth2("https://me:hunter2@issuer/token").unwrap_err().to_string();
    assert!(refused.contains("a URL has no name and no password") && !refused.contains("hunter2"), "{refused}");
}

#[test]
fn a_key_of_tls_takes_the_place_of_its_short_form() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, "").unwrap();
    for tls in ["tls = true", "tls = { verify_host = false }"] {
        let text = format!("run.messages = 5\n[broker]\nkind = \"rich\"\naddress = \"h:1\"\nsecurity = {{ {tls} }}");
        let plan = plan_with(&text, &[&format!("broker.security.tls.ca={}", ca.display())]).unwrap();
        let tls = plan.trials[0].scenario.broker.security.tls.clone().unwrap();
        assert_eq!((tls.ca, tls.verify_host), (Some(ca.clone()), !text.contains("verify_host")));
    }
}

#[test]
fn a_pipe_is_not_a_file_of_payloads() {
    let text = "broker = { kind = \"rich\", address = \"h:1\" }\nrun.messages = 5\npayload = { kind = \"lines\", file = \"/dev/null\" }";
    let refused = plan_with(text, &[]).unwrap_err().to_string();
    assert!(refused.contains("read only once") && refused.contains("write its contents to a file"), "{refused}");
}
