//! The command line: its definition, one file per subcommand, and what is printed of the program itself: completions, the manual page, and the
//! JSON Schemas, which are generated from types and their documentation.

mod brokers;
mod check;
mod check_files;
mod compare;
mod doctor;
mod emulate;
mod exit;
mod launcher;
mod list;
mod load_threads;
mod open_files;
mod report;
mod run;
mod scenario_source;
mod search;
mod shares;
mod show;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error, Parser, Subcommand};
use serde::Serialize;

use self::exit::{Exit, Output};
use crate::engine;
use crate::record::{Record, SeriesRow};
use crate::scenario;

/// A load generator for message brokers: runs a described load and records honestly what happened.
#[derive(Debug, Parser)]
#[command(name = "brokermark", version, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 ran and every threshold held, 1 could not run or failed, 2 wrong command line or \
                        scenario, 3 a threshold was missed or its record is not valid, or a comparison found a regression, 130 interrupted with results kept."
)]
pub struct Arguments {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a scenario and keep its records
    Run(run::RunArguments),
    /// Find the highest rate that holds
    Search(search::SearchArguments),
    /// Measure how much the load generator itself carries in a scenario's shape, without a broker
    Ceiling(run::ceiling::CeilingArguments),
    /// Check that a scenario can run and give valid results, without sending load
    ///
    /// It connects as a run does: it makes the topics, opens a producer and a consumer, and removes the topics again. It sends no message.
    /// Topics that exist stay as they are. Of a sweep, each point with a broker or topics of its own is examined.
    Doctor(doctor::DoctorArguments),
    /// Validate a scenario and print its plan, connecting to nothing
    Check(check::CheckArguments),
    /// Write a commented scenario for a kind of broker, to start from
    New {
        /// `kafka`, `pulsar`, `nsq`, …: see `brokermark brokers`
        kind: String,
    },
    /// Show records: of the newest run, or of those that are named
    Show(show::ShowArguments),
    /// List runs, a line each
    List(list::ListArguments),
    /// Compare two runs, or two sets of runs, point by point
    Compare(compare::CompareArguments),
    /// Merge the results of a run that was split across processes
    Merge(shares::MergeArguments),
    /// Delete the topics that a split run left behind
    RemoveTopics(shares::RemoveTopicsArguments),
    /// Write a page with charts of a run, or of runs that are compared
    Report(report::ReportArguments),
    /// List the brokers of this build and what each can do
    Brokers {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of records, or of scenarios
    Schema {
        /// The schema of a line of series.jsonl instead
        #[arg(long, conflicts_with = "scenario")]
        series: bool,
        /// The schema of a scenario instead, with which editors complete and check it
        #[arg(long)]
        scenario: bool,
    },
    /// Run an endpoint that other clients may use, until interrupted
    Emulate(emulate::EmulateArguments),
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
    /// Print the manual page
    #[command(name = "man")]
    ManualPage,
}

/// Executes the subcommand. Errors are printed to standard error. A command whose output cannot be written fails.
pub fn execute(arguments: Arguments) -> ExitCode {
    // Each connection is an open file. A system that does not allow more has its say where they are needed.
    let _ = rlimit::increase_nofile_limit(u64::MAX);
    let mut out = Output::new(io::stdout().lock());
    let (Ok(exit) | Err(exit)) = execute_verb(arguments.verb, &mut out);
    out.finish(exit).into()
}

/// # Errors
/// When the command stopped early. It has said why.
fn execute_verb(verb: Verb, out: &mut dyn Write) -> Result<Exit, Exit> {
    match verb {
        Verb::Run(arguments) => run::run(&arguments, out),
        Verb::Search(arguments) => search::search(&arguments, out),
        Verb::Ceiling(arguments) => run::ceiling::ceiling(&arguments, out),
        Verb::Doctor(arguments) => doctor::doctor(&arguments, out),
        Verb::Check(arguments) => check::check(&arguments, out),
        Verb::New { kind } => brokers::new(&kind, out),
        Verb::Show(arguments) => Ok(Exit::from_result(show::show(&arguments, show::View::for_stdout(), out))),
        Verb::List(arguments) => Ok(Exit::from_result(list::list(&arguments, show::View::for_stdout(), out))),
        Verb::Compare(arguments) => Ok(compare::compare(&arguments, out)),
        Verb::Merge(arguments) => shares::merge(&arguments, out),
        Verb::RemoveTopics(arguments) => shares::remove_topics(&arguments, out),
        Verb::Report(arguments) => Ok(Exit::from_result(report::report(&arguments, out))),
        Verb::Brokers { json } => Ok(Exit::from_result(brokers::brokers(json, out))),
        Verb::Schema { scenario: true, .. } => Ok(Exit::from_result(scenario_schema(out))),
        Verb::Schema { series: true, .. } => Ok(Exit::from_result(series_schema(out))),
        Verb::Schema { .. } => Ok(Exit::from_result(record_schema(out))),
        Verb::Emulate(arguments) => Ok(Exit::from_result(emulate::emulate(&arguments, out))),
        Verb::Completions { shell } => Ok(Exit::from_result(completions(shell, out))),
        Verb::ManualPage => Ok(Exit::from_result(manual_page(out))),
    }
}

/// Parses the command line. A mistake is printed and ends the process, as do `--help` and `--version`.
pub fn parse() -> Arguments {
    let words: Vec<OsString> = std::env::args_os().collect();
    Arguments::try_parse_from(&words).unwrap_or_else(|error| with_hint(error, &words).exit())
}

/// What was probably meant by a word that nothing takes.
fn with_hint(mut error: Error, words: &[OsString]) -> Error {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return error };
    let hint = split_value(unknown, words).or_else(|| key_of_a_broker(unknown, words));
    if error.kind() == ErrorKind::UnknownArgument {
        // clap proposes to pass it as the scenario, which an option never is.
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(hint.map(StyledStr::from).into_iter().collect()));
    }
    error
}

/// `--rate 5 k/s` is three words, the last of which nothing takes.
fn split_value(unknown: &str, words: &[OsString]) -> Option<String> {
    let is_split = |three: &&[OsString]| {
        let [option, number, unit] = [0, 1, 2].map(|index| three[index].to_string_lossy());
        let is_number = number.starts_with(|first: char| first.is_ascii_digit());
        option.starts_with("--") && is_number && unit == unknown && unit.starts_with(char::is_alphabetic)
    };
    let split = words.windows(3).find(is_split)?;
    let [option, number, unit] = [0, 1, 2].map(|index| split[index].to_string_lossy());
    Some(format!("write the value as one word: '{option} {number}{unit}'"))
}

/// `--acks all` is a key of a broker: of the one whose URL is among the words, if there is one.
fn key_of_a_broker(unknown: &str, words: &[OsString]) -> Option<String> {
    let name = unknown.strip_prefix("--")?.split('=').next()?.replace('-', "_");
    let keys = scenario::keys_of_brokers(engine::kinds(), &name);
    let is_named = |key: &&String| {
        let kind = key.split('.').nth(1).unwrap_or_default();
        words.iter().any(|word| word.to_string_lossy().starts_with(kind))
    };
    let key = keys.iter().find(is_named).or(keys.first())?;
    Some(format!("a key of the scenario is set by '--set {key}=VALUE'"))
}

fn completions(shell: clap_complete::Shell, out: &mut dyn Write) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "brokermark", &mut script);
    out.write_all(&script)
}

/// Prints the manual page in roff, the verbs' pages after it.
fn manual_page(mut out: &mut dyn Write) -> io::Result<()> {
    let command = Arguments::command();
    clap_mangen::Man::new(command.clone()).render(&mut out)?;
    for verb in command.get_subcommands() {
        clap_mangen::Man::new(verb.clone()).title(format!("brokermark-{}", verb.get_name())).render(&mut out)?;
    }
    Ok(())
}

/// Prints the schema of a line of `records.jsonl`.
///
/// # Errors
/// When `out` cannot be written.
pub fn record_schema(out: &mut dyn Write) -> io::Result<()> {
    print_schema(&schemars::schema_for!(Record), out)
}

/// Prints the schema of a line of `series.jsonl`.
///
/// # Errors
/// When `out` cannot be written.
pub fn series_schema(out: &mut dyn Write) -> io::Result<()> {
    print_schema(&schemars::schema_for!(SeriesRow), out)
}

/// Prints the schema of a scenario, with the tables of the brokers and sinks of this build.
fn scenario_schema(out: &mut dyn Write) -> io::Result<()> {
    print_schema(&scenario::scenario_schema(engine::kinds()), out)
}

fn print_schema(schema: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, schema)?;
    writeln!(out)
}
