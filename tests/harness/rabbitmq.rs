//! Real RabbitMQ servers: the one that `scripts/test` starts, and further ones for tests that kill them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// `host:port` of the streams of the server that `scripts/test` starts.
pub fn address() -> String {
    variable("BROKERMARK_RABBITMQ")
}

/// What `scripts/test` says of its servers. A test that needs them fails without them: it must not seem to have passed.
pub fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!(
            "{name} is not set, so there is no real RabbitMQ to test against: run `scripts/test`, which starts one, or \
             leave these tests out with `cargo test -- --skip real_`"
        )
    })
}

/// A server of a test's own, to be killed at will.
pub struct Server {
    instance: String,
    port: u16,
}

impl Server {
    /// Starts one that listens on `port` and the four after it.
    pub fn start(instance: &str, port: u16) -> Self {
        address();
        let server = Server { instance: format!("test-{instance}"), port };
        server.control("up");
        server
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn kill(&self) {
        self.control("kill");
    }

    /// Starts it again on the same data.
    pub fn restart(&self) {
        self.control("restart");
    }

    fn control(&self, command: &str) {
        let output = self.command(command).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn command(&self, command: &str) -> Command {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/brokers");
        let mut process = Command::new(script);
        process
            .args([command, "rabbitmq"])
            .env("BROKERMARK_INSTANCE", &self.instance)
            .env("BROKERMARK_RABBITMQ_PORT", self.port.to_string());
        process
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that has failed must not fail a second time here.
        let _ = self.command("down").output();
    }
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
