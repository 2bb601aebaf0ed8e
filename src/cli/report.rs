//! `brokermark report`: writes a page, or its charts, from the records of one run or of several that are compared. It only reads.
//!
//! An installed browser draws PNG files: the same drawings that `--svg` writes, in light colours, with two pixels for each of theirs. A rasteriser
//! of our own would cost every build what few readers need.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use tempfile::TempDir;

use super::Exit;
use super::compare::{BoundArguments, bounds_of_run};
use crate::evaluate::comparison::Bounds;
use crate::notices::notice;
use crate::report::{Chart, Choice, ReadError, Report, ReportError, Run, read};

/// The page's name in a run directory.
pub const REPORT_FILE: &str = "report.html";

#[derive(Debug, Args)]
pub struct ReportArguments {
    /// A run directory or a file of records; or several, which are compared with the first
    #[arg(required = true, value_hint = ValueHint::AnyPath)]
    pub runs: Vec<PathBuf>,
    /// Write the page to this file, or with `-` to standard output [default: report.html in the run directory; of several runs, in the current one]
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Only this point of a sweep, by its index from 0; of several runs, the first one's index
    #[arg(long, value_name = "INDEX")]
    pub point: Option<usize>,
    /// Only this repetition of the point, from 1
    #[arg(long, value_name = "NUMBER")]
    pub trial: Option<u32>,
    /// Write each chart as an SVG file into this directory, instead of the page
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, conflicts_with = "output")]
    pub svg: Option<PathBuf>,
    /// Write each chart as a PNG file into this directory, instead of the page: an installed Chromium or Chrome draws them
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, conflicts_with = "output")]
    pub png: Option<PathBuf>,
    #[command(flatten)]
    pub bounds: BoundArguments,
}

/// A report cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CannotReport {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Draw(#[from] CannotDraw),
    #[error("cannot print: {0}")]
    Print(io::Error),
}

impl super::exit::IsBrokenPipe for CannotReport {
    fn is_broken_pipe(&self) -> bool {
        matches!(self, CannotReport::Print(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Writes what is asked for.
///
/// # Errors
/// When a run cannot be read, or a file cannot be drawn or written.
pub fn report(arguments: &ReportArguments, out: &mut dyn Write) -> Result<(), CannotReport> {
    let choice = Choice { point: arguments.point, trial: arguments.trial };
    let report = made(&arguments.runs, choice, arguments.bounds.bounds())?;
    if arguments.svg.is_some() || arguments.png.is_some() {
        return charts(&report, arguments);
    }
    let file = arguments.output.clone().unwrap_or_else(|| default_file(&arguments.runs));
    if file == Path::new("-") {
        return out.write_all(report.html().as_bytes()).and_then(|()| out.flush()).map_err(CannotReport::Print);
    }
    write(&file, &report.html())
}

/// Reads the runs: one alone, or the others against the first.
fn made(paths: &[PathBuf], choice: Choice, bounds: Bounds) -> Result<Report, CannotReport> {
    let mut runs: Vec<Run> = paths.iter().map(|path| read(path)).collect::<Result<_, _>>()?;
    if runs.len() > 1 {
        choice.narrow(&mut runs)?;
    }
    Ok(match runs.as_slice() {
        [run] => Report::from_run(run, choice)?,
        [first, others @ ..] => Report::from_comparison(first, others, bounds)?,
        [] => return Err(ReportError::NoSuchTrial.into()),
    })
}

fn default_file(runs: &[PathBuf]) -> PathBuf {
    match runs {
        [run] if run.is_dir() => run.join(REPORT_FILE),
        _ => PathBuf::from(REPORT_FILE),
    }
}

fn charts(report: &Report, arguments: &ReportArguments) -> Result<(), CannotReport> {
    let charts = report.charts();
    if let Some(directory) = &arguments.svg {
        make(directory)?;
        charts.iter().try_for_each(|chart| write(&directory.join(format!("{}.svg", chart.name)), &chart.svg))?;
    }
    if let Some(directory) = &arguments.png {
        make(directory)?;
        draw(&charts, directory)?.iter().for_each(|file| notice!("report: {}", file.display()));
    }
    Ok(())
}

fn make(directory: &Path) -> Result<(), CannotReport> {
    fs::create_dir_all(directory).map_err(|source| CannotReport::Write { path: directory.to_owned(), source })
}

fn write(path: &Path, text: &str) -> Result<(), CannotReport> {
    fs::write(path, text).map_err(|source| CannotReport::Write { path: path.to_owned(), source })?;
    notice!("report: {}", path.display());
    Ok(())
}

/// For `run --report`: writes the page of a run, or of two that ran in turn, into the first one's directory.
pub fn write_page(directories: &[PathBuf], tolerance: Option<f64>) -> Exit {
    let page = made(directories, Choice::default(), bounds_of_run(tolerance));
    Exit::from_result(page.and_then(|report| match directories {
        [] => Ok(()),
        [first, ..] => write(&first.join(REPORT_FILE), &report.html()),
    }))
}

/// Names the browser, where it is not found by its usual name.
const VARIABLE: &str = "BROKERMARK_CHROMIUM";

/// Chromium and its relatives, which all draw a page into a file.
const NAMES: [&str; 7] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "chrome-headless-shell",
];

/// How long one chart may take: a browser that starts for the first time on a busy machine takes some seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often it is asked whether it has ended.
const POLL: Duration = Duration::from_millis(20);

/// A chart cannot be drawn as a picture.
#[derive(Debug, thiserror::Error)]
pub enum CannotDraw {
    #[error(
        "found no browser to draw PNG files with: install Chromium or Chrome, name one in {VARIABLE}, or write SVG files with --svg"
    )]
    NoBrowser,
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot start {}: {source}", program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("{} did not draw the chart {chart} ({how}): write SVG files with --svg, or name another browser in {VARIABLE}", program.display())]
    NotDrawn { program: PathBuf, chart: String, how: String },
}

/// Draws each chart into `directory`, which exists; returns the files.
///
/// # Errors
/// When no browser is installed, or one cannot draw.
fn draw(charts: &[Chart], directory: &Path) -> Result<Vec<PathBuf>, CannotDraw> {
    let program = browser().ok_or(CannotDraw::NoBrowser)?;
    let private = private_directory()?;
    let draw = |chart: &Chart| {
        let file = directory.join(format!("{}.png", chart.name));
        draw_one(&program, private.path(), chart, &file).map(|()| file)
    };
    charts.iter().map(draw).collect()
}

/// The browser that the user names, else the first on the path.
fn browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let files = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    files.map(|file| file.with_extension(std::env::consts::EXE_EXTENSION)).find(|file| file.is_file())
}

/// A new directory for drawings and for what the browser leaves behind, for this user alone; removed in the end. In the directory for
/// temporary files, others may have made one of any name that they can guess.
fn private_directory() -> Result<TempDir, CannotDraw> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("brokermark-png-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir().map_err(|source| CannotDraw::Write { path: std::env::temp_dir(), source })
}

fn draw_one(program: &Path, private: &Path, chart: &Chart, file: &Path) -> Result<(), CannotDraw> {
    let drawing = private.join("chart.svg");
    fs::write(&drawing, &chart.svg).map_err(|source| CannotDraw::Write { path: drawing.clone(), source })?;
    let picture = private.join("chart.png");
    let _ = fs::remove_file(&picture);
    let mut command = command(program, private, chart, &picture);
    command.arg(format!("file://{}", drawing.display()));
    let ended = ended(&mut command).map_err(|source| CannotDraw::Start { program: program.to_owned(), source })?;
    let not_drawn = |how: String| CannotDraw::NotDrawn { program: program.to_owned(), chart: chart.name.clone(), how };
    let status = ended.ok_or_else(|| not_drawn(format!("it took more than {} s", PATIENCE.as_secs())))?;
    if !status.success() || !picture.is_file() {
        return Err(not_drawn(status.to_string()));
    }
    // The destination may be on another file system, so it is copied and not moved.
    fs::copy(&picture, file).map(drop).map_err(|source| CannotDraw::Write { path: file.to_owned(), source })
}

fn command(program: &Path, private: &Path, chart: &Chart, picture: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--headless", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"])
        .args(["--disable-background-networking", "--no-first-run", "--force-device-scale-factor=2"])
        // Light, whatever the desktop prefers.
        .arg("--blink-settings=preferredColorScheme=1")
        .arg(format!("--window-size={},{}", chart.size.0, chart.size.1))
        .arg(format!("--user-data-dir={}", private.join("profile").display()))
        .arg(format!("--screenshot={}", picture.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // Chromium does not start as root with its sandbox, as in a container. What it draws is our own file.
    #[cfg(unix)]
    if fs::metadata(private).is_ok_and(|private| std::os::unix::fs::MetadataExt::uid(&private) == 0) {
        command.arg("--no-sandbox");
    }
    command
}

/// Runs the command to its end; `None`: it took too long, and was killed.
fn ended(command: &mut Command) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begin.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn private_directory_is_for_its_user_alone_and_removed() {
        let (one, other) = (private_directory().unwrap(), private_directory().unwrap());
        assert_ne!(one.path(), other.path());
        let mode = |of: &TempDir| fs::metadata(of.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&one), mode(&other)], [0o700, 0o700]);
        let path = one.path().to_owned();
        drop(one);
        assert!(!path.exists());
    }
}
