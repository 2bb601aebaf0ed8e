//! The report: one page of HTML with charts, made of records. It only reads, asks no network for anything, and is complete without
//! its script. The same records give the same bytes.
//!
//! - here: runs from their directories, and which sections their pages have. `section`: the charts of a page, from records. `tiles`: the largest
//!   figures.
//! - `html`: the document, and what [`present`] says, as HTML. `theme`: its colours.
//! - `checks`: what a build server shows, without a page.
//! - `svg`: charts as text. `figure`: a chart with its sentence and its table.

pub mod checks;
mod document;
mod figure;
mod html;
mod section;
mod svg;
mod theme;
mod tiles;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use section::{Section, comparison, course, heat, latency, pipeline, search, spread, sweep};
use tiles::Tile;

use crate::evaluate::comparison::{self as compared, Bounds, ComparisonError, KeptTrial};
use crate::present::comparison::Side;
use crate::present::faults::faults_table;
use crate::present::search::probe_of_the_answer;
use crate::present::setup::{setup, trial_setup};
use crate::present::{self, Summary, account, trial, verdict};
use crate::record::{
    DirectoryError, Record, SCENARIO_FILE, SearchRecord, Status, current_records, current_series, directory_of,
    read_checkpoint, read_records, read_search, read_series, run_name, runs_at,
};

/// A run, or several runs of the same scenario that count as one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// The name of its directory.
    pub name: String,
    pub trials: Vec<KeptTrial>,
    /// Where the latencies of each trial's seconds may lie.
    pub directories: Vec<PathBuf>,
    /// The scenario as it was run.
    pub scenario: Option<String>,
    /// What it found, where it was a search.
    pub search: Option<SearchRecord>,
}

impl Run {
    pub fn records(&self) -> Vec<&Record> {
        self.trials.iter().map(|trial| &trial.record).collect()
    }

    /// Leaves out the trials that are not wanted.
    fn retain(&mut self, is_wanted: impl Fn(&Record) -> bool) {
        let trials = std::mem::take(&mut self.trials).into_iter().zip(std::mem::take(&mut self.directories));
        (self.trials, self.directories) = trials.filter(|(trial, _)| is_wanted(&trial.record)).unzip();
    }
}

/// A run cannot be reported.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("{} has no record yet: wait for the first trial to end, or for its first checkpoint after a minute", path.display())]
    Empty { path: PathBuf },
}

/// Reads the run at `path`, or all runs below it.
///
/// # Errors
/// When no run is there, one cannot be read, or no run has a record.
pub fn read(path: &Path) -> Result<Run, ReadError> {
    let mut run = Run { name: run_name(path), ..Run::default() };
    let all = runs_at(path)?;
    if let [only] = all.as_slice() {
        run.search = if only.is_dir() { read_search(only)? } else { None };
    }
    for one in all {
        let directory = directory_of(&one).to_owned();
        let read = read_records(&one)?;
        read.tell_passed_over(&one);
        let mut records = read.records;
        if one.is_dir() {
            records.extend(read_checkpoint(&one, &records)?);
        }
        let series = read_series(&directory)?;
        for record in current_records(&records) {
            let series = current_series(&series, record.point_index, record.trial);
            run.trials.push(KeptTrial { record: record.clone(), series });
            run.directories.push(directory.clone());
        }
        if run.scenario.is_none() {
            run.scenario = fs::read_to_string(directory.join(SCENARIO_FILE)).ok();
        }
    }
    if run.trials.is_empty() { Err(ReadError::Empty { path: path.to_owned() }) } else { Ok(run) }
}

/// What is to be reported of a run with several points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Choice {
    /// Only this point, by its index from 0.
    pub point: Option<usize>,
    /// Only this repetition of it, from 1.
    pub trial: Option<u32>,
}

impl Choice {
    fn includes(self, record: &Record) -> bool {
        self.point.is_none_or(|point| record.point_index == point)
            && self.trial.is_none_or(|trial| record.trial == trial)
    }

    /// Leaves the chosen trials of runs that are compared. The point is the first run's: of the others, it is the one with the same values, or their
    /// only one.
    ///
    /// # Errors
    /// When a run has no such trial.
    pub fn narrow(self, runs: &mut [Run]) -> Result<(), ReportError> {
        let [first, others @ ..] = &mut *runs else { return Ok(()) };
        first.retain(|record| self.includes(record));
        for run in others {
            let is_only = run.trials.windows(2).all(|pair| pair[0].record.point == pair[1].record.point);
            let is_of_first = |record: &Record| first.trials.iter().any(|trial| trial.record.point == record.point);
            let of_trial = Choice { point: None, ..self };
            run.retain(|record| of_trial.includes(record) && (self.point.is_none() || is_only || is_of_first(record)));
        }
        if runs.iter().any(|run| run.trials.is_empty()) { Err(ReportError::NoSuchTrial) } else { Ok(()) }
    }
}

/// A page, before it is written down.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    title: String,
    summary: Summary,
    tiles: Vec<Tile>,
    sections: Vec<Section>,
}

/// Nothing can be reported.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("a run has no such trial: `brokermark show` lists those that it has")]
    NoSuchTrial,
    #[error(
        "the runs are of different scenarios, so their trials are not repetitions: name one run, or several runs to compare them"
    )]
    DifferentScenarios,
    #[error(transparent)]
    Comparison(#[from] ComparisonError),
}

impl Report {
    /// The page of one run.
    ///
    /// # Errors
    /// When the choice leaves no trial, or trials of several runs that have different scenarios.
    pub fn from_run(run: &Run, choice: Choice) -> Result<Self, ReportError> {
        let is_chosen = |index: &usize| choice.includes(&run.trials[*index].record);
        let chosen: Vec<usize> = (0..run.trials.len()).filter(is_chosen).collect();
        if let Some(found) = run.search.as_ref().filter(|_| choice == Choice::default()) {
            return Ok(search_report(run, found).named());
        }
        if !are_repetitions(chosen.iter().map(|index| &run.trials[*index].record)) {
            return Err(ReportError::DifferentScenarios);
        }
        match chosen.as_slice() {
            [] => Err(ReportError::NoSuchTrial),
            [index] => Ok(trial_report(run, *index).named()),
            several => Ok(sweep_report(run, several).named()),
        }
    }

    /// The page of B, and of all that follow, against A.
    ///
    /// # Errors
    /// When two runs have no point in common, or one has no trial that was completed.
    pub fn from_comparison(a: &Run, others: &[Run], bounds: Bounds) -> Result<Self, ReportError> {
        let mut report: Option<Report> = None;
        for b in others {
            let comparison = compared::compare(&a.trials, &b.trials, bounds)?;
            let mut sections = comparison::sections(a, b, &comparison);
            match &mut report {
                None => {
                    let summary = present::comparison::summary(
                        &Side { name: &a.name, records: a.records() },
                        &Side { name: &b.name, records: b.records() },
                        &comparison,
                    );
                    let (title, tiles) =
                        (format!("{} against {}", b.name, a.name), tiles::comparison_tiles(&comparison));
                    report = Some(Report { title, summary, tiles, sections });
                }
                Some(report) => {
                    sections.iter_mut().for_each(|section| section.title = format!("{}: {}", b.name, section.title));
                    report.sections.append(&mut sections);
                }
            }
        }
        let mut report = report.ok_or(ReportError::NoSuchTrial)?;
        let both: Vec<&Record> = others.iter().flat_map(Run::records).chain(a.records()).collect();
        report.sections.extend(judged(&both));
        report.sections.extend(setup_and_scenario(a, &a.records()));
        Ok(report.named())
    }

    fn named(mut self) -> Self {
        section::name_apart(&mut self.sections);
        self
    }

    /// The page.
    pub fn html(&self) -> String {
        document::page(&self.title, &self.summary, &self.tiles, &self.sections)
    }

    /// Each chart as a file of its own: its name without an ending, and the drawing.
    pub fn charts(&self) -> Vec<Chart> {
        let figures = self.sections.iter().flat_map(|section| &section.blocks).flat_map(section::Block::figures);
        figures
            .map(|figure| Chart { name: figure.id.clone(), size: figure.size_of_file(), svg: figure.file() })
            .collect()
    }
}

/// Whether trials of the same point are of one scenario, also where they are of several runs.
fn are_repetitions<'a>(mut records: impl Iterator<Item = &'a Record>) -> bool {
    let mut firsts: BTreeMap<usize, &Record> = BTreeMap::new();
    records.all(|record| {
        let first = *firsts.entry(record.point_index).or_insert(record);
        first.run_id == record.run_id || first.scenario == record.scenario
    })
}

/// A chart as a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub name: String,
    /// Its width and height, in pixels.
    pub size: (u32, u32),
    pub svg: String,
}

fn trial_report(run: &Run, index: usize) -> Report {
    let record = &run.trials[index].record;
    let mut sections: Vec<Section> = judged(&[record]).into_iter().collect();
    sections.extend(trial_sections(run, index));
    sections.extend(setup_and_scenario(run, &[record]));
    Report { title: title(run), summary: trial::summary(record), tiles: tiles::trial_tiles(record), sections }
}

/// Reasons against the figures, notes, and thresholds.
fn judged(records: &[&Record]) -> Option<Section> {
    let mut found = html::findings(&present::sweep::findings(records));
    if found.is_empty() && records.iter().all(|record| record.status != Status::Failed) {
        found = html::paragraph("No reason speaks against these figures, and nothing else was noted.");
    }
    Section::text("verdict", "Verdict and its evidence", found + &html::table(&verdict::thresholds(records)))
}

/// What only a single trial has.
fn trial_sections(run: &Run, index: usize) -> Vec<Section> {
    let KeptTrial { record, series } = &run.trials[index];
    let heat = heat::figure(record, series, &run.directories[index]);
    let mut facts = account::load(record, true);
    facts.extend(account::outcome(record));
    let tables = [trial::parts_table(record), faults_table(record)];
    let tables: String = tables.iter().flatten().map(html::table).collect();
    [
        pipeline::section(record, series),
        course::section(record, series, heat),
        latency::section(record),
        spread::section(record),
        Section::text("account", "The account of messages", html::facts(&facts) + &tables),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The account of several trials together.
fn account_of_all(records: &[&Record]) -> Option<Section> {
    Section::text("account-of-all", "The account of all messages", html::facts(&account::all_messages(records)))
}

/// What is needed to repeat the run, and the scenario as it was run, to copy.
fn setup_and_scenario(run: &Run, records: &[&Record]) -> impl Iterator<Item = Section> {
    let facts = match records {
        [record] => trial_setup(record),
        several => setup(several),
    };
    let json = || serde_json::to_string_pretty(&records.first()?.scenario).ok();
    let text = run.scenario.clone().or_else(json).unwrap_or_default();
    let scenario =
        format!("<pre id=\"scenario-text\" tabindex=\"0\"><code>{}</code></pre>", svg::escape(text.trim_end()));
    let setup = Section::text("setup", "Setup", html::facts(&facts));
    setup.into_iter().chain(Section::text("scenario", "The scenario", scenario))
}

/// The probes, and of all trials only the one that the answer rests on.
fn search_report(run: &Run, found: &SearchRecord) -> Report {
    let records = run.records();
    let mut sections: Vec<Section> = search::section(found).into_iter().collect();
    let answer = probe_of_the_answer(found).and_then(|probe| {
        records.iter().position(|record| (record.point_index, record.trial) == (probe.point_index, probe.trial))
    });
    if let Some(index) = answer {
        sections.extend(judged(&[records[index]]));
        sections
            .extend(trial_sections(run, index).into_iter().map(|section| section.named_as_of("The answer's probe")));
    }
    sections.extend(account_of_all(&records));
    sections.extend(setup_and_scenario(run, &records));
    let summary = present::search::summary(found, &records);
    Report { title: title(run), summary, tiles: tiles::search_tiles(found), sections }
}

fn sweep_report(run: &Run, chosen: &[usize]) -> Report {
    let records: Vec<&Record> = chosen.iter().map(|index| &run.trials[*index].record).collect();
    let mut sections = sweep::sections(&records);
    sections.extend(judged(&records));
    if let Some(index) = typical(run, chosen) {
        let whose = format!("Trial {}", run.trials[index].record.trial);
        sections.extend(trial_sections(run, index).into_iter().map(|section| section.named_as_of(&whose)));
    }
    sections.extend(account_of_all(&records));
    sections.extend(setup_and_scenario(run, &records));
    let summary = present::sweep::summary(&records);
    Report { title: title(run), summary, tiles: tiles::sweep_tiles(&records), sections }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    /// Two trials of each point.
    fn run(producers: &[u64]) -> Run {
        let mut run = Run::default();
        for (point_index, producers) in producers.iter().enumerate() {
            for trial in 1..=2 {
                let mut record = Record { point_index, trial, ..sample::record() };
                record.point.insert("producers.count".to_owned(), (*producers).into());
                run.trials.push(KeptTrial { record, series: Vec::new() });
                run.directories.push(PathBuf::from(producers.to_string()));
            }
        }
        run
    }

    #[test]
    fn trials_of_different_scenarios_are_not_repetitions() {
        let mut both = run(&[1]);
        both.trials[1].record.run_id = "another".to_owned();
        assert!(Report::from_run(&both, Choice::default()).is_ok());
        both.trials[1].record.scenario["producers"]["batch"] = 99.into();
        let refused = Report::from_run(&both, Choice::default()).unwrap_err().to_string();
        assert!(refused.contains("different scenarios"), "{refused}");
    }

    #[test]
    fn a_point_of_several_runs_is_chosen_by_the_values_of_the_first() {
        let chosen = |mut runs: [Run; 3], point, trial| {
            Choice { point, trial }.narrow(&mut runs).map(|()| runs.map(|run| run.directories)).ok()
        };
        let sweeps = || [run(&[1, 2, 4]), run(&[4, 2]), run(&[8])];
        let paths = |producers: &str, trials| vec![PathBuf::from(producers); trials];
        assert_eq!(chosen(sweeps(), Some(1), None), Some([paths("2", 2), paths("2", 2), paths("8", 2)]));
        assert_eq!(chosen(sweeps(), Some(2), Some(1)), Some([paths("4", 1), paths("4", 1), paths("8", 1)]));
        assert_eq!(chosen(sweeps(), Some(0), None), None, "the second run has no point of one producer");
        assert_eq!(chosen(sweeps(), Some(1), Some(3)), None);
        let all = chosen(sweeps(), None, None).unwrap();
        assert_eq!(all.map(|paths| paths.len()), [6, 4, 2]);
    }
}
