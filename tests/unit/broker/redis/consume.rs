use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::super::config::RedisOptions;
use super::*;
use crate::broker::{FailureClass, scripted};

#[tokio::test]
async fn a_subscription_that_is_not_confirmed_has_a_time_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options: RedisOptions = toml::from_str("mode = 'pubsub'").unwrap();
    let mut setup = scripted::setup("redis", listener.local_addr().unwrap(), options);
    setup.timeout = Duration::from_millis(200);
    let connector = Arc::new(Connector::new(&setup).unwrap());
    let source = Source::new(&setup.options, "orders", "billing", "member");
    let connecting = timeout(Duration::from_secs(60), RedisConsumer::connect(connector, 0, source));
    // It answers to the client's name and to its `PING`, and to nothing else.
    let answering = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        for _ in 0..2 {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(b"+OK\r\n").await;
        }
        stream
    };
    let (connected, _stream) = tokio::join!(connecting, answering);
    let error = connected.expect("it is not waited for without end").err().unwrap();
    assert_eq!(error.class, FailureClass::Timeout);
}
