//! Real RabbitMQ servers: the one that `scripts/test` starts, and further ones for tests that kill them.

use std::io::{Read as _, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::server::{Server, variable};
use super::{PATIENCE, Running};

/// `host:port` of the streams of the server that `scripts/test` starts.
pub fn address() -> String {
    variable("BROKERMARK_RABBITMQ")
}

/// `host:port` of AMQP 0.9.1 at the server that `scripts/test` starts.
pub fn amqp() -> String {
    variable("BROKERMARK_RABBITMQ_AMQP")
}

/// `host:port` of AMQP 0.9.1 at a server of a test's own.
pub fn amqp_of(server: &Server) -> String {
    server.variable("BROKERMARK_RABBITMQ_AMQP")
}

/// The keys of a scenario for its MQTT.
pub fn mqtt() -> String {
    let sasl = "{ mechanism = \"PLAIN\", username = \"guest\", password = \"guest\" }";
    let address = variable("BROKERMARK_RABBITMQ_MQTT");
    format!("broker.kind = \"mqtt\"\nbroker.address = \"{address}\"\nbroker.security.sasl = {sasl}\n")
}

/// What `rabbitmqctl` prints, by the command that `scripts/brokers env` names.
pub fn rabbitmqctl(command: &str, arguments: &[&str]) -> String {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A server of a test's own, which listens on `port` and the six after it.
pub fn server(instance: &str, port: u16) -> Server {
    Server::start("rabbitmq", instance, port, &[])
}

/// A connection to the server that `scripts/test` starts, of somebody else than brokermark.
pub struct Stranger(TcpStream);

impl Stranger {
    pub fn arrive() -> Self {
        let mut stranger = Stranger(TcpStream::connect(address()).unwrap());
        stranger.ask(0x11, &[0; 4]);
        stranger.ask(0x12, &[]);
        stranger.ask(0x13, b"\0\x05PLAIN\0\0\0\x0c\0guest\0guest");
        // The server's own settings come next; they are agreed to as they are.
        let tune = stranger.receive();
        stranger.send(&tune);
        stranger.ask(0x15, b"\0\x01/");
        stranger
    }

    pub fn delete_stream(&mut self, name: &str) {
        self.ask(0x0e, &string(name));
    }

    /// Whether it was there is not checked: a test that failed may not have created it.
    pub fn delete_super_stream(&mut self, name: &str) {
        self.send(&[&[0, 0x1e, 0, 1, 0, 0, 0, 7], string(name).as_slice()].concat());
        self.receive();
    }

    /// The offset that is stored for a group; `None`: there is none.
    pub fn stored_offset(&mut self, group: &str, stream: &str) -> Option<u64> {
        self.send(&[&[0, 0x0b, 0, 1, 0, 0, 0, 7], string(group).as_slice(), &string(stream)].concat());
        let answer = self.receive();
        match answer[8..10] {
            [0, 1] => Some(u64::from_be_bytes(answer[10..].try_into().unwrap())),
            _ => None,
        }
    }

    /// The last publishing id that the server has of a named publisher.
    pub fn publisher_sequence(&mut self, publisher: &str, stream: &str) -> u64 {
        let answer = self.ask(0x05, &[string(publisher), string(stream)].concat());
        u64::from_be_bytes(answer.try_into().unwrap())
    }

    /// Sends a request, expects success, and returns the rest of the response.
    fn ask(&mut self, key: u16, content: &[u8]) -> Vec<u8> {
        let [high, low] = key.to_be_bytes();
        self.send(&[&[high, low, 0, 1, 0, 0, 0, 7], content].concat());
        let answer = self.receive();
        assert_eq!(answer[..10], [high | 0x80, low, 0, 1, 0, 0, 0, 7, 0, 1], "{answer:?}");
        answer[10..].to_vec()
    }

    fn send(&mut self, frame: &[u8]) {
        self.0.write_all(&[&(frame.len() as u32).to_be_bytes(), frame].concat()).unwrap();
    }

    fn receive(&mut self) -> Vec<u8> {
        let mut size = [0; 4];
        self.0.read_exact(&mut size).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        self.0.read_exact(&mut frame).unwrap();
        frame
    }
}

/// The next number, of so many bytes.
fn take<const BYTES: usize>(rest: &mut &[u8]) -> usize {
    let bytes = rest.split_off(..BYTES).unwrap();
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

/// A way to the server that can be cut: the port to connect to.
pub struct Detour {
    port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
    /// Bytes that the server has sent since connections were last cut.
    heard: Arc<AtomicU64>,
}

impl Detour {
    pub fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::new(AtomicU64::new(0));
        let (opened, counted, server) = (open.clone(), heard.clone(), address());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(&server).unwrap();
                for (from, to, counted) in [(&client, &server, None), (&server, &client, Some(counted.clone()))] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || pass_on(from, to, counted.as_deref()));
                }
                opened.lock().unwrap().push(client);
            }
        });
        Detour { port, open, heard }
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends all connections there are; new ones are let through.
    pub fn cut(&self) {
        self.open.lock().unwrap().drain(..).for_each(|stream| stream.shutdown(Shutdown::Both).unwrap_or(()));
        self.heard.store(0, Ordering::Relaxed);
    }

    /// How many bytes the server has sent since the last cut.
    pub fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }
}

/// Until either end has gone; the other learns of it.
fn pass_on(mut from: TcpStream, mut to: TcpStream, counted: Option<&AtomicU64>) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
        if let Some(counted) = counted {
            counted.fetch_add(count as u64, Ordering::Relaxed);
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// A message as another client read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    pub stream: String,
    pub offset: u64,
    pub body: Vec<u8>,
    /// In hexadecimal digits, as are properties that are binary.
    pub id: Option<String>,
    pub properties: Vec<String>,
}

/// What RabbitMQ's Java client reads of `streams`; `kind` is `amqp` or `binary`.
pub fn read_by_java(kind: &str, streams: &[&str]) -> Vec<Read> {
    let jars = format!("{}/*", variable("BROKERMARK_RABBITMQ_JARS"));
    let classes = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/ReadStream.java");
    let mut compiler = Command::new("java");
    compiler.args(["-cp", &jars, "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-proc:none", "-d"]);
    Running::start(compiler.arg(classes.path()).arg(source)).finish(PATIENCE).expect(0);
    let address = address();
    let (host, port) = address.rsplit_once(':').unwrap();
    let mut reader = Command::new("java");
    reader.args(["-cp", &format!("{jars}:{}", classes.path().display()), "ReadStream", host, port, kind]).args(streams);
    parse(&Running::start(&mut reader).finish(PATIENCE).expect(0).stdout)
}

/// What RbFly reads of `streams`.
pub fn read_by_rbfly(kind: &str, streams: &[&str]) -> Vec<Read> {
    let mut reader = Command::new(variable("BROKERMARK_RABBITMQ_PYTHON"));
    reader.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/read_stream.py"));
    reader.args([&address(), kind]).args(streams);
    parse(&Running::start(&mut reader).finish(PATIENCE).expect(0).stdout)
}

fn parse(lines: &str) -> Vec<Read> {
    let read = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let mut word = || words.next().unwrap();
        let (stream, offset, body, id) = (word(), word().parse().unwrap(), word(), word());
        let digit = |at| u8::from_str_radix(&body[at..at + 2], 16).unwrap();
        Read {
            stream,
            offset,
            body: (0..body.len()).step_by(2).map(digit).collect(),
            id: Some(id).filter(|id| id != "-"),
            properties: words.collect(),
        }
    };
    lines.lines().map(read).collect()
}
