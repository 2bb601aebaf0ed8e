//! Directories of runs that are damaged, or were made to do harm: what reads them ends in time, in bounded memory and with a sentence, and
//! nothing in them reaches the terminal as more than text.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::shares::run_shares;
use crate::harness::{Bench, Finished, PATIENCE, Running};

/// The address space that a reader has, in KiB: a debug build with all brokers takes a few hundred megabytes of it.
const MAX_KIB: u64 = 3_000_000;

/// Sets a window's title, hides text, and turns its direction round.
const ESCAPES: &str = "\u{1b}]0;pwned\u{7}\u{1b}[8mhidden\u{9b}31m\u{202e}";

/// A histogram of 40 bytes that announces 4 GiB.
fn bomb() -> Value {
    json!("HISTE/////8AAAAAAAAAAwAAAAAAAAABAAADRjC4oAA/8AAAAAAAAA==")
}

/// As xorshift64*: the same numbers each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % bound as u64) as usize
    }

    fn one_of(&mut self, values: &[Value]) -> Value {
        values[self.below(values.len())].clone()
    }
}

/// Every value that is not a list or an object, with the name of its key.
fn leaves(value: &mut Value, name: &str, visit: &mut dyn FnMut(&str, &mut Value)) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|one| leaves(one, name, visit)),
        Value::Object(fields) => fields.iter_mut().for_each(|(key, one)| leaves(one, key, visit)),
        leaf => visit(name, leaf),
    }
}

/// Changes every line of every file of lines below `directory`.
fn change(directory: &Path, mut change: impl FnMut(&str, &mut Value)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            let mut changed = String::new();
            for line in fs::read_to_string(&path).unwrap().lines() {
                let mut line: Value = serde_json::from_str(line).unwrap();
                leaves(&mut line, "", &mut change);
                let line = line.to_string().replace(&format!("\"{BEYOND_DOUBLES}\""), "1e999");
                changed += &format!("{line}\n");
            }
            fs::write(&path, changed).unwrap();
        }
    }
}

/// Stands for a number that JSON has and no double: its quotes are taken off in the text.
const BEYOND_DOUBLES: &str = "number:1e999";

/// Another value, which the reader may not expect.
fn extreme(leaf: &Value, numbers: &mut Numbers) -> Value {
    let strings =
        [json!(ESCAPES), json!(""), bomb(), json!("x".repeat(100_000)), json!("../../../etc/passwd"), json!("NaN")];
    match leaf {
        Value::Number(number) if number.is_f64() => {
            let all = [0.0, -1.0, 1e308, f64::MAX, f64::MIN, 5e-324, 9e15, 1.8e19];
            numbers.one_of(&all.map(|one| json!(one)).into_iter().chain([json!(BEYOND_DOUBLES)]).collect::<Vec<_>>())
        }
        Value::Number(_) => {
            let all = [0, 1, 1_u64 << 32, 1 << 53, 1 << 63, u64::MAX].map(|one| json!(one));
            let others = [json!(-1), json!(i64::MIN), json!(0.5), json!(BEYOND_DOUBLES)];
            numbers.one_of(&all.into_iter().chain(others).collect::<Vec<_>>())
        }
        Value::String(_) => numbers.one_of(&strings),
        Value::Bool(is) => json!(!is),
        _ => numbers.one_of(&[
            json!(0),
            json!(1e308),
            json!(u64::MAX),
            json!(-1),
            json!(ESCAPES),
            json!([]),
            json!({}),
            json!(vec![0; 100_000]),
        ]),
    }
}

/// Gives three values of the records extreme ones.
fn make_extreme(directory: &Path, numbers: &mut Numbers) {
    let mut count = 0;
    change(directory, |_, _| count += 1);
    let chosen: Vec<usize> = (0..3).map(|_| numbers.below(count)).collect();
    let mut index = 0;
    change(directory, |_, leaf| {
        if chosen.contains(&index) {
            *leaf = extreme(leaf, numbers);
        }
        index += 1;
    });
}

fn copied(from: &Path, to: PathBuf) -> PathBuf {
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to
}

/// Runs `brokermark` with little memory, and checks how it ends: not by a signal, not by a panic, and with text alone.
fn read(arguments: &[&str]) -> Finished {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v \"$0\"; exec \"$@\"", &MAX_KIB.to_string(), env!("CARGO_BIN_EXE_brokermark")]);
    command.args(arguments).env("NO_COLOR", "1").env("COLUMNS", "100");
    let ended = Running::start(&mut command).finish(PATIENCE);
    assert!(matches!(ended.code, Some(0..=3)), "{arguments:?}: {:?}: {}", ended.code, ended.stderr);
    assert!(!ended.stderr.contains("panicked"), "{arguments:?}: {}", ended.stderr);
    let obeyed = |one: char| (one.is_control() && !"\n\t".contains(one)) || ('\u{202a}'..='\u{202e}').contains(&one);
    assert!(!ended.stdout.contains(obeyed), "{arguments:?}: {:?}", ended.stdout);
    ended
}

/// Two trials with everything that is kept.
fn run() -> (Bench, PathBuf) {
    let bench = Bench::new(
        "broker.kind = \"null\"
        consumers = {}
        load.rate = \"500/s\"
        payload = { size = \"64B\" }
        run = { duration = \"1s\", warm_up = \"200ms\" }
        output.formats = [\"hlog\"]
        sweep.trials = 2",
    );
    bench.run(&[]).expect(0);
    let directory = bench.run_directory();
    (bench, directory)
}

#[test]
fn no_escape_of_a_record_reaches_the_terminal() {
    let (bench, run) = run();
    let damaged = copied(&run, bench.path().join("escapes"));
    let texts =
        ["error", "first_message", "scenario_name", "server_version", "evidence", "advice", "client", "hostname"];
    let mut changed = 0;
    change(&damaged, |name, leaf| {
        if texts.contains(&name) && leaf.is_string() {
            *leaf = json!(format!("{}{ESCAPES}", leaf.as_str().unwrap()));
            changed += 1;
        }
    });
    assert!(changed > 0);
    let damaged = damaged.to_str().unwrap();
    let shown = read(&["show", damaged, "--trial", "1"]).stdout + &read(&["show", damaged]).stdout;
    assert!(shown.contains("\u{fffd}]0;pwned\u{fffd}"), "the text is still there: {shown}");
    read(&["compare", run.to_str().unwrap(), damaged]);
    read(&["list", bench.path().to_str().unwrap()]);
}

#[test]
fn a_histogram_that_announces_gigabytes_is_refused() {
    let (bench, run) = run();
    let damaged = copied(&run, bench.path().join("histogram"));
    change(&damaged, |name, leaf| {
        if name == "histogram" {
            *leaf = bomb();
        }
    });
    let bomb = bomb();
    let log = fs::read_to_string(damaged.join("latency.hlog")).unwrap();
    let line = |line: &str| match line.rsplit_once(',') {
        Some((head, _)) if line.starts_with("Tag=") => format!("{head},{}\n", bomb.as_str().unwrap()),
        _ => format!("{line}\n"),
    };
    fs::write(damaged.join("latency.hlog"), log.lines().map(line).collect::<String>()).unwrap();
    read_all(&bench, &damaged, &run);
}

#[test]
fn a_second_of_the_far_future_takes_no_memory() {
    let (bench, run) = run();
    for second in [1_u64 << 32, 1 << 53, u64::MAX] {
        let damaged = copied(&run, bench.path().join(format!("second-{second}")));
        change(&damaged, |name, leaf| {
            if name == "second" {
                *leaf = json!(second);
            }
        });
        read_all(&bench, &damaged, &run);
    }
}

/// Every command that reads a run.
fn read_all(bench: &Bench, damaged: &Path, whole: &Path) {
    let (damaged, whole) = (damaged.to_str().unwrap(), whole.to_str().unwrap());
    let page = bench.path().join("page.html");
    read(&["show", damaged]);
    read(&["show", damaged, "--trial", "2"]);
    read(&["show", damaged, "--format", "omb"]);
    read(&["report", damaged, "--output", page.to_str().unwrap()]);
    read(&["compare", whole, damaged]);
}

#[test]
fn records_with_extreme_values_are_read_or_refused() {
    let (bench, run) = run();
    let mut numbers = Numbers(0x5eed_2026);
    let sample: Value = serde_json::from_str(include_str!("../data/record.json")).unwrap();
    for number in 0..12 {
        let damaged = copied(&run, bench.path().join(format!("extreme-{number}")));
        // Half of them are the record that has every field.
        if number % 2 == 1 {
            fs::write(damaged.join("records.jsonl"), format!("{sample}\n")).unwrap();
        }
        make_extreme(&damaged, &mut numbers);
        read_all(&bench, &damaged, &run);
    }
}

#[test]
fn shares_with_extreme_values_are_merged_or_refused() {
    let bench = Bench::new(
        "broker.kind = \"null\"
        producers.count = 2
        load.rate = \"500/s\"
        run = { messages = 200, warm_up = \"0s\" }",
    );
    let shares = run_shares(&bench, 2, 2);
    let merged = |number: usize, share: &Path| {
        let output = bench.path().join(format!("merged-{number}"));
        let [one, other, output] = [share, &shares[1], &output].map(|path| path.to_str().unwrap());
        read(&["merge", one, other, "--output", output])
    };
    for (number, count) in [3_u64, 1 << 32, u64::MAX].into_iter().enumerate() {
        let share = |of: usize| {
            let damaged = copied(&shares[of], bench.path().join(format!("count-{number}-{of}")));
            change(&damaged, |name, leaf| {
                if name == "count" && *leaf == json!(2) {
                    *leaf = json!(count);
                }
            });
            damaged
        };
        let [one, other] = [share(0), share(1)];
        let output = bench.path().join(format!("counted-{number}"));
        let [one, other, output] = [&one, &other, &output].map(|path| path.to_str().unwrap());
        let ended = read(&["merge", one, other, "--output", output]);
        assert!(ended.stdout.contains("missing: 3") || ended.code != Some(0), "{}", ended.stdout);
    }
    let mut numbers = Numbers(0x5eed_2027);
    for number in 0..12 {
        let damaged = copied(&shares[0], bench.path().join(format!("share-{number}-damaged")));
        make_extreme(&damaged, &mut numbers);
        merged(number, &damaged);
    }
}
