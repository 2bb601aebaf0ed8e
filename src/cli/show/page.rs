//! Text for a terminal of some width, with or without colour: lines, and the values of [`present`](crate::present).

use std::borrow::Cow;
use std::fmt::Write;
use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

use crate::present::{Align, Column, Fact, Finding, Summary, Table, Tone, uncapital};
use crate::printable::{printable, printable_paint};

/// Width of a file or a pipe.
const WIDTH_OF_A_FILE: usize = 100;
/// Narrower than this, words do not fit.
const MIN_WIDTH: usize = 20;
/// Text beside a label has so much room; with less, it stands below the label.
const MIN_BESIDE: usize = 24;
/// Indentation of such text.
const INDENT_BELOW: usize = 2;
/// Wider than this, lines are hard to read.
const MAX_WIDTH: usize = 120;
/// Blanks between columns.
const GAP: usize = 2;
/// Columns that labels at the left take.
pub(in crate::cli) const LABEL_WIDTH: usize = 13;

/// How wide and how colourful, and whether with charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct View {
    pub width: usize,
    pub colour: bool,
    pub charts: bool,
    /// Whether to tell all that is known.
    pub details: bool,
}

/// When charts are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Charts {
    /// On a terminal whose characters include those that charts are drawn with
    #[default]
    Auto,
    /// Also into files and pipes
    Always,
    Never,
}

impl View {
    /// What suits standard output: coloured only on a terminal, and not where `NO_COLOR` is set (no-color.org).
    pub fn for_stdout() -> Self {
        View::new(std::io::stdout().is_terminal())
    }

    /// The same for standard error.
    pub fn for_stderr() -> Self {
        View::new(std::io::stderr().is_terminal())
    }

    /// The same with charts as asked for.
    pub fn with_charts(self, charts: Charts) -> Self {
        let charts = match charts {
            Charts::Auto => self.charts,
            Charts::Always => true,
            Charts::Never => false,
        };
        View { charts, ..self }
    }

    fn new(terminal: bool) -> Self {
        let of_kind =
            |kinds: &[&str]| std::env::var_os("TERM").is_some_and(|term| kinds.iter().any(|kind| term == *kind));
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) || of_kind(&["dumb"]);
        let width = if terminal { terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)) } else { None };
        View {
            width: width.unwrap_or(WIDTH_OF_A_FILE).clamp(MIN_WIDTH, MAX_WIDTH),
            colour: terminal && !plain,
            // The fonts of Linux' own console have no braille.
            charts: terminal && !of_kind(&["dumb", "linux"]),
            details: false,
        }
    }
}

/// Lines in the making.
pub(in crate::cli) struct Page {
    view: View,
    text: String,
}

impl Page {
    pub(in crate::cli) fn write(view: View, write: impl FnOnce(&mut Page)) -> String {
        let mut page = Page { view, text: String::new() };
        write(&mut page);
        // Texts of brokers and of files are among it.
        let cleaned = if view.colour { printable_paint(&page.text) } else { printable(&page.text) };
        match cleaned {
            Cow::Owned(cleaned) => cleaned,
            Cow::Borrowed(_) => page.text,
        }
    }

    pub(in crate::cli) fn width(&self) -> usize {
        self.view.width
    }

    pub(in crate::cli) fn has_charts(&self) -> bool {
        self.view.charts
    }

    pub(in crate::cli) fn has_details(&self) -> bool {
        self.view.details
    }

    pub(in crate::cli) fn paint(&self, tone: Tone, text: &str) -> String {
        let style = match tone {
            _ if !self.view.colour => return text.to_owned(),
            Tone::Plain => return text.to_owned(),
            Tone::Strong => Style::new().bold(),
            Tone::Faint => Style::new().dimmed(),
            Tone::Good => AnsiColor::Green.on_default().bold(),
            Tone::Doubtful => AnsiColor::Yellow.on_default(),
            Tone::Bad => AnsiColor::Red.on_default().bold(),
        };
        format!("{style}{text}{style:#}")
    }

    pub(in crate::cli) fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    pub(in crate::cli) fn blank(&mut self) {
        self.text.push('\n');
    }

    /// Text wrapped at words, every line indented.
    pub(in crate::cli) fn paragraph(&mut self, indent: usize, text: &str) {
        for line in wrap(text, self.view.width.saturating_sub(indent)) {
            self.line(&format!("{:indent$}{line}", ""));
        }
    }

    /// Faint text, wrapped at words.
    pub(in crate::cli) fn faint(&mut self, text: &str) {
        for line in wrap(text, self.view.width) {
            let line = self.paint(Tone::Faint, &line);
            self.line(&line);
        }
    }

    /// A faint label, and text wrapped beside it.
    pub(in crate::cli) fn labelled(&mut self, label: &str, text: &str) {
        let gap = LABEL_WIDTH.saturating_sub(label.chars().count()).max(if label.is_empty() { 0 } else { GAP });
        self.led(&format!("{label}{:gap$}", ""), Tone::Faint, text);
    }

    /// Of each fact its first sentences, the first one beside its label.
    pub(in crate::cli) fn facts(&mut self, facts: &[Fact]) {
        for Fact { label, sentences, most } in facts {
            for (index, sentence) in sentences.iter().take(*most).enumerate() {
                self.labelled(if index == 0 { label } else { "" }, sentence);
            }
            if sentences.len() > *most {
                self.labelled("", &format!("and {} more", sentences.len() - most));
            }
        }
    }

    /// The headline with its answers.
    pub(in crate::cli) fn summary(&mut self, summary: &Summary) {
        let name = self.paint(Tone::Strong, &summary.name);
        self.line(&format!("{name}  {}", summary.context.join(" · ")));
        self.paragraph(0, &summary.sentence);
        if !summary.ran.is_empty() {
            self.faint(&summary.ran.join(" · "));
        }
        for answer in &summary.answers {
            let word = uncapital(&answer.word);
            match answer.tone {
                Tone::Plain => self.labelled("limited by", &format!("{word}. {}", answer.evidence)),
                tone => self.led(&format!("{} {word}  ", tone.mark()), tone, &answer.evidence),
            }
        }
    }

    /// Each with its mark, and what to do below it.
    pub(in crate::cli) fn findings(&mut self, findings: &[Finding]) {
        for finding in findings {
            let name = if finding.id.is_empty() { &finding.title } else { &finding.id };
            let trials = if finding.trials.is_empty() { String::new() } else { format!(" ({})", finding.trials) };
            self.led(&format!("  {:1} {name}{trials}  ", finding.tone.mark()), finding.tone, &finding.evidence);
            if !finding.advice.is_empty() {
                self.led("    → ", Tone::Faint, &finding.advice);
            }
        }
    }

    /// Columns side by side under their titles, of which the least important give way when the terminal is narrow.
    pub(in crate::cli) fn table(&mut self, table: &Table) {
        if table.rows() == 0 {
            return;
        }
        if !table.note.is_empty() {
            self.faint(&table.note);
        }
        let mut columns: Vec<&Column> = table.columns.iter().collect();
        let total = |columns: &[&Column]| {
            columns.iter().map(|column| column.width()).sum::<usize>() + GAP * columns.len().saturating_sub(1)
        };
        while total(&columns) > self.width() {
            let least = columns.iter().enumerate().filter(|(_, column)| column.rank < Column::KEEP);
            // Of the same rank, the right one gives way.
            let least = least.min_by_key(|(index, column)| (column.rank, usize::MAX - index)).map(|(index, _)| index);
            let Some(index) = least else { break };
            columns.remove(index);
        }
        let line = |page: &Page, cell: &dyn Fn(&Column) -> (Tone, String)| {
            let padded = columns.iter().map(|column| {
                let (tone, text) = cell(column);
                let blanks = " ".repeat(column.width().saturating_sub(text.chars().count()));
                let text = page.paint(tone, &text);
                if column.align == Align::Left { text + &blanks } else { blanks + &text }
            });
            padded.collect::<Vec<_>>().join(&" ".repeat(GAP))
        };
        let titles = line(self, &|column| (Tone::Faint, column.title.clone()));
        self.line(&titles);
        for row in 0..table.rows() {
            let cells = line(self, &|column| column.cells.get(row).cloned().unwrap_or((Tone::Plain, String::new())));
            self.line(&cells);
        }
    }

    /// A lead, and text wrapped beside it.
    pub(in crate::cli) fn led(&mut self, lead: &str, tone: Tone, text: &str) {
        let indent = lead.chars().count();
        if indent > INDENT_BELOW && !text.is_empty() && self.view.width < indent + MIN_BESIDE {
            let lead = self.paint(tone, lead.trim_end());
            self.line(&lead);
            return self.paragraph(INDENT_BELOW, text);
        }
        let mut lines = wrap(text, self.view.width.saturating_sub(indent)).into_iter();
        let first = lines.next().unwrap_or_default();
        let lead = self.paint(tone, lead);
        self.line(&format!("{lead}{first}"));
        for line in lines {
            self.line(&format!("{:indent$}{line}", ""));
        }
    }
}

/// Breaks at blanks; a word that is wider than the line gets a line of its own.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(String::new());
            used = 0;
        }
        let separator = if used > 0 { " " } else { "" };
        if let Some(line) = lines.last_mut() {
            // Writing to a string cannot fail.
            let _ = write!(line, "{separator}{word}");
        }
        used += separator.len() + length;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_at_words_beside_its_label() {
        let view = View { width: 40, colour: false, charts: false, details: false };
        let text =
            Page::write(view, |page| page.labelled("verified", "one two three four five sixsixsixsixsixsixsix seven"));
        assert_eq!(text, "verified     one two three four five\n             sixsixsixsixsixsixsix seven\n");
    }

    #[test]
    fn text_without_room_beside_its_label_stands_below_it() {
        let view = View { width: 20, colour: false, charts: false, details: false };
        let text = Page::write(view, |page| page.labelled("verified", "one two three four"));
        assert_eq!(text, "verified\n  one two three four\n");
    }

    #[test]
    fn colour_is_only_where_it_is_wanted() {
        let painted = |colour| {
            Page::write(View { width: 80, colour, charts: false, details: false }, |page| {
                let text = page.paint(Tone::Bad, "no");
                page.line(&text);
            })
        };
        assert_eq!(painted(false), "no\n");
        assert_eq!(painted(true), "\u{1b}[1m\u{1b}[31mno\u{1b}[0m\n");
        for tone in [Tone::Plain, Tone::Strong, Tone::Faint, Tone::Good, Tone::Doubtful, Tone::Bad] {
            let view = View { width: 80, colour: true, charts: false, details: false };
            let text = Page::write(view, |page| page.led("lead", tone, "a \u{1b}]0;title\u{7} b"));
            assert!(
                text.ends_with("a \u{fffd}]0;title\u{fffd} b\n") && text.matches('\u{fffd}').count() == 2,
                "{text:?}"
            );
        }
    }
}
