//! Servers with enough of RabbitMQ's stream protocol to publish to and to subscribe at, which then misbehave as scripted: one, or
//! the nodes of a cluster.

pub mod frames;

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use self::frames::{close, framed, metadata_update, offset_specification, pairs, store_offset, string, strings};

/// The name of a super stream. Its partitions are led by the nodes in turn, two by each.
pub const SUPER_STREAM: &str = "super";
const PARTITIONS_OF_A_NODE: usize = 2;

/// Commands in the log of a server.
pub const CLOSE: u16 = 22;
pub const CLOSE_RESPONSE: u16 = 0x8016;
pub const HEARTBEAT: u16 = 23;
pub const CONSUMER_UPDATE_RESPONSE: u16 = 0x801a;

/// A `Publish` frame that came to a node, on the connection with that number.
pub struct Published {
    pub node: usize,
    pub connection: usize,
    pub publisher: u8,
    pub ids: Vec<u64>,
}

/// What is to happen after a `Publish` frame.
#[derive(Default)]
pub struct Reaction {
    /// Written as they are.
    pub frames: Vec<Vec<u8>>,
    pub hang_up: bool,
    /// The node that leads all streams from now on.
    pub leader: Option<usize>,
}

/// What a server does beside answering.
#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    /// In seconds, 0 for none.
    pub heartbeat: u32,
    /// The largest frame it takes.
    pub frame_max: u32,
    /// It closes connections instead of opening them.
    pub closes_at_login: bool,
    /// It takes the first subscription away behind its response.
    pub removes_first_subscription: bool,
    /// Its streams have chunks, from offset 7 on, and it delivers none.
    pub withholds_chunks: bool,
    /// It has the offset 4 stored for every group.
    pub has_stored: bool,
    /// It has no single active consumers.
    pub is_old: bool,
    /// It refuses a command, from that number of times on, with a code.
    pub refuses: Option<Refusing>,
    /// It loses so many `StoreOffset` commands.
    pub loses_stored: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            heartbeat: 0,
            frame_max: 1 << 20,
            closes_at_login: false,
            removes_first_subscription: false,
            withholds_chunks: false,
            has_stored: false,
            is_old: false,
            refuses: None,
            loses_stored: 0,
        }
    }
}

/// A command that is refused.
#[derive(Debug, Clone, Copy)]
pub struct Refusing {
    pub key: u16,
    pub code: u16,
    /// So many are answered before.
    pub after: usize,
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
    connections: AtomicUsize,
    subscriptions: Mutex<Vec<(u16, u64)>>,
    subscribers: Mutex<Vec<TcpStream>>,
    frames: Mutex<Vec<(usize, u16)>>,
    /// `StoreOffset` commands, by stream.
    stored: Mutex<Vec<(String, u64)>>,
    /// Properties of subscriptions.
    properties: Mutex<Vec<String>>,
    updates: Mutex<Vec<UpdateResponse>>,
}

/// A response to `ConsumerUpdate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateResponse {
    pub correlation: u32,
    /// The protocol's number for the kind of place, and the offset.
    pub from: (u16, u64),
    /// The offset that was stored last, at that moment.
    pub stored: Option<u64>,
}

/// What the nodes of a cluster share.
#[derive(Default)]
struct Layout {
    ports: Mutex<Vec<u16>>,
    leader: AtomicUsize,
    /// Nodes that keep connections and do not answer.
    silent: Mutex<BTreeSet<usize>>,
}

/// Nodes that know each other. Node 0 leads all streams at first, except those of the super stream.
pub struct Cluster {
    pub nodes: Vec<Scripted>,
    layout: Arc<Layout>,
}

impl Cluster {
    /// `heartbeat` is in seconds, 0 for none.
    pub fn start(
        nodes: usize,
        heartbeat: u32,
        react: impl Fn(Published) -> Reaction + Clone + Send + Sync + 'static,
    ) -> Self {
        Cluster::tuned(nodes, Tuning { heartbeat, ..Tuning::default() }, react)
    }

    pub fn tuned(
        nodes: usize,
        tuning: Tuning,
        react: impl Fn(Published) -> Reaction + Clone + Send + Sync + 'static,
    ) -> Self {
        let layout = Arc::<Layout>::default();
        let node = |number| Scripted::join(layout.clone(), number, tuning, react.clone());
        Cluster { nodes: (0..nodes).map(node).collect(), layout }
    }

    /// The addresses of all nodes, as a scenario writes them.
    pub fn addresses(&self) -> String {
        format!("{:?}", self.nodes.iter().map(Scripted::address).collect::<Vec<_>>())
    }

    /// Makes a node the leader of all streams.
    pub fn lead(&self, node: usize) {
        self.layout.leader.store(node, Ordering::SeqCst);
    }

    /// From now on the node accepts connections and answers nothing.
    pub fn silence(&self, node: usize) {
        self.layout.silent.lock().unwrap().insert(node);
    }
}

impl Scripted {
    /// `heartbeat` is in seconds, 0 for none.
    pub fn start(heartbeat: u32, react: impl Fn(Published) -> Reaction + Send + Sync + 'static) -> Self {
        Scripted::tuned(Tuning { heartbeat, ..Tuning::default() }, react)
    }

    pub fn tuned(tuning: Tuning, react: impl Fn(Published) -> Reaction + Send + Sync + 'static) -> Self {
        Scripted::join(Arc::default(), 0, tuning, react)
    }

    fn join(
        layout: Arc<Layout>,
        node: usize,
        tuning: Tuning,
        react: impl Fn(Published) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        layout.ports.lock().unwrap().push(address.port());
        let react = Arc::new(react);
        let seen = Arc::<Seen>::default();
        let noted = seen.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (layout, react, seen) = (layout.clone(), react.clone(), noted.clone());
                let number = seen.connections.fetch_add(1, Ordering::SeqCst);
                let mut served = Served { stream, node, number, publisher: 0, tuning, layout, seen };
                // Whatever ends it, the test will see what the client makes of it.
                thread::spawn(move || served.serve(&*react));
            }
        });
        Scripted { address: address.to_string(), seen }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Publishers that have been declared so far.
    pub fn publishing_connections(&self) -> usize {
        self.seen.publishers.load(Ordering::SeqCst)
    }

    /// Where each subscription began: the protocol's number for the kind of place, and the offset.
    pub fn subscriptions(&self) -> Vec<(u16, u64)> {
        self.seen.subscriptions.lock().unwrap().clone()
    }

    /// The responses to `ConsumerUpdate` so far.
    pub fn update_responses(&self) -> Vec<UpdateResponse> {
        self.seen.updates.lock().unwrap().clone()
    }

    /// What `StoreOffset` commands have stored so far, lost ones included: streams and offsets.
    pub fn stored(&self) -> Vec<(String, u64)> {
        self.seen.stored.lock().unwrap().clone()
    }

    /// The properties of all subscriptions so far, keys and values in turn.
    pub fn subscription_properties(&self) -> Vec<String> {
        self.seen.properties.lock().unwrap().clone()
    }

    /// Whether a consumer has subscribed and given credit.
    pub fn has_given_credit(&self) -> bool {
        self.frames().iter().any(|(_, key)| *key == 9)
    }

    /// Ends the connections with subscriptions.
    pub fn hang_up_on_subscribers(&self) {
        self.seen
            .subscribers
            .lock()
            .unwrap()
            .drain(..)
            .for_each(|stream| stream.shutdown(Shutdown::Both).unwrap_or(()));
    }

    /// Writes a frame to the connections with subscriptions.
    pub fn tell_subscribers(&self, frame: &[u8]) {
        self.seen.subscribers.lock().unwrap().iter_mut().for_each(|stream| stream.write_all(frame).unwrap());
    }

    /// The commands that came, each with the number of its connection.
    pub fn frames(&self) -> Vec<(usize, u16)> {
        self.seen.frames.lock().unwrap().clone()
    }
}

/// A connection as a node sees it.
struct Served {
    stream: TcpStream,
    node: usize,
    number: usize,
    /// The number of the publisher that was declared last.
    publisher: usize,
    tuning: Tuning,
    layout: Arc<Layout>,
    seen: Arc<Seen>,
}

impl Served {
    fn serve(&mut self, react: &dyn Fn(Published) -> Reaction) -> io::Result<()> {
        loop {
            let mut size = [0; 4];
            self.stream.read_exact(&mut size)?;
            let mut frame = vec![0; u32::from_be_bytes(size) as usize];
            self.stream.read_exact(&mut frame)?;
            while self.layout.silent.lock().unwrap().contains(&self.node) {
                thread::park();
            }
            let key = u16::from_be_bytes([frame[0], frame[1]]);
            self.seen.frames.lock().unwrap().push((self.number, key));
            match key {
                // Publish
                2 => {
                    let reaction = react(self.published(&frame[4..]));
                    if let Some(leader) = reaction.leader {
                        self.layout.leader.store(leader, Ordering::SeqCst);
                    }
                    for frame in reaction.frames {
                        self.stream.write_all(&frame)?;
                    }
                    if reaction.hang_up {
                        // Reads on to the end, so that what was written arrives and is not reset away.
                        self.stream.shutdown(Shutdown::Write)?;
                        return io::copy(&mut self.stream, &mut io::sink()).map(drop);
                    }
                }
                // Credit, Tune, Heartbeat and responses do not ask for an answer.
                9 | 20 | HEARTBEAT | CLOSE_RESPONSE => {}
                // StoreOffset
                10 => self.seen.stored.lock().unwrap().push(store_offset(&frame[4..])),
                CONSUMER_UPDATE_RESPONSE => self.note_update(&frame[4..]),
                _ => self.answer(key, &frame[4..])?,
            }
        }
    }

    fn published(&self, rest: &[u8]) -> Published {
        let mut ids = Vec::new();
        let mut at = 5;
        while at < rest.len() {
            ids.push(u64::from_be_bytes(rest[at..at + 8].try_into().unwrap()));
            // A sub-entry has its compression, its count and its uncompressed size before its length.
            at += if rest[at + 8] & 0x80 == 0 { 8 } else { 15 };
            at += 4 + u32::from_be_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        }
        Published { node: self.node, connection: self.publisher, publisher: rest[0], ids }
    }

    /// `rest` begins with the correlation.
    fn answer(&mut self, key: u16, rest: &[u8]) -> io::Result<()> {
        let content = match key {
            // DeclarePublisher
            1 => {
                self.publisher = self.seen.publishers.fetch_add(1, Ordering::SeqCst);
                vec![0, 1]
            }
            // QueryPublisherSequence: there is none.
            5 => [&[0, 1][..], &[0; 8]].concat(),
            // QueryOffset
            11 => self.query_offset(),
            // Subscribe
            7 => {
                let name = usize::from(u16::from_be_bytes([rest[5], rest[6]]));
                let place = &rest[7 + name..];
                let (kind, offset) = offset_specification(place);
                let properties = if kind > 3 { &place[12..] } else { &place[4..] };
                self.seen.properties.lock().unwrap().extend(pairs(properties.to_vec()));
                self.seen.subscribers.lock().unwrap().push(self.stream.try_clone()?);
                self.seen.subscriptions.lock().unwrap().push((kind, offset));
                vec![0, 1]
            }
            // Metadata
            15 => self.metadata(&strings(&rest[4..])),
            // PeerProperties
            17 => vec![0, 1, 0, 0, 0, 0],
            // SaslHandshake
            18 => b"\0\x01\0\0\0\x01\0\x05PLAIN".to_vec(),
            // Open: the node's own address.
            21 => {
                let port = self.layout.ports.lock().unwrap()[self.node].to_string();
                let pairs = [("advertised_host", "127.0.0.1"), ("advertised_port", &port)];
                let pairs = pairs.into_iter().flat_map(|(key, value)| [string(key), string(value)].concat());
                [0, 1, 0, 0, 0, 2].into_iter().chain(pairs).collect()
            }
            // Partitions
            25 => {
                let count = PARTITIONS_OF_A_NODE * self.nodes();
                let names = (0..count).flat_map(|number| string(&format!("{SUPER_STREAM}-{number}")));
                [0, 1].into_iter().chain((count as u32).to_be_bytes()).chain(names).collect()
            }
            // ExchangeCommandVersions: the first version of Publish and, but for an old server, of StreamStats.
            27 if self.tuning.is_old => vec![0, 1, 0, 0, 0, 1, 0, 2, 0, 1, 0, 1],
            27 => vec![0, 1, 0, 0, 0, 2, 0, 2, 0, 1, 0, 1, 0, 28, 0, 1, 0, 1],
            // StreamStats: an empty stream's last chunk is -1.
            28 => {
                let last: i64 = if self.tuning.withholds_chunks { 7 } else { -1 };
                [&[0, 1, 0, 0, 0, 1][..], b"\0\x12committed_chunk_id", &last.to_be_bytes()].concat()
            }
            _ => vec![0, 1],
        };
        let content = match self.tuning.refuses {
            Some(refusing) if refusing.key == key && self.asked(key) > refusing.after => {
                refusing.code.to_be_bytes().to_vec()
            }
            _ => content,
        };
        let mut answer = framed(&[&(key | 0x8000).to_be_bytes(), &[0, 1][..], &rest[..4], &content].concat());
        match key {
            // Tune follows SaslAuthenticate.
            19 if content == [0, 1] => {
                let Tuning { frame_max, heartbeat, .. } = self.tuning;
                answer
                    .extend(framed(&[&[0, 20, 0, 1][..], &frame_max.to_be_bytes(), &heartbeat.to_be_bytes()].concat()));
            }
            // Open
            21 if self.tuning.closes_at_login => answer = close(1, "maintenance"),
            7 if self.tuning.removes_first_subscription && self.seen.subscriptions.lock().unwrap().len() == 1 => {
                let name = usize::from(u16::from_be_bytes([rest[5], rest[6]]));
                answer.extend(metadata_update(6, std::str::from_utf8(&rest[7..7 + name]).unwrap()));
            }
            _ => {}
        }
        self.stream.write_all(&answer)?;
        match key {
            CLOSE => self.stream.shutdown(Shutdown::Both),
            _ => Ok(()),
        }
    }

    /// A response to `ConsumerUpdate`; `rest` begins with the correlation.
    fn note_update(&self, rest: &[u8]) {
        assert_eq!(rest[4..6], [0, 1]);
        let from = offset_specification(&rest[6..]);
        let correlation = u32::from_be_bytes(rest[..4].try_into().unwrap());
        let stored = self.seen.stored.lock().unwrap().last().map(|(_, offset)| *offset);
        self.seen.updates.lock().unwrap().push(UpdateResponse { correlation, from, stored });
    }

    /// What is stored: the last command that was not lost.
    fn query_offset(&self) -> Vec<u8> {
        let stored = self.seen.stored.lock().unwrap();
        let stored = stored.iter().skip(self.tuning.loses_stored).last().map(|(_, offset)| *offset);
        match stored.or(self.tuning.has_stored.then_some(4)) {
            Some(offset) => [&[0, 1][..], &offset.to_be_bytes()].concat(),
            None => [&[0, 0x13][..], &[0; 8]].concat(),
        }
    }

    /// How often a command has come, this time included.
    fn asked(&self, key: u16) -> usize {
        self.seen.frames.lock().unwrap().iter().filter(|(_, asked)| *asked == key).count()
    }

    fn nodes(&self) -> usize {
        self.layout.ports.lock().unwrap().len()
    }

    /// Every stream exists, and every node has it.
    fn metadata(&self, streams: &[String]) -> Vec<u8> {
        let ports = self.layout.ports.lock().unwrap();
        let mut content = (ports.len() as u32).to_be_bytes().to_vec();
        for (node, port) in ports.iter().enumerate() {
            content.extend((node as u16).to_be_bytes());
            content.extend(string("127.0.0.1"));
            content.extend(u32::from(*port).to_be_bytes());
        }
        content.extend((streams.len() as u32).to_be_bytes());
        for stream in streams {
            let partition =
                stream.strip_prefix(&format!("{SUPER_STREAM}-")).map(|number| number.parse::<usize>().unwrap());
            let leader = partition.map_or(self.layout.leader.load(Ordering::SeqCst), |number| number % ports.len());
            content.extend(string(stream));
            content.extend([0, if stream == SUPER_STREAM { 2 } else { 1 }]);
            content.extend((leader as u16).to_be_bytes());
            content.extend((ports.len() as u32 - 1).to_be_bytes());
            let replicas = (0..ports.len()).filter(|node| *node != leader);
            replicas.for_each(|node| content.extend((node as u16).to_be_bytes()));
        }
        content
    }
}

/// Starts a load balancer, which passes its connections on to the servers in turn. Returns its address.
pub fn load_balancer(servers: &[&str]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let servers: Vec<String> = servers.iter().map(|&server| server.to_owned()).collect();
    thread::spawn(move || {
        for (client, server) in listener.incoming().map_while(Result::ok).zip(servers.iter().cycle()) {
            let server = TcpStream::connect(server).unwrap();
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    address
}

/// An address whose connections are never answered, for as long as the value lives.
pub struct BlackHole(TcpListener);

impl BlackHole {
    pub fn open() -> Self {
        BlackHole(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub fn address(&self) -> String {
        self.0.local_addr().unwrap().to_string()
    }
}
