//! Hosts with addresses of their own, which `scripts/hosts` makes of network namespaces. They need root, as the clusters do.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Bench;
use super::process::Running;
use super::ranks::run;

/// Their names are those of the machine's: one test at a time has them.
static ALONE: Mutex<()> = Mutex::new(());

/// Hosts, until the test lets go of them.
pub struct Hosts {
    _alone: MutexGuard<'static, ()>,
}

impl Hosts {
    /// So many, numbered from 1.
    pub fn up(count: usize) -> Self {
        let hosts = Hosts { _alone: ALONE.lock().unwrap_or_else(PoisonError::into_inner) };
        hosts.order(&["up", &count.to_string()]);
        hosts
    }

    /// The address of one.
    pub fn address(number: usize) -> String {
        format!("198.19.0.{number}")
    }

    /// What is to happen to what a host sends, in the words of `tc netem`.
    pub fn shape(&self, number: usize, words: &str) {
        let number = number.to_string();
        self.order(&[&["shape", &number], words.split(' ').collect::<Vec<_>>().as_slice()].concat());
    }

    /// Takes a host off the network.
    pub fn cut(&self, number: usize) {
        self.order(&["cut", &number.to_string()]);
    }

    /// Puts it back.
    pub fn join(&self, number: usize) {
        self.order(&["join", &number.to_string()]);
    }

    /// Starts a program on a host.
    pub fn start(&self, number: usize, program: &Path, arguments: &[String]) -> Running {
        Running::start(script().args(["on", &number.to_string()]).arg(program).args(arguments))
    }

    /// The bench's scenario, by a rank on each of the first hosts; those that `ahead` names read a clock that is 50 ms ahead.
    pub fn mpirun(&self, bench: &Bench, ranks: usize, ahead: &[usize]) -> Command {
        let mut command = script();
        // All ranks are started in the same words, and tell themselves apart.
        let shifted: String =
            ahead.iter().map(|rank| format!("{rank}) export BROKERMARK_CLOCK_OFFSET=50ms;; ")).collect();
        let shell = format!("case $OMPI_COMM_WORLD_RANK in {shifted}*) ;; esac; exec \"$0\" \"$@\"");
        command.args(["run", &ranks.to_string(), "sh", "-c", &shell]).args(run(bench));
        command
    }

    fn order(&self, arguments: &[&str]) {
        let output = script().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        let _ = script().arg("down").output();
    }
}

fn script() -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/hosts"))
}
