//! Ctrl-C and SIGTERM: the first ends the load and keeps what was measured, the second ends the program.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::cli::Exit;

/// Turns true with the first signal. A second one ends the process at once.
///
/// # Errors
/// When the signals cannot be listened for.
pub fn watch() -> io::Result<watch::Receiver<bool>> {
    let mut signals = Signals::listen()?;
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        signals.next().await;
        eprintln!("\ninterrupted: waiting for outstanding acknowledgements; once more to end at once");
        sender.send_replace(true);
        signals.next().await;
        std::process::exit(Exit::Interrupted as i32);
    });
    Ok(receiver)
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
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Signals { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
