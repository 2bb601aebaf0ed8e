//! How the ranks find rank 0 at one of its machine's addresses, and what is done where they cannot run together.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{Connection, Event, Hub};
use crate::ranks::clock::Stage;
use crate::ranks::message::{self, FromRoot, Hello};
use crate::ranks::{JOIN, RanksError, SILENCE};

/// The longest first message: why a rank cannot run the scenario is the most of it.
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
    pub async fn gather(listener: TcpListener, size: usize, token: u64, injected_ns: i64) -> Result<Self, JoinError> {
        Hub::gather_within(JOIN, listener, size, token, injected_ns).await
    }

    pub(super) async fn gather_within(
        patience: Duration,
        listener: TcpListener,
        size: usize,
        token: u64,
        injected_ns: i64,
    ) -> Result<Self, JoinError> {
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
            Some(error) => Err(JoinError { error, hub }),
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
pub struct JoinError {
    /// Why they cannot.
    pub error: RanksError,
    hub: Hub,
}

impl JoinError {
    /// Tells those that have connected why, and waits until they have closed their connections.
    pub async fn dismiss(self, patience: Duration) {
        let JoinError { error, mut hub } = self;
        hub.tell_all(&FromRoot::Refused { reason: error.to_string() });
        let mut connected: Vec<usize> = hub.reachable().collect();
        // After the last order, the connections are closed from here as well.
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

/// Takes connections, and hands over those of this job's ranks. Any process may connect: what strangers may take is bounded. All of them end
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
    let hello: Hello = message::read_frame_up_to(MAX_HELLO, &mut stream, SILENCE).await?;
    if hello.token != token || hello.rank >= size {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    message::write_frame(&mut stream, &FromRoot::Welcome).await?;
    Ok((hello, stream))
}

/// Addresses of all interfaces that are up: those of a network first, those of the machine itself last.
pub fn addresses() -> Vec<IpAddr> {
    let mut found = interface_addresses();
    if !found.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)) {
        found.push(Ipv4Addr::LOCALHOST.into());
    }
    found.sort_by_key(|address| (address.is_loopback(), address.is_ipv6()));
    found.dedup();
    found
}

fn interface_addresses() -> Vec<IpAddr> {
    let mut found = Vec::new();
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the call writes a pointer to `first`, which is there to be written to.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return found;
    }
    let mut next = first;
    while !next.is_null() {
        // SAFETY: the list is valid until it is freed below, and ends with a null pointer (getifaddrs(3)).
        let interface = unsafe { &*next };
        // SAFETY: `ifa_addr` is null or points to an address of the list.
        found.extend(unsafe { address(interface.ifa_addr) });
        next = interface.ifa_next;
    }
    // SAFETY: `first` is the list that `getifaddrs` made, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    found
}

/// # Safety
/// The pointer is null, or points to an address whose structure is that of its family.
unsafe fn address(of: *const libc::sockaddr) -> Option<IpAddr> {
    if of.is_null() {
        return None;
    }
    // SAFETY: not null, and every address begins with its family.
    match i32::from(unsafe { (*of).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says which structure this is; it may not be aligned for it.
            let address = unsafe { of.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes()).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { of.cast::<libc::sockaddr_in6>().read_unaligned() };
            // An address of one link needs the interface's number, which means nothing on another machine.
            let address = Ipv6Addr::from(address.sin6_addr.s6_addr);
            (!address.is_unicast_link_local()).then(|| address.into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_itself_can_always_be_reached_and_comes_last() {
        let found = addresses();
        assert!(found.contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)), "{found:?}");
        let first_local = found.iter().position(IpAddr::is_loopback).unwrap();
        assert!(found[first_local..].iter().all(IpAddr::is_loopback), "{found:?}");
    }
}
