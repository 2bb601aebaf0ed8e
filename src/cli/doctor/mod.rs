//! `brokermark doctor`: what would keep a scenario from running, or its records from being valid. Nothing is loaded.
//!
//! - here: whether results can be kept on this machine, how many files it may open, whether its processor saves power, whether its clock is right.
//! - `plan`: the scenario itself, and which points of a sweep are examined.
//! - `servers`: the broker (addresses, login, topics, rights, and what an acknowledgement means) and the databases of a pipeline.
//! - `remedies`: what helps against a refusal.

mod plan;
mod remedies;
mod servers;

use std::fs;
use std::io::Write;
use std::path::Path;

use clap::Args;

use self::plan::DoctorTargets;
use super::Exit;
use super::load_threads;
use super::open_files;
use super::scenario_source::ScenarioSource;
use super::show::View;
use super::show::page::Page;
use crate::measure::host::{clock_is_synchronised, cores_available};
use crate::present::Tone;
use crate::record::probe;
use crate::scenario::{Plan, Threads};

#[derive(Debug, Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    pub source: ScenarioSource,
}

/// Busy processes for each core from which others are in the way.
const LOADED: f64 = 0.5;

/// One line of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    /// Good; doubtful: the run will work, its figures may suffer; bad: the run will fail, or its record will not be valid.
    tone: Tone,
    subject: &'static str,
    found: String,
    /// A command or a change that helps.
    remedy: Option<String>,
}

impl Finding {
    fn is_bad(&self) -> bool {
        self.tone == Tone::Bad
    }
}

fn good(subject: &'static str, found: impl Into<String>) -> Finding {
    Finding { tone: Tone::Good, subject, found: found.into(), remedy: None }
}

fn doubtful(subject: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { tone: Tone::Doubtful, subject, found: found.into(), remedy: Some(remedy.into()) }
}

fn bad(subject: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { tone: Tone::Bad, subject, found: found.into(), remedy: Some(remedy.into()) }
}

/// Examines scenario, machine and broker.
pub fn doctor(arguments: &DoctorArguments, out: &mut dyn Write) -> Result<Exit, Exit> {
    let plan = arguments.source.load().map_err(Exit::usage)?;
    let mut findings = plan::findings(&plan);
    let runtime = load_threads::start(Threads::default()).map_err(Exit::failure)?;
    let targets = DoctorTargets::new(&plan);
    findings.extend(machine_findings(&plan));
    findings.extend(targets.finding());
    findings.extend(runtime.block_on(servers::broker_findings(&targets)));
    findings.extend(runtime.block_on(servers::sink_findings(&targets)));
    runtime.shutdown_background();
    Ok(match Exit::print(&page(&findings, View::for_stdout()), out) {
        Exit::Success if findings.iter().any(Finding::is_bad) => Exit::Failure,
        exit => exit,
    })
}

fn page(findings: &[Finding], view: View) -> String {
    Page::write(view, |page| {
        for Finding { tone, subject, found, remedy } in findings {
            page.led(&format!("{} {subject:13}", tone.mark()), *tone, found);
            if let Some(remedy) = remedy {
                page.led("                → ", Tone::Faint, remedy);
            }
        }
        page.blank();
        let count = |tone| findings.iter().filter(|finding| finding.tone == tone).count();
        page.line(&match (count(Tone::Bad), count(Tone::Doubtful)) {
            (0, 0) => "Nothing speaks against a run.".to_owned(),
            (0, doubts) => format!("A run will work; {doubts} finding(s) may spoil its figures."),
            (faults, doubts) => format!("{faults} fault(s), {doubts} doubt(s): a run would fail, or not be valid."),
        });
    })
}

fn machine_findings(plan: &Plan) -> Vec<Finding> {
    let mut found = vec![directory(&plan.output.directory)];
    found.extend([files(plan), governor(), clock(), other_load()].into_iter().flatten());
    found
}

/// Whether records can be kept. A directory that is not there yet is not left behind.
fn directory(results: &Path) -> Finding {
    let is_there = results.exists();
    let probed = probe(results);
    if !is_there {
        let _ = fs::remove_dir(results);
    }
    match probed {
        Ok(()) => good("results", format!("{} can be written to", results.display())),
        Err(error) => bad("results", error.to_string(), "--set output.directory=/a/directory/of/yours"),
    }
}

fn files(plan: &Plan) -> Option<Finding> {
    let (limit, needed) = open_files::limit_and_need(plan)?;
    let text = format!("{limit} may be open, about {needed} are needed");
    Some(match limit >= needed {
        true => good("open files", text),
        false => doubtful("open files", text, format!("ulimit -n {}", needed.next_power_of_two())),
    })
}

fn governor() -> Option<Finding> {
    let governor = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok()?;
    Some(match governor.trim() {
        "performance" => good("governor", "the processor runs at its full frequency"),
        other => doubtful(
            "governor",
            format!("the processor's governor is `{other}`: its frequency changes with the load"),
            "cpupower frequency-set --governor performance",
        ),
    })
}

/// Of consequence for latencies between machines, and for comparing records by time.
fn clock() -> Option<Finding> {
    if clock_is_synchronised()? {
        return Some(good("clock", "synchronised"));
    }
    let text = "it is not synchronised: times of records and other machines' logs may differ";
    Some(doubtful("clock", text, "timedatectl set-ntp true"))
}

fn other_load() -> Option<Finding> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = load.split_whitespace().next()?.parse().ok()?;
    let cores = cores_available();
    let text = format!("{load:.1} processes want one of {cores} cores");
    if load / cores as f64 <= LOADED {
        return Some(good("other load", text));
    }
    let remedy = "top -o %CPU shows them: end them, or use a quiet machine";
    Some(doubtful("other load", text + ": they will be in the figures", remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_as_text() {
        let findings = [
            good("broker", "Apache Kafka 4.1.0"),
            doubtful("governor", "the processor saves power", "cpupower frequency-set --governor performance"),
            bad("address", "b:9092 refuses connections", "nc -vz b 9092"),
        ];
        insta::assert_snapshot!(page(&findings, View { width: 90, colour: false, charts: false, details: false }));
    }
}
