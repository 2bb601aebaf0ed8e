//! Connections that carry no messages: opened at a rate of their own before the load, kept while it runs, and replaced.
//!
//! Opening is an open loop: each connection is due at its time, whether those before it are ready or not, and how long it takes counts from then.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep_until, timeout};

use super::EngineError;
use super::observer::{Observer, SAMPLE_INTERVAL};
use super::prepare::TrialContext;
use crate::broker::{Broker, ClientError, OpenIdle};
use crate::measure::host::resident_memory_bytes;
use crate::measure::{Clock, Distribution, Errors};
use crate::net::tcp;
use crate::scenario;

/// Files that the rest of the process needs at least.
const OTHER_FILES: u64 = 256;

/// What became of connections that carry no messages. Times are by the trial's clock.
#[derive(Debug, Clone)]
pub struct IdleTally {
    /// Connections that were wanted at once.
    pub wanted: u64,
    /// Connections that became ready, and those that are open now.
    pub opened: u64,
    pub open: u64,
    /// Connections that were closed to be replaced.
    pub replaced: u64,
    /// From when a connection was due until it was ready.
    pub time_to_ready: Distribution,
    /// From the first that was due until the last of those wanted at once was ready, or had failed; and how many were ready then.
    pub opening_ns: u64,
    pub opened_at_first: u64,
    /// Memory of this process that they took.
    pub memory_bytes: Option<u64>,
    /// Connections that did not become ready, and those that ended by themselves.
    pub failed: Errors,
    pub lost: Errors,
}

struct Shared {
    open: OpenIdle,
    clock: Clock,
    tally: Mutex<IdleTally>,
    /// Addresses of this machine that they come from, in turn; none: the system chooses.
    sources: Vec<IpAddr>,
    /// The oldest first.
    tasks: Mutex<VecDeque<Kept>>,
    /// Each that was wanted at once is ready, or has failed.
    settled: Notify,
}

/// The task of one connection.
struct Kept {
    number: usize,
    task: AbortHandle,
    /// It has been opened.
    is_open: Arc<AtomicBool>,
}

/// Connections that carry no messages. Dropped, it closes them.
pub(super) struct IdleConnections {
    shared: Arc<Shared>,
    /// The task that opens or replaces them.
    working: AbortHandle,
}

impl IdleConnections {
    /// Opens those that the scenario asks for. Resolves when each is ready or has failed.
    ///
    /// # Errors
    /// When this process may not have as many files open.
    pub async fn open<B: Broker>(
        context: &TrialContext<'_>,
        broker: &B,
        observer: &mut dyn Observer,
    ) -> Result<Option<Self>, EngineError> {
        let Some(wanted) = &context.scenario.idle_connections else { return Ok(None) };
        let open = broker.idle_connections();
        let open =
            open.ok_or_else(|| EngineError::Refused(format!("{} opens no idle connections", B::DESCRIPTOR.title())))?;
        check_open_files(wanted.count as u64).map_err(EngineError::Refused)?;
        let sources = wanted.source_addresses.clone();
        let shared = Arc::new(Shared::new(open, context.acks.clock(), wanted.count, sources));
        let (memory_before, begin_ns) = (resident_memory_bytes(), shared.clock.now_ns());
        let opening = shared.clone().open_all(wanted.rate, wanted.first..wanted.first + wanted.count);
        let idle = IdleConnections { shared, working: tokio::spawn(opening).abort_handle() };
        while timeout(SAMPLE_INTERVAL, idle.shared.settled.notified()).await.is_err() {
            let tally = idle.shared.tally.lock();
            let (open, failed) = (tally.open, tally.failed.total());
            drop(tally);
            observer.idle_connections(open, failed, wanted.count as u64);
        }
        let mut tally = idle.shared.tally.lock();
        tally.opened_at_first = tally.opened;
        tally.opening_ns = idle.shared.clock.now_ns() - begin_ns;
        tally.memory_bytes = resident_memory_bytes().zip(memory_before).map(|(now, before)| now.saturating_sub(before));
        drop(tally);
        Ok(Some(idle))
    }

    /// Begins to replace as many a second as the scenario says.
    pub fn load_begins(&mut self, wanted: &scenario::IdleConnections) {
        if wanted.churn > 0.0 {
            self.working = tokio::spawn(self.shared.clone().replace(wanted.churn)).abort_handle();
        }
    }

    /// Closes them, and tells what became of them.
    pub fn close(self) -> IdleTally {
        self.shared.tally.lock().clone()
    }
}

impl Drop for IdleConnections {
    fn drop(&mut self) {
        self.working.abort();
        self.shared.tasks.lock().drain(..).for_each(|kept| kept.task.abort());
    }
}

impl Shared {
    fn new(open: OpenIdle, clock: Clock, wanted: usize, sources: Vec<IpAddr>) -> Self {
        let tally = IdleTally {
            wanted: wanted as u64,
            opened: 0,
            open: 0,
            replaced: 0,
            time_to_ready: Distribution::new(),
            opening_ns: 0,
            opened_at_first: 0,
            memory_bytes: None,
            failed: Errors::default(),
            lost: Errors::default(),
        };
        Shared { open, clock, tally: Mutex::new(tally), sources, tasks: Mutex::default(), settled: Notify::new() }
    }

    /// Counts what one has come to.
    fn settle(&self, count: impl FnOnce(&mut IdleTally)) {
        let mut tally = self.tally.lock();
        count(&mut tally);
        if tally.opened + tally.failed.total() == tally.wanted {
            self.settled.notify_one();
        }
    }

    /// Opens the connections of these numbers, so many a second.
    async fn open_all(self: Arc<Self>, rate: f64, numbers: Range<usize>) {
        let begin_ns = self.clock.now_ns();
        for (position, number) in numbers.enumerate() {
            let due_ns = self.due(begin_ns, position, rate).await;
            self.clone().begin(number, due_ns);
        }
    }

    /// Replaces so many connections a second: the oldest that is open still, by another one of its number.
    async fn replace(self: Arc<Self>, rate: f64) {
        let begin_ns = self.clock.now_ns();
        for position in 0.. {
            let due_ns = self.due(begin_ns, position, rate).await;
            if let Some(oldest) = self.oldest() {
                oldest.task.abort();
                self.tally.lock().replaced += 1;
                self.clone().begin(oldest.number, due_ns);
            }
        }
    }

    /// Waits until the connection at this position is due. Returns when that was.
    async fn due(&self, begin_ns: u64, position: usize, rate: f64) -> u64 {
        let due_ns = begin_ns + (position as f64 * 1e9 / rate) as u64;
        sleep_until(self.clock.instant(due_ns).into()).await;
        due_ns
    }

    /// Takes the oldest open connection out of the list. One that is still being opened stays: its time, or its failure, is measured.
    fn oldest(&self) -> Option<Kept> {
        let mut tasks = self.tasks.lock();
        while tasks.front().is_some_and(|kept| kept.task.is_finished()) {
            tasks.pop_front();
        }
        let is_open = |kept: &Kept| kept.is_open.load(Ordering::Relaxed) && !kept.task.is_finished();
        let place = tasks.iter().position(is_open)?;
        tasks.remove(place)
    }

    fn begin(self: Arc<Self>, number: usize, due_ns: u64) {
        let is_open = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(self.clone().one(number, due_ns, is_open.clone())).abort_handle();
        self.tasks.lock().push_back(Kept { number, task, is_open });
    }

    /// One connection, for as long as it lives.
    async fn one(self: Arc<Self>, number: usize, due_ns: u64, is_open: Arc<AtomicBool>) {
        let opened = match self.sources.get(number % self.sources.len().max(1)) {
            Some(source) => tcp::connecting_from(*source, (self.open)(number)).await,
            None => (self.open)(number).await,
        };
        let now_ns = self.clock.now_ns();
        let record =
            |errors: &mut Errors, error: ClientError, at_ns| errors.record(error.class, at_ns, || error.message);
        let kept = match opened {
            Ok(kept) => kept,
            Err(error) => return self.settle(|tally| record(&mut tally.failed, error, now_ns)),
        };
        self.settle(|tally| {
            tally.time_to_ready.record(now_ns.saturating_sub(due_ns));
            tally.opened += 1;
            tally.open += 1;
        });
        is_open.store(true, Ordering::Relaxed);
        let _open = Open(&self);
        let error = kept.await;
        record(&mut self.tally.lock().lost, error, self.clock.now_ns());
    }
}

/// A connection that is open until this is dropped.
struct Open<'a>(&'a Shared);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.tally.lock().open -= 1;
    }
}

/// Whether this process may have so many connections open, beside what the rest of it needs.
///
/// # Errors
/// What to do if it may not.
fn check_open_files(connections: u64) -> Result<(), String> {
    let needed = connections + OTHER_FILES;
    let limit = rlimit::getrlimit(rlimit::Resource::NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    if limit >= needed {
        return Ok(());
    }
    Err(format!(
        "{connections} idle connections need as many open files, and this process may have {limit} in all: raise the limit with \
         `ulimit -n {needed}`, as root if it is refused, or lower `idle_connections.count`"
    ))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt;

    use super::*;
    use crate::broker::KeptOpen;

    #[tokio::test]
    async fn connection_that_is_being_opened_is_not_replaced() {
        // The server does not answer the first one.
        let open: OpenIdle = Arc::new(|number: usize| match number {
            0 => pending().boxed(),
            _ => async { Ok::<KeptOpen, ClientError>(pending().boxed()) }.boxed(),
        });
        let shared = Arc::new(Shared::new(open, Clock::start(), 3, Vec::new()));
        (0..3).for_each(|number| shared.clone().begin(number, 0));
        while shared.tally.lock().open < 2 {
            tokio::task::yield_now().await;
        }
        let replaced = || shared.oldest().map(|kept| kept.number);
        assert_eq!([replaced(), replaced(), replaced()], [Some(1), Some(2), None]);
        assert_eq!(shared.tasks.lock().len(), 1, "it is still awaited");
    }
}
