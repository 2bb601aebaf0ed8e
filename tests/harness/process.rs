//! A child process with its output, which never outlives its test.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use brokermark::record::Record;

use super::PATIENCE;

/// Sends a signal to a child that has not been waited for.
fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: the child has not been waited for, so that its id is still its own.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
}

/// Stops a child for so long; it has not been waited for.
pub fn stall(child: &Child, fault: Duration) {
    signal(child, libc::SIGSTOP);
    let begin = Instant::now();
    super::eventually("the fault has lasted", || begin.elapsed() >= fault);
    signal(child, libc::SIGCONT);
}

/// A process that is killed, with all that it started, when the test lets go of it.
pub struct Running {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Receiver<String>,
    seen: String,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut out = child.stdout.take().unwrap();
        let stdout = std::thread::spawn(move || {
            let mut text = Vec::new();
            out.read_to_end(&mut text).unwrap();
            String::from_utf8(text).unwrap()
        });
        let (sender, stderr) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Running { child, stdout: Some(stdout), stderr, seen: String::new() }
    }

    /// Waits until a line on standard error contains `part`.
    pub fn await_stderr(&mut self, part: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.stderr.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.see(&line);
                    if line.contains(part) {
                        return;
                    }
                }
                Err(error) => panic!("no '{part}' on standard error ({error}), but:\n{}", self.seen),
            }
        }
    }

    pub fn signal(&self, signal: libc::c_int) {
        self::signal(&self.child, signal);
    }

    /// Makes it stand still for so long.
    pub fn stall(&self, fault: Duration) {
        stall(&self.child, fault);
    }

    /// Waits for the end of the process.
    pub fn finish(mut self, patience: Duration) -> Finished {
        let begin = Instant::now();
        if !self.ends_within(patience) {
            self.kill();
            self.drain();
            panic!("still runs after {patience:?}; it had printed:\n{}", self.seen);
        }
        let took = begin.elapsed();
        let status = self.child.wait().unwrap();
        // What a wrapper may have left behind would keep the pipes open.
        self.kill();
        self.drain();
        let stdout = self.stdout.take().unwrap().join().unwrap();
        Finished { code: status.code(), stdout, stderr: std::mem::take(&mut self.seen), took }
    }

    fn ends_within(&self, patience: Duration) -> bool {
        let id = self.child.id();
        let (end, ended) = channel();
        std::thread::spawn(move || {
            // SAFETY: `information` is there for the call to write to. `WNOWAIT` leaves the child to be waited for, so that
            // its id stays its own.
            let waited = unsafe {
                let mut information = std::mem::zeroed();
                libc::waitid(libc::P_PID, id, &raw mut information, libc::WEXITED | libc::WNOWAIT)
            };
            let _ = end.send(waited);
        });
        ended.recv_timeout(patience).is_ok_and(|waited| waited == 0)
    }

    fn drain(&mut self) {
        while let Ok(line) = self.stderr.recv_timeout(Duration::from_secs(5)) {
            self.see(&line);
        }
    }

    fn see(&mut self, line: &str) {
        self.seen.push_str(line);
        self.seen.push('\n');
    }

    fn kill(&mut self) {
        // SAFETY: the group is the child's own, made when it was started.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGKILL) };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

/// A process that has ended, and what it had to say.
pub struct Finished {
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    /// How long its end was waited for.
    pub took: Duration,
}

impl Finished {
    /// Asserts its exit code.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "standard error:\n{}\nstandard output:\n{}", self.stderr, self.stdout);
        self
    }

    /// Asserts that standard error mentions all of `parts`.
    #[track_caller]
    pub fn complains_of(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.stderr.contains(part), "no '{part}' in:\n{}", self.stderr);
        }
    }

    /// Asserts that standard output mentions all of `parts`.
    #[track_caller]
    pub fn says(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.stdout.contains(part), "no '{part}' in:\n{}", self.stdout);
        }
    }

    /// The records on standard output.
    #[track_caller]
    pub fn records(&self) -> Vec<Record> {
        let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        self.stdout.lines().map(read).collect()
    }

    /// The only record.
    #[track_caller]
    pub fn record(&self) -> Record {
        let mut records = self.records();
        assert_eq!(records.len(), 1, "{}", self.stderr);
        records.remove(0)
    }
}
