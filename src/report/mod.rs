//! The report: one page of HTML with charts, made of records. It only reads, asks no network for anything, and is complete without
//! its script. The same records give the same bytes.
//!
//! - `read`: runs from their directories. `section`: what a page says, from records.
//! - `svg`: charts as text. `thin`: as many values as a screen shows. `figure`: a chart with its sentence and its table.
//! - `page`: the document. `theme`: its colours.

mod figure;
mod page;
mod read;
mod section;
mod svg;
mod theme;
mod thin;

use section::lead::Lead;
use section::reason_title::reason_title;
use section::tiles::Tile;
use section::{
    Section, comparison, conditions, course, details, heat, latency, lead, ledger, pipeline, search, spread, sweep,
    verdict,
};

pub use read::{ReadError, Run, read};

use crate::evaluate::comparison::{self as compared, Bounds, ComparisonError, KeptTrial};
use crate::record::{ReasonKind, Record, SearchRecord};

/// What is to be reported of a run with several points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Choice {
    /// Only this point, by its index from 0.
    pub point: Option<usize>,
    /// Only this repetition of it, from 1.
    pub trial: Option<u32>,
}

/// A page, before it is written down.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    title: String,
    lead: Lead,
    sections: Vec<Section>,
}

/// Nothing can be reported.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("the run has no such trial: `brokermark show` lists those that it has")]
    NoSuchTrial,
    #[error(transparent)]
    Comparison(#[from] ComparisonError),
}

impl Report {
    /// Of one run.
    ///
    /// # Errors
    /// When the choice leaves no trial.
    pub fn of_run(run: &Run, choice: Choice) -> Result<Self, ReportError> {
        let is_chosen = |record: &Record| {
            choice.point.is_none_or(|point| record.point_index == point)
                && choice.trial.is_none_or(|trial| record.trial == trial)
        };
        let chosen: Vec<usize> = (0..run.trials.len()).filter(|index| is_chosen(&run.trials[*index].record)).collect();
        if let Some(found) = run.search.as_ref().filter(|_| choice == Choice::default()) {
            return Ok(of_search(run, found).named());
        }
        match chosen.as_slice() {
            [] => Err(ReportError::NoSuchTrial),
            [index] => Ok(of_trial(run, *index).named()),
            several => Ok(of_trials(run, several).named()),
        }
    }

    /// B, and all that follow, against A.
    ///
    /// # Errors
    /// When two runs have no point in common, or one has no trial that was completed.
    pub fn of_comparison(a: &Run, others: &[Run], bounds: Bounds) -> Result<Self, ReportError> {
        let mut report: Option<Report> = None;
        for b in others {
            let comparison = compared::compare(&a.trials, &b.trials, bounds)?;
            let (lead, mut sections) = (comparison::lead(a, b, &comparison), comparison::sections(a, b, &comparison));
            match &mut report {
                None => report = Some(Report { title: format!("{} against {}", b.name, a.name), lead, sections }),
                Some(report) => {
                    sections.iter_mut().for_each(|section| section.title = format!("{}: {}", b.name, section.title));
                    report.sections.append(&mut sections);
                }
            }
        }
        let mut report = report.ok_or(ReportError::NoSuchTrial)?;
        let (first, both) =
            (&a.trials[0].record, others.iter().flat_map(Run::records).chain(a.records()).collect::<Vec<_>>());
        report.sections.extend(verdict::section(&both));
        report.sections.extend(conditions::section(&a.records()));
        report.sections.extend(conditions::scenario(a.scenario.as_deref(), first));
        Ok(report.named())
    }

    fn named(mut self) -> Self {
        section::name_apart(&mut self.sections);
        self
    }

    /// The page.
    pub fn html(&self) -> String {
        page::html(&self.title, &self.lead, &self.sections)
    }

    /// Each chart as a file of its own: its name without an ending, and the drawing.
    pub fn charts(&self) -> Vec<Chart> {
        let figures = self.sections.iter().flat_map(|section| &section.parts).flat_map(|part| part.figures());
        figures
            .map(|figure| Chart { name: figure.id.clone(), size: figure.size_of_file(), svg: figure.file() })
            .collect()
    }
}

/// A chart as a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub name: String,
    /// Its width and height, in pixels.
    pub size: (u32, u32),
    pub svg: String,
}

fn of_trial(run: &Run, index: usize) -> Report {
    let trial = &run.trials[index];
    let record = &trial.record;
    let mut sections: Vec<Section> = Vec::new();
    sections.extend(verdict::section(&[record]));
    sections.extend(of_one(run, index));
    sections.extend(ledger::section(&[record]));
    sections.extend(conditions::section(&[record]));
    sections.extend(conditions::scenario(run.scenario.as_deref(), record));
    Report { title: title(run), lead: lead::of_trial(record), sections }
}

/// What only a single trial has.
fn of_one(run: &Run, index: usize) -> Vec<Section> {
    let KeptTrial { record, series } = &run.trials[index];
    let heat = heat::figure(record, series, &run.directories[index]);
    [
        pipeline::section(record, series),
        course::section(record, series, heat),
        latency::section(record),
        spread::section(record),
        details::section(record),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The probes, and of all trials only the one that the answer rests on.
fn of_search(run: &Run, found: &SearchRecord) -> Report {
    let records = run.records();
    let mut sections: Vec<Section> = search::section(found).into_iter().collect();
    if let Some(index) = search::of_the_answer(found, &records) {
        sections.extend(verdict::section(&[records[index]]));
        sections.extend(of_one(run, index).into_iter().map(|section| section.named_as_of("The answer's probe")));
    }
    sections.extend(ledger::section(&records));
    sections.extend(conditions::section(&records));
    sections.extend(records.first().and_then(|record| conditions::scenario(run.scenario.as_deref(), record)));
    Report { title: title(run), lead: search::lead(found, &records), sections }
}

fn of_trials(run: &Run, chosen: &[usize]) -> Report {
    let records: Vec<&Record> = chosen.iter().map(|index| &run.trials[*index].record).collect();
    let mut sections = sweep::sections(&records);
    sections.extend(verdict::section(&records));
    if let Some(index) = typical(run, chosen) {
        let whose = format!("Trial {}", run.trials[index].record.trial);
        sections.extend(of_one(run, index).into_iter().map(|section| section.named_as_of(&whose)));
    }
    sections.extend(ledger::section(&records));
    sections.extend(conditions::section(&records));
    sections.extend(records.first().and_then(|record| conditions::scenario(run.scenario.as_deref(), record)));
    Report { title: title(run), lead: lead_of_trials(&records), sections }
}

/// Of repetitions of one point, the trial with the middle rate among those that count.
fn typical(run: &Run, chosen: &[usize]) -> Option<usize> {
    let record = |index: usize| &run.trials[index].record;
    let point = record(*chosen.first()?).point_index;
    if chosen.iter().any(|index| record(*index).point_index != point) {
        return None;
    }
    let any_valid = chosen.iter().any(|index| record(*index).verdict.valid);
    let mut counted: Vec<usize> =
        chosen.iter().copied().filter(|index| !any_valid || record(*index).verdict.valid).collect();
    let rate = |index: &usize| record(*index).throughput.messages_per_second;
    counted.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
    counted.get(counted.len() / 2).copied()
}

fn title(run: &Run) -> String {
    run.trials.first().map_or_else(|| run.name.clone(), |trial| trial.record.scenario_name.clone())
}

fn lead_of_trials(records: &[&Record]) -> Lead {
    let valid = records.iter().filter(|record| record.verdict.valid).count();
    let points = records.iter().map(|record| record.point_index).collect::<std::collections::BTreeSet<_>>().len();
    let demonstrations = records.iter().filter(|record| lead::is_demonstration(record)).count();
    let tone = match valid {
        _ if demonstrations == records.len() => lead::Tone::Doubtful,
        0 => lead::Tone::Bad,
        valid if valid == records.len() => lead::Tone::Good,
        // The headline tells the figures of the valid ones.
        _ => lead::Tone::Doubtful,
    };
    let word = if demonstrations == records.len() {
        "Only as a demonstration".to_owned()
    } else {
        format!("{valid} of {} trials valid", records.len())
    };
    let trusted: Vec<&Record> = records.iter().copied().filter(|record| valid == 0 || record.verdict.valid).collect();
    let rate_of = |record: &&&Record| record.throughput.messages_per_second;
    let fastest = trusted.iter().max_by(|one, other| rate_of(one).total_cmp(&rate_of(other)));
    let tile =
        |label: &str, figure: String, note: String| Tile { label: label.to_owned(), figure, unit: String::new(), note };
    let most = fastest.as_ref().map_or(0.0, rate_of);
    let latency = fastest.and_then(|record| Some((record.headline_latency()?.p99_ns?, record.headline.to_string())));
    let lost: u64 = records.iter().filter_map(|record| record.verification.as_ref()).map(|found| found.lost).sum();
    let mut tiles = vec![
        tile("points", crate::record::readable::count(points as u64), section::several(records.len(), "trial")),
        tile("most messages per second", crate::record::readable::rate(most), sweep::payload(&trusted)),
    ];
    tiles.extend(latency.map(|(p99, name)| {
        section::tiles::tile("p99 in that trial", crate::record::readable::duration(p99 as f64), format!("{name} time"))
    }));
    if records.iter().any(|record| record.verification.is_some()) {
        tiles.push(tile("lost", crate::record::readable::count(lost), "over all trials".to_owned()));
    }
    Lead {
        context: records.first().map_or_else(String::new, |record| lead::context(record)),
        sentence: sweep::headline(records),
        answers: vec![
            (lead::TRUST, lead::Word { tone, word, evidence: reasons(records) }),
            (lead::LIMIT, lead::limits(records)),
        ],
        tiles,
    }
}

/// In which trials each reason was found.
fn reasons(records: &[&Record]) -> String {
    let mut found: std::collections::BTreeMap<ReasonKind, Vec<&Record>> = std::collections::BTreeMap::new();
    for record in records {
        for reason in &record.verdict.reasons {
            found.entry(reason.kind).or_default().push(record);
        }
    }
    let mut found: Vec<(ReasonKind, Vec<&Record>)> = found.into_iter().collect();
    found.sort_by_key(|(_, trials)| std::cmp::Reverse(trials.len()));
    let text = |(kind, trials): &(ReasonKind, Vec<&Record>)| {
        let point = match trials.as_slice() {
            [record] if !record.point.is_empty() => format!(" ({})", sweep::point_of(record)),
            _ => String::new(),
        };
        format!("{}: {}{point}", reason_title(*kind), section::several(trials.len(), "trial"))
    };
    let texts: Vec<String> = found.iter().map(text).collect();
    if texts.is_empty() { "No reason against the figures was found.".to_owned() } else { texts.join("; ") + "." }
}
