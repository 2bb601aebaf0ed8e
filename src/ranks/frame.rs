//! How a message is written to a connection: its length in four bytes, most significant first, and the message as JSON.

use std::io;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The longest message: a record, its seconds, and the numbers of all its messages.
pub(super) const MAX: u32 = 1 << 30;

/// A message of fewer bytes is read within a millisecond.
const AT_ONCE: usize = 64 << 10;

/// A message as it is sent.
///
/// # Errors
/// When it is longer than `longest`.
pub(super) fn encode(message: &impl Serialize, longest: u32) -> io::Result<Vec<u8>> {
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

pub(super) async fn send(to: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    to.write_all(frame).await?;
    to.flush().await
}

pub(super) async fn write(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    send(to, &encode(message, MAX)?).await
}

/// Reads the next message. A sender that sends nothing for `silence` is given up, however long its message is.
pub(super) async fn read<M: DeserializeOwned + Send + 'static>(
    from: &mut (impl AsyncRead + Unpin),
    silence: Duration,
) -> io::Result<M> {
    read_up_to(MAX, from, silence).await
}

/// As [`read`], of a message of at most `longest` bytes.
pub(super) async fn read_up_to<M: DeserializeOwned + Send + 'static>(
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
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn messages_are_read_as_they_were_written_and_half_of_one_is_an_error() {
        let mut bytes = Vec::new();
        let long = "long ".repeat(AT_ONCE);
        for message in ["one", "", &long, "three"] {
            write(&mut bytes, &message).await.unwrap();
        }
        let mut from = &bytes[..bytes.len() - 1];
        assert_eq!(read::<String>(&mut from, PATIENCE).await.unwrap(), "one");
        assert_eq!(read::<String>(&mut from, PATIENCE).await.unwrap(), "");
        assert_eq!(read::<String>(&mut from, PATIENCE).await.unwrap(), long);
        assert_eq!(read::<String>(&mut from, PATIENCE).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        let mut endless: &[u8] = &[0xff; 8];
        assert!(
            read::<String>(&mut endless, PATIENCE).await.unwrap_err().to_string().contains("4294967295 bytes are more")
        );
    }

    /// A value that can be read only while another task runs.
    struct Waiting;

    static OTHER_TASK_RAN: Gate = Gate::new();

    impl<'de> serde::Deserialize<'de> for Waiting {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            serde::de::IgnoredAny::deserialize(from)?;
            match OTHER_TASK_RAN.passed() {
                true => Ok(Waiting),
                false => Err(serde::de::Error::custom("the other task did not run")),
            }
        }
    }

    /// One thread opens it, another one waits for that.
    struct Gate(std::sync::Mutex<bool>, std::sync::Condvar);

    impl Gate {
        const fn new() -> Self {
            Gate(std::sync::Mutex::new(false), std::sync::Condvar::new())
        }

        fn open(&self) {
            *self.0.lock().unwrap() = true;
            self.1.notify_all();
        }

        fn passed(&self) -> bool {
            let open = self.0.lock().unwrap();
            *self.1.wait_timeout_while(open, PATIENCE, |open| !*open).unwrap().0
        }
    }

    /// On one thread.
    #[tokio::test]
    async fn a_long_message_is_read_while_others_are_answered() {
        let mut bytes = Vec::new();
        write(&mut bytes, &"long ".repeat(AT_ONCE)).await.unwrap();
        let mut from = bytes.as_slice();
        let (read, ()) = tokio::join!(read::<Waiting>(&mut from, PATIENCE), async { OTHER_TASK_RAN.open() });
        assert!(read.is_ok(), "{:?}", read.err());
    }

    #[tokio::test]
    async fn a_sender_that_is_silent_is_given_up() {
        let (_kept_open, mut from) = tokio::io::duplex(64);
        let error = read::<String>(&mut from, Duration::from_millis(1)).await.unwrap_err();
        assert!(error.to_string().contains("nothing came"), "{error}");
    }
}
