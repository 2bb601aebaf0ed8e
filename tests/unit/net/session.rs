use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::*;

/// Bytes that are too many for the buffers of two sockets.
const MORE_THAN_SOCKETS_HOLD: usize = 32 << 20;

/// Its frames are single bytes, which it hands on.
struct Bytes(UnboundedSender<u8>);

impl Protocol for Bytes {
    type State = ();
    type Message = ();
    type Error = ();
    type Scratch = ();

    const MAX_UNWRITTEN: usize = 2;

    fn pending((): &()) -> usize {
        0
    }

    fn read(session: &Arc<Session<Self>>, served: &mut Served, (): &mut ()) -> io::Result<()> {
        served.read_buffer.fill(&served.transport)?;
        let first = |bytes: &[u8], _: usize| Ok::<_, io::Error>(bytes.first().map(|byte| (*byte, 1)));
        while let Some(byte) = served.read_buffer.next(first)? {
            session.protocol.0.send(byte).map_err(io::Error::other)?;
        }
        Ok(())
    }

    async fn reconnect(_session: &Arc<Session<Self>>) -> Option<Served> {
        None
    }

    fn lost(&self, _reason: &str) {}

    fn take_pending((): &mut ()) -> Vec<()> {
        Vec::new()
    }

    fn fail(&self, _messages: Vec<()>, (): &()) {}
}

/// A connection that has read nothing yet, what it hands on, and its other end, which has written `first`.
async fn connected(first: &[u8]) -> (PublishingConnection<Bytes>, UnboundedReceiver<u8>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
    let mut theirs = theirs.unwrap().0;
    theirs.write_all(first).await.unwrap();
    let transport = Arc::new(Transport::Plain(ours.unwrap()));
    let mut read_buffer = ReadBuffer::new(1);
    if !first.is_empty() {
        transport.readable().await.unwrap();
        read_buffer.fill(&transport).unwrap();
    }
    let (sender, bytes) = unbounded_channel();
    let served = Served { transport, read_buffer, heartbeat: None };
    (PublishingConnection::start(Bytes(sender), (), served, WriteBuffer::default()), bytes, theirs)
}

#[tokio::test]
async fn bytes_after_the_handshake_are_read_first() {
    let (_connection, mut bytes, _theirs) = connected(b"ab").await;
    let received = timeout(Duration::from_secs(60), async { [bytes.recv().await, bytes.recv().await] });
    assert_eq!(received.await.unwrap(), [Some(b'a'), Some(b'b')]);
}

#[tokio::test]
async fn dropped_submission_appends_nothing() {
    let (connection, _bytes, mut theirs) = connected(b"").await;
    let submit = |byte, count| {
        let append = move |_: &Bytes, (): &mut (), out: &mut Vec<u8>| {
            out.resize(out.len() + count, byte);
            Offer::Taken(())
        };
        connection.submit(|| false, Duration::from_secs(60), append)
    };
    assert_eq!(submit(b'a', MORE_THAN_SOCKETS_HOLD).now_or_never(), Some(Ok(())));
    assert_eq!(submit(b'b', 1).now_or_never(), None, "much is not written yet, so nothing more fits");
    let mut written = vec![0; MORE_THAN_SOCKETS_HOLD + 1];
    let (submitted, read) = tokio::join!(submit(b'c', 1), theirs.read_exact(&mut written));
    assert_eq!((submitted, read.unwrap()), (Ok(()), written.len()));
    assert!(written.ends_with(b"ac"));
}
