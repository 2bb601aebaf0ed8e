use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const SUBSCRIBE: u8 = 0x82;

/// The first byte of the next packet of a client; `None`: it has gone.
pub async fn next_packet(client: &mut TcpStream) -> Option<u8> {
    let mut head = [0; 2];
    client.read_exact(&mut head).await.ok()?;
    let mut body = vec![0; head[1].into()];
    client.read_exact(&mut body).await.ok()?;
    Some(head[0])
}

/// What a client sends behind its `CONNECT`, of which the server keeps the session or has it already, and of which it confirms a subscription or
/// ends the connection instead.
async fn serve(listener: &TcpListener, session_present: bool, confirms: bool) -> Option<u8> {
    let (mut client, _) = listener.accept().await.unwrap();
    assert_eq!(next_packet(&mut client).await, Some(0x10));
    client.write_all(&[0x20, 3, session_present.into(), 0, 0]).await.unwrap();
    let sent = next_packet(&mut client).await;
    if confirms && sent == Some(SUBSCRIBE) {
        client.write_all(&[0x90, 4, 0, 1, 0, 1]).await.unwrap();
    }
    sent
}

#[tokio::test]
async fn session_without_its_subscription_is_subscribed_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connector = Connector {
        addresses: vec![listener.local_addr().unwrap().to_string()],
        tls: None,
        login: None,
        options: MqttOptions::default(),
        timeout: Duration::from_secs(60),
        conditions: Conditions::default(),
    };
    let client = Client { id: "member".to_owned(), session_expiry: Duration::from_secs(300), has_will: false };
    let filter = Filter::new("orders".to_owned(), true);
    // What is opened is dropped at once, so that the server sees whether it has subscribed.
    let connect = async || connector.connect(0, &client, Some(&filter)).await.is_ok();
    assert_eq!(tokio::join!(connect(), serve(&listener, false, false)), (false, Some(SUBSCRIBE)));
    assert_eq!(tokio::join!(connect(), serve(&listener, true, true)), (true, Some(SUBSCRIBE)));
    assert_eq!(tokio::join!(connect(), serve(&listener, true, true)), (true, None), "the session has it");
    assert_eq!(tokio::join!(connect(), serve(&listener, false, true)), (true, Some(SUBSCRIBE)), "it is a new session");
}
