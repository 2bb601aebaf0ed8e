//! Servers with enough of RabbitMQ's stream protocol to publish to and to subscribe at, which then misbehave as scripted: one, or
//! the nodes of a cluster.

pub mod frames;
pub mod network;
mod served;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use self::served::Served;

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
