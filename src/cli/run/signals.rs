//! The signals by which a system asks a program to end: Ctrl-C, SIGTERM and SIGHUP; on Windows Ctrl-C, Ctrl-Break and a closed console.

pub use system::Signals;

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

        /// Resolves with the next of them. Cancel-safe.
        pub async fn next(&mut self) {
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
}

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

        /// Resolves with the next of them. Cancel-safe.
        pub async fn next(&mut self) {
            tokio::select! {
                _ = self.interrupt.recv() => {}
                _ = self.stop.recv() => {}
                _ = self.close.recv() => {}
            }
        }
    }
}
