//! The values of `present` as HTML. All text is escaped here.

use super::svg::{escape, marked};
use super::tiles::Tile;
use crate::present::{Align, Answer, Fact, Finding, Summary, Table, Tone};

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Doubtful => "doubt",
        Tone::Plain | Tone::Strong | Tone::Faint => "plain",
    }
}

/// The head of a page: the sentence, its answers, and the largest figures.
pub fn head(summary: &Summary, tiles: &[Tile]) -> String {
    let answer = |Answer { question, tone, word, evidence }: &Answer| {
        format!(
            "<div class=\"answer {}\"><h2>{question}</h2><p class=\"word\"><span aria-hidden=\"true\">{}</span> {}</p><p>{}</p></div>",
            class(*tone),
            tone.mark(),
            escape(word),
            marked(evidence)
        )
    };
    let tiles: String = tiles.iter().map(Tile::html).collect();
    let tiles = if tiles.is_empty() { tiles } else { format!("<dl class=\"tiles\">{tiles}</dl>") };
    let context = std::iter::once(summary.name.as_str()).chain(summary.context.iter().map(String::as_str));
    let ran = if summary.ran.is_empty() {
        String::new()
    } else {
        format!("<p class=\"ran\">{}</p>", together(&escape(&summary.ran.join(" · "))))
    };
    format!(
        "<header><p class=\"context\">{}</p><h1>{}</h1>{ran}<div class=\"answers\">{}</div>{tiles}</header>",
        escape(&context.collect::<Vec<_>>().join(" · ")),
        together(&escape(&summary.sentence)),
        summary.answers.iter().map(answer).collect::<String>(),
    )
}

/// Keeps a number and its unit in one line, and a value with the sign before it.
fn together(text: &str) -> String {
    let mut last = ' ';
    text.chars()
        .map(|letter| {
            let kept = if letter == ' ' && (last.is_ascii_digit() || last == '=') { '\u{a0}' } else { letter };
            last = letter;
            kept
        })
        .collect()
}

/// Nothing without findings.
pub fn findings(findings: &[Finding]) -> String {
    let item = |finding: &Finding| {
        let aside = [finding.id.as_str(), finding.trials.as_str()];
        let aside: Vec<&str> = aside.into_iter().filter(|text| !text.is_empty()).collect();
        let aside =
            if aside.is_empty() { String::new() } else { format!(" <small>{}</small>", escape(&aside.join(" · "))) };
        let advice = if finding.advice.is_empty() {
            String::new()
        } else {
            format!(" <span class=\"advice\">{}</span>", marked(&finding.advice))
        };
        format!(
            "<li class=\"{}\"><b><span aria-hidden=\"true\">{}</span> {}</b>{aside}<p>{}{advice}</p></li>",
            class(finding.tone),
            finding.tone.mark(),
            escape(&finding.title),
            marked(&finding.evidence)
        )
    };
    let items: String = findings.iter().map(item).collect();
    if items.is_empty() { items } else { format!("<ul class=\"findings\">{items}</ul>") }
}

pub fn facts(facts: &[Fact]) -> String {
    let item = |fact: &Fact| {
        let sentences: Vec<String> = fact.sentences.iter().map(|sentence| escape(sentence)).collect();
        format!("<dt>{}</dt><dd>{}</dd>", escape(&fact.label), sentences.join("<br>"))
    };
    format!("<dl class=\"facts\">{}</dl>", facts.iter().map(item).collect::<String>())
}

pub fn paragraph(text: &str) -> String {
    format!("<p>{}</p>", escape(text))
}

pub fn note(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("<p class=\"note\">{}</p>", escape(text)) }
}

/// A table under its title; nothing without rows.
pub fn table(table: &Table) -> String {
    let rows = table.rows();
    if rows == 0 {
        return String::new();
    }
    let align = |align: Align| if align == Align::Left { " class=t" } else { "" };
    // A key may break behind its dots.
    let heads = table.columns.iter().map(|column| {
        format!(
            "<th{}>{}</th>",
            align(column.align),
            escape(column.title.trim()).replace('.', ".<wbr>").replace(".<wbr>9", ".9")
        )
    });
    let row = |row: usize| {
        let cell = |text: &str| escape(text.trim_end());
        let cells = table.columns.iter().map(|column| {
            let text = column.cells.get(row).map_or("", |(_, text)| text);
            format!("<td{}>{}</td>", align(column.align), cell(text))
        });
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let title = if table.title.is_empty() { String::new() } else { format!("<h3>{}</h3>", escape(&table.title)) };
    // A wide table scrolls by itself, by the keyboard as well.
    format!(
        "{title}{}<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        note(&table.note),
        heads.collect::<String>(),
        (0..rows).map(row).collect::<String>()
    )
}

/// A table as rows that the reader may unfold; nothing without rows.
pub fn folded_table(table: &Table) -> String {
    if table.rows() == 0 {
        return String::new();
    }
    format!("<details><summary>Values</summary>{}</details>", self::table(table))
}
