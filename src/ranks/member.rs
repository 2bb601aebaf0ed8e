//! A rank's side: its connection to rank 0.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, copy, sink};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use super::message::{self, FromRank, FromRoot, Hello};
use super::{JOIN, RanksError, SILENCE, clock_ns};

/// How long one address of rank 0 is tried.
const TRY: Duration = Duration::from_secs(3);

/// Before the addresses are tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// A connection to rank 0.
#[derive(Debug)]
pub struct Member {
    to_root: UnboundedSender<FromRank>,
    /// Messages that were encoded before.
    encoded: UnboundedSender<Vec<u8>>,
    orders: UnboundedReceiver<FromRoot>,
}

impl Member {
    /// Connects to rank 0, which listens at one of these addresses at least.
    ///
    /// # Errors
    /// When none of them can be reached.
    pub async fn connect(addresses: &[SocketAddr], hello: &Hello, injected_ns: i64) -> Result<Self, RanksError> {
        let deadline = Instant::now() + JOIN;
        let mut reason = "none was tried".to_owned();
        while Instant::now() < deadline {
            for address in addresses {
                match timeout(TRY, introduce(*address, hello)).await {
                    Ok(Ok(stream)) => return Ok(Member::begin(stream, injected_ns)),
                    Ok(Err(error)) => reason = error.to_string(),
                    Err(_) => reason = format!("no answer within {} s", TRY.as_secs()),
                }
            }
            sleep(PAUSE).await;
        }
        let addresses = addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(RanksError::Unreachable { addresses, reason })
    }

    /// Says hello where this rank cannot take part, so that rank 0 need not wait for it, and waits until rank 0 has closed the connection.
    pub async fn announce(addresses: &[SocketAddr], hello: &Hello) {
        let announcing = async {
            while !addresses.is_empty() {
                for address in addresses {
                    // Only rank 0 answers, and in which words is of no interest.
                    if let Ok(Ok(mut stream)) = timeout(TRY, answered(*address, hello)).await {
                        let _ = copy(&mut stream, &mut sink()).await;
                        return;
                    }
                }
                sleep(PAUSE).await;
            }
        };
        let _ = timeout(JOIN, announcing).await;
    }

    fn begin(stream: TcpStream, injected_ns: i64) -> Self {
        let (from, to) = stream.into_split();
        let (to_root, to_send) = unbounded_channel();
        let (deliver, orders) = unbounded_channel();
        let (encoded, encoded_to_send) = unbounded_channel();
        tokio::spawn(write(to, to_send, encoded_to_send));
        // Rank 0 says nothing before it has waited for all.
        tokio::spawn(read(from, [JOIN + SILENCE, SILENCE], deliver, to_root.clone(), injected_ns));
        Member { to_root, encoded, orders }
    }

    /// Rank 0's next order; `None`: rank 0 is lost.
    pub async fn order(&mut self) -> Option<FromRoot> {
        self.orders.recv().await
    }

    /// Tells rank 0 something. Where that is lost, [`Member::order`] says so.
    pub fn tell(&self, message: FromRank) {
        let _ = self.to_root.send(message);
    }

    /// Tells rank 0 what may be large. Meanwhile, rank 0 gets its answers.
    pub fn tell_encoded(&self, message: FromRank) {
        let encoded = self.encoded.clone();
        spawn_blocking(move || {
            if let Ok(frame) = frame_of(&message, message::MAX_FRAME_BYTES) {
                let _ = encoded.send(frame);
            }
        });
    }

    /// For those who tell rank 0 something while orders are awaited.
    pub fn to_root(&self) -> UnboundedSender<FromRank> {
        self.to_root.clone()
    }
}

async fn introduce(address: SocketAddr, hello: &Hello) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    message::write_frame(&mut stream, hello).await?;
    match message::read_frame(&mut stream, SILENCE).await? {
        FromRoot::Welcome => Ok(stream),
        _ => Err(std::io::Error::other("another program answered")),
    }
}

async fn answered(address: SocketAddr, hello: &Hello) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    message::write_frame(&mut stream, hello).await?;
    stream.read_u8().await?;
    Ok(stream)
}

async fn write(
    mut to: OwnedWriteHalf,
    mut messages: UnboundedReceiver<FromRank>,
    mut encoded: UnboundedReceiver<Vec<u8>>,
) {
    loop {
        let frame = tokio::select! {
            Some(message) = messages.recv() => frame_of(&message, message::MAX_FRAME_BYTES),
            Some(frame) = encoded.recv() => Ok(frame),
            else => return,
        };
        let Ok(frame) = frame else { return };
        // The reading task finds out that the connection is lost.
        if message::send_frame(&mut to, &frame).await.is_err() {
            return;
        }
    }
}

/// A message as it is sent; in place of one that cannot be, why.
fn frame_of(message: &FromRank, longest: u32) -> std::io::Result<Vec<u8>> {
    message::encode_frame(message, longest).or_else(|error| {
        let reason = format!(
            "what it kept cannot be sent to rank 0 ({error}). It is in the rank's own run directory: put those of all ranks together with \
             `brokermark merge`"
        );
        message::encode_frame(&FromRank::Failed { reason, interrupted: false, has_topics: true }, longest)
    })
}

/// Passes rank 0's orders on until it is lost. `silences`: how long it may say nothing at first, and after that.
async fn read(
    mut from: impl AsyncRead + Unpin,
    silences: [Duration; 2],
    deliver: UnboundedSender<FromRoot>,
    to_root: UnboundedSender<FromRank>,
    injected_ns: i64,
) {
    let [mut silence, later] = silences;
    while let Ok(order) = message::read_frame(&mut from, silence).await {
        silence = later;
        let is_delivered = match order {
            FromRoot::Ping { sent_ns } => {
                to_root.send(FromRank::Pong { sent_ns, clock_ns: clock_ns(injected_ns) }).is_ok()
            }
            order => deliver.send(order).is_ok(),
        };
        if !is_delivered {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::Counters;

    #[tokio::test]
    async fn what_is_too_long_to_be_sent_is_a_failure_with_its_reason() {
        let long = FromRank::Second { counters: Counters::default(), latencies: "A".repeat(1_000) };
        let sent = frame_of(&long, 1_000).unwrap();
        let told: FromRank = message::read_frame(&mut sent.as_slice(), SILENCE).await.unwrap();
        let FromRank::Failed { reason, interrupted: false, .. } = told else { panic!("{told:?}") };
        assert!(reason.contains("bytes are more than the 1000") && reason.contains("brokermark merge"), "{reason}");
        let short = FromRank::Signals(1);
        let sent = frame_of(&short, 1_000).unwrap();
        assert!(matches!(message::read_frame(&mut sent.as_slice(), SILENCE).await.unwrap(), FromRank::Signals(1)));
    }
    #[tokio::test]
    async fn rank_0_may_be_silent_for_longer_before_all_have_connected() {
        let (mut root, from) = tokio::io::duplex(1 << 10);
        let (deliver, mut orders) = unbounded_channel();
        let (to_root, _told) = unbounded_channel();
        let short = Duration::from_millis(50);
        tokio::spawn(read(from, [Duration::MAX, short], deliver, to_root, 0));
        assert!(timeout(4 * short, orders.recv()).await.is_err(), "it is not lost");
        message::write_frame(&mut root, &FromRoot::Signals(1)).await.unwrap();
        assert_eq!(orders.recv().await, Some(FromRoot::Signals(1)));
        assert_eq!(orders.recv().await, None, "lost, though the connection is there");
    }
}
