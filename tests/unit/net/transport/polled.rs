use std::sync::atomic::AtomicUsize;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::*;
use crate::net::transport::Transport;

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
