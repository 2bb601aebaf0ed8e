//! The pause between attempts to receive.

use std::time::Duration;

/// The first pause after an error. It doubles while errors follow each other, so that a broker that is away keeps no core
/// busy, and ends with the first attempt that succeeds.
const SHORTEST: Duration = Duration::from_millis(5);

/// A broker that comes back is read from again at most this much later.
const LONGEST: Duration = Duration::from_millis(250);

/// How long one who receives waits before the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceivePause(Duration);

impl ReceivePause {
    pub fn succeeded(&mut self) {
        self.0 = Duration::ZERO;
    }

    pub fn failed(&mut self) {
        self.0 = (self.0 * 2).clamp(SHORTEST, LONGEST);
    }

    pub async fn rest(self) {
        // Even a pause of nothing would last until the timer's next millisecond.
        if !self.0.is_zero() {
            tokio::time::sleep(self.0).await;
        }
    }
}
