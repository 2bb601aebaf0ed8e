//! `scripts/book`: that the pages are what the measured book gives, and that its parts are listed, kept and refused as they should be.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Two rounds of two tools, as compare-peers writes them. brokermark sends 1.21 and 1.44 times as many messages, with half of the CPU.
const COMPARED: &str = r#"{
    "broker": "nsq", "setting": "writer: 100 B", "workload": {"messages": 6000000}, "ratios": {"brokermark": {}},
    "summary": {"brokermark": {"messages/s": {"median": 1325.0}}},
    "runs": [
        {"tool": "brokermark", "round": 1, "messages_per_second": 1210.0, "cpu_microseconds_per_message": 0.1, "busy_cores_before": 0.0},
        {"tool": "bench_writer", "round": 1, "messages_per_second": 1000.0, "cpu_microseconds_per_message": 0.2, "busy_cores_before": 0.0},
        {"tool": "brokermark", "round": 2, "messages_per_second": 1440.0, "cpu_microseconds_per_message": 0.1, "busy_cores_before": 0.0},
        {"tool": "bench_writer", "round": 2, "messages_per_second": 1000.0, "cpu_microseconds_per_message": 0.2, "busy_cores_before": 0.0}
    ]
}"#;
const MACHINE: &str = r#"{
    "cpu_model": "A", "cores": 2, "memory_bytes": 1073741824, "operating_system": "B", "kernel": "C", "brokermark_version": "1",
    "brokermark_commit": "D", "rust_compiler": "E", "servers": {"nsq": "1.3.0"}, "quick": QUICK
}"#;
const PAGE: &str = "# A page\n\n<!-- book: REGION -->\n\n<!-- end -->\n\n<!-- older: PARTS -->\n\nolder figures\n\n<!-- end -->\n\nThe end.\n";

fn book(arguments: &[&str]) -> Output {
    book_of(env!("CARGO_BIN_EXE_brokermark").as_ref(), arguments)
}

/// What it says with another program to be measured.
fn book_of(program: &Path, arguments: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/book");
    let mut python = Command::new("python3");
    python
        .arg(script)
        .args(arguments)
        .env("BROKERMARK", program)
        .output()
        .expect("python3 cannot be run: the scripts need it")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

/// A repository of three pages and a book with one part.
struct Repository {
    root: TempDir,
}

impl Repository {
    fn new(quick: bool) -> Self {
        let root = tempfile::tempdir().unwrap();
        let pages = [
            ("README.md", "readme", "peers/nsq-writer"),
            ("docs/PEERS.md", "peers/nsq", "peers/nsq-writer, peers/nsq-both"),
            ("results/README.md", "folder", "peers/nsq-writer"),
        ];
        for (page, region, parts) in pages {
            write(&root.path().join(page), &PAGE.replace("REGION", region).replace("PARTS", parts));
        }
        let repository = Repository { root };
        write(&repository.folder().join("machine.json"), &MACHINE.replace("QUICK", &quick.to_string()));
        repository.keep(COMPARED);
        repository
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("results/2026-01-01-a")
    }

    fn keep(&self, compared: &str) {
        let part = format!(r#"{{"part": "peers/nsq-writer", "status": "done", "seconds": 7, "result": {compared}}}"#);
        write(&self.folder().join("peers/nsq-writer/part.json"), &part);
    }

    fn page(&self, name: &str) -> String {
        fs::read_to_string(self.root.path().join(name)).unwrap()
    }

    fn write(&self, options: &[&str]) -> Output {
        book(&[&["write", "--pages", self.root.path().to_str().unwrap()], options].concat())
    }
}

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text).unwrap();
}

#[test]
fn the_pages_of_this_repository_are_what_its_book_gives() {
    let output = book(&["write", "--check"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn a_book_gives_its_ratios_with_intervals_and_names_what_it_lacks() {
    let repository = Repository::new(false);
    assert!(repository.write(&[]).status.success());

    // √(1.21 × 1.44) = 1.32; ln 1.44 − ln 1.21 = 0.174, so the logarithms' standard error is 0.087, times 12.706 is 1.106.
    let peers = repository.page("docs/PEERS.md");
    for part in [
        "| writer: 100 B; 6,000,000 messages | brokermark / bench_writer | 1.32 (0.44–3.99) | 0.50 (0.50–0.50) |",
        "brokermark is behind, or not told apart: `writer`, brokermark / bench_writer: messages/s 1.32 (0.44–3.99).",
        "Not measured in this book yet: `peers/nsq-both`",
        "older figures", // one of its parts is not measured
        "\nThe end.\n",
    ] {
        assert!(peers.contains(part), "{part} in {peers}");
    }
    let readme = repository.page("README.md");
    assert!(readme.contains("1.32 (0.44–3.99)") && readme.contains("NSQ 1.3.0"), "{readme}");
    assert!(readme.contains("not measured in this book yet"), "{readme}");
    assert!(!readme.contains("older figures"), "{readme}");
}

#[test]
fn a_figure_that_changes_is_named_with_its_page_and_region() {
    let repository = Repository::new(false);
    assert!(repository.write(&[]).status.success());
    let output = repository.write(&["--check"]);
    assert!(output.status.success(), "{}", said(&output));

    repository.keep(&COMPARED.replace("1440.0", "1450.0"));
    let before = repository.page("docs/PEERS.md");
    let output = repository.write(&["--check"]);
    assert_eq!(output.status.code(), Some(1));
    for place in ["docs/PEERS.md: book peers/nsq", "README.md: book readme"] {
        assert!(said(&output).contains(place), "{place} in {}", said(&output));
    }
    assert!(!said(&output).contains("results/README.md"), "{}", said(&output));
    assert_eq!(repository.page("docs/PEERS.md"), before, "--check has changed the page");
}

#[test]
fn figures_of_a_trial_of_the_machinery_are_refused() {
    let repository = Repository::new(true);
    let output = repository.write(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("--quick"), "{}", said(&output));
    assert!(repository.page("README.md").contains("older figures"));
}

#[test]
fn the_plan_says_what_is_done() {
    let state = |folder: &Path, part: &str| {
        let output = book(&["plan", "--folder", folder.to_str().unwrap()]);
        assert!(output.status.success(), "{}", said(&output));
        let text = said(&output);
        let line = text.lines().find(|line| line.starts_with(part)).unwrap_or_else(|| panic!("no {part} in {text}"));
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let empty = tempfile::tempdir().unwrap();
    let repository = Repository::new(false);
    for part in ["peers/nsq-writer", "trust/null-slowdown", "scale/null-producers", "published/nsq-pub", "soak/kafka"] {
        assert_eq!(state(empty.path(), part), "open", "{part}");
    }
    assert_eq!(state(&repository.folder(), "peers/nsq-writer"), "done");
    assert_eq!(state(&repository.folder(), "peers/nsq-both"), "open");
}

/// Seconds in which nothing was acknowledged would make a minute with an outage the fastest.
#[test]
fn a_minute_of_a_soak_has_the_median_of_the_percentiles_that_there_are() {
    let program = r#"
from soak_parts import per_minute
row = {"phase": "measure", "full": True, "acknowledged": 1, "memory_bytes": 1}
for found in ([None, None, 5, 7], [None] * 4):
    [minute] = per_minute([row | {"p99_ns": p99_ns} for p99_ns in found], 4)
    print(minute["p99_median_ns"], minute["p99_highest_ns"])
"#;
    assert_eq!(said_by(program), "6.0 7\nNone None\n");
}

/// It is read on other machines.
#[test]
fn a_page_names_files_without_the_folders_that_they_were_in() {
    let program = r#"
from program import without_folders
print(without_folders("<dt>command</dt><dd>/a/b/brokermark run /a/c.toml --set d=e/f</dd> /g/h"))
"#;
    assert_eq!(said_by(program), "<dt>command</dt><dd>brokermark run c.toml --set d=e/f</dd> /g/h\n");
}

/// What a program that uses the book's modules prints.
fn said_by(program: &str) -> String {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts");
    let mut python = Command::new("python3");
    let begin = "import sys\nsys.dont_write_bytecode = True\nsys.path[:0] = sys.argv[1:]";
    python.args(["-c", &format!("{begin}{program}")]).args(["book.d", "peers.d"].map(|modules| scripts.join(modules)));
    let output = python.output().expect("python3 cannot be run: the scripts need it");
    said(&output)
}

#[test]
#[cfg(unix)]
fn a_part_that_fails_is_kept_with_its_reason_and_the_next_one_is_begun() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    // It can be asked for the machine, and runs no two sides in turn.
    let real = env!("CARGO_BIN_EXE_brokermark");
    let refusing = "case \"$*\" in *--against*) echo the disk is full >&2; exit 1 ;; esac";
    write(&program, &format!("#!/bin/sh\n{refusing}\nexec '{real}' \"$@\"\n"));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let kept = folder.path().join("book");
    let only = "trust/null-slowdown,trust/null-aa";
    let output = book_of(&program, &["measure", "--quick", "--only", only, "--folder", kept.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    for part in ["trust/null-slowdown", "trust/null-aa"] {
        let text = fs::read_to_string(kept.join(part).join("part.json"))
            .unwrap_or_else(|error| panic!("{error}: {}", said(&output)));
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(record["status"], "failed", "{record}");
        assert!(record["error"].as_str().unwrap().contains("the disk is full"), "{record}");
    }
}
