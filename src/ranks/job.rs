//! What MPI does for the ranks: it tells each its number, and carries one message from rank 0 to all.
//!
//! MPI's calls block for as long as another rank is missing, so they have a thread of their own, and this one waits for it only so long. The
//! thread leaves MPI (`MPI_Finalize`) when the message has arrived: a process that has left is not missed by the others' calls when it dies.

use std::ffi::c_int;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::RanksError;
use crate::measure::host::{CoreSet, HostShare};

/// The most bytes of one call, whose length is an `int`.
const MAX: usize = 1 << 30;

/// How long MPI may take to start all ranks, and after that for rank 0's message: it first reads the scenario and makes the payloads.
const START: Duration = Duration::from_secs(120);

/// How long a rank waits until all have left MPI. Without one that died before, the others go on.
const LEAVE: Duration = Duration::from_secs(5);

/// Variables that say which rank a process is: of Open MPI's mpirun; of process managers with PMI, such as MPICH's; with PMIx.
const RANK_VARIABLES: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];

/// Whether MPI has started this process.
pub fn is_launched() -> bool {
    RANK_VARIABLES.iter().any(|variable| std::env::var_os(variable).is_some())
}

/// The processes that MPI started together.
pub struct Job {
    pub place: RankPlace,
    message: Sender<Vec<u8>>,
    received: Receiver<Vec<u8>>,
    left: Receiver<()>,
}

impl Job {
    /// Joins the others.
    ///
    /// # Errors
    /// When MPI cannot be initialised, or has not started all ranks in time.
    pub fn join() -> Result<Self, RanksError> {
        let (tell, joined) = channel();
        let (message, to_send) = channel();
        let (deliver, received) = channel();
        let (leave, left) = channel();
        let part = move || take_part(&tell, &to_send, &deliver, &leave);
        let spawned = thread::Builder::new().name("brokermark-mpi".into()).spawn(part);
        spawned.map_err(|_| RanksError::Mpi)?;
        let place = within(START, &joined, "not all ranks have joined MPI's job")?;
        Ok(Job { place, message, received, left })
    }

    /// Sends rank 0's message to all, and leaves MPI; returns the message.
    ///
    /// # Errors
    /// When MPI has failed, or the message has not come in time.
    pub fn broadcast(self, message: Vec<u8>) -> Result<Vec<u8>, RanksError> {
        self.broadcast_within(message, START, LEAVE)
    }

    fn broadcast_within(self, message: Vec<u8>, start: Duration, leave: Duration) -> Result<Vec<u8>, RanksError> {
        self.message.send(message).map_err(|_| RanksError::Mpi)?;
        let message = within(start, &self.received, "rank 0's message has not reached all ranks")?;
        // Who is missing is found out over the connections.
        let _ = self.left.recv_timeout(leave);
        Ok(message)
    }
}

/// What the thread tells within this time.
fn within<T>(patience: Duration, from: &Receiver<T>, otherwise: &'static str) -> Result<T, RanksError> {
    from.recv_timeout(patience).map_err(|error| match error {
        RecvTimeoutError::Timeout => RanksError::Silent { what: otherwise, seconds: patience.as_secs() },
        RecvTimeoutError::Disconnected => RanksError::Mpi,
    })
}

/// Where a rank is among the others.
#[derive(Debug, Clone, Copy)]
pub struct RankPlace {
    /// Which of them this is, from 0.
    pub rank: usize,
    /// How many they are.
    pub size: usize,
    /// Which of those on this host.
    pub host_share: HostShare,
    /// The cores on which one of those may run.
    pub host_cores: CoreSet,
    /// Whether no two of them may run on the same core.
    pub is_bound: bool,
}

impl RankPlace {
    /// How many cores this rank has: its own, where MPI binds each rank of the host to some, else its part of those that all may use.
    /// `available`: how many this one may use, of which `allowed` tells the numbers. A quota below those is that of all.
    pub fn cores(&self, available: usize, allowed: Option<CoreSet>) -> usize {
        let is_limited = allowed.is_none_or(|allowed| available < allowed.count());
        if self.is_bound && !is_limited {
            return available;
        }
        let of_host = if is_limited { available } else { self.host_cores.count() };
        available.min(of_host / self.host_share.count).max(1)
    }
}

/// The thread's part.
fn take_part(joined: &Sender<RankPlace>, to_send: &Receiver<Vec<u8>>, deliver: &Sender<Vec<u8>>, left: &Sender<()>) {
    let Some(place) = mpi::join() else { return };
    let rank = place.rank;
    if joined.send(place).is_err() {
        return;
    }
    let Ok(message) = to_send.recv() else { return };
    let mut length = (message.len() as u64).to_ne_bytes();
    if !mpi::broadcast(&mut length) {
        return;
    }
    let length = u64::from_ne_bytes(length) as usize;
    if length > MAX {
        return;
    }
    let mut bytes = if rank == 0 { message } else { vec![0; length] };
    if mpi::broadcast(&mut bytes) {
        let _ = deliver.send(bytes);
    }
    mpi::leave();
    let _ = left.send(());
}

/// What `job.c` makes of MPI. One thread calls it, in this order.
mod mpi {
    use super::{CoreSet, HostShare, RankPlace, c_int};

    unsafe extern "C" {
        fn brokermark_mpi_join(
            rank: *mut c_int,
            size: *mut c_int,
            local_rank: *mut c_int,
            local_size: *mut c_int,
            cores: *mut u8,
            cores_bytes: c_int,
            core_count: *mut c_int,
        ) -> c_int;
        fn brokermark_mpi_broadcast(bytes: *mut u8, length: c_int) -> c_int;
        fn brokermark_mpi_leave();
    }

    /// `None` where MPI cannot be used.
    pub(super) fn join() -> Option<RankPlace> {
        let (mut rank, mut size, mut local_rank, mut local_size) = (0, 0, 0, 0);
        let mut host_cores = CoreSet::allowed().unwrap_or_default();
        let mut core_count = c_int::try_from(host_cores.count()).ok()?;
        let words = host_cores.words_mut();
        let bytes = c_int::try_from(size_of_val(words)).ok()?;
        // SAFETY: all are there to be written to, `cores` with so many bytes; MPI is initialised once, because a job is joined once.
        let failed = unsafe {
            brokermark_mpi_join(
                &raw mut rank,
                &raw mut size,
                &raw mut local_rank,
                &raw mut local_size,
                words.as_mut_ptr().cast(),
                bytes,
                &raw mut core_count,
            )
        };
        if failed != 0 {
            return None;
        }
        let [rank, size, number, count] =
            [rank, size, local_rank, local_size].map(|number| usize::try_from(number).ok());
        let host_share = HostShare { number: number?, count: count?.max(1) };
        let is_bound = usize::try_from(core_count).is_ok_and(|count| count > 0 && count == host_cores.count());
        Some(RankPlace { rank: rank?, size: size?, host_share, host_cores, is_bound })
    }

    /// Sends rank 0's bytes to all; whether that succeeded. All ranks have the same length.
    pub(super) fn broadcast(bytes: &mut [u8]) -> bool {
        if bytes.is_empty() {
            // The pointer to nothing is 1, which Open MPI takes for MPI_IN_PLACE.
            return true;
        }
        let Ok(length) = c_int::try_from(bytes.len()) else { return false };
        // SAFETY: so many bytes are there to be read and written.
        unsafe { brokermark_mpi_broadcast(bytes.as_mut_ptr(), length) == 0 }
    }

    pub(super) fn leave() {
        // SAFETY: MPI is initialised, and this thread makes no further call.
        unsafe { brokermark_mpi_leave() }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ranks/job.rs"]
mod tests;
