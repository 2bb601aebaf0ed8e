//! A consumer as a member of its group: which streams it reads, and where it begins; and what the members in this process know together.
//!
//! By default the streams are shared out by number, and the member reads its own for as long as it lives. With single active
//! consumers, each member subscribes to all streams, and the server tells one of them to read: it sends `ConsumerUpdate` and
//! waits for the response. A member that shall read answers with the offset to begin at. One that shall stop answers when it has
//! committed its messages; only then another member is told to read.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::admin::Failure;
use super::codec::frame::ConsumerUpdate;
use super::offsets::OffsetTracking;

/// A stream that no member in this process has read for so long is read by another process.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// A group whose members share streams.
pub struct Group {
    state: Mutex<GroupState>,
}

struct GroupState {
    /// Offsets at which the next member begins, by stream, unless one is stored for the group.
    positions: BTreeMap<String, u64>,
    /// Streams that no member in this process reads, and since when.
    unread: BTreeMap<String, Instant>,
}

impl Group {
    pub fn new(streams: impl Iterator<Item = String>) -> Self {
        let now = Instant::now();
        let unread = streams.map(|stream| (stream, now)).collect();
        Group { state: Mutex::new(GroupState { positions: BTreeMap::new(), unread }) }
    }

    /// The first member found out where a stream is begun at: all others begin there as well.
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

/// A member's part in reading a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Inactive,
    Active,
    /// The server waits until the member has stopped.
    Leaving,
}

/// A consumer's place in its group.
pub struct Membership {
    pub name: Arc<str>,
    pub tracking: Arc<OffsetTracking>,
    /// Whether the group's offsets are stored on the server.
    pub commits: bool,
    /// `None`: the streams are shared out by number.
    pub sharing: Option<Sharing>,
}

/// What a member knows of the streams that it shares with others.
pub struct Sharing {
    pub group: Arc<Group>,
    /// Roles by source.
    roles: Vec<Role>,
    /// Unanswered updates of streams that are to be left, and of those that are to be read.
    leaving: Vec<Update>,
    joining: Vec<Update>,
    /// Looks for the offsets at which streams begin.
    /// A task, because a member that commits does not poll it, and waits for the same connection.
    activating: Option<JoinHandle<Activated>>,
    /// Sources whose connection was lost, and whose messages may still be in work.
    dropped: Vec<usize>,
}

/// A `ConsumerUpdate` that waits for its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// The number of the connection that it came over.
    pub connection: u64,
    pub update: ConsumerUpdate,
    pub source: usize,
}

/// Streams that are to be read, each with the offset to begin at; `None`: where the scenario sets.
pub type Activated = Vec<(Update, Result<Option<u64>, Failure>)>;

impl Sharing {
    pub fn new(group: Arc<Group>, sources: usize) -> Self {
        Sharing {
            group,
            roles: vec![Role::Inactive; sources],
            leaving: Vec::new(),
            joining: Vec::new(),
            activating: None,
            dropped: Vec::new(),
        }
    }

    /// Whether this member reads a stream, or has not stopped yet.
    pub fn has(&self, source: usize) -> bool {
        self.roles[source] != Role::Inactive
    }

    /// Whether this member reads a stream and may go on.
    pub fn keeps(&self, source: usize) -> bool {
        self.roles[source] == Role::Active
    }

    /// Whether the group waits for this member to stop.
    pub fn is_awaited(&self) -> bool {
        !self.leaving.is_empty() || !self.dropped.is_empty()
    }

    /// The server has sent an update.
    pub fn updated(&mut self, update: Update) {
        if update.update.active {
            self.joining.push(update);
        } else {
            self.roles[update.source] = Role::Leaving;
            self.leaving.push(update);
        }
    }

    /// The updates of streams that this member leaves now.
    pub fn leave(&mut self) -> Vec<Update> {
        for update in &self.leaving {
            self.roles[update.source] = Role::Inactive;
        }
        std::mem::take(&mut self.leaving)
    }

    /// A connection was lost: the server tells other members to read its streams.
    pub fn lose(&mut self, connection: u64, sources: &[usize]) {
        self.leaving.retain(|update| update.connection != connection);
        self.joining.retain(|update| update.connection != connection);
        sources.iter().for_each(|source| self.roles[*source] = Role::Inactive);
        self.dropped.extend(sources);
    }

    /// The sources whose connections were lost, to be subscribed to again.
    pub fn take_dropped(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.dropped)
    }

    /// Begins to look for the offsets of streams that are to be read.
    pub fn begin_activation(
        &mut self,
        name: &Arc<str>,
        tracking: Option<&Arc<OffsetTracking>>,
        stream: impl Fn(usize) -> String,
    ) {
        if self.activating.is_some() || self.joining.is_empty() {
            return;
        }
        // The server may want a stream read again that it has not been left yet.
        let leaving = &self.leaving;
        let joining = self.joining.extract_if(.., |update| !leaving.iter().any(|left| left.source == update.source));
        let joining: Vec<(Update, String)> = joining
            .map(|update| {
                let stream = stream(update.source);
                (update, stream)
            })
            .collect();
        if joining.is_empty() {
            return;
        }
        let (group, name, tracking) = (self.group.clone(), name.clone(), tracking.cloned());
        self.activating = Some(tokio::spawn(async move {
            let mut activated = Vec::new();
            for (update, stream) in joining {
                let stored = match &tracking {
                    Some(tracking) => tracking.next(&name, &stream).await,
                    None => Ok(None),
                };
                activated.push((update, stored.map(|stored| stored.or_else(|| group.position(&stream)))));
            }
            activated
        }));
    }

    /// Resolves when offsets were found.
    pub fn poll_activated(&mut self, context: &mut Context<'_>) -> Poll<Activated> {
        let Some(activating) = &mut self.activating else { return Poll::Pending };
        let activated = ready!(Pin::new(activating).poll(context));
        self.activating = None;
        match activated {
            Ok(activated) => Poll::Ready(activated),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The program ends.
            Err(_) => Poll::Pending,
        }
    }

    /// The member reads a stream from now on.
    pub fn activate(&mut self, source: usize) {
        self.roles[source] = Role::Active;
    }

    /// The offset could not be found out: it is looked for again.
    pub fn postpone(&mut self, update: Update) {
        self.joining.push(update);
    }
}
