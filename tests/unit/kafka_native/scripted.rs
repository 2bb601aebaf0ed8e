//! A cluster whose answers a test writes: what is about messages waits for the test, the rest is answered at once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI16, AtomicI32, AtomicUsize, Ordering};

use bytes::Bytes;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest,
    HeartbeatResponse, InitProducerIdRequest, InitProducerIdResponse, ListOffsetsRequest, ListOffsetsResponse,
    MetadataRequest, MetadataResponse, RequestHeader,
};
use kafka_protocol::protocol::{Decodable, StrBytes};
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use uuid::Uuid;

use super::asked::{Asked, frame, name};
use super::bench::TIMEOUT;
use crate::broker::kafka_native::net::control::read_frame;

/// `NOT_LEADER_OR_FOLLOWER`.
pub const NOT_LEADER: i16 = 6;

/// Of the one topic.
pub const TOPIC_ID: Uuid = Uuid::from_u128(0x70_91_c1_d5);

const UNSUPPORTED_VERSION: i16 = 35;
const REBOOTSTRAP_REQUIRED: i16 = 129;

/// Nodes are numbered from 0.
pub struct Scripted {
    state: Arc<State>,
    asked: UnboundedReceiver<Asked>,
    /// Requests that came before the one that a test waited for.
    passed: VecDeque<Asked>,
}

struct State {
    ports: Vec<u16>,
    topic_id: Mutex<Uuid>,
    /// Where every partition begins and ends.
    ends: Mutex<(i64, i64)>,
    /// Of each partition of the one topic.
    leaders: Mutex<Vec<i32>>,
    leader_epoch: AtomicI32,
    /// The leaders that nodes name which hear of no election any more.
    outdated: Mutex<BTreeMap<usize, Vec<i32>>>,
    known: Mutex<Vec<(ApiKey, i16, i16)>>,
    /// The versions of the requests that came, by their keys.
    versions: Mutex<BTreeMap<i16, i16>>,
    /// The node that coordinates groups and transactions.
    coordinator: AtomicUsize,
    /// The error code of answers to who looks for it.
    no_coordinator: AtomicI16,
    /// The error code of answers to members' signs of life.
    heartbeats: AtomicI16,
    /// The error codes of the next answers to producers that ask for an id.
    identities: Mutex<VecDeque<i16>>,
    /// The epoch of the next producer id that is given.
    epoch: AtomicI16,
    /// Nodes that read what they are sent, and say nothing.
    silent: Vec<AtomicBool>,
    /// Nodes that answer the first request of a connection, and read no other.
    deaf: Vec<AtomicBool>,
    /// Nodes that end each connection at its next request.
    hung_up: Vec<AtomicBool>,
    /// Nodes that the metadata does not name.
    hidden: Vec<AtomicBool>,
    /// Nodes that have lost their cluster.
    strays: Vec<AtomicBool>,
    asked: UnboundedSender<Asked>,
}

impl Scripted {
    pub async fn start(nodes: usize, partitions: usize) -> Scripted {
        let mut listeners = Vec::new();
        for _ in 0..nodes {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let (sender, asked) = unbounded_channel();
        let state = Arc::new(State {
            ports: listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect(),
            topic_id: Mutex::new(TOPIC_ID),
            ends: Mutex::new((0, 0)),
            leaders: Mutex::new(vec![0; partitions]),
            leader_epoch: AtomicI32::new(-1),
            outdated: Mutex::default(),
            known: Mutex::new(KNOWN.into()),
            versions: Mutex::default(),
            coordinator: AtomicUsize::new(0),
            no_coordinator: AtomicI16::new(0),
            heartbeats: AtomicI16::new(0),
            identities: Mutex::default(),
            epoch: AtomicI16::new(0),
            silent: listeners.iter().map(|_| AtomicBool::new(false)).collect(),
            deaf: listeners.iter().map(|_| AtomicBool::new(false)).collect(),
            hung_up: listeners.iter().map(|_| AtomicBool::new(false)).collect(),
            hidden: listeners.iter().map(|_| AtomicBool::new(false)).collect(),
            strays: listeners.iter().map(|_| AtomicBool::new(false)).collect(),
            asked: sender,
        });
        for (node, listener) in listeners.into_iter().enumerate() {
            let state = state.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(state.clone(), node, stream));
                }
            });
        }
        Scripted { state, asked, passed: VecDeque::new() }
    }

    pub fn addresses(&self) -> Vec<String> {
        self.state.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect()
    }

    pub fn move_leader(&self, partition: usize, node: i32) {
        self.state.leaders.lock()[partition] = node;
    }

    /// From now on, nodes tell this epoch of the leaders.
    pub fn set_leader_epoch(&self, epoch: i32) {
        self.state.leader_epoch.store(epoch, Ordering::SeqCst);
    }

    /// From now on, the node hears of no election.
    pub fn isolate(&self, node: usize) {
        self.state.outdated.lock().insert(node, self.state.leaders.lock().clone());
    }

    /// From now on, every partition begins and ends at these offsets.
    pub fn set_ends(&self, begin: i64, end: i64) {
        *self.state.ends.lock() = (begin, end);
    }

    /// Somebody deletes the topic, and creates another one of its name.
    pub fn replace_topic(&self) {
        *self.state.topic_id.lock() = Uuid::from_u128(2);
    }

    /// Knows other versions of requests from now on.
    pub fn know(&self, versions: &[(ApiKey, i16, i16)]) {
        *self.state.known.lock() = versions.into();
    }

    /// Knows other versions of one request from now on.
    pub fn know_only(&self, key: ApiKey, oldest: i16, newest: i16) {
        self.forget(key);
        self.state.known.lock().push((key, oldest, newest));
    }

    /// Does not know this request any more.
    pub fn forget(&self, key: ApiKey) {
        self.state.known.lock().retain(|(known, ..)| *known != key);
    }

    /// The version of the last request of this kind.
    pub fn version(&self, key: ApiKey) -> i16 {
        self.state.versions.lock()[&(key as i16)]
    }

    pub fn move_coordinator(&self, node: usize) {
        self.state.coordinator.store(node, Ordering::SeqCst);
    }

    /// From now on, who looks for the coordinator is answered with this code.
    pub fn refuse_coordinator(&self, code: i16) {
        self.state.no_coordinator.store(code, Ordering::SeqCst);
    }

    /// The next producers that ask for an id are answered with these codes.
    pub fn refuse_identities(&self, codes: &[i16]) {
        self.state.identities.lock().extend(codes);
    }

    /// From now on, the node answers nothing.
    pub fn silence(&self, node: usize) {
        self.state.silent[node].store(true, Ordering::SeqCst);
    }

    /// From now on, the node answers the first request of each connection, and reads no other.
    pub fn deafen(&self, node: usize) {
        self.state.deaf[node].store(true, Ordering::SeqCst);
    }

    /// From now on, the node ends each connection at its next request, or does so no longer.
    pub fn hang_up(&self, node: usize, does: bool) {
        self.state.hung_up[node].store(does, Ordering::SeqCst);
    }

    /// From now on, the metadata does not name the node, or does so again.
    pub fn hide(&self, node: usize, is_hidden: bool) {
        self.state.hidden[node].store(is_hidden, Ordering::SeqCst);
    }

    /// From now on, the node has lost its cluster, and sends clients back to where they began.
    pub fn lose_cluster(&self, node: usize) {
        self.state.strays[node].store(true, Ordering::SeqCst);
    }

    /// From now on, members' signs of life are answered with this code.
    pub fn answer_heartbeats(&self, code: i16) {
        self.state.heartbeats.store(code, Ordering::SeqCst);
    }

    /// The next request of this kind; others get no answer.
    pub async fn next_of(&mut self, key: ApiKey) -> Asked {
        loop {
            let asked = self.next().await;
            if asked.key == key {
                return asked;
            }
        }
    }

    /// The next request of this kind; others wait until they are asked for in the same way.
    pub async fn await_of(&mut self, key: ApiKey) -> Asked {
        if let Some(place) = self.passed.iter().position(|asked| asked.key == key) {
            return self.passed.remove(place).unwrap();
        }
        loop {
            let asked = self.next().await;
            if asked.key == key {
                return asked;
            }
            self.passed.push_back(asked);
        }
    }

    /// Whether a request of this kind has come and not been asked for.
    pub fn has_been_asked(&mut self, key: ApiKey) -> bool {
        while let Ok(asked) = self.asked.try_recv() {
            self.passed.push_back(asked);
        }
        self.passed.iter().any(|asked| asked.key == key)
    }

    /// The next request that waits for an answer.
    pub async fn next(&mut self) -> Asked {
        tokio::time::timeout(TIMEOUT, self.asked.recv()).await.unwrap().unwrap()
    }

    /// The next produce request that comes to this node; other nodes lead nothing.
    pub async fn next_at(&mut self, node: usize) -> Asked {
        loop {
            let asked = self.next().await;
            if asked.node == node {
                return asked;
            }
            asked.answer(NOT_LEADER);
        }
    }
}

async fn serve(state: Arc<State>, node: usize, stream: TcpStream) {
    let (reader, mut writer) = stream.into_split();
    let (out, mut to_write) = unbounded_channel::<Bytes>();
    tokio::spawn(async move {
        while let Some(bytes) = to_write.recv().await {
            if bytes.is_empty() || writer.write_all(&bytes).await.is_err() {
                break;
            }
        }
        let _ = writer.shutdown().await;
    });
    // It ends with the connection.
    let _ = read(&state, node, reader, out).await;
}

async fn read(
    state: &State,
    node: usize,
    mut reader: OwnedReadHalf,
    out: UnboundedSender<Bytes>,
) -> Result<(), crate::broker::kafka_native::error::CallError> {
    loop {
        let mut body = read_frame(&mut reader).await?;
        let key = ApiKey::try_from(i16::from_be_bytes([body[0], body[1]])).unwrap();
        let version = i16::from_be_bytes([body[2], body[3]]);
        let header = RequestHeader::decode(&mut body, key.request_header_version(version)).unwrap();
        if state.hung_up[node].load(Ordering::SeqCst) {
            return Ok(());
        }
        if state.silent[node].load(Ordering::SeqCst) {
            continue;
        }
        let asked = Asked { node, key, version, correlation: header.correlation_id, body, out: out.clone() };
        state.note(&asked);
        match state.answer(&asked) {
            Some(answer) => asked.send(answer),
            None => state.asked.send(asked).unwrap_or_default(),
        }
        if state.deaf[node].load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }
}

impl State {
    /// As KIP-511 says, a version that is not known is answered in the oldest.
    fn versions(&self, asked: &Asked) -> Bytes {
        let known = self.known.lock();
        let newest = known.iter().find(|(key, ..)| *key == ApiKey::ApiVersions).map_or(0, |(_, _, newest)| *newest);
        if asked.version <= newest {
            return asked.frame::<ApiVersionsRequest>(&versions(&known));
        }
        let refusal = versions(&known).with_error_code(UNSUPPORTED_VERSION);
        frame::<ApiVersionsRequest>(&refusal, 0, asked.correlation)
    }

    /// Notes the version of a request, which is one that the cluster knows.
    fn note(&self, asked: &Asked) {
        let known = self.known.lock();
        let is_known = |(key, oldest, newest): &(ApiKey, i16, i16)| {
            *key == asked.key && (*oldest..=*newest).contains(&asked.version)
        };
        let is_question = asked.key == ApiKey::ApiVersions;
        assert!(is_question || known.iter().any(is_known), "{:?} version {}", asked.key, asked.version);
        self.versions.lock().insert(asked.key as i16, asked.version);
    }

    /// The answer to what is not about messages.
    fn answer(&self, asked: &Asked) -> Option<Bytes> {
        Some(match asked.key {
            ApiKey::ApiVersions => self.versions(asked),
            ApiKey::Metadata => asked.frame::<MetadataRequest>(&self.metadata(asked.node)),
            ApiKey::InitProducerId => {
                let mut response = InitProducerIdResponse::default().with_producer_id(7.into());
                match self.identities.lock().pop_front() {
                    Some(code) => response.error_code = code,
                    None => response.producer_epoch = self.epoch.fetch_add(1, Ordering::SeqCst),
                }
                asked.frame::<InitProducerIdRequest>(&response)
            }
            ApiKey::ListOffsets => {
                asked.frame::<ListOffsetsRequest>(&ends(&asked.request::<ListOffsetsRequest>(), *self.ends.lock()))
            }
            ApiKey::FindCoordinator => {
                let node = self.coordinator.load(Ordering::SeqCst);
                let (host, port) = (StrBytes::from_static_str("127.0.0.1"), i32::from(self.ports[node]));
                let code = self.no_coordinator.load(Ordering::SeqCst);
                asked.frame::<FindCoordinatorRequest>(
                    &FindCoordinatorResponse::default().with_host(host).with_port(port).with_error_code(code),
                )
            }
            ApiKey::Heartbeat => {
                let code = self.heartbeats.load(Ordering::SeqCst);
                asked.frame::<HeartbeatRequest>(&HeartbeatResponse::default().with_error_code(code))
            }
            _ => return None,
        })
    }

    fn metadata(&self, node: usize) -> MetadataResponse {
        if self.strays[node].load(Ordering::SeqCst) {
            return MetadataResponse::default().with_error_code(REBOOTSTRAP_REQUIRED);
        }
        let leaders = self.outdated.lock().get(&node).cloned().unwrap_or_else(|| self.leaders.lock().clone());
        let epoch = self.leader_epoch.load(Ordering::SeqCst);
        let broker = |(node, port): (usize, &u16)| {
            MetadataResponseBroker::default()
                .with_node_id((node as i32).into())
                .with_host(StrBytes::from_static_str("127.0.0.1"))
                .with_port(i32::from(*port))
        };
        let is_named = |(node, _): &(usize, &u16)| !self.hidden[*node].load(Ordering::SeqCst);
        let partition = |(index, leader): (usize, &i32)| {
            MetadataResponsePartition::default()
                .with_partition_index(index as i32)
                .with_leader_id((*leader).into())
                .with_leader_epoch(epoch)
        };
        let topic = MetadataResponseTopic::default()
            .with_name(Some(name()))
            .with_topic_id(*self.topic_id.lock())
            .with_partitions(leaders.iter().enumerate().map(partition).collect());
        MetadataResponse::default()
            .with_brokers(self.ports.iter().enumerate().filter(is_named).map(broker).collect())
            .with_topics(vec![topic])
    }
}

/// Of each request its key, and the oldest and the newest version that a cluster knows unless a test says otherwise.
const KNOWN: [(ApiKey, i16, i16); 22] = [
    (ApiKey::Produce, 3, 8),
    (ApiKey::Fetch, 4, 12),
    (ApiKey::ListOffsets, 1, 7),
    (ApiKey::Metadata, 0, 12),
    (ApiKey::ApiVersions, 0, 3),
    (ApiKey::InitProducerId, 0, 4),
    (ApiKey::FindCoordinator, 0, 3),
    (ApiKey::OffsetCommit, 2, 9),
    (ApiKey::OffsetFetch, 1, 9),
    (ApiKey::JoinGroup, 0, 6),
    (ApiKey::SyncGroup, 0, 4),
    (ApiKey::Heartbeat, 0, 4),
    (ApiKey::LeaveGroup, 0, 4),
    (ApiKey::ConsumerGroupHeartbeat, 0, 1),
    (ApiKey::AddPartitionsToTxn, 0, 3),
    (ApiKey::EndTxn, 0, 3),
    (ApiKey::CreateTopics, 2, 7),
    (ApiKey::DeleteTopics, 1, 6),
    (ApiKey::IncrementalAlterConfigs, 0, 1),
    (ApiKey::ShareGroupHeartbeat, 1, 1),
    (ApiKey::ShareFetch, 1, 1),
    (ApiKey::ShareAcknowledge, 1, 1),
];

fn versions(known: &[(ApiKey, i16, i16)]) -> ApiVersionsResponse {
    let version = |(key, oldest, newest): &(ApiKey, i16, i16)| {
        ApiVersion::default().with_api_key(*key as i16).with_min_version(*oldest).with_max_version(*newest)
    };
    ApiVersionsResponse::default().with_api_keys(known.iter().map(version).collect())
}

/// What is asked for is where partitions begin (-2) or end (-1).
fn ends(request: &ListOffsetsRequest, (begin, end): (i64, i64)) -> ListOffsetsResponse {
    let partitions = request.topics.iter().flat_map(|topic| &topic.partitions).map(|partition| {
        let offset = if partition.timestamp == -2 { begin } else { end };
        ListOffsetsPartitionResponse::default().with_partition_index(partition.partition_index).with_offset(offset)
    });
    let topic = ListOffsetsTopicResponse::default().with_name(name()).with_partitions(partitions.collect());
    ListOffsetsResponse::default().with_topics(vec![topic])
}
