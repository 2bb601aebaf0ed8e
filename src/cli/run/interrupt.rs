//! Ctrl-C, SIGTERM and SIGHUP: the first ends the current phase and keeps the results, the second ends all phases at once,
//! and a third ends the program.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::screen;
use crate::cli::Exit;
use crate::engine::Interruption;

/// After the second signal: time to write the record and to remove the run's topics.
const LAST_CALL: Duration = Duration::from_secs(5);

/// Counts signals. After the second one the process ends within [`LAST_CALL`], after the third at once.
///
/// # Errors
/// When the signals cannot be listened for.
pub fn watch() -> io::Result<Interruption> {
    let mut signals = Signals::listen()?;
    let (sender, receiver) = watch::channel(0);
    tokio::spawn(async move {
        signals.next().await;
        screen::tell("\ninterrupted: ending this phase, keeping what was measured; once more to wait for nothing else");
        sender.send_replace(1);
        signals.next().await;
        screen::tell(&format!(
            "\ninterrupted again: writing the record and removing topics, for {} s at most; once more to end at once",
            LAST_CALL.as_secs()
        ));
        sender.send_replace(2);
        tokio::select! {
            () = signals.next() => {}
            () = tokio::time::sleep(LAST_CALL) => {}
        }
        screen::restore();
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(Interruption::new(receiver))
}

#[cfg(any(feature = "kafka", feature = "sls"))]
/// Resolves with the first signal that asks the program to end.
///
/// # Errors
/// When the signals cannot be listened for.
pub async fn first_signal() -> io::Result<()> {
    Signals::listen()?.next().await;
    Ok(())
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// The terminal was closed; `None` where that is to be ignored.
    hang_up: Option<Signal>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        // `nohup` starts a program with SIGHUP ignored, and listening would undo that.
        let hang_up = if is_ignored(libc::SIGHUP) { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up,
        })
    }

    async fn next(&mut self) {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hang_up => {}
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
