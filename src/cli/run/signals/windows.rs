//! Ctrl-C, Ctrl-Break and a closed console.

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
