//! The command line as people and scripts use it: its output and its exit codes.
//!
//! Text for people is kept as snapshots. After an intended change: `INSTA_UPDATE=always cargo test --test local -- cli`.

use std::process::{Command, Stdio};

use crate::harness::{Bench, Finished, PATIENCE, Running, brokermark, execute};
use serde_json::{Value, json};

const SCENARIO: &str = "name = \"orders\"
[broker]
kind = \"null\"
[topology]
topics = 2
partitions = 3
[producers]
count = 4
batch = 5
[load]
rate = \"2k/s\"
[consumers]
groups = 2
[run]
warm_up = \"1s\"
messages = \"10k\"
duration = \"30s\"
[sweep]
trials = 2
[sweep.over]
\"payload.size\" = [\"100B\", \"1KiB\"]
[thresholds]
require = [\"p99 < 10ms\", \"lost = 0\"]
";

/// Runs `verb` on a scenario file with this text.
fn with_scenario(verb: &str, text: &str, arguments: &[&str]) -> (Bench, Finished) {
    let bench = Bench::new(text);
    let mut command = brokermark();
    // The file's folder is another one each time: it must not be in what is compared.
    command.current_dir(bench.path()).arg(verb).arg("scenario.toml").args(arguments);
    let ended = Running::start(&mut command).finish(PATIENCE);
    (bench, ended)
}

#[test]
#[cfg(feature = "kafka")]
fn help_of_every_verb() {
    let mut shown = String::new();
    for verb in
        ["", "run", "doctor", "check", "new", "show", "list", "brokers", "schema", "emulate", "completions", "man"]
    {
        let arguments: Vec<&str> = [verb, "--help"].into_iter().filter(|argument| !argument.is_empty()).collect();
        let help = execute(&arguments).expect(0);
        assert_eq!(help.stderr, "");
        shown.push_str(&format!("── brokermark {} ──\n{}\n", arguments.join(" "), help.stdout));
    }
    insta::assert_snapshot!("help", shown);
}

#[test]
fn a_plan_for_people_and_for_programs() {
    let (_, text) = with_scenario("check", SCENARIO, &[]);
    insta::assert_snapshot!("check", text.expect(0).stdout);
    let (_, json) = with_scenario("check", SCENARIO, &["--json", "--set", "payload.size=64B"]);
    let plan: Value = serde_json::from_str(&json.expect(0).stdout).unwrap();
    insta::assert_snapshot!("check_json", serde_json::to_string_pretty(&plan).unwrap());
}

/// What `run` refuses in one process, at any point, `check` says.
#[test]
fn a_plan_says_that_it_needs_several_processes() {
    let text = "broker.kind = \"null\"\nproducers.count = 2\nrun.messages = 1\n\
                sweep.over = { \"distribution.writers\" = [\"0\", \"0-1\"] }\n";
    let reason = "`distribution.writers` names rank 1, but 1 run the scenario";
    with_scenario("check", text, &[]).1.expect(0).says(&[reason]);
    with_scenario("run", text, &[]).1.expect(2).complains_of(&[reason]);
}

/// A run that is not alone with its topics is warned of: `check` connects to nothing, and cannot know what they hold.
#[test]
#[cfg(feature = "kafka")]
fn a_plan_warns_of_topics_that_are_not_the_runs_own() {
    let warning = |more: &str| {
        let scenario = format!("broker = {{ kind = \"kafka\", address = \"a:1\" }}\nrun.messages = 1\n{more}\n");
        let plan = with_scenario("check", &scenario, &[]).1.expect(0).stdout;
        plan.lines().find_map(|line| line.trim().strip_prefix("! ")).map(str::to_owned)
    };
    let is = |text: &str| Some(text.to_owned());
    assert_eq!(warning(""), None);
    let where_it_exists = "where `orders` exists, the run writes into it, and leaves its messages there";
    assert_eq!(warning("topology.name = \"orders\""), is(where_it_exists));
    let existing = "topology = { name = \"orders\", existing = true }";
    assert_eq!(warning(existing), is("the run writes into `orders`, and leaves its messages there"));
    let verified = warning(&format!("{existing}\nconsumers.verify = true")).unwrap();
    assert!(verified.ends_with("; consumers read first what it holds already"), "{verified}");
    let latest = warning(&format!("{existing}\nconsumers.from = \"latest\"")).unwrap();
    assert!(!latest.contains("consumers"), "{latest}");
}

#[test]
#[cfg(all(feature = "kafka", feature = "redis", feature = "mongodb"))]
fn a_plan_describes_its_pipeline() {
    let (_, plan) = with_scenario("check", include_str!("../../configs/published/pipeline-v2.toml"), &[]);
    let line = "pipeline   1 instance(s), batches of 3000 or of 50ms, by 2 writer(s) each to redis, then mongodb, while the producers send";
    let plan = plan.expect(0).stdout;
    assert!(plan.contains(line), "{plan}");
}

#[test]
fn brokers_for_people_and_for_programs_are_the_same() {
    let text = execute(&["brokers"]).expect(0).stdout;
    let json: Value = serde_json::from_str(&execute(&["brokers", "--json"]).expect(0).stdout).unwrap();
    let brokers = json["brokers"].as_array().unwrap();
    let registered = brokermark::broker::registry::descriptors();
    assert_eq!(brokers.len(), registered.len());
    let lines: Vec<&str> = text.lines().collect();
    for ((broker, descriptor), lines) in brokers.iter().zip(registered).zip(lines.chunks(3)) {
        assert_eq!((&broker["kind"], &broker["client"]), (&json!(descriptor.kind), &json!(descriptor.client)));
        assert_eq!(lines[0].split([' ', ',']).next(), Some(descriptor.kind));
        assert!(descriptor.client.is_none_or(|client| lines[0].contains(client)), "{}", lines[0]);
        let able: Vec<&str> = lines[2].trim().split(" · ").collect();
        for (ability, has) in broker["capabilities"].as_object().unwrap() {
            let named = able.contains(&ability.replace('_', " ").as_str());
            assert_eq!(named, has.as_bool().unwrap(), "{}: {ability}", descriptor.kind);
        }
    }
}

#[test]
fn a_record_as_people_read_it() {
    let bench = Bench::new("");
    let record: Value = serde_json::from_str(include_str!("../data/record.json")).unwrap();
    let mut other = record.clone();
    other["trial"] = 2.into();
    let one = bench.write("one.jsonl", &format!("{record}\n"));
    let two = bench.write("two.jsonl", &format!("{record}\n{other}\n"));
    insta::assert_snapshot!("show_one", execute(&["show", one.to_str().unwrap()]).expect(0).stdout);
    insta::assert_snapshot!("show_two", execute(&["show", two.to_str().unwrap()]).expect(0).stdout);
    let json = execute(&["show", "--json", two.to_str().unwrap()]).expect(0).stdout;
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, [record, other], "as they are");
}

#[test]
fn what_cannot_be_shown_is_an_error() {
    execute(&["show", "/nowhere/at/all"]).expect(1).complains_of(&["/nowhere/at/all", "does not exist"]);
    let bench = Bench::new("");
    let path = bench.path().to_str().unwrap();
    execute(&["show", path]).expect(1).complains_of(&[path]);
    let text = bench.write("notes.txt", "no record\nat all\n");
    execute(&["show", text.to_str().unwrap()]).expect(1).complains_of(&["notes.txt", "line 1"]);
}

/// Every way in which a scenario can be wrong ends with 2, both for `check` and for `run`, and leaves nothing behind.
#[test]
fn a_wrong_scenario_ends_with_2_and_the_place() {
    const NULL: &str = "broker.kind = \"null\"\n";
    let cases: [(&str, String, &[&str]); 9] = [
        ("an empty file", String::new(), &["broker", "scenario.toml"]),
        ("not TOML", "broker kind".to_owned(), &["scenario.toml:1:"]),
        ("no stop", NULL.to_owned(), &["run"]),
        ("a wrong type", format!("{NULL}run.messages = true"), &["scenario.toml:2:", "messages"]),
        ("a wrong unit", format!("{NULL}run.duration = \"5 parsec\""), &["scenario.toml:2:", "5 parsec"]),
        ("an unknown key", format!("{NULL}run.mesages = 1"), &["mesages", "did you mean `messages`"]),
        ("an unknown broker", "broker.kind = \"kafak\"\nrun.messages = 1".to_owned(), &["kafak"]),
        (
            "an unknown key of the broker's own",
            format!("{NULL}broker.null.fial = 0.1\nrun.messages = 1"),
            &["scenario.toml:2:", "fial"],
        ),
        (
            "a contradiction",
            format!("{NULL}run.messages = 1\nload = {{ model = \"closed\", rate = \"1k/s\" }}"),
            &["load", "closed"],
        ),
    ];
    for (what, text, parts) in cases {
        for verb in ["check", "run"] {
            let (bench, ended) = with_scenario(verb, &text, &[]);
            assert_eq!(ended.code, Some(2), "{verb} of {what}: {}", ended.stderr);
            assert_eq!(ended.stdout, "", "{verb} of {what}");
            ended.complains_of(parts);
            assert!(!bench.results().exists(), "{verb} of {what}");
        }
    }
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    let cases: [&[&str]; 7] = [
        &[],
        &["dance"],
        &["run"],
        &["run", "nowhere.toml"],
        &["check", "nowhere.toml", "--set", "run.messages=1"],
        &["run", "a.toml", "--output", "b", "--resume", "c"],
        &["completions", "tortoise-shell"],
    ];
    for arguments in cases {
        let ended = execute(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(!ended.stderr.is_empty() && ended.stdout.is_empty(), "{arguments:?}");
    }
    let (_, ended) = with_scenario("check", SCENARIO, &["--set", "producers.count"]);
    ended.expect(2).complains_of(&["producers.count"]);
}

#[test]
fn thresholds_decide_between_0_and_3() {
    let scenario = |require: &str| {
        format!(
            "broker.kind = \"null\"\nbroker.null.fail = 0.1\nrun.messages = 100\nthresholds.require = [{require}]\nthresholds.when_invalid = \"ignore\""
        )
    };
    let held = Bench::new(&scenario("\"failed = 10\", \"unresolved < 1\"")).run(&[]).expect(0).record();
    assert!(held.thresholds.iter().all(|threshold| threshold.held), "{:?}", held.thresholds);
    let missed = Bench::new(&scenario("\"failed <= 10\", \"failed < 10\"")).run(&[]).expect(3).record();
    let found: Vec<_> = missed.thresholds.iter().map(|threshold| (threshold.held, threshold.measured)).collect();
    assert_eq!(found, [(true, Some(10.0)), (false, Some(10.0))]);
}

/// Of a sweep's trials, one that missed its threshold is enough.
#[test]
fn the_worst_trial_decides_how_a_sweep_ends() {
    let sweep = "broker.kind = \"null\"\nrun.messages = 100\nthresholds.require = [\"failed = 0\"]\n[sweep.over]\n";
    let run = |shares: &str| Bench::new(&format!("{sweep}\"broker.null.fail\" = {shares}")).run(&[]);
    assert_eq!(run("[0.0, 0.1, 0.0]").expect(3).records().len(), 3);
    // Nothing was acknowledged in the second: that is graver than a threshold, and the third still runs.
    assert_eq!(run("[0.1, 1.0, 0.0]").expect(1).records().len(), 3);
}

#[test]
fn what_goes_where() {
    let bench = Bench::new("broker.kind = \"null\"\nrun.messages = 1000");
    let quiet = bench.run(&[]).expect(0);
    assert_eq!(quiet.stderr, "");
    assert_eq!(quiet.stdout.lines().count(), 1);
}

#[test]
fn a_reader_that_closes_the_pipe_is_not_an_error() {
    let mut child = brokermark().arg("schema").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
#[cfg(feature = "kafka")]
fn secrets_of_the_command_line_are_in_no_output() {
    let bench = Bench::new("broker = { kind = \"kafka\", address = \"embedded\" }\nrun.messages = 1");
    let ended = bench.run(&["--set", "broker.properties.sasl.password=hunter2"]).expect(0);
    let kept = std::fs::read_to_string(bench.run_directory().join("scenario.toml")).unwrap();
    for text in [&ended.stdout, &ended.stderr, &kept] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert!(kept.contains("***"), "{kept}");
    assert!(ended.record().environment.command_line.iter().any(|argument| argument.contains("***")));
}

#[test]
fn completions_are_accepted_by_their_shell_and_name_the_verbs() {
    let script = execute(&["completions", "bash"]).expect(0).stdout;
    let complete = format!(
        "{script}\nCOMP_WORDS=(brokermark ch) COMP_CWORD=1\n_brokermark brokermark ch brokermark\necho \"${{COMPREPLY[@]}}\""
    );
    let ended = Running::start(Command::new("bash").arg("-c").arg(complete)).finish(PATIENCE).expect(0);
    assert_eq!(ended.stdout.trim(), "check");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let script = execute(&["completions", shell]).expect(0).stdout;
        assert!(script.contains("brokermark") && script.contains("--resume") | script.contains("resume"), "{shell}");
    }
}

#[test]
fn the_manual_page_has_every_verb() {
    let page = execute(&["man"]).expect(0).stdout;
    assert!(page.contains(".TH brokermark 1"), "{page}");
    for part in ["brokermark\\-run(1)", "brokermark\\-check(1)", "brokermark\\-show(1)", "Exit codes"] {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[test]
#[cfg(feature = "kafka")]
fn emulate_prints_its_address_and_ends_by_signal() {
    use std::io::{BufRead, BufReader};

    use rdkafka::consumer::{BaseConsumer, Consumer};

    let mut child = brokermark().args(["emulate", "kafka"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut addresses = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut addresses).unwrap();
    let client: BaseConsumer =
        rdkafka::ClientConfig::new().set("bootstrap.servers", addresses.trim()).create().unwrap();
    let answer = client.fetch_metadata(None, PATIENCE).map(|metadata| metadata.brokers().len());
    // SAFETY: the child has not been waited for, so that its id is still its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let status = child.wait().unwrap();
    assert_eq!(answer.unwrap(), addresses.split(',').count());
    assert!(status.success(), "{status}");
}

/// Everybody knows the default secret, and an address that is not loopback can be reached by everybody.
#[cfg(feature = "sls-emulator")]
#[test]
fn emulate_with_default_secret_listens_on_loopback_only() {
    let ended = execute(&["emulate", "sls", "--listen", "0.0.0.0:0"]).expect(1);
    ended.complains_of(&["0.0.0.0:0", "--access-key-secret"]);
}

/// The stacks of so many threads take more than this address space.
#[test]
#[cfg(target_os = "linux")]
fn threads_that_the_system_does_not_start_are_an_error() {
    let bench = Bench::new("broker.kind = \"null\"\nproducers.count = 1\nrun = { messages = 10, threads = 4096 }");
    let mut command = Command::new("bash");
    command.args(["-c", "ulimit -v 6000000; exec \"$@\"", "limited", env!("CARGO_BIN_EXE_brokermark"), "run"]);
    command.arg(bench.scenario()).arg("--output").arg(bench.results());
    let ended = Running::start(&mut command).finish(PATIENCE).expect(1);
    ended.complains_of(&["the threads of the load cannot be started"]);
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}
