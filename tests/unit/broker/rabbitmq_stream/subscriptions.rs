use std::future::poll_fn;
use std::task::Waker;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::net::transport::Transport;

const HEARTBEAT: Duration = Duration::from_millis(500);

/// Two ends of a connection.
async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
    (ours.unwrap(), theirs.unwrap().0)
}

fn heartbeat_frame() -> Vec<u8> {
    let mut frame = Vec::new();
    command::heartbeat(&mut frame);
    frame
}

#[tokio::test]
async fn rest_of_a_write_is_written_while_nothing_arrives() {
    let ((ours, mut theirs), bytes) = (connected().await, vec![0; 32 << 20]);
    let length = bytes.len();
    let mut session = Session::over(Transport::Plain(ours));
    session.write_buffer.bytes = bytes;
    let mut subscriptions = Subscriptions::new(session, Vec::new(), false);
    tokio::select! {
        () = poll_fn(|context| subscriptions.poll_fill(context, false)) => panic!("nothing was sent to it"),
        read = async { theirs.read_exact(&mut vec![0; length]).await } => assert_eq!(read.unwrap(), length),
    }
}

#[tokio::test]
async fn server_is_not_silent_while_the_consumer_works_and_reads_nothing() {
    let (ours, mut theirs) = connected().await;
    theirs.write_all(&heartbeat_frame()).await.unwrap();
    ours.readable().await.unwrap();
    let mut session = Session::over(Transport::Plain(ours));
    session.heartbeat = Some(HEARTBEAT);
    let mut subscriptions = Subscriptions::new(session, Vec::new(), false);
    let worked = Instant::now().checked_sub(60 * HEARTBEAT).unwrap();
    let mut idle = Context::from_waker(Waker::noop());
    subscriptions.heard = worked;
    assert!(subscriptions.poll_fill(&mut idle, true).is_ready());
    let nothing = subscriptions.take(|_, _| panic!("a heartbeat is not a delivery"));
    assert!(nothing.is_ok(), "{nothing:?}");
    subscriptions.heard = worked;
    assert!(subscriptions.poll_fill(&mut idle, false).is_pending());
    assert!(subscriptions.poll_fill(&mut idle, true).is_ready());
    let lost = subscriptions.take(|_, _| panic!("nothing was sent")).unwrap_err();
    assert!(lost.message.contains("no sign of life"), "{lost:?}");
}

#[tokio::test]
async fn server_is_sent_heartbeats_while_the_consumer_works() {
    let (ours, mut theirs) = connected().await;
    let mut session = Session::over(Transport::Plain(ours));
    session.heartbeat = Some(HEARTBEAT);
    let subscriptions = Subscriptions::new(session, Vec::new(), false);
    // It is not polled.
    let (expected, mut read) = (heartbeat_frame(), vec![0; heartbeat_frame().len()]);
    for _ in 0..2 {
        theirs.read_exact(&mut read).await.unwrap();
        assert_eq!(read, expected);
    }
    let closing = tokio::spawn(subscriptions.close());
    let mut rest = Vec::new();
    theirs.read_to_end(&mut rest).await.unwrap();
    assert!(!rest.is_empty(), "it takes leave");
    closing.await.unwrap();
}
