//! What ranks tell each other, and how a message is written to a connection: its length in four bytes, most significant first, and the message
//! as JSON.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::distributed::KeptShare;
use crate::engine::{Phase, Second};
use crate::record::InputFile;

/// The first message of a rank. Every build reads it: the fields with a default are not needed, and others may be added, but none is renamed,
/// removed or given another meaning.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Hello {
    /// What only the ranks of this job know.
    pub token: u64,
    pub rank: usize,
    pub build: String,
    #[serde(default)]
    pub hostname: Option<String>,
    /// The kernel that keeps its clock; `None` where that is not known, or the clock is shifted.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// What is in the files that payloads are made from; of several, one sum of all.
    #[serde(default)]
    pub files: Vec<InputFile>,
    /// Why it cannot run the scenario.
    #[serde(default)]
    pub refusal: Option<String>,
}

impl Hello {
    /// The name of its host, for errors.
    pub fn host(&self) -> &str {
        self.hostname.as_deref().unwrap_or("unknown host")
    }
}

/// A trial that all ranks are to prepare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its place in the plan.
    pub position: usize,
    /// Topics and groups begin with it.
    pub run_id: String,
    /// Below which directory each rank keeps its own record.
    pub directory: PathBuf,
    pub clock: KnownClock,
}

/// What rank 0 knows of a rank's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownClock {
    /// Ranks with the same name read the same clock.
    pub name: String,
    /// What is added to it to get rank 0's.
    pub shift_ns: i64,
    /// Most that it is off after that; `None`: it has answered no ping.
    pub error_ns: Option<u64>,
}

/// A message from rank 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromRoot {
    /// It is rank 0 of this job that was reached.
    Welcome,
    /// A ping, to be answered at once.
    Ping {
        sent_ns: u64,
    },
    /// The ranks cannot run together.
    Refused {
        reason: String,
    },
    Prepare(Order),
    /// All are ready: the load begins at this time of rank 0's clock.
    Begin {
        unix_ns: u64,
    },
    /// So many signals have come that ask for an end.
    Signals(u32),
    /// No further trial comes.
    Goodbye,
}

/// A message to rank 0.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum FromRank {
    Hello(Hello),
    Pong {
        sent_ns: u64,
        clock_ns: u64,
    },
    /// It could begin the load now.
    Ready,
    Second {
        counters: Counters,
        /// The headline latencies of the second, as [`encode_histogram`](crate::record::encode_histogram) writes them; empty: none was
        /// measured.
        latencies: String,
    },
    Signals(u32),
    /// Its trial has ended, and this is what it kept. `unwritten`: why its disk did not take all of that.
    Kept {
        kept: Box<KeptShare>,
        unwritten: Option<String>,
    },
    /// Its trial could not begin, or it has nothing of it that can be merged.
    Failed {
        reason: String,
        interrupted: bool,
        /// Whether the trial's topics exist.
        has_topics: bool,
    },
}

/// What happened at a rank since it told last.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Counters {
    pub phase: u8,
    pub length_ns: u64,
    pub attempted: u64,
    pub acknowledged: u64,
    pub failed: u64,
    pub payload_bytes: u64,
    pub consumed: u64,
    pub in_flight: u64,
    pub cpu_cores: f64,
}

const PHASES: [Phase; 5] = [Phase::Prepare, Phase::WarmUp, Phase::Measure, Phase::Drain, Phase::Verify];

impl Counters {
    pub fn from_second(second: &Second) -> Self {
        Counters {
            phase: PHASES.iter().position(|phase| *phase == second.phase).unwrap_or(0) as u8,
            length_ns: second.end_ns - second.begin_ns,
            attempted: second.attempted,
            acknowledged: second.acknowledged,
            failed: second.failed,
            payload_bytes: second.payload_bytes,
            consumed: second.consumed,
            in_flight: second.in_flight,
            cpu_cores: second.cpu_cores,
        }
    }

    pub fn phase(&self) -> Phase {
        PHASES.get(usize::from(self.phase)).copied().unwrap_or(Phase::Prepare)
    }

    /// Adds what happened at another rank in the same second.
    pub fn add(&mut self, other: &Counters) {
        self.length_ns = self.length_ns.max(other.length_ns);
        self.attempted += other.attempted;
        self.acknowledged += other.acknowledged;
        self.failed += other.failed;
        self.payload_bytes += other.payload_bytes;
        self.consumed += other.consumed;
        self.in_flight += other.in_flight;
        self.cpu_cores += other.cpu_cores;
    }
}

/// The longest message: a record, its seconds, and the numbers of all its messages.
pub(super) const MAX_FRAME_BYTES: u32 = 1 << 30;

/// A message of fewer bytes is read within a millisecond.
const AT_ONCE: usize = 64 << 10;

/// A message as it is sent.
///
/// # Errors
/// When it is longer than `longest`.
pub(super) fn encode_frame(message: &impl Serialize, longest: u32) -> io::Result<Vec<u8>> {
    // The length is known at the end.
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let bytes = frame.len() - 4;
    let length = u32::try_from(bytes).ok().filter(|length| *length <= longest);
    let length =
        length.ok_or_else(|| io::Error::other(format!("{bytes} bytes are more than the {longest} of a message")))?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

pub(super) async fn send_frame(to: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    to.write_all(frame).await?;
    to.flush().await
}

pub(super) async fn write_frame(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    send_frame(to, &encode_frame(message, MAX_FRAME_BYTES)?).await
}

/// Reads the next message. A sender that sends nothing for `silence` is given up, however long its message is.
pub(super) async fn read_frame<M: DeserializeOwned + Send + 'static>(
    from: &mut (impl AsyncRead + Unpin),
    silence: Duration,
) -> io::Result<M> {
    read_frame_up_to(MAX_FRAME_BYTES, from, silence).await
}

/// As [`read_frame`], of a message of at most `longest` bytes.
pub(super) async fn read_frame_up_to<M: DeserializeOwned + Send + 'static>(
    longest: u32,
    from: &mut (impl AsyncRead + Unpin),
    silence: Duration,
) -> io::Result<M> {
    let silent = |_| io::Error::other(format!("nothing came for {} s", silence.as_secs()));
    let length = timeout(silence, from.read_u32()).await.map_err(silent)??;
    if length > longest {
        return Err(io::Error::other(format!("{length} bytes are more than the {longest} of a message")));
    }
    let mut text = Vec::new();
    let mut from = from.take(u64::from(length));
    // As it comes: what a length announces need not come.
    while text.len() < length as usize {
        if timeout(silence, from.read_buf(&mut text)).await.map_err(silent)?? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    match text.len() {
        ..AT_ONCE => Ok(serde_json::from_slice(&text)?),
        // Meanwhile, other connections want answers.
        _ => Ok(spawn_blocking(move || serde_json::from_slice(&text)).await??),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ranks/message.rs"]
mod tests;
