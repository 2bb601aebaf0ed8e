//! `brokermark show`: prints records as text. It only reads.
//!
//! One trial is shown in full, its verdict first; several as a table with a row for each, and a summary of each point.

mod backlog;
mod braille;
mod errors;
mod latency;
mod outages;
pub(super) mod page;
mod parts;
mod percentile_curve;
mod pipeline;
mod place;
pub mod search;
mod selection;
mod shares;
mod sparkline;
mod spread;
mod sweep;
pub(super) mod table;
mod trial;
mod words;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use page::{Charts, View};
pub use selection::ShowArguments;

use selection::{Shown, Unfinished};

use crate::printable::printable;
use crate::record::export::{ExportError, Format};
use crate::record::{DirectoryError, Record, SeriesRow, current_records, current_series};

/// Records cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    #[error("no directory `results` here, where runs are kept by default: name a run, or the directory of your runs")]
    NoRuns,
    #[error("{} has no {wanted}: its points are 0 to {last_point}, their trials 1 to {last_trial}", path.display())]
    NoSuchTrial { path: PathBuf, wanted: String, last_point: usize, last_trial: u32 },
    #[error(transparent)]
    Read(#[from] DirectoryError),
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// Prints the records that the arguments ask for: as text, in the format of another tool, or as they are, one a line.
///
/// A reader that closes the pipe is not an error.
///
/// # Errors
/// When the records cannot be read, a record lacks a figure that the format needs, or `out` cannot be written.
pub fn show(arguments: &ShowArguments, view: View, out: &mut dyn Write) -> Result<(), ShowError> {
    let runs = arguments.read()?;
    let records = || runs.iter().flat_map(|run| &run.read.records);
    if arguments.json {
        return print(&records().map(Record::to_line).collect::<String>(), out);
    }
    if let Some(format) = arguments.format {
        return print(&printable(&exported(&runs, format)?), out);
    }
    // Without an argument the user did not say which run it is.
    let is_named = runs.len() > 1 || arguments.paths.iter().all(|path| runs.iter().all(|run| run.path != *path));
    let view = view.with_charts(arguments.charts);
    let texts: Vec<String> = runs.iter().map(|run| text(run, is_named, view)).collect();
    print(&texts.join("\n"), out)
}

/// Prints what a run directory holds.
///
/// # Errors
/// As [`show`].
pub fn show_run(directory: &Path, view: View, out: &mut dyn Write) -> Result<(), ShowError> {
    let arguments = ShowArguments {
        paths: vec![directory.to_owned()],
        point: None,
        trial: None,
        json: false,
        format: None,
        charts: Charts::Auto,
    };
    show(&arguments, view, out)
}

/// One run, under its path where the user did not name it or named several.
fn text(run: &Shown, is_named: bool, view: View) -> String {
    let heading = page::Page::of(view, |page| {
        if is_named {
            page.led(&format!("── {} ──", run.path.display()), page::Tone::Faint, "");
        }
    });
    let mut text = heading + &render(&run.read.records, &run.series, view);
    text.push_str(&page::Page::of(view, |page| {
        if let Some(unfinished) = &run.unfinished {
            page.blank();
            page.led("✗ ", page::Tone::Bad, &describe(unfinished));
        }
    }));
    if let Some(search) = &run.search {
        text.push('\n');
        text.push_str(&search::page(search, view));
    }
    text.push_str(&page::Page::of(view, |page| {
        if run.read.cut_off {
            page.paragraph(
                0,
                "The last record was cut off by a crash and is not shown; `brokermark run --resume` repeats its trial.",
            );
        }
    }));
    text
}

/// The last record of each trial in the format of another tool.
fn exported(runs: &[Shown], format: Format) -> Result<String, ShowError> {
    let standing = |runs: &[Shown]| -> Vec<Record> {
        let all: Vec<Record> = runs.iter().flat_map(|run| &run.read.records).cloned().collect();
        current_records(&all).into_iter().cloned().collect()
    };
    let of_run = |run: &Shown| format.text(&standing(std::slice::from_ref(run)), &run.series, &run.hlog());
    match format {
        // Its lines also tell what happened in each second of the run.
        Format::Omb => Ok(runs.iter().map(of_run).collect::<Result<String, _>>()?),
        _ => Ok(format.text(&standing(runs), &[], &[])?),
    }
}

/// What a checkpoint means.
fn describe(unfinished: &Unfinished) -> String {
    let trial = format!("Trial {} of point {}", unfinished.trial, unfinished.point_index);
    if unfinished.is_running {
        format!("{trial} still runs: this is its last checkpoint, up to a minute old.")
    } else {
        format!(
            "{trial} was killed before its end: this is its last checkpoint, and the series may go on for up to a minute \
             after it. `brokermark run --resume` repeats the trial."
        )
    }
}

fn print(text: &str, out: &mut dyn Write) -> Result<(), ShowError> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// What is printed when a trial of `run` has ended: the verdict and the figures, without where and how.
pub fn summary(record: &Record, view: View) -> String {
    page::Page::of(view, |page| trial::summary(page, record))
}

fn render(records: &[Record], series: &[SeriesRow], view: View) -> String {
    let standing = current_records(records);
    page::Page::of(view, |page| match standing.as_slice() {
        [] => page.paragraph(0, &nothing_but(series)),
        [record] => trial::whole(page, record, &current_series(series, record.point_index, record.trial)),
        several => sweep::table(page, several, series),
    })
}

/// The text for a run in which no trial has finished.
fn nothing_but(series: &[SeriesRow]) -> String {
    let seconds = match series.len() {
        0 => String::new(),
        rows => format!(" Of one that has begun, the series has {rows} rows, about one a second."),
    };
    format!("No trial has finished yet, so no record exists.{seconds}")
}

#[cfg(test)]
mod tests;
