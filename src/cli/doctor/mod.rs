//! `brokermark doctor`: what would keep a scenario from running, or its records from being valid. Nothing is loaded.
//!
//! - `plan`: the scenario itself, and which points of a sweep are examined. `machine`: file limits, processor, clock, and the directory of results.
//! - `broker`: addresses, login, topics, rights, and what an acknowledgement means. `sinks`: the databases of a pipeline.
//! - `remedies`: what helps against a refusal.

mod broker;
mod machine;
mod plan;
mod remedies;
mod sinks;

use std::io::Write;

use clap::Args;

use self::plan::DoctorTargets;
use super::Exit;
use super::load_threads;
use super::scenario_source::ScenarioSource;
use super::show::View;
use super::show::page::Page;
use crate::notices::notice;
use crate::present::Tone;
use crate::scenario::Threads;

#[derive(Debug, Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    pub source: ScenarioSource,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Good,
    /// The run will work; its figures may suffer.
    Doubtful,
    /// The run will fail, or its record will not be valid.
    Bad,
}

/// One line of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    health: Health,
    subject: &'static str,
    found: String,
    /// A command or a change that helps.
    remedy: Option<String>,
}

impl Finding {
    fn is_bad(&self) -> bool {
        self.health == Health::Bad
    }
}

fn good(subject: &'static str, found: impl Into<String>) -> Finding {
    Finding { health: Health::Good, subject, found: found.into(), remedy: None }
}

fn doubtful(subject: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { health: Health::Doubtful, subject, found: found.into(), remedy: Some(remedy.into()) }
}

fn bad(subject: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { health: Health::Bad, subject, found: found.into(), remedy: Some(remedy.into()) }
}

/// Examines scenario, machine and broker.
pub fn doctor(arguments: &DoctorArguments, out: &mut dyn Write) -> Exit {
    let plan = match arguments.source.load() {
        Ok(plan) => plan,
        Err(error) => {
            notice!("{error}");
            return Exit::Usage;
        }
    };
    let mut findings = plan::findings(&plan);
    let runtime = match load_threads::start(Threads::default()) {
        Ok(runtime) => runtime,
        Err(error) => {
            notice!("error: the threads that connect cannot be started: {error}");
            return Exit::Failure;
        }
    };
    let targets = DoctorTargets::new(&plan);
    findings.extend(machine::findings(&plan));
    findings.extend(targets.finding());
    findings.extend(runtime.block_on(broker::findings(&targets)));
    findings.extend(runtime.block_on(sinks::findings(&targets)));
    runtime.shutdown_background();
    let text = page(&findings, View::for_stdout());
    match Exit::from_result(out.write_all(text.as_bytes()).and_then(|()| out.flush())) {
        Exit::Success if findings.iter().any(Finding::is_bad) => Exit::Failure,
        exit => exit,
    }
}

fn page(findings: &[Finding], view: View) -> String {
    Page::write(view, |page| {
        for Finding { health, subject, found, remedy } in findings {
            let (sign, tone) = match health {
                Health::Good => ("✓", Tone::Good),
                Health::Doubtful => ("!", Tone::Doubtful),
                Health::Bad => ("✗", Tone::Bad),
            };
            page.led(&format!("{sign} {subject:13}"), tone, found);
            if let Some(remedy) = remedy {
                page.led("                → ", Tone::Faint, remedy);
            }
        }
        page.blank();
        let count = |health| findings.iter().filter(|finding| finding.health == health).count();
        page.line(&match (count(Health::Bad), count(Health::Doubtful)) {
            (0, 0) => "Nothing speaks against a run.".to_owned(),
            (0, doubts) => format!("A run will work; {doubts} finding(s) may spoil its figures."),
            (faults, doubts) => format!("{faults} fault(s), {doubts} doubt(s): a run would fail, or not be valid."),
        });
    })
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
        insta::assert_snapshot!(page(&findings, View { width: 90, colour: false, charts: false }));
    }
}
