//! What the members of a group in this process know together, where the server decides which of them reads a stream.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A stream that no member in this process has read for so long is read by another process.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// A group whose members share streams.
pub struct Group {
    state: Mutex<State>,
}

struct State {
    /// Where the next member begins, by stream, unless an offset is stored for the group.
    positions: BTreeMap<String, u64>,
    /// Streams that no member in this process reads, and since when.
    unread: BTreeMap<String, Instant>,
}

impl Group {
    pub fn new(streams: impl Iterator<Item = String>) -> Self {
        let now = Instant::now();
        let unread = streams.map(|stream| (stream, now)).collect();
        Group { state: Mutex::new(State { positions: BTreeMap::new(), unread }) }
    }

    /// The first member found out where a stream is begun at: all others begin there, too.
    pub fn begin_at(&self, stream: &str, offset: u64) {
        self.state.lock().positions.entry(stream.to_owned()).or_insert(offset);
    }

    /// Where a stream is begun at, if nothing is stored; `None`: where the scenario sets.
    pub fn position(&self, stream: &str) -> Option<u64> {
        self.state.lock().positions.get(stream).copied()
    }

    /// A member of this process reads the stream.
    pub fn acquired(&self, stream: &str) {
        self.state.lock().unread.remove(stream);
    }

    /// A member of this process reads the stream no more; `next`: the offset at which another one begins.
    pub fn released(&self, stream: &str, next: Option<u64>) {
        let mut state = self.state.lock();
        state.unread.insert(stream.to_owned(), Instant::now());
        if let Some(next) = next {
            state.positions.insert(stream.to_owned(), next);
        }
    }

    /// Whether no stream is on its way from one member to another, as far as this process can know.
    pub fn is_settled(&self) -> bool {
        self.state.lock().unread.values().all(|since| since.elapsed() >= SETTLED_AFTER)
    }
}
