//! How the ranks find rank 0, and what is done where they cannot run together.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{Connection, Event, Hub};
use crate::ranks::clock::Stage;
use crate::ranks::message::{FromRoot, Hello};
use crate::ranks::{JOIN, RanksError, SILENCE, frame};

/// The longest first message: the names and sums of payload files are the most of it.
const MAX_HELLO: u32 = 1 << 20;

/// Connections beside those of the ranks that may be open before they have said who they are.
const MAX_STRANGERS: usize = 64;

/// Before connections are taken again after an error, such as too many open files.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Hub {
    /// Waits until all ranks of the job have connected.
    ///
    /// # Errors
    /// When one does not come, or the ranks cannot run together.
    pub async fn gather(listener: TcpListener, size: usize, token: u64, injected_ns: i64) -> Result<Self, Ungathered> {
        Hub::gather_within(JOIN, listener, size, token, injected_ns).await
    }

    pub(super) async fn gather_within(
        patience: Duration,
        listener: TcpListener,
        size: usize,
        token: u64,
        injected_ns: i64,
    ) -> Result<Self, Ungathered> {
        let (joined, mut joining) = unbounded_channel();
        let accepting = tokio::spawn(accept(listener, token, size, joined));
        let mut found: Vec<Option<(Hello, TcpStream)>> = (0..size).map(|_| None).collect();
        let deadline = Instant::now() + patience;
        while found.iter().any(Option::is_none) {
            match timeout_at(deadline, joining.recv()).await {
                Ok(Some((hello, stream))) => {
                    let rank = hello.rank;
                    found[rank] = Some((hello, stream));
                }
                _ => break,
            }
        }
        accepting.abort();
        let (event, events) = unbounded_channel();
        let ranks = found.into_iter().enumerate().map(|(rank, found)| match found {
            Some((hello, stream)) => Connection::begin(hello, stream, &event, injected_ns),
            None => Connection::missing(rank),
        });
        let hub = Hub { ranks: ranks.collect(), events, waiting: VecDeque::new(), stage: Stage::Before, injected_ns };
        match hub.refusal(patience) {
            None => Ok(hub),
            Some(error) => Err(Ungathered { error, hub }),
        }
    }

    /// Why the ranks cannot begin.
    fn refusal(&self, patience: Duration) -> Option<RanksError> {
        if let Some(reason) = self.disagreement() {
            return Some(RanksError::Refused(reason));
        }
        let missing: Vec<usize> = (0..self.size()).filter(|rank| self.ranks[*rank].orders.is_none()).collect();
        (!missing.is_empty()).then(|| RanksError::Missing { missing, size: self.size(), seconds: patience.as_secs() })
    }

    /// Why the ranks cannot run one scenario together.
    fn disagreement(&self) -> Option<String> {
        let connected = || self.reachable().map(|rank| &self.ranks[rank].hello);
        let first = connected().next()?;
        connected().find_map(|other| {
            let (rank, host) = (other.rank, other.host());
            if let Some(reason) = &other.refusal {
                return Some(format!("rank {rank} ({host}) cannot run the scenario: {reason}"));
            }
            if other.build != first.build {
                let (host, build, root_build) = (host.to_owned(), other.build.clone(), first.build.clone());
                return Some(RanksError::Build { rank, host, build, root_build }.to_string());
            }
            (other.files != first.files).then(|| {
                format!("rank {rank} ({host}) has other payload files than rank 0: copy the same ones to all machines")
            })
        })
    }
}

/// Ranks that cannot run together.
#[derive(Debug)]
pub struct Ungathered {
    /// Why they cannot.
    pub error: RanksError,
    hub: Hub,
}

impl Ungathered {
    /// Tells those that have connected why, and waits until they have closed their connections.
    pub async fn dismiss(self, patience: Duration) {
        let Ungathered { error, mut hub } = self;
        hub.tell_all(&FromRoot::Refused { reason: error.to_string() });
        let mut connected: Vec<usize> = hub.reachable().collect();
        // After the last order, the connections are closed from here, too.
        hub.ranks.iter_mut().for_each(|rank| rank.orders = None);
        let gone = async {
            while !connected.is_empty()
                && let Some((rank, event)) = hub.events.recv().await
            {
                connected.retain(|one| *one != rank || !matches!(event, Event::Lost(_)));
            }
        };
        let _ = timeout(patience, gone).await;
    }
}

/// Takes connections, and hands over those of this job's ranks. Anybody may connect: what strangers may take is bounded. All of them end
/// with this future.
async fn accept(listener: TcpListener, token: u64, size: usize, joined: UnboundedSender<(Hello, TcpStream)>) {
    let mut strangers = JoinSet::new();
    loop {
        while strangers.len() >= size + MAX_STRANGERS {
            strangers.join_next().await;
        }
        let (stream, _) = next_of(|| listener.accept()).await;
        while strangers.try_join_next().is_some() {}
        let joined = joined.clone();
        strangers.spawn(async move {
            if let Ok(Ok(welcomed)) = timeout(SILENCE, welcome(stream, token, size)).await {
                let _ = joined.send(welcomed);
            }
        });
    }
}

/// The next that comes. An error is not over at once, and would be found again as fast as the processor allows.
pub(super) async fn next_of<T, F: Future<Output = io::Result<T>>>(mut take: impl FnMut() -> F) -> T {
    loop {
        match take().await {
            Ok(taken) => return taken,
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn welcome(mut stream: TcpStream, token: u64, size: usize) -> io::Result<(Hello, TcpStream)> {
    stream.set_nodelay(true)?;
    let hello: Hello = frame::read_up_to(MAX_HELLO, &mut stream, SILENCE).await?;
    if hello.token != token || hello.rank >= size {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    frame::write(&mut stream, &FromRoot::Welcome).await?;
    Ok((hello, stream))
}
