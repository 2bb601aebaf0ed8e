use std::path::Path;

use super::*;
use crate::scenario::{Absent, Kinds, SaslMechanism, parse_for};

fn text_for(descriptor: &Descriptor) -> String {
    let mut text = Vec::new();
    write(descriptor, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// The key of a line, and of one that is a suggestion: a comment that is TOML.
fn key(line: &str) -> Option<&str> {
    let line = suggested(line).unwrap_or(line);
    line.split_once(" = ").map(|(key, _)| key)
}

fn suggested(line: &str) -> Option<&str> {
    line.strip_prefix("# ").filter(|toml| toml.parse::<toml::Table>().is_ok_and(|table| !table.is_empty()))
}

/// The keys that stand in backquotes after `word` in the comment of a line.
fn asked_for<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    let comment = line.get(2..).and_then(|line| line.split_once('#')).map_or("", |(_, comment)| comment);
    let after = comment.split(word).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('`'));
    after.filter_map(|rest| rest.split(['`', ' ']).next())
}

/// The suggested table that the line belongs to, if it is in one.
fn suggested_table(lines: &[&str], position: usize) -> Option<usize> {
    let mut above = (0..position).rev().take_while(|above| suggested(lines[*above]).is_some());
    above.find(|above| lines[*above].starts_with("# ["))
}

/// The scenario in which the suggestion at that line is followed, with what its comment asks for: another one (with `a`), or that a
/// key goes (remove `b`).
fn with_suggestion(text: &str, position: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut taken: Vec<usize> = std::iter::once(position).chain(suggested_table(&lines, position)).collect();
    let comments: Vec<&str> = taken.iter().map(|taken| lines[*taken]).collect();
    for with in comments.iter().flat_map(|comment| asked_for(comment, "with ")) {
        let other = lines.iter().position(|line| suggested(line).is_some() && key(line) == Some(with));
        taken.push(other.unwrap_or_else(|| panic!("no suggestion `{with}` in\n{text}")));
    }
    let removed: Vec<&str> = comments.iter().flat_map(|comment| asked_for(comment, "remove ")).collect();
    let kept = lines.iter().enumerate().filter_map(|(number, line)| match taken.contains(&number) {
        true => suggested(line),
        false if key(line).is_some_and(|key| removed.contains(&key)) => None,
        false => Some(*line),
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// As a build has it that was made without options: its librdkafka has no OpenSSL.
fn of_the_default_build(descriptor: &Descriptor) -> Descriptor {
    let mut descriptor = *descriptor;
    if descriptor.client == Some("librdkafka") {
        descriptor.capabilities.tls = false;
        descriptor.capabilities.sasl = &[SaslMechanism::Plain];
    }
    descriptor
}

#[test]
#[cfg(any(not(feature = "kafka"), feature = "kafka-native"))]
fn each_kinds_scenario_is_right_also_with_each_suggestion() {
    let kinds = engine::kinds();
    let brokers: Vec<Descriptor> = kinds.brokers.iter().map(of_the_default_build).collect();
    let absent = [Absent { kind: "kafka", client: Some("librdkafka"), security: true, feature: "kafka-tls" }];
    let kinds = Kinds { brokers: &brokers, absent: &absent, ..kinds };
    for kind in kinds.names() {
        let text = text_for(kinds.broker(kind).unwrap());
        let is_right = |text: &str| {
            let plan = parse_for(kinds, text, "new.toml", &[], Path::new("."));
            assert!(plan.is_ok(), "{kind}: {}\n{text}", plan.unwrap_err());
        };
        is_right(&text);
        let suggestions: Vec<usize> = text
            .lines()
            .enumerate()
            .filter(|(_, line)| suggested(line).is_some() && !line.starts_with("# ["))
            .map(|(position, _)| position)
            .collect();
        assert!(suggestions.len() >= 3, "{kind}: {suggestions:?}");
        suggestions.iter().for_each(|position| is_right(&with_suggestion(&text, *position)));
    }
}

#[test]
fn what_a_suggestion_asks_for_is_followed() {
    let text = "a = 1\n# b = 2  # with `c`; remove `a`\n# c = 3\n\n# [t]  # with `c = 3`\n# d = 4";
    assert_eq!(with_suggestion(text, 1), "b = 2  # with `c`; remove `a`\nc = 3\n\n# [t]  # with `c = 3`\n# d = 4");
    let with_table = with_suggestion(text, 5);
    assert!(
        with_table.starts_with("a = 1") && with_table.ends_with("c = 3\n\n[t]  # with `c = 3`\nd = 4"),
        "{with_table}"
    );
}
