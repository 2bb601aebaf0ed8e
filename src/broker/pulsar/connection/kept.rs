//! Entries to be sent again, with `resend`: what a producer had sent when the broker closed it or its connection broke.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Entry, Unanswered};

/// An entry without an answer.
pub struct KeptEntry {
    pub entry: Entry,
    /// When it was handed over for the first time.
    pub since: Instant,
    pub messages: Vec<Unanswered>,
    /// As it was sent.
    pub frame: Box<[u8]>,
}

/// A partition producer's entries to be sent again, oldest first.
pub struct Kept {
    entries: Mutex<Vec<KeptEntry>>,
    /// There are entries.
    returned: Arc<Notify>,
}

impl Kept {
    pub fn new(returned: Arc<Notify>) -> Self {
        Kept { entries: Mutex::default(), returned }
    }

    pub fn put(&self, entries: impl Iterator<Item = KeptEntry>) {
        self.entries.lock().extend(entries);
        self.returned.notify_one();
    }

    pub fn take(&self) -> Vec<KeptEntry> {
        std::mem::take(&mut *self.entries.lock())
    }

    pub fn is_empty(&self) -> bool {
        self.entries.lock().is_empty()
    }
}
