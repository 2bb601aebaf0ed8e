//! The evidence of the verdict: reasons against the figures, notes, thresholds.

use std::collections::BTreeMap;

use super::lead::{Tone, is_demonstration};
use super::reason_title::reason_title;
use super::{Part, Section, several};
use crate::record::{Reason, ReasonKind, Record, Status};
use crate::report::figure::Table;
use crate::report::svg::{escape, marked};

/// Every reason and note once, with how many trials it concerns and one of them in words.
pub fn section(records: &[&Record]) -> Option<Section> {
    let mut parts = Vec::new();
    let all = records.len();
    // What is there to try things out has its reasons as notes.
    let tone = if records.iter().all(|record| is_demonstration(record)) { Tone::Doubtful } else { Tone::Bad };
    let found = format!(
        "{}{}{}",
        errors(records),
        findings(records, all, tone, |record| &record.verdict.reasons),
        findings(records, all, Tone::Doubtful, |record| &record.verdict.notes)
    );
    if found.is_empty() {
        parts.push(Part::Html("<p>No reason speaks against these figures, and nothing else was noted.</p>".to_owned()));
    } else {
        parts.push(Part::Html(format!("<ul class=\"findings\">{found}</ul>")));
    }
    let thresholds = thresholds(records);
    if !thresholds.rows.is_empty() {
        parts.push(Part::Html(format!("<h3>Thresholds</h3>{}", thresholds.html())));
    }
    Section::of("verdict", "Verdict and its evidence", parts)
}

fn findings(records: &[&Record], all: usize, tone: Tone, of: fn(&Record) -> &[Reason]) -> String {
    let mut found: BTreeMap<ReasonKind, (usize, &Reason)> = BTreeMap::new();
    for record in records.iter().filter(|record| record.status != Status::Failed) {
        for reason in of(record) {
            found.entry(reason.kind).or_insert((0, reason)).0 += 1;
        }
    }
    let item = |(kind, (trials, reason)): (ReasonKind, (usize, &Reason))| {
        let trials = if all == 1 { String::new() } else { format!(" · {trials} of {all} trials") };
        // Its id leads to its exact condition in the documentation.
        finding(tone, reason_title(kind), &format!("{kind}{trials}"), &reason.evidence, &reason.advice)
    };
    found.into_iter().map(item).collect()
}

fn finding(tone: Tone, title: &str, aside: &str, evidence: &str, advice: &str) -> String {
    let advice =
        if advice.is_empty() { String::new() } else { format!(" <span class=\"advice\">{}</span>", marked(advice)) };
    format!(
        "<li class=\"{}\"><b><span aria-hidden=\"true\">{}</span> {}</b> <small>{aside}</small><p>{}{advice}</p></li>",
        tone.class(),
        tone.mark(),
        escape(title),
        marked(evidence)
    )
}

/// Why trials failed: each cause once.
fn errors(records: &[&Record]) -> String {
    let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
    for record in records.iter().filter(|record| record.status == Status::Failed) {
        *causes.entry(record.error.as_deref().unwrap_or("the record does not say why")).or_default() += 1;
    }
    let item = |(cause, trials): (&str, usize)| {
        finding(Tone::Bad, reason_title(ReasonKind::Failed), &several(trials, "trial"), cause, "")
    };
    causes.into_iter().map(item).collect()
}

fn thresholds(records: &[&Record]) -> Table {
    if let [record] = records {
        let row = |outcome: &crate::record::ThresholdOutcome| {
            let mark = if outcome.held { "✓ held" } else { "✗ missed" };
            vec![outcome.text.clone(), mark.to_owned(), outcome.explanation.clone()]
        };
        let heads = ["threshold", "outcome", "measured"].map(str::to_owned).to_vec();
        return Table { heads, rows: record.thresholds.iter().map(row).collect(), ..Table::default() };
    }
    let mut held: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for outcome in records.iter().flat_map(|record| &record.thresholds) {
        let entry = held.entry(&outcome.text).or_default();
        entry.0 += usize::from(outcome.held);
        entry.1 += 1;
    }
    let row = |(text, (held, all)): (&str, (usize, usize))| {
        let mark = if held == all { "✓" } else { "✗" };
        vec![text.to_owned(), format!("{mark} held by {held} of {}", several(all, "trial"))]
    };
    let heads = ["threshold", "outcome"].map(str::to_owned).to_vec();
    Table { heads, rows: held.into_iter().map(row).collect(), ..Table::default() }
}
