//! The commands and scenarios of the documentation are those of this build.

mod planning;

use std::path::{Path, PathBuf};

use brokermark::broker::registry::find;
use brokermark::cli::Arguments;
use brokermark::engine::kinds;
use brokermark::scenario::parse_for;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use self::planning::{Files, is_planned, plan};
use crate::shipped::scenarios;

/// The pages, with the README first.
fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["docs", "docs/brokers", "docs/how-to"].map(|folder| root.join(folder));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let pages = ["README.md", "CONTRIBUTING.md"]
        .map(|page| root.join(page))
        .into_iter()
        .chain(files.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    pages.map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The blocks of a language, without the indentation of a list around them.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start() == format!("```{language}") {
            let indentation = line.len() - line.trim_start().len();
            let inside = lines.by_ref().take_while(|line| line.trim() != "```");
            let inside: Vec<&str> = inside.map(|line| line.get(indentation..).unwrap_or_default()).collect();
            blocks.push(inside.join("\n"));
        }
    }
    blocks
}

/// A command's words as a shell splits them, up to where it goes into a file or another program.
fn words(command: &str) -> Vec<String> {
    shlex::Shlex::new(command).take_while(|word| word != ">" && word != "|").collect()
}

/// The command of brokermark on a line of a shell, which another program may start: `mpirun brokermark run a.toml`.
fn command(line: &str) -> Option<String> {
    let line = line.trim();
    if let Some(options) = line.strip_prefix("cargo run ") {
        return Some(format!("brokermark {}", options.split_once(" -- ")?.1));
    }
    let starter = line.split_once("brokermark ").map(|(starter, _)| starter)?;
    let is_started = starter.is_empty() || starter.ends_with(' ') && !starter.starts_with('#');
    let rest = line[starter.len()..].strip_prefix("brokermark ").filter(|_| is_started)?;
    let first = rest.split(' ').next().unwrap_or_default();
    let is_verb = first.starts_with('-') || Arguments::command().find_subcommand(first).is_some();
    // What comes before it may take it for a name: `docker build --tag brokermark .`
    (starter.is_empty() || is_verb).then(|| format!("brokermark {rest}"))
}

/// Also whether its scenario, with everything that it overrides, can be planned.
fn assert_is_a_command(place: &Path, command: &str, files: &Files) {
    let words = words(command);
    let parsed = Arguments::try_parse_from(files.placed(&words));
    assert!(parsed.is_ok(), "{}: {command}\n{}", place.display(), parsed.unwrap_err());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in words.iter().filter(|word| word.starts_with("configs/")) {
        assert!(root.join(file).is_file(), "{}: {command}", place.display());
    }
    if let Some(Err(refusal)) = plan(&parsed.unwrap()).filter(|_| is_planned(&words)) {
        panic!("{}: {command}\n{refusal}", place.display());
    }
}

fn files_of(text: &str) -> Files {
    Files::of(blocks(text, "sh").iter().flat_map(|block| block.lines()))
}

#[test]
fn every_command_is_one_of_this_build() {
    let mut commands = 0;
    for (path, text) in pages() {
        let files = files_of(&text);
        for block in blocks(&text, "sh") {
            for command in block.replace("\\\n", " ").lines().filter_map(command) {
                assert_is_a_command(&path, &command, &files);
                commands += 1;
            }
        }
    }
    assert!(commands >= 30, "only {commands} commands were found");
}

/// A command in the middle of a sentence may leave out what it is about.
#[test]
fn every_command_of_a_sentence_is_one_of_this_build() {
    let mut commands = 0;
    for (path, text) in pages() {
        let (prose, files) = (text.split("```").step_by(2).collect::<String>(), files_of(&text));
        for command in prose.split('`').skip(1).step_by(2).filter_map(command) {
            if command.contains(['…', '\n']) {
                continue;
            }
            let words = words(&command);
            let parsed = Arguments::try_parse_from(files.placed(&words));
            let planned = parsed.as_ref().ok().filter(|_| is_planned(&words)).and_then(plan);
            if let Some(Err(refusal)) = planned {
                panic!("{}: {command}\n{refusal}", path.display());
            }
            let error = parsed.err().map(|error| error.kind());
            let is_known = match error {
                None
                | Some(ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => true,
                // An option without its value.
                Some(ErrorKind::InvalidValue) => words.last().is_some_and(|last| last.starts_with("--")),
                Some(_) => false,
            };
            assert!(is_known, "{}: {command}: {error:?}", path.display());
            commands += 1;
        }
    }
    assert!(commands >= 20, "only {commands} commands were found");
}

#[test]
fn every_command_above_a_scenario_is_one_of_this_build() {
    let mut commands = 0;
    for path in scenarios(&Path::new(env!("CARGO_MANIFEST_DIR")).join("configs")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let above = text.lines().filter_map(|line| line.strip_prefix('#')).filter(|line| line.starts_with("   "));
        for command in above.filter_map(command).filter(|command| !command.contains('…')) {
            assert_is_a_command(&path, &command, &Files::of(std::iter::empty()));
            commands += 1;
        }
    }
    assert!(commands >= 10, "only {commands} commands were found");
}

/// Whole scenarios and parts of them: every key and every value is one of the language. What a part leaves out is not missed, and
/// files that it names need not be there.
#[test]
fn every_scenario_is_of_the_language() {
    const WRONG: &[&str] = &[
        "unknown key",
        "unknown value",
        "unknown kind",
        "unknown client",
        "unknown metric",
        "unknown unit",
        "should be",
        "cannot be \"",
        "is not a ",
        "has no unit",
        "unknown field",
    ];
    let mut parts = 0;
    // The reference has a test of its own, and one page shows what Cargo.toml needs.
    let others =
        pages().into_iter().filter(|(path, _)| !path.ends_with("SCENARIO.md") && !path.ends_with("ADDING-A-BROKER.md"));
    for (path, text) in others {
        for block in blocks(&text, "toml") {
            let table: Result<toml::Table, _> = toml::from_str(&block);
            let mut table = table.unwrap_or_else(|error| panic!("{}: {error}\n{block}", path.display()));
            let own =
                path.parent().filter(|folder| folder.ends_with("brokers")).and_then(|_| path.file_stem()?.to_str());
            let broker = table.entry("broker").or_insert_with(|| toml::Table::new().into());
            let kind = toml::Value::String(own.unwrap_or("kafka").to_owned());
            broker.as_table_mut().unwrap().entry("kind").or_insert(kind);
            let known = broker["kind"].as_str().and_then(find).is_some();
            if !known {
                continue;
            }
            let text = toml::to_string(&table).unwrap();
            let refused = parse_for(kinds(), &text, "page", &[], Path::new(".")).err();
            let refused = refused.map(|error| error.to_string()).unwrap_or_default();
            assert!(!WRONG.iter().any(|wrong| refused.contains(wrong)), "{}: {refused}\n{block}", path.display());
            parts += 1;
        }
    }
    assert!(parts >= 5, "only {parts} were found");
}

#[test]
fn every_script_of_a_command_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut scripts = 0;
    for (path, text) in pages() {
        for block in blocks(&text, "sh") {
            let first = block.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned));
            for script in first.filter(|word| word.starts_with("scripts/") || word.starts_with(".ci/")) {
                assert!(root.join(&script).is_file(), "{}: {script}", path.display());
                scripts += 1;
            }
        }
    }
    assert!(scripts >= 1);
}

/// The names by which GitHub links to the headings of a page: in small letters, without punctuation, with hyphens for blanks.
fn anchors(text: &str) -> Vec<String> {
    let titles = text.split("```").step_by(2).flat_map(str::lines).filter(|line| line.starts_with('#'));
    let anchor = |title: &str| {
        let kept = title.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        kept.chars().filter(|one| one.is_alphanumeric() || "-_".contains(*one)).collect()
    };
    titles.map(anchor).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut headings = 0;
    for (path, text) in pages() {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{} links to {file}", path.display());
            if !anchor.is_empty() {
                let found = anchors(&std::fs::read_to_string(&target).unwrap());
                assert!(found.iter().any(|found| found == anchor), "{} links to {link}", path.display());
                headings += 1;
            }
        }
    }
    assert!(headings >= 30, "only {headings} links to headings were found");
}

#[test]
fn every_file_of_this_repository_that_a_page_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = 0;
    for (path, text) in pages() {
        for name in text.split('`').skip(1).step_by(2) {
            let folders = ["src/", "tests/", "scripts/", "configs/", "benches/", "docs/", "results/"];
            let is_pattern = name.contains(['*', '<', '…', '{', ' ']);
            if is_pattern || !folders.iter().any(|folder| name.starts_with(folder)) {
                continue;
            }
            assert!(root.join(name).exists(), "{} names {name}", path.display());
            named += 1;
        }
    }
    assert!(named >= 20, "only {named} files were found");
}

#[test]
fn a_command_is_found_behind_what_starts_it() {
    assert_eq!(command("mpirun -n 3 brokermark run a.toml").as_deref(), Some("brokermark run a.toml"));
    assert_eq!(command("cargo run --release -- check a.toml").as_deref(), Some("brokermark check a.toml"));
    assert_eq!(command("docker build --tag brokermark ."), None);
    assert_eq!(command("# brokermark run a.toml"), None);
}

/// The test of the documentation is one of keys and values too.
#[test]
fn a_wrong_key_or_value_of_a_command_is_found() {
    let files = Files::of(["brokermark new pulsar > mine.toml"].into_iter());
    let refused = |command: &str| {
        let arguments = Arguments::try_parse_from(files.placed(&words(command))).unwrap();
        plan(&arguments).unwrap().err().unwrap_or_else(|| panic!("{command} is accepted"))
    };
    for (command, names) in [
        ("brokermark run orders.toml --set producers.cuont=1", "cuont"),
        ("brokermark run orders.toml --set run.duration=1parsec", "parsec"),
        ("brokermark check 'kafka://a?ack=1'", "`ack`"),
        ("brokermark doctor 'kafka://a?acks=9'", "cannot be 9"),
        ("brokermark run orders.toml --against-set broker.kafka.acks=9", "--against-set"),
        ("brokermark search orders.toml --require 'p99 < 20'", "--require"),
        ("brokermark ceiling mine.toml --set broker.kafka.acks=1", "pulsar"),
    ] {
        let refusal = refused(command);
        assert!(refusal.contains(names), "{command}: {refusal}");
    }
}
