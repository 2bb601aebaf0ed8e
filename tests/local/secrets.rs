//! No secret reaches anything that brokermark writes or prints, wherever the scenario or the command line has it.

use crate::harness::{Bench, Finished, execute};

const SECRET: &str = "hunter2";

/// A scenario whose run fails without a server, with `more` added.
fn scenario(more: &str) -> String {
    format!("broker.kind = \"kafka\"\nbroker.address = \"127.0.0.1:1\"\nrun.messages = 1\n{more}\n")
}

/// Names of places, what the scenario holds, and the overrides.
const PLACES: [(&str, &str, &[&str]); 17] = [
    ("a password", "broker.properties.\"sasl.password\" = \"hunter2\"", &[]),
    ("a secret with dots in its name", "broker.properties.ssl.keystore.password = \"hunter2\"", &[]),
    ("a header with a secret's name", "producers.headers.authorization = \"hunter2\"", &[]),
    ("a header with a short name", "producers.headers.X-Pwd = \"hunter2\"", &[]),
    ("a URL with a quote", "producers.headers.origin = \"https://me:x'hunter2@host/path\"", &[]),
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
        check_output(place, "the record", &ended);
        let kept = bench.run(&[&arguments(overrides)[..], &["--print-scenario"]].concat()).expect(0).stdout;
        check(place, "the scenario that is kept", &kept);
        assert!(kept.contains("***"), "{place}: {kept}");
        assert!(kept.parse::<toml::Table>().is_ok(), "{place}: {kept}");
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

/// Passwords with each printable character that is not a letter or a digit.
fn passwords() -> impl Iterator<Item = String> {
    let characters = (' '..='~').filter(|character| !character.is_ascii_alphanumeric());
    characters.map(|character| format!("zebra{character}giraffe"))
}

fn check_parts(password: &str, what: &str, text: &str) {
    for part in ["zebra", "giraffe"] {
        assert!(!text.contains(part), "{password} leaks through {what}:\n{text}");
    }
}

fn outputs(ended: &Finished) -> String {
    format!("{}{}", ended.stdout, ended.stderr)
}

#[test]
fn no_character_of_a_password_shows_it_in_a_check() {
    for password in passwords() {
        let url = format!("kafka://me:{password}@127.0.0.1:1/orders");
        check_parts(&password, "check URL", &outputs(&execute(&["check", &url])));
        // The port is wrong, so that an error shows the address.
        let url = format!("kafka://me:{password}@127.0.0.1:port/orders");
        check_parts(&password, "an error of check", &outputs(&execute(&["check", &url]).expect(2)));
        // A line that is not TOML is shown.
        let bench = Bench::new(&scenario(&format!("broker.security.sasl.password = \"{password}\" x")));
        check_parts(&password, "a line that is not TOML", &outputs(&checked(&bench, &[], &[]).expect(2)));
        let bench = Bench::new(&scenario("").replace("127.0.0.1:1", &format!("me:{password}@127.0.0.1:1")));
        check_parts(&password, "a refused address", &outputs(&checked(&bench, &[], &[]).expect(2)));
    }
}

/// The characters that end a string, a URL's user or a word.
#[test]
fn no_character_of_a_password_is_kept_by_a_run() {
    for password in passwords().filter(|password| password.contains(['\'', '"', '/', '?', ' ', '@', '#', '\\'])) {
        let url = format!("kafka://me:{password}@127.0.0.1:1/orders");
        let bench = Bench::new("");
        let results = bench.results();
        let output = ["--output", results.to_str().unwrap()];
        let set = format!("broker.security.sasl.password={password}");
        let run = [&["run", &url, "--messages", "1", "--json", "--set", &set][..], &output].concat();
        let ended = execute(&run).expect(1);
        check_parts(&password, "run", &outputs(&ended));
        let kept = execute(&[&run[..], &["--print-scenario"]].concat()).expect(0);
        check_parts(&password, "--print-scenario", &outputs(&kept));
        // A run that measured nothing leaves no directory: one as a run writes it.
        let directory = results.join("run");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("scenario.toml"), kept.stdout).unwrap();
        std::fs::write(directory.join("records.jsonl"), ended.stdout).unwrap();
        let run = directory.to_str().unwrap();
        for command in [&["show", run][..], &["show", run, "--json"], &["report", run], &["doctor", &url]] {
            check_parts(&password, command[0], &outputs(&execute(command)));
        }
        check_parts(&password, "the page", &std::fs::read_to_string(directory.join("report.html")).unwrap());
    }
}

#[test]
fn a_connection_string_of_event_hubs_is_a_password() {
    let key = "Endpoint=sb://ns.example/;SharedAccessKeyName=n;SharedAccessKey=zebra+c/giraffe=";
    let url = format!("event-hubs+tls://$ConnectionString:{key}@ns.example:9093/hub");
    let ended = execute(&["run", &url, "--print-scenario"]).expect(0);
    check_parts(key, "--print-scenario", &outputs(&ended));
    ended.says(&["addresses = [\"ns.example:9093\"]", "username = \"$ConnectionString\"", "name = \"hub\""]);
    // A password may not be taken for a host.
    let refused = execute(&["check", "kafka://me:1/zebra@h:1/giraffe"]).expect(2);
    assert!(!refused.stderr.contains("zebra"), "{}", refused.stderr);
    refused.complains_of(&["write / as %2F"]);
}
