//! Real RabbitMQ servers: the one that `scripts/test` starts, and further ones for tests that kill them.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::server::{Server, variable};

/// `host:port` of the streams of the server that `scripts/test` starts.
pub fn address() -> String {
    variable("BROKERMARK_RABBITMQ")
}

/// A server of a test's own, which listens on `port` and the four after it.
pub fn server(instance: &str, port: u16) -> Server {
    Server::start("rabbitmq", instance, port, &[])
}

/// Deletes a stream of the server that `scripts/test` starts, as somebody else would.
pub fn delete_stream(name: &str) {
    let mut stream = TcpStream::connect(address()).unwrap();
    let properties = [0, 0, 0, 0];
    ask(&mut stream, 0x11, &properties);
    ask(&mut stream, 0x12, &[]);
    ask(&mut stream, 0x13, b"\0\x05PLAIN\0\0\0\x0c\0guest\0guest");
    // The server's own settings come next; they are agreed to as they are.
    let tune = receive(&mut stream);
    send(&mut stream, &tune);
    ask(&mut stream, 0x15, b"\0\x01/");
    let name = [&(name.len() as u16).to_be_bytes(), name.as_bytes()].concat();
    ask(&mut stream, 0x0e, &name);
}

/// Sends a request and expects to be told that all is well.
fn ask(stream: &mut TcpStream, key: u16, content: &[u8]) {
    let [high, low] = key.to_be_bytes();
    send(stream, &[&[high, low, 0, 1, 0, 0, 0, 7], content].concat());
    let answer = receive(stream);
    assert_eq!(answer[..10], [high | 0x80, low, 0, 1, 0, 0, 0, 7, 0, 1], "{answer:?}");
}

fn send(stream: &mut TcpStream, frame: &[u8]) {
    stream.write_all(&[&(frame.len() as u32).to_be_bytes(), frame].concat()).unwrap();
}

fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut size = [0; 4];
    stream.read_exact(&mut size).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut frame).unwrap();
    frame
}
