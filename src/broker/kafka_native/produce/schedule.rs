//! What the connection to a node looks at: entries that have something to send, that linger, or that wait after an error.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Lists of entries, and what wakes the task that looks at them.
pub struct Schedule<T> {
    lists: Mutex<Lists<T>>,
    work: Notify,
}

struct Lists<T> {
    /// Something can be sent.
    ready: VecDeque<Arc<T>>,
    /// It has waited for more messages at that moment. All wait for the same time, so the first is due first.
    lingering: VecDeque<(Instant, Arc<T>)>,
    /// After errors.
    later: Vec<(Instant, Arc<T>)>,
}

impl<T> Default for Schedule<T> {
    fn default() -> Self {
        let lists = Lists { ready: VecDeque::new(), lingering: VecDeque::new(), later: Vec::new() };
        Schedule { lists: Mutex::new(lists), work: Notify::new() }
    }
}

impl<T> Schedule<T> {
    /// Waits until something is on a list that was not.
    pub async fn work(&self) {
        self.work.notified().await;
    }

    /// Something of the entry can be sent.
    pub fn add(&self, entry: Arc<T>) {
        self.lists.lock().ready.push_back(entry);
        self.work.notify_one();
    }

    /// The same of several entries, by the task itself.
    pub fn add_again(&self, entries: impl IntoIterator<Item = Arc<T>>) {
        self.lists.lock().ready.extend(entries);
    }

    /// The entry is sent at `due` at the latest.
    pub fn linger(&self, due: Instant, entry: Arc<T>) {
        let mut lists = self.lists.lock();
        let is_first = lists.lingering.is_empty();
        lists.lingering.push_back((due, entry));
        drop(lists);
        if is_first {
            self.work.notify_one();
        }
    }

    /// Nothing of the entry is sent before `moment`.
    pub fn postpone(&self, moment: Instant, entry: Arc<T>) {
        self.lists.lock().later.push((moment, entry));
    }

    /// Takes the entry off the lists of what can be sent, now or later. Returns whether it was on one.
    pub fn remove(&self, entry: &Arc<T>) -> bool {
        let mut lists = self.lists.lock();
        let before = lists.ready.len() + lists.later.len();
        lists.ready.retain(|one| !Arc::ptr_eq(one, entry));
        lists.later.retain(|(_, one)| !Arc::ptr_eq(one, entry));
        lists.ready.len() + lists.later.len() < before
    }

    /// The next entry of which something can be sent.
    pub fn next(&self) -> Option<Arc<T>> {
        self.lists.lock().ready.pop_front()
    }

    /// Whether something of an entry can be sent.
    pub fn has_ready(&self) -> bool {
        !self.lists.lock().ready.is_empty()
    }

    /// When a list has to be looked at again.
    pub fn next_due(&self) -> Option<Instant> {
        let lists = self.lists.lock();
        let later = lists.later.iter().map(|(due, _)| *due);
        later.chain(lists.lingering.front().map(|(due, _)| *due)).min()
    }

    /// Makes ready what was postponed until `now`, and takes what has waited for messages until then.
    pub fn take_lingered(&self, now: Instant) -> Vec<Arc<T>> {
        let mut due = Vec::new();
        let mut lists = self.lists.lock();
        while lists.lingering.front().is_some_and(|(moment, _)| *moment <= now) {
            due.extend(lists.lingering.pop_front().map(|(_, entry)| entry));
        }
        let later: Vec<_> = lists.later.extract_if(.., |(moment, _)| *moment <= now).collect();
        lists.ready.extend(later.into_iter().map(|(_, entry)| entry));
        due
    }

    /// Takes every entry of which something can be sent, now or later.
    pub fn take_all(&self) -> VecDeque<Arc<T>> {
        let mut lists = self.lists.lock();
        let mut all = std::mem::take(&mut lists.ready);
        all.extend(lists.later.drain(..).map(|(_, entry)| entry));
        all
    }
}
