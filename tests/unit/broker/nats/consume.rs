use std::task::Waker;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;

use super::*;

/// The next client of a server that only lets it connect.
pub async fn accept(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(b"INFO {\"max_payload\":1048576}\r\n").await.unwrap();
    let mut heard = Vec::new();
    while !heard.ends_with(b"PING\r\n") {
        assert!(stream.read_buf(&mut heard).await.unwrap() > 0);
    }
    stream.write_all(b"PONG\r\n").await.unwrap();
    stream
}

#[tokio::test]
async fn lost_connection_is_told_once_although_the_crate_opens_it_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (client, stream) = tokio::join!(async_nats::connect(address), accept(&listener));
    let client = client.unwrap();
    let source = Source::Subject { subscriber: client.subscribe("orders").await.unwrap(), replies: false };
    let mut deliveries = NatsDeliveries::new(source, client, Acknowledge::None);
    let mut context = Context::from_waker(Waker::noop());
    assert!(deliveries.poll_next_unpin(&mut context).is_pending());
    drop(stream);
    // A task of the crate meets the end.
    let told = loop {
        match deliveries.poll_next_unpin(&mut context) {
            Poll::Ready(told) => break told,
            Poll::Pending => yield_now().await,
        }
    };
    let Some(Err(error)) = told else { panic!("{told:?}") };
    assert_eq!(error.class, FailureClass::ConnectionLost);
    assert!(error.message.contains("are not received"), "{error}");
    let _stream = accept(&listener).await;
    while !deliveries.is_connected() {
        yield_now().await;
    }
    assert!(deliveries.poll_next_unpin(&mut context).is_pending());
}

#[test]
fn group_name_without_forbidden_letters() {
    assert_eq!(name_for_server("billing.eu > all/*"), "billing_eu___all__");
}
