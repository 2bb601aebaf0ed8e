//! No secret reaches anything that brokermark writes or prints, wherever the scenario or the command line has it.

use crate::harness::{Bench, Finished, execute};

const SECRET: &str = "hunter2";

/// A scenario whose run fails without a server, with `more` added.
fn scenario(more: &str) -> String {
    format!("broker.kind = \"kafka\"\nbroker.address = \"127.0.0.1:1\"\nrun.messages = 1\n{more}\n")
}

/// Names of places, what the scenario holds, and the overrides.
const PLACES: [(&str, &str, &[&str]); 15] = [
    ("a password", "broker.properties.\"sasl.password\" = \"hunter2\"", &[]),
    ("a secret with dots in its name", "broker.properties.ssl.keystore.password = \"hunter2\"", &[]),
    ("a header with a secret's name", "producers.headers.authorization = \"hunter2\"", &[]),
    ("a header with credentials", "producers.headers.from = \"Bearer hunter2\"", &[]),
    ("user information in a URL", "producers.headers.origin = \"https://me:hunter2@host/path\"", &[]),
    ("a token in a URL", "producers.headers.origin = \"https://hunter2@host/path\"", &[]),
    ("a parameter of a URL", "producers.headers.origin = \"https://host/path?a=b&access_token=hunter2&c=d\"", &[]),
    ("a comment behind a value", "producers.count = 1 # password = \"hunter2\"", &[]),
    ("a comment with a colon", "producers.count = 1 # the old token: hunter2", &[]),
    ("a comment on its own line", "# password=hunter2\nproducers.count = 1", &[]),
    ("a comment with a URL", "# see https://me:hunter2@host/", &[]),
    ("an override", "", &["broker.properties.sasl.password=hunter2"]),
    ("an override of a key with dots", "", &["broker.properties.ssl.keystore.password=hunter2"]),
    ("an override of a header", "", &["producers.headers.authorization=Basic hunter2"]),
    ("an override with a URL", "", &["producers.headers.origin=https://me:hunter2@host"]),
];

/// What is refused when the scenario is read, so that its line is shown.
const REFUSED: [(&str, &str, &[&str]); 5] = [
    ("an address with credentials", "broker.addresses = [\"me:hunter2@host:1\"]", &[]),
    ("the comment of a wrong line", "producers.count = \"x\" # password: hunter2", &[]),
    ("a wrong value", "producers.count = \"https://me:hunter2@host\"", &[]),
    ("an unfinished line", "broker.security.sasl.password = \"hunter2", &[]),
    ("a wrong override", "", &["producers.count=https://me:hunter2@host"]),
];

fn arguments<'a>(overrides: &[&'a str]) -> Vec<&'a str> {
    overrides.iter().flat_map(|one| ["--set", one]).collect()
}

fn checked(bench: &Bench, overrides: &[&str], more: &[&str]) -> Finished {
    let scenario = bench.scenario();
    execute(&[&["check", scenario.to_str().unwrap()][..], &arguments(overrides), more].concat())
}

fn check(place: &str, what: &str, text: &str) {
    assert!(!text.contains(SECRET), "{place} leaks through {what}:\n{text}");
}

fn check_output(place: &str, what: &str, ended: &Finished) {
    check(place, what, &ended.stdout);
    check(place, what, &ended.stderr);
}

#[test]
fn a_run_writes_and_prints_no_secret() {
    for (place, text, overrides) in PLACES {
        let bench = Bench::new(&scenario(text));
        let ended = bench.run(&arguments(overrides)).expect(1);
        check_output(place, "the output of run", &ended);
        for file in ["scenario.toml", "records.jsonl"] {
            let kept = std::fs::read_to_string(bench.run_directory().join(file)).unwrap();
            check(place, file, &kept);
            assert!(file != "scenario.toml" || kept.contains("***"), "{place}: {kept}");
            assert!(file != "scenario.toml" || kept.parse::<toml::Table>().is_ok(), "{place}: {kept}");
        }
        for more in [&[][..], &["--json"]] {
            check_output(place, "check", &checked(&bench, overrides, more).expect(0));
        }
    }
}

#[test]
fn a_refusal_prints_no_secret() {
    for (place, text, overrides) in REFUSED {
        let text = match text.starts_with("broker.addresses") {
            true => scenario("").replace("broker.address = \"127.0.0.1:1\"", text),
            false => scenario(text),
        };
        let ended = checked(&Bench::new(&text), overrides, &[]).expect(2);
        check_output(place, "the error", &ended);
        assert!(ended.stderr.contains("***"), "{place}: {}", ended.stderr);
    }
}
