//! `brokermark show`: prints records as text. It only reads.
//!
//! One trial is shown in full, its verdict first; several as a table with a row for each, and a summary of each point.

mod backlog;
mod errors;
mod latency;
mod outages;
pub(super) mod page;
mod parts;
mod pipeline;
mod sparkline;
mod sweep;
pub(super) mod table;
mod trial;

use std::io::{self, Write};
use std::path::Path;

pub use page::View;

use crate::record::export::{ExportError, Format};
use crate::record::{
    DirectoryError, HLOG_FILE, Record, SeriesRow, current_records, current_series, is_being_written, read_checkpoint,
    read_records, read_search, read_series,
};

/// Records cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    #[error(transparent)]
    Read(#[from] DirectoryError),
    #[error(transparent)]
    Export(#[from] ExportError),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

/// Prints the records of a run directory or of a file of records: as text, or with `json` as they are, one a line.
///
/// A reader that closes the pipe is not an error.
///
/// # Errors
/// When the records cannot be read, or `out` cannot be written.
pub fn show(path: &Path, json: bool, view: View, out: &mut dyn Write) -> Result<(), ShowError> {
    let mut read = read_records(path)?;
    let checkpoint = if path.is_dir() { read_checkpoint(path, &read.records)? } else { None };
    let unfinished = checkpoint.as_ref().map(|checkpoint| describe(checkpoint, is_being_written(path)));
    read.records.extend(checkpoint);
    let text = if json {
        read.records.iter().map(Record::to_line).collect()
    } else {
        let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
        let mut text = render(&read.records, &read_series(directory)?, view);
        if let Some(unfinished) = unfinished {
            text.push_str(&page::Page::of(view, |page| {
                page.blank();
                page.led("✗ ", page::Tone::Bad, &unfinished);
            }));
        }
        if let Some(search) = read_search(directory)? {
            text.push('\n');
            text.push_str(&super::search::text::page(&search, view));
        }
        if read.cut_off {
            text.push_str(&page::Page::of(view, |page| {
                page.paragraph(0, "The last record was cut off by a crash and is not shown; `brokermark run --resume` repeats its trial.");
            }));
        }
        text
    };
    print(&text, out)
}

/// What a checkpoint means.
fn describe(checkpoint: &Record, is_running: bool) -> String {
    let trial = format!("Trial {} of point {}", checkpoint.trial, checkpoint.point_index);
    if is_running {
        format!("{trial} still runs: this is its last checkpoint, up to a minute old.")
    } else {
        format!(
            "{trial} was killed before its end: this is its last checkpoint, and the series may go on for up to a minute \
             after it. `brokermark run --resume` repeats the trial."
        )
    }
}

/// Prints the last record of each trial in the format of another tool.
///
/// # Errors
/// As [`show`], and when a record lacks a figure that the format needs.
pub fn export(path: &Path, format: Format, out: &mut dyn Write) -> Result<(), ShowError> {
    let records: Vec<Record> = current_records(&read_records(path)?.records).into_iter().cloned().collect();
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let hlog = std::fs::read(directory.join(HLOG_FILE)).unwrap_or_default();
    print(&format.text(&records, &read_series(directory)?, &hlog)?, out)
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
