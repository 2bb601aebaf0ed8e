//! Signals that ask the program to end: the first ends the current phase and keeps the results, the second ends all phases at once,
//! and a third ends the program. A container's runtime sends one signal, and kills
//! the process some time later: then the run ends by a deadline.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use self::system::Signals;
use super::screen;
use crate::cli::Exit;
use crate::engine::Interruption;
use crate::scenario::{Plan, RunLimits};

/// After the second signal: time to write the record and to remove the run's topics, at most.
const LAST_CALL: Duration = Duration::from_secs(5);

/// For giving the terminal back: one that was stopped takes no text.
const RESTORE_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a plan may take to end after a signal that no second one is to be expected after.
pub fn deadline(plan: Option<&Plan>) -> Duration {
    let first = plan.and_then(|plan| plan.trials.first());
    first.map_or(RunLimits::default().signal_deadline, |trial| trial.scenario.run.signal_deadline)
}

/// Counts signals. After the second one the process ends within [`LAST_CALL`], after the third at once. Where the first one is not from a
/// terminal, it ends within `deadline`.
///
/// # Errors
/// When the signals cannot be listened for.
pub fn watch(deadline: Duration) -> Result<Interruption, String> {
    let mut signals = Signals::listen().map_err(cannot_listen)?;
    let (sender, receiver) = watch::channel(0);
    // A signal is counted before it is told. A terminal that was stopped holds up only the thread that tells it.
    tokio::spawn(async move {
        let may_come_again = signals.next().await;
        sender.send_replace(1);
        let next =
            if may_come_again { "once more to wait for nothing else" } else { "ending as `run.signal_deadline` says" };
        spawn_blocking(move || {
            screen::tell(&format!("\ninterrupted: ending this phase, keeping what was measured; {next}"));
        });
        let last_call = if may_come_again { LAST_CALL } else { LAST_CALL.min(deadline) };
        let patience = if may_come_again { Duration::MAX } else { deadline.saturating_sub(last_call) };
        let _ = timeout(patience, signals.next()).await;
        sender.send_replace(2);
        spawn_blocking(move || {
            screen::tell(&format!(
                "\nwaiting for nothing else: writing the record and removing topics, for {} s at most; once more to end at once",
                last_call.as_secs_f32()
            ));
        });
        let _ = timeout(last_call, signals.next()).await;
        let _ = timeout(RESTORE_TIMEOUT, spawn_blocking(screen::restore)).await;
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(Interruption::new(receiver))
}

fn cannot_listen(error: io::Error) -> String {
    format!("cannot listen for signals: {error}")
}

/// A thread that listens for signals, whatever those of the load do.
pub struct SignalThread {
    runtime: Runtime,
    pub interruption: Interruption,
}

impl SignalThread {
    /// See [`watch()`].
    ///
    /// # Errors
    /// When the signals cannot be listened for, or the system starts no more threads.
    pub fn start(deadline: Duration) -> Result<Self, String> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name("brokermark-signals").enable_all().build();
        let runtime = runtime.map_err(cannot_listen)?;
        let interruption = runtime.block_on(async { watch(deadline) })?;
        Ok(SignalThread { runtime, interruption })
    }

    /// Waits for work other than a load.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

/// Resolves with the first signal that asks the program to end.
///
/// # Errors
/// When the signals cannot be listened for.
#[cfg(any(feature = "kafka", feature = "sls-emulator"))]
pub async fn first_signal() -> io::Result<()> {
    let _ = Signals::listen()?.next().await;
    Ok(())
}

/// Ctrl-C, SIGTERM and SIGHUP.
#[cfg(unix)]
mod system {
    use std::io;

    use tokio::signal::unix::{Signal, SignalKind, signal};

    pub struct Signals {
        interrupt: Signal,
        terminate: Signal,
        /// The terminal was closed; `None` where that is to be ignored.
        hang_up: Option<Signal>,
    }

    impl Signals {
        /// # Errors
        /// When the signals cannot be listened for.
        pub fn listen() -> io::Result<Self> {
            // `nohup` starts a program with SIGHUP ignored, and listening would undo that.
            let hang_up = if is_ignored(libc::SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) };
            Ok(Signals {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hang_up,
            })
        }

        /// Resolves with the next of them: whether it comes from a terminal, so that another one may follow. Cancel-safe.
        pub async fn next(&mut self) -> bool {
            let hang_up = async {
                match &mut self.hang_up {
                    Some(hang_up) => hang_up.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.interrupt.recv() => true,
                _ = self.terminate.recv() => false,
                _ = hang_up => false,
            }
        }
    }

    /// Whether this process was started with the signal ignored.
    fn is_ignored(signal: libc::c_int) -> bool {
        // SAFETY: a zeroed `sigaction` is a valid one for the call to overwrite, and without a new action nothing is changed.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
        }
    }
}

/// Ctrl-C, Ctrl-Break and a closed console.
#[cfg(windows)]
mod system {
    use std::io;

    use tokio::signal::windows::{CtrlBreak, CtrlC, CtrlClose, ctrl_break, ctrl_c, ctrl_close};

    pub struct Signals {
        interrupt: CtrlC,
        stop: CtrlBreak,
        /// The console was closed: Windows ends the process five seconds later.
        close: CtrlClose,
    }

    impl Signals {
        /// # Errors
        /// When the signals cannot be listened for.
        pub fn listen() -> io::Result<Self> {
            Ok(Signals { interrupt: ctrl_c()?, stop: ctrl_break()?, close: ctrl_close()? })
        }

        /// Resolves with the next of them: whether it comes from a terminal, so that another one may follow. Cancel-safe.
        pub async fn next(&mut self) -> bool {
            tokio::select! {
                _ = self.interrupt.recv() => true,
                _ = self.stop.recv() => false,
                _ = self.close.recv() => false,
            }
        }
    }
}
