//! The commands and scenarios of the documentation are those of this build.

use std::path::{Path, PathBuf};

use brokermark::broker::registry::find;
use brokermark::cli::Arguments;
use brokermark::engine::kinds;
use brokermark::scenario::parse_for;
use clap::Parser;
use clap::error::ErrorKind;

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

/// A command's words as a shell splits them: quotes are taken away, and a comment ends the line.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for character in command.chars() {
        match (quote, character) {
            (Some(open), character) if character == open => quote = None,
            (Some(_), character) => word.push(character),
            (None, '\'' | '"') => (quote, begun) = (Some(character), true),
            (None, '#') if word.is_empty() => break,
            (None, ' ') if begun || !word.is_empty() => {
                words.push(std::mem::take(&mut word));
                begun = false;
            }
            (None, ' ') => {}
            (None, character) => word.push(character),
        }
    }
    if begun || !word.is_empty() {
        words.push(word);
    }
    words
}

/// The command of brokermark on a line of a shell, without what goes into a file or another program.
fn command(line: &str) -> Option<String> {
    let line = line.trim_start();
    let rest = match line.strip_prefix("cargo run ") {
        Some(options) => options.split_once(" -- ")?.1,
        None => line.strip_prefix("brokermark ")?,
    };
    let end = rest.split(['>', '|']).next().unwrap_or_default();
    Some(format!("brokermark {}", end.trim_end()))
}

fn assert_is_a_command(place: &Path, command: &str) {
    let words = words(command);
    let parsed = Arguments::try_parse_from(&words);
    assert!(parsed.is_ok(), "{}: {command}\n{}", place.display(), parsed.unwrap_err());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for file in words.iter().filter(|word| word.starts_with("configs/")) {
        assert!(root.join(file).is_file(), "{}: {command}", place.display());
    }
}

#[test]
fn every_command_is_one_of_this_build() {
    let mut commands = 0;
    for (path, text) in pages() {
        for block in blocks(&text, "sh") {
            for command in block.replace("\\\n", " ").lines().filter_map(command) {
                assert_is_a_command(&path, &command);
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
        let prose = text.split("```").step_by(2).collect::<String>();
        for command in prose.split('`').skip(1).step_by(2).filter_map(command) {
            if command.contains(['…', '\n']) {
                continue;
            }
            let error = Arguments::try_parse_from(words(&command)).err().map(|error| error.kind());
            let is_known = match error {
                None
                | Some(ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => true,
                // An option without its value.
                Some(ErrorKind::InvalidValue) => words(&command).last().is_some_and(|last| last.starts_with("--")),
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
            assert_is_a_command(&path, &command);
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

#[test]
fn every_file_that_a_page_links_to_is_there() {
    for (path, text) in pages() {
        let folder = path.parent().unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.contains(char::is_whitespace) {
                continue;
            }
            assert!(folder.join(file).exists(), "{} links to {file}", path.display());
        }
    }
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
fn words_are_split_as_a_shell_splits_them() {
    assert_eq!(
        words("run a.toml --set 'x={ \"a\" = [1, 2] }' # why"),
        ["run", "a.toml", "--set", "x={ \"a\" = [1, 2] }"]
    );
    assert_eq!(words("run \"kafka://a?b=c#d\"  ''"), ["run", "kafka://a?b=c#d", ""]);
}
