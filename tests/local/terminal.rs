//! What happens to standard output, standard error and the terminal never ends a run, and a command never hides that its output is lost.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

use brokermark::record::{Status, read_records, read_series};

use crate::harness::{Bench, PATIENCE, Running, brokermark, eventually};

const LOAD: &str = "broker.kind = \"null\"\nload.rate = \"200/s\"\nrun.duration = \"2s\"\nrun.warm_up = \"500ms\"\n";

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// A pipe whose reader has gone.
fn broken_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Signals end a child that a test lets go of.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn a_standard_error_that_takes_nothing_keeps_the_record() {
    for stderr in [full, broken_pipe] {
        let bench = Bench::new(LOAD);
        let ended = bench.command().stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr()).status().unwrap();
        assert_eq!(ended.code(), Some(0), "{ended}");
        let records = read_records(&bench.run_directory()).unwrap().records;
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].status, Status::Completed);
    }
}

#[test]
fn a_refused_scenario_with_a_full_standard_error_is_exit_2() {
    let ended = brokermark().args(["check", "no-such-file.toml"]).stderr(full()).status().unwrap();
    assert_eq!(ended.code(), Some(2), "{ended}");
}

#[test]
fn output_that_cannot_be_written_fails_the_command() {
    let bench = Bench::new(LOAD);
    bench.run(&[]).expect(0);
    let (scenario, run) = (bench.scenario(), bench.run_directory());
    let (scenario, run) = (scenario.to_str().unwrap(), run.to_str().unwrap());
    let (again, results) = (bench.path().join("again"), bench.results());
    let commands: &[&[&str]] = &[
        &["run", scenario, "--json", "--quiet", "--output", again.to_str().unwrap()],
        &["run", scenario, "--output", again.to_str().unwrap()],
        &["run", scenario, "--print-scenario"],
        &["check", scenario],
        &["show", run],
        &["list", results.to_str().unwrap()],
        &["brokers"],
        &["schema"],
        &["new", "null"],
    ];
    for arguments in commands {
        let output = brokermark().args(*arguments).stdin(Stdio::null()).stdout(full()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains("No space left on device"), "{arguments:?}: {stderr}");
    }
}

/// A pseudo terminal: the side of the terminal, and that of the program.
fn terminal() -> (File, File) {
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: the first two arguments are there for the call to write to, and the others may be null.
    let opened = unsafe {
        libc::openpty(&raw mut master, &raw mut slave, std::ptr::null_mut(), std::ptr::null(), std::ptr::null())
    };
    assert_eq!(opened, 0);
    // SAFETY: both were just opened and belong to nothing else. The program must not inherit the terminal's side, which it would keep
    // open.
    unsafe {
        assert_eq!(libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC), 0);
        assert_eq!(libc::fcntl(master, libc::F_SETFL, libc::O_NONBLOCK), 0);
        (File::from(OwnedFd::from_raw_fd(master)), File::from(OwnedFd::from_raw_fd(slave)))
    }
}

/// Starts the command with `slave` as its terminal.
fn on_terminal(command: &mut Command, slave: File) -> Killed {
    let end = || Stdio::from(slave.try_clone().unwrap());
    command.stdin(end()).stdout(end()).stderr(end());
    let descriptor = slave.as_raw_fd();
    // SAFETY: both calls may be made between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if libc::setsid() < 0 || libc::ioctl(descriptor, libc::TIOCSCTTY, 0) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    Killed(command.spawn().unwrap())
}

/// Runs on a terminal that is closed while it loads, and expects what the hang-up asks for: the load ends, and its record is kept.
fn hang_up(arguments: &[&str]) {
    let bench = Bench::new(&LOAD.replace("2s", "10min"));
    let (mut master, slave) = terminal();
    let mut command = bench.command();
    command.env("TERM", "xterm").args(arguments);
    let mut child = on_terminal(&mut command, slave);
    drop(command);
    let mut text = [0; 1 << 16];
    eventually("the load has begun", || {
        while master.read(&mut text).is_ok_and(|length| length > 0) {}
        bench.run_directories().first().is_some_and(|run| !read_series(run).unwrap().is_empty())
    });
    drop(master);
    let mut ended = None;
    eventually("the run has ended", || {
        ended = child.0.try_wait().unwrap();
        ended.is_some()
    });
    let ended = ended.unwrap();
    assert_eq!((ended.code(), ended.signal()), (Some(130), None), "{arguments:?}");
    let records = read_records(&bench.run_directory()).unwrap().records;
    assert_eq!(records.len(), 1, "{arguments:?}");
    assert_eq!(records[0].status, Status::Interrupted, "{arguments:?}");
}

#[test]
fn a_closed_terminal_ends_the_load_and_keeps_the_record() {
    for arguments in [&[][..], &["--quiet"], &["--tui"]] {
        hang_up(arguments);
    }
}

/// `nohup` does so: the terminal's end is then no reason to end.
#[test]
fn a_closed_terminal_that_is_ignored_leaves_sigterm_heard() {
    let bench = Bench::new(&LOAD.replace("2s", "10min"));
    let (mut master, slave) = terminal();
    let mut shell = Command::new("sh");
    let program = bench.command();
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(program.get_program()).args(program.get_args());
    let mut child = on_terminal(&mut shell, slave);
    drop(shell);
    let mut text = [0; 1 << 16];
    let mut rows = |at_least: usize, master: Option<&mut File>| {
        if let Some(master) = master {
            while master.read(&mut text).is_ok_and(|length| length > 0) {}
        }
        bench.run_directories().first().is_some_and(|run| read_series(run).unwrap().len() >= at_least)
    };
    eventually("the load has begun", || rows(1, Some(&mut master)));
    drop(master);
    eventually("it goes on without its terminal", || rows(4, None));
    // SAFETY: the child has not been waited for, so that its id is still its own.
    assert_eq!(unsafe { libc::kill(child.0.id() as libc::pid_t, libc::SIGTERM) }, 0);
    eventually("the run has ended", || child.0.try_wait().unwrap().is_some());
    assert_eq!(read_records(&bench.run_directory()).unwrap().records[0].status, Status::Interrupted);
}

#[test]
fn a_poisson_load_of_days_begins_at_once_and_ends_in_time() {
    let schedule = "load.schedule = { kind = \"poisson\", rate = \"1M/s\" }\nproducers.batch = 1000";
    let limits = "run = { messages = \"1000G\", duration = \"1s\" }";
    let bench = Bench::new(&format!("broker.kind = \"null\"\n{schedule}\n{limits}\nproducers.in_flight = 1000"));
    let record = bench.run(&[]).expect(0).record();
    assert!(record.counts.attempted > 0 && record.counts.balances(), "{:?}", record.counts);
}

#[test]
fn argument_that_is_not_unicode_is_recorded() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new(LOAD);
    let mut command = brokermark();
    command.arg("run").arg(bench.scenario()).args(["--json", "--quiet", "--output"]);
    command.arg(bench.path().join(std::ffi::OsStr::from_bytes(b"results-\xff")));
    let record = Running::start(&mut command).finish(PATIENCE).expect(0).record();
    assert!(record.environment.command_line.last().unwrap().contains("results-\u{fffd}"));
}
