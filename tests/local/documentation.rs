//! The commands and scenarios of the documentation are those of this build.

use std::path::{Path, PathBuf};

use brokermark::cli::Arguments;
use clap::Parser;

/// The pages, with the README first.
fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["docs", "docs/brokers", "docs/how-to"].map(|folder| root.join(folder));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let pages = std::iter::once(root.join("README.md"))
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

#[test]
fn every_command_is_one_of_this_build() {
    let mut commands = 0;
    for (path, text) in pages() {
        for block in blocks(&text, "sh") {
            for line in block.replace("\\\n", " ").lines().filter(|line| line.starts_with("brokermark ")) {
                // What goes into a file or another program is not the command's.
                let command = line.split(['>', '|']).next().unwrap_or_default();
                let parsed = Arguments::try_parse_from(words(command));
                assert!(parsed.is_ok(), "{}: {line}\n{}", path.display(), parsed.unwrap_err());
                commands += 1;
            }
        }
    }
    assert!(commands >= 30, "only {commands} commands were found");
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
