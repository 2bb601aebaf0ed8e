//! Processes that `mpirun` starts and that run one scenario together.

use std::path::Path;
use std::process::Command;

use super::Bench;

/// `mpirun` of so many ranks of `brokermark run` on the scenario, on this machine. A rank that dies does not end the others.
pub fn mpirun(bench: &Bench, ranks: usize) -> Command {
    let mut command = launcher();
    command.args(["--enable-recovery", "-n", &ranks.to_string()]).args(run(bench));
    command
}

/// The same, with the exit code of the rank that did not succeed: where others go on without a rank, mpirun always succeeds.
pub fn mpirun_with_exit_code(bench: &Bench, ranks: usize) -> Command {
    let mut command = launcher();
    command.args(["-n", &ranks.to_string()]).args(run(bench));
    command
}

/// The same of two ranks, each of which MPI binds to a core of its own where there are two.
pub fn mpirun_bound(bench: &Bench) -> Command {
    let mut command = allowed();
    command.args(["--oversubscribe", "--bind-to", "core", "-n", "2"]).args(run(bench));
    command
}

/// The same of two ranks, the second of which may write no file beyond so many KiB.
pub fn mpirun_with_small_files(bench: &Bench, kibibytes: u32) -> Command {
    let mut command = launcher();
    // The signal would end the process, where a full disk only refuses.
    let limited = format!("trap '' XFSZ; ulimit -f {kibibytes}; exec \"$@\"");
    command
        .args(["-n", "1"])
        .args(run(bench))
        .args([":", "-n", "1", "bash", "-c", &limited, "limited"])
        .args(run(bench));
    command
}

/// The same of two ranks, the second of which has another clock.
pub fn mpirun_with_clock_offset(bench: &Bench, offset: &str) -> Command {
    with_clock_offset(launcher(), bench, offset)
}

/// The same, where a rank that dies does not end the other.
pub fn mpirun_with_clock_offset_and_recovery(bench: &Bench, offset: &str) -> Command {
    let mut command = launcher();
    command.arg("--enable-recovery");
    with_clock_offset(command, bench, offset)
}

fn with_clock_offset(mut command: Command, bench: &Bench, offset: &str) -> Command {
    command.args(["-n", "1"]).args(run(bench));
    command.args([":", "-n", "1", "env", &format!("BROKERMARK_CLOCK_OFFSET={offset}")]).args(run(bench));
    command
}

/// Tests run as root in containers, and there are more ranks than cores.
fn launcher() -> Command {
    let mut command = allowed();
    command.args(["--oversubscribe", "--bind-to", "none"]);
    command
}

fn allowed() -> Command {
    let mut command = Command::new("mpirun");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

/// The command of each rank.
pub fn run(bench: &Bench) -> Vec<String> {
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (scenario, results) = (text(&bench.scenario()), text(&bench.results()));
    vec![
        env!("CARGO_BIN_EXE_brokermark").to_owned(),
        "run".to_owned(),
        scenario,
        "--json".to_owned(),
        "--output".to_owned(),
        results,
    ]
}

/// The process that is this rank of the bench's run.
pub fn process_of(bench: &Bench, rank: usize) -> libc::pid_t {
    let variable = format!("OMPI_COMM_WORLD_RANK={rank}");
    let scenario = bench.scenario();
    let has = |path: &Path, file: &str, part: &str| {
        std::fs::read(path.join(file))
            .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|item| item == part.as_bytes()))
    };
    let mut processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let id = path.file_name()?.to_str()?.parse().ok()?;
        (has(&path, "environ", &variable) && has(&path, "cmdline", scenario.to_str().unwrap())).then_some(id)
    });
    processes.next().unwrap_or_else(|| panic!("no process is rank {rank} of {}", scenario.display()))
}

/// Sends a signal to this rank.
pub fn signal(bench: &Bench, rank: usize, signal: libc::c_int) {
    // SAFETY: the process has the bench's own scenario in its command line, so it is the test's own; rank processes end with their test.
    assert_eq!(unsafe { libc::kill(process_of(bench, rank), signal) }, 0);
}
