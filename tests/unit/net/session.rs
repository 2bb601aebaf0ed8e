use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::*;

/// Its frames are single bytes, which it hands on.
struct Bytes(UnboundedSender<u8>);

impl Protocol for Bytes {
    type State = ();
    type Message = ();
    type Error = ();
    type Scratch = ();

    const MAX_UNWRITTEN: usize = 1;

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

#[tokio::test]
async fn bytes_after_the_handshake_are_read_first() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
    let mut theirs = theirs.unwrap().0;
    theirs.write_all(b"ab").await.unwrap();
    let transport = Arc::new(Transport::Plain(ours.unwrap()));
    let mut read_buffer = ReadBuffer::new(1);
    transport.readable().await.unwrap();
    read_buffer.fill(&transport).unwrap();
    let (sender, mut bytes) = unbounded_channel();
    let served = Served { transport, read_buffer, heartbeat: None };
    let _connection = PublishingConnection::start(Bytes(sender), (), served, WriteBuffer::default());
    let received = timeout(Duration::from_secs(60), async { [bytes.recv().await, bytes.recv().await] });
    assert_eq!(received.await.unwrap(), [Some(b'a'), Some(b'b')]);
}
