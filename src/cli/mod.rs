//! The command line: its definition, and one file per subcommand.

mod brokers;
mod check;
pub mod command_line;
mod compare;
mod doctor;
mod emulate;
mod exit;
mod launcher;
mod list;
mod load_threads;
mod merge;
mod new;
mod remove_topics;
mod replaced_keys;
mod report;
mod run;
mod scenario_source;
pub mod schema;
mod search;
mod show;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use exit::{Exit, Output};

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
    Merge(merge::MergeArguments),
    /// Delete the topics that a split run left behind
    RemoveTopics(remove_topics::RemoveTopicsArguments),
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
    let mut out = Output::new(io::stdout().lock());
    let exit = match arguments.verb {
        Verb::Run(arguments) => run::run(&arguments, &mut out),
        Verb::Search(arguments) => search::search(&arguments, &mut out),
        Verb::Ceiling(arguments) => run::ceiling::ceiling(&arguments, &mut out),
        Verb::Doctor(arguments) => doctor::doctor(&arguments, &mut out),
        Verb::Check(arguments) => check::check(&arguments, &mut out),
        Verb::New { kind } => new::new(&kind, &mut out),
        Verb::Show(arguments) => Exit::from_result(show::show(&arguments, show::View::of_stdout(), &mut out)),
        Verb::List(arguments) => Exit::from_result(list::list(&arguments, show::View::of_stdout(), &mut out)),
        Verb::Compare(arguments) => compare::compare(&arguments, &mut out),
        Verb::Merge(arguments) => merge::run(&arguments, &mut out),
        Verb::RemoveTopics(arguments) => remove_topics::run(&arguments, &mut out),
        Verb::Report(arguments) => report::report(&arguments, &mut out),
        Verb::Brokers { json } => Exit::from_result(brokers::brokers(json, &mut out)),
        Verb::Schema { scenario: true, .. } => Exit::from_result(schema::scenario_schema(&mut out)),
        Verb::Schema { series: true, .. } => Exit::from_result(schema::series_schema(&mut out)),
        Verb::Schema { .. } => Exit::from_result(schema::schema(&mut out)),
        Verb::Emulate(arguments) => Exit::from_result(emulate::emulate(&arguments, &mut out)),
        Verb::Completions { shell } => Exit::from_result(command_line::completions(shell, &mut out)),
        Verb::ManualPage => Exit::from_result(command_line::manual_page(&mut out)),
    };
    out.finish(exit).into()
}
