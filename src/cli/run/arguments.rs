//! The options of `brokermark run`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};

use super::in_turn::AgainstArguments;
use super::share::ShareArguments;
use crate::cli::scenario_source::ScenarioSource;
use crate::scenario::units;

#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub source: ScenarioSource,
    /// Print the scenario as TOML, with everything that options set, and run nothing
    #[arg(long)]
    pub print_scenario: bool,
    /// Create the run directory below this one [default: the scenario's `output.directory`, `results`]
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath, conflicts_with = "resume")]
    pub output: Option<PathBuf>,
    /// Continue the run in this directory: run the trials that have no completed record
    #[arg(long, value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    pub resume: Option<PathBuf>,
    /// Continue even with another build of brokermark, or with changed payload files
    #[arg(long, requires = "resume")]
    pub resume_anyway: bool,
    /// Full-screen view of the current trial: rates, percentiles, topics, and the last seconds
    #[arg(long, conflicts_with = "quiet")]
    pub tui: bool,
    /// Serve Prometheus metrics of the current trial on ADDRESS, as in 127.0.0.1:9464, and keep them in `metrics.txt`
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
    /// End with exit code 3 also if a record is not valid, whether or not the scenario has thresholds
    #[arg(long)]
    pub strict: bool,
    /// First measure what the client itself carries, as `brokermark ceiling` does
    #[arg(long)]
    pub ceiling: bool,
    /// Write a page with charts into the run directory when the run has ended: report.html
    #[arg(long)]
    pub report: bool,
    /// Print no progress and no result, only errors
    #[arg(long, short)]
    pub quiet: bool,
    /// Print each record as a line of JSON on standard output
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub share: ShareArguments,
    #[command(flatten)]
    pub against: AgainstArguments,
    /// How often a checkpoint is written
    #[arg(long, value_name = "DURATION", hide = true, default_value = "1m", value_parser = units::parse_duration)]
    pub checkpoint_every: Duration,
}
