//! A server with enough of RabbitMQ's stream protocol to publish to, which then misbehaves as scripted.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A `Publish` frame that came, on the connection with that number.
pub struct Published {
    pub connection: usize,
    pub ids: Vec<u64>,
}

/// What is to happen after a `Publish` frame.
pub struct Reaction {
    /// Written as they are.
    pub frames: Vec<Vec<u8>>,
    pub hang_up: bool,
}

/// Listens until the test ends.
pub struct Scripted {
    address: String,
    seen: Arc<Seen>,
}

/// What clients have asked for.
#[derive(Default)]
struct Seen {
    publishers: AtomicUsize,
    subscriptions: Mutex<Vec<(u16, u64)>>,
}

impl Scripted {
    /// `heartbeat` is in seconds, 0 for none.
    pub fn start(heartbeat: u32, react: impl Fn(Published) -> Reaction + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let react = Arc::new(react);
        let seen = Arc::<Seen>::default();
        let (noted, port) = (seen.clone(), listener.local_addr().unwrap().port());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (react, seen) = (react.clone(), noted.clone());
                // Whatever ends it, the test will see what the client makes of it.
                thread::spawn(move || serve(stream, port, heartbeat, &seen, &*react));
            }
        });
        Scripted { address, seen }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connections that have declared a publisher so far.
    pub fn publishing_connections(&self) -> usize {
        self.seen.publishers.load(Ordering::SeqCst)
    }

    /// Where each subscription began: the protocol's number for the kind of place, and the offset.
    pub fn subscriptions(&self) -> Vec<(u16, u64)> {
        self.seen.subscriptions.lock().unwrap().clone()
    }
}

fn serve(
    mut stream: TcpStream,
    port: u16,
    heartbeat: u32,
    seen: &Seen,
    react: &dyn Fn(Published) -> Reaction,
) -> io::Result<()> {
    let mut connection = 0;
    loop {
        let mut size = [0; 4];
        stream.read_exact(&mut size)?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        stream.read_exact(&mut frame)?;
        let key = u16::from_be_bytes([frame[0], frame[1]]);
        let rest = &frame[4..];
        let answer = |content: &[u8]| [&(key | 0x8000).to_be_bytes(), &[0, 1][..], &rest[..4], content].concat();
        match key {
            // Publish
            2 => {
                let mut ids = Vec::new();
                let mut at = 5;
                while at < rest.len() {
                    ids.push(u64::from_be_bytes(rest[at..at + 8].try_into().unwrap()));
                    at += 12 + u32::from_be_bytes(rest[at + 8..at + 12].try_into().unwrap()) as usize;
                }
                let Reaction { frames, hang_up } = react(Published { connection, ids });
                for frame in frames {
                    stream.write_all(&frame)?;
                }
                if hang_up {
                    // Reads on to the end, so that what was written arrives and is not reset away.
                    stream.shutdown(Shutdown::Write)?;
                    return io::copy(&mut stream, &mut io::sink()).map(drop);
                }
            }
            // DeclarePublisher
            1 => {
                connection = seen.publishers.fetch_add(1, Ordering::SeqCst);
                write(&mut stream, &answer(&[0, 1]))?;
            }
            // Subscribe
            7 => {
                let name = usize::from(u16::from_be_bytes([rest[5], rest[6]]));
                let place = &rest[7 + name..];
                let offset = place.get(2..10).filter(|_| place[1] > 3);
                let offset = offset.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
                seen.subscriptions.lock().unwrap().push((u16::from_be_bytes([place[0], place[1]]), offset));
                write(&mut stream, &answer(&[0, 1]))?;
            }
            // StreamStats: the stream is empty.
            28 => {
                let name = b"\0\x12committed_chunk_id";
                write(&mut stream, &answer(&[&[0, 1, 0, 0, 0, 1][..], name, &[0xff; 8]].concat()))?;
            }
            // Credit. The connection with the first subscription ends with it.
            9 if seen.subscriptions.lock().unwrap().len() == 1 => return Ok(()),
            // Neither does Tune or Heartbeat ask for an answer.
            9 | 20 | 23 => {}
            // Metadata: every stream asked for exists, and is led from here.
            15 => {
                let mut content = vec![0, 0, 0, 1, 0, 0, 0, 9];
                content.extend(b"127.0.0.1");
                content.extend(u32::from(port).to_be_bytes());
                content.extend([0, 0, 0, 1]);
                content.extend(&rest[8..]);
                content.extend([0, 1, 0, 0, 0, 0, 0, 0]);
                write(&mut stream, &answer(&content))?;
            }
            // SaslHandshake
            18 => write(&mut stream, &answer(b"\0\x01\0\0\0\x01\0\x05PLAIN"))?,
            // SaslAuthenticate, and Tune after it
            19 => {
                write(&mut stream, &answer(&[0, 1]))?;
                let tune = [&[0, 20, 0, 1, 0, 16, 0, 0][..], &heartbeat.to_be_bytes()].concat();
                write(&mut stream, &tune)?;
            }
            // PeerProperties
            17 => write(&mut stream, &answer(&[0, 1, 0, 0, 0, 0]))?,
            _ => write(&mut stream, &answer(&[0, 1]))?,
        }
    }
}

fn write(stream: &mut TcpStream, content: &[u8]) -> io::Result<()> {
    stream.write_all(&framed(content))
}

fn framed(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_be_bytes(), content].concat()
}

/// `PublishConfirm` of publisher 0.
pub fn confirm(ids: &[u64]) -> Vec<u8> {
    let mut content = vec![0, 3, 0, 1, 0];
    content.extend((ids.len() as u32).to_be_bytes());
    ids.iter().for_each(|id| content.extend(id.to_be_bytes()));
    framed(&content)
}

/// `PublishError` of publisher 0.
pub fn error(ids: &[u64], code: u16) -> Vec<u8> {
    let mut content = vec![0, 4, 0, 1, 0];
    content.extend((ids.len() as u32).to_be_bytes());
    for id in ids {
        content.extend(id.to_be_bytes());
        content.extend(code.to_be_bytes());
    }
    framed(&content)
}

/// `Close`.
pub fn close(code: u16, reason: &str) -> Vec<u8> {
    let mut content = vec![0, 22, 0, 1, 0, 0, 0, 1];
    content.extend(code.to_be_bytes());
    content.extend((reason.len() as u16).to_be_bytes());
    content.extend(reason.as_bytes());
    framed(&content)
}

/// `MetadataUpdate` about a stream.
pub fn metadata_update(code: u16, stream: &str) -> Vec<u8> {
    let mut content = vec![0, 16, 0, 1];
    content.extend(code.to_be_bytes());
    content.extend((stream.len() as u16).to_be_bytes());
    content.extend(stream.as_bytes());
    framed(&content)
}
