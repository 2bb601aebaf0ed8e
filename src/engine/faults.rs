//! Runs the commands of a scenario's faults at their times, one after another, on a thread of its own, so that the load does not wait for
//! them.
//!
//! A fault that has begun is always undone: at its time, when the load ends, or when a signal asks for the end.
//! A command that does not end is killed, with all processes of its group.

use std::process::{ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::fault_log::{CommandRun, FaultLog, FaultRun, Place};
use super::interruption::{InterruptiblePhase, Interruption};
use super::prepare::TrialContext;
use super::sampler::POLL;
use crate::measure::{Clock, host};

/// Most bytes of a command's output that are kept: its last ones.
const MAX_OUTPUT: usize = 4096;

/// How long the output of a command that has ended is still waited for, where a process in the background keeps it open.
const LAST_OUTPUT: Duration = Duration::from_millis(100);

/// How long the end of a command that was killed is waited for: the kernel may hold it.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// How long a fault may still be undone after the second signal.
const LAST_UNDO: Duration = Duration::from_millis(500);

/// How far the trial is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Load,
    /// No further fault begins, and those that began are undone.
    Ended,
    /// Nothing is waited for any more.
    Over,
}

/// The thread that runs the commands.
pub(super) struct Faults {
    stage: watch::Sender<Stage>,
    undone: Option<oneshot::Receiver<()>>,
    patience: Duration,
    thread: Option<JoinHandle<()>>,
}

impl Faults {
    /// Begins to wait for the times of the faults; `None`: the scenario has none, or the system starts no more threads, which the record says.
    /// `measure_start_ns`: when the measured window begins.
    pub fn begin(context: &TrialContext<'_>, measure_start_ns: u64, interruption: &Interruption) -> Option<Self> {
        let scenario = context.scenario;
        if scenario.faults.is_empty() {
            return None;
        }
        context.faults.plan(&scenario.faults);
        let (stage, stages) = watch::channel(Stage::Load);
        let (done, undone) = oneshot::channel();
        let runner = Runner {
            log: context.faults.clone(),
            clock: context.acks.clock(),
            measure_start_ns,
            stages,
            signal: interruption.phase(),
        };
        let work = move || {
            // Processes of a command have the usual scheduling policy, also if the load has another one.
            host::set_batch(false);
            // Without a runtime, no fault begins, which the log says.
            if let Ok(runtime) = Builder::new_current_thread().enable_all().build() {
                runtime.block_on(runner.run());
            }
            runner.log.close();
            let _ = done.send(());
        };
        let thread = std::thread::Builder::new().name("brokermark-faults".to_owned()).spawn(work).ok();
        if thread.is_none() {
            context.faults.close();
        }
        Some(Faults { stage, undone: Some(undone), patience: scenario.run.drain_deadline, thread })
    }

    /// No further fault begins, and those that began are undone.
    pub fn load_ended(&self) {
        self.stage.send_replace(Stage::Ended);
    }

    /// Waits until all is undone: as long as for outcomes, and after the second signal hardly at all.
    pub async fn finish(mut self, interruption: &Interruption) {
        self.load_ended();
        let Some(mut undone) = self.undone.take() else { return };
        if timeout(self.patience, interruption.finish(&mut undone, LAST_UNDO)).await.is_ok_and(|ended| ended.is_some())
        {
            return;
        }
        self.stage.send_replace(Stage::Over);
        let _ = undone.await;
    }
}

/// Also where the trial fails.
impl Drop for Faults {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.load_ended();
        let begin = std::time::Instant::now();
        while self.undone.is_some() && !thread.is_finished() && begin.elapsed() < self.patience {
            std::thread::sleep(POLL);
        }
        self.stage.send_replace(Stage::Over);
        let _ = thread.join();
    }
}

/// What the thread works with.
struct Runner {
    log: FaultLog,
    clock: Clock,
    measure_start_ns: u64,
    stages: watch::Receiver<Stage>,
    signal: InterruptiblePhase,
}

impl Runner {
    async fn run(&self) {
        let planned = self.log.all();
        for (index, FaultRun { fault, .. }) in planned.iter().enumerate() {
            let place = Place { index, is_undo: false };
            if !self.waits_until(fault.at).await {
                return;
            }
            let begin_ns = self.command(place, &fault.run, self.reaches(Stage::Ended)).await;
            if let Some(undo) = &fault.undo {
                // One that began late, because an earlier command took long, lasts as long as any other.
                let begun = Duration::from_nanos(begin_ns.saturating_sub(self.measure_start_ns));
                self.waits_until(begun + undo.after).await;
                self.command(Place { is_undo: true, ..place }, &undo.run, self.reaches(Stage::Over)).await;
            }
        }
    }

    /// Whether the load still goes on at this time after the begin of the window. Returns earlier where it does not.
    async fn waits_until(&self, at: Duration) -> bool {
        let due = self.clock.instant(self.measure_start_ns.saturating_add(at.as_nanos() as u64));
        tokio::select! {
            biased;
            () = self.reaches(Stage::Ended) => false,
            () = sleep_until(Instant::from_std(due)) => true,
        }
    }

    /// Resolves at this stage, which a signal brings about by itself.
    async fn reaches(&self, stage: Stage) {
        let mut stages = self.stages.clone();
        let reached = async {
            // Without a sender, the trial is over.
            let _ = stages.wait_for(|now| *now >= stage).await;
        };
        tokio::select! {
            () = reached => {}
            () = self.signal.over(), if stage == Stage::Ended => {}
        }
    }

    /// Runs a command until it ends or is `given_up`. Returns when it began, by the clock of the run.
    async fn command(&self, place: Place, command: &str, given_up: impl Future<Output = ()>) -> u64 {
        let since = |at_ns: u64| seconds(at_ns.saturating_sub(self.measure_start_ns));
        let begin_ns = self.clock.now_ns();
        let begun = CommandRun { begin_ns: Some(begin_ns), ..CommandRun::default() };
        self.log.note(place, command, begun.clone(), |_| format!("began at {}", since(begin_ns)));
        let ended = match shell(command) {
            Ok(mut child) => watch_command(&mut child, given_up).await,
            Err(error) => {
                CommandRun { failure: Some(format!("could not be started: {error}")), ..CommandRun::default() }
            }
        };
        let end_ns = self.clock.now_ns();
        let told = |run: &CommandRun| match &run.failure {
            None => format!("ended after {}", seconds(end_ns - begin_ns)),
            Some(failure) => format!("failed at {}: it {failure}", since(end_ns)),
        };
        self.log.note(place, command, CommandRun { begin_ns: Some(begin_ns), end_ns: Some(end_ns), ..ended }, told);
        begin_ns
    }
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// The command in a process group of its own, so that Ctrl-C in the terminal does not end it, and all of it can be killed.
fn shell(command: &str) -> std::io::Result<Child> {
    let mut shell = Command::new("sh");
    // Both streams in one pipe, so that what was printed last is kept, in its order.
    let command = format!("exec 2>&1\n{command}");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    #[cfg(unix)]
    shell.process_group(0);
    shell.spawn()
}

async fn watch_command(child: &mut Child, given_up: impl Future<Output = ()>) -> CommandRun {
    let mut output = Vec::new();
    let ended = {
        let reading = keep_last(child.stdout.take(), &mut output);
        let (mut reading, mut given_up) = (std::pin::pin!(reading), std::pin::pin!(given_up));
        let mut is_read = false;
        let (status, is_killed) = loop {
            tokio::select! {
                status = child.wait() => break (status, false),
                () = &mut reading, if !is_read => is_read = true,
                () = &mut given_up => {
                    kill_group(child);
                    break (timeout(LAST_WAIT, child.wait()).await.unwrap_or_else(|late| Err(late.into())), true);
                }
            }
        };
        if !is_read {
            let _ = timeout(LAST_OUTPUT, reading).await;
        }
        status.map(|status| (status, is_killed))
    };
    let failure = match &ended {
        Ok((_, true)) => Some("had not ended in time, and was killed".to_owned()),
        Ok((status, false)) => (!status.success()).then(|| format!("ended with {status}")),
        Err(error) => Some(format!("could not be waited for: {error}")),
    };
    CommandRun {
        exit_code: ended.ok().and_then(|(status, _): (ExitStatus, bool)| status.code()),
        failure,
        output: String::from_utf8_lossy(&output).into_owned(),
        ..CommandRun::default()
    }
}

/// Reads to the end, and keeps the last bytes.
async fn keep_last(pipe: Option<impl AsyncRead + Unpin>, last: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut portion = [0; MAX_OUTPUT];
    while let Ok(length @ 1..) = pipe.read(&mut portion).await {
        last.extend_from_slice(&portion[..length]);
        let excess = last.len().saturating_sub(MAX_OUTPUT);
        last.drain(..excess);
    }
}

#[cfg(unix)]
fn kill_group(child: &Child) {
    if let Some(id) = child.id() {
        // SAFETY: no memory is passed. The shell has not been waited for, so that the group of its id is still its own.
        unsafe { libc::kill(-(id as libc::pid_t), libc::SIGKILL) };
    }
}

#[cfg(not(unix))]
fn kill_group(child: &mut Child) {
    let _ = child.start_kill();
}
