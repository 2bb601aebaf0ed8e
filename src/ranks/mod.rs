//! The processes that MPI started together, its *ranks*, which run one scenario in shares.
//!
//! MPI starts the processes, tells each its number, and carries the first message: the scenario, and where rank 0 listens. After that
//! the ranks talk over TCP connections of their own, because a rank that dies ends an MPI job, but only its connection here
//! (docs/decisions/0012-mpi.md).
//!
//! - `job`: what MPI itself does.
//! - `message`: what ranks tell each other, and how it is written.
//! - `hub`: rank 0's side, with a connection to each rank, itself included, and what all ranks did in one second. `member`: a rank's side.
//! - `clock`: how far clocks are apart, by round trips.

mod clock;
mod hub;
mod job;
mod member;
mod message;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use hub::{Event, Hub, JointSecond, addresses};
pub use job::{Job, RankPlace, is_launched};
pub use member::Member;
pub use message::{Counters, FromRank, FromRoot, Hello, KnownClock, Order};

use crate::scenario::units;

/// Time for all ranks to connect, after MPI has started them.
const JOIN: Duration = Duration::from_secs(60);

/// A rank that says nothing for so long is lost. Both sides say something every second, as soon as all have connected.
const SILENCE: Duration = Duration::from_secs(15);

/// Shifts the clock that a rank has, as in `50ms`: for tests of what is done about clocks that differ.
const CLOCK_OFFSET: &str = "BROKERMARK_CLOCK_OFFSET";

/// The ranks could not begin together.
#[derive(Debug, thiserror::Error)]
pub enum RanksError {
    #[error("MPI cannot be initialised: start brokermark with the mpirun or srun of the MPI that it was built with")]
    Mpi,
    #[error(
        "{what} within {seconds} s: see that every process that mpirun starts is this program, and that none has died"
    )]
    Silent { what: &'static str, seconds: u64 },
    #[error("{0}")]
    Refused(String),
    #[error(
        "rank {rank} ({host}) is another build than rank 0: {build} and {root_build}. Install the same program on all machines"
    )]
    Build { rank: usize, host: String, build: String, root_build: String },
    #[error(
        "rank 0 cannot be reached at any of {addresses} (last error: {reason}): let ranks connect to each other over TCP"
    )]
    Unreachable { addresses: String, reason: String },
    #[error("rank 0 cannot listen for the other ranks: {0}")]
    Listen(std::io::Error),
    #[error(
        "{} of {size} did not connect within {seconds} s: see that none has died, and let ranks connect to each other over TCP",
        numbered(missing)
    )]
    Missing { missing: Vec<usize>, size: usize, seconds: u64 },
}

/// Numbers of ranks in words.
fn numbered(numbers: &[usize]) -> String {
    const NAMED: usize = 16;
    let named: Vec<String> = numbers.iter().take(NAMED).map(ToString::to_string).collect();
    let more = numbers.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{} {}{more}", if numbers.len() == 1 { "rank" } else { "ranks" }, named.join(", "))
}

/// What a test adds to this rank's clock, in nanoseconds.
pub fn injected_offset_ns() -> i64 {
    let set = std::env::var(CLOCK_OFFSET).unwrap_or_default();
    let (sign, text) = set.strip_prefix('-').map_or((1, set.as_str()), |text| (-1, text));
    units::parse_duration(text).map_or(0, |offset| sign * offset.as_nanos() as i64)
}

/// This rank's wall clock, in nanoseconds since 1970.
fn clock_ns(injected_ns: i64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64).saturating_add_signed(injected_ns)
}
