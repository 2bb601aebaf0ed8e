//! The pause between attempts to receive.

use std::time::Duration;

/// The first pause after an error. It doubles with each further error, so that a missing broker does not keep a core busy, and
/// ends with the first success.
const SHORTEST: Duration = Duration::from_millis(5);

/// The longest pause: a broker that comes back is read from again after at most this time.
const LONGEST: Duration = Duration::from_millis(250);

/// How long a consumer waits before it receives again.
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
        // A sleep of zero would last until the timer's next millisecond.
        if !self.0.is_zero() {
            tokio::time::sleep(self.0).await;
        }
    }
}
