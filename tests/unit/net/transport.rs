use std::sync::atomic::AtomicUsize;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;

#[tokio::test]
async fn a_large_frame_does_not_keep_its_memory() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let transport = Transport::Upgraded(near);
    let writing = tokio::spawn(async move {
        far.write_all(&vec![7; 20 << 20]).await.unwrap();
        far
    });
    let mut buffer = ReadBuffer::new(1 << 30);
    let whole = |bytes: &[u8], _: usize| Ok::<_, ()>((bytes.len() == 20 << 20).then_some(((), bytes.len())));
    while buffer.next(whole).unwrap().is_none() {
        transport.readable().await.unwrap();
        buffer.fill(&transport).unwrap();
    }
    let _far = writing.await.unwrap();
    assert!(buffer.bytes.capacity() >= 20 << 20);
    buffer.fill(&transport).unwrap();
    assert_eq!(buffer.bytes.capacity(), READ_BUFFER_BYTES);
}

async fn pair() -> (Transport, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
    (Transport::Polled(PolledStream::new(ours.unwrap(), count).unwrap()), theirs.unwrap().0)
}

static COUNTED: AtomicUsize = AtomicUsize::new(0);

fn count(poll: &mut dyn FnMut() -> bool) -> bool {
    COUNTED.fetch_add(1, Ordering::Relaxed);
    poll()
}

/// On one thread, so that no data comes unless other tasks run between polls.
#[tokio::test]
async fn data_from_other_tasks_and_the_end_are_noticed() {
    let (transport, mut peer) = pair().await;
    let peer = async move {
        for _ in 0..100 {
            yield_now().await;
        }
        peer.write_all(b"word").await.unwrap();
    };
    let heard = async {
        transport.readable().await.unwrap();
        let mut word = [0; 8];
        let length = transport.try_read(&mut word).unwrap();
        assert_eq!(&word[..length], b"word");
        transport.readable().await.unwrap();
        assert_eq!(transport.try_read(&mut word).unwrap(), 0, "the end");
    };
    tokio::join!(peer, heard);
    assert!(COUNTED.load(Ordering::Relaxed) > 0);
}

#[tokio::test]
async fn a_full_socket_is_writable_again_when_the_peer_reads() {
    let (transport, mut peer) = pair().await;
    let bytes = vec![7; 64 << 10];
    let mut written = 0;
    while let Ok(count) = transport.try_write(&bytes) {
        written += count;
    }
    let rest = async {
        loop {
            transport.writable().await.unwrap();
            if transport.try_write(&bytes).is_ok() {
                break;
            }
        }
    };
    let drain = async {
        let mut drained = vec![0; written];
        tokio::io::AsyncReadExt::read_exact(&mut peer, &mut drained).await.unwrap();
    };
    tokio::join!(rest, drain);
}
