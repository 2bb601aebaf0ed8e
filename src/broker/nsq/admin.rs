//! HTTP requests to nsqlookupd and nsqd: finds nsqd, and finds, creates and removes topics and channels. What an `OK`
//! of nsqd meant follows from its configuration.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::broker::{BrokerError, Durability, DurabilityLevel};
use crate::net::address;
use crate::net::http::{HttpClient, HttpRequest, HttpResponse, percent_encoded};

/// How long other servers may take once one has answered.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// A client of the HTTP interfaces.
#[derive(Clone)]
pub struct Admin {
    http: HttpClient,
}

/// An nsqd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub address: String,
    /// Empty: HTTP is not used.
    pub http_address: String,
    /// The nsqlookupd that named it; `None`: the scenario did.
    pub lookup: Option<String>,
}

impl Node {
    /// Its address, and who named it.
    pub fn told(&self) -> String {
        match &self.lookup {
            Some(lookup) => format!("{} (named by nsqlookupd at {lookup})", self.address),
            None => self.address.clone(),
        }
    }
}

#[derive(Deserialize)]
struct Nodes {
    producers: Vec<Producer>,
}

#[derive(Deserialize)]
struct Producer {
    broadcast_address: String,
    tcp_port: u16,
    http_port: u16,
    /// For each topic of the nsqd, whether an administrator has taken the nsqd out of it. Only a list of all nsqd has it.
    #[serde(default)]
    tombstones: Vec<bool>,
}

/// What all nsqlookupd list.
#[derive(Default)]
struct Listed {
    /// By their addresses.
    nodes: Vec<Node>,
    /// The nsqlookupd that answered.
    lookups: Vec<String>,
    /// The last failure.
    failure: Option<String>,
}

#[derive(Deserialize)]
struct Stats {
    /// Go writes a list that was never filled as null.
    topics: Option<Vec<TopicStats>>,
}

/// A topic as nsqd counts it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TopicStats {
    pub topic_name: String,
    pub channels: Option<Vec<ChannelStats>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ChannelStats {
    pub channel_name: String,
}

impl Admin {
    pub fn new(timeout: Duration) -> Self {
        Admin { http: HttpClient::new(None, timeout) }
    }

    /// Every nsqd that any of these nsqlookupd knows, in the order of their addresses, and the nsqlookupd that answered.
    ///
    /// # Errors
    /// When none responds, or none has an nsqd.
    pub async fn nodes(&self, lookups: &[String]) -> Result<(Vec<Node>, Vec<String>), BrokerError> {
        let Listed { nodes, lookups: answered, failure } = self.find(lookups, "/nodes").await;
        if !nodes.is_empty() {
            return Ok((nodes, answered));
        }
        let reason = failure.unwrap_or_else(|| "it has no nsqd".to_owned());
        Err(BrokerError::Unreachable { address: lookups.join(","), reason })
    }

    /// Every nsqd that has the topic, as far as any of these nsqlookupd knows and responds.
    pub async fn nodes_of(&self, lookups: &[String], topic: &str) -> Vec<Node> {
        self.find(lookups, &format!("/lookup?topic={}", percent_encoded(topic))).await.nodes
    }

    /// What all nsqlookupd list.
    async fn find(&self, lookups: &[String], path: &str) -> Listed {
        let mut listed = Listed::default();
        let mut asked: FuturesUnordered<_> = lookups.iter().map(|lookup| self.listed(lookup, path)).collect();
        // One that is silent does not hold up what the others have answered.
        let mut deadline = None;
        loop {
            let answer = match deadline {
                None => asked.next().await,
                Some(deadline) => timeout_at(deadline, asked.next()).await.unwrap_or_default(),
            };
            match answer {
                Some(Ok((lookup, known))) => {
                    listed.lookups.push(lookup);
                    listed.nodes.extend(known);
                    deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
                }
                Some(Err(reason)) => listed.failure = Some(reason),
                None => break,
            }
        }
        listed.nodes.sort_by(|one, other| one.address.cmp(&other.address));
        listed.nodes.dedup_by(|one, other| one.address == other.address);
        listed
    }

    /// What one nsqlookupd lists, without nsqd that were taken out of all their topics.
    async fn listed(&self, lookup: &str, path: &str) -> Result<(String, Vec<Node>), String> {
        let text = self.call(lookup, "GET", path).await.map_err(|reason| format!("{lookup}: {reason}"))?;
        let known: Nodes = serde_json::from_str(&text)
            .map_err(|error| format!("{lookup}: it does not respond like nsqlookupd: {error}"))?;
        let node = |producer: Producer| Node {
            address: address::joined(&producer.broadcast_address, producer.tcp_port),
            http_address: address::joined(&producer.broadcast_address, producer.http_port),
            lookup: Some(lookup.to_owned()),
        };
        let is_in = |producer: &Producer| producer.tombstones.is_empty() || producer.tombstones.contains(&false);
        Ok((lookup.to_owned(), known.producers.into_iter().filter(is_in).map(node).collect()))
    }

    /// What nsqd tells of itself: it is the same at each of its addresses.
    pub async fn information(&self, http_address: &str) -> Option<String> {
        self.call(http_address, "GET", "/info").await.ok()
    }

    /// The largest body of a command that nsqd accepts: `-max-body-size`. It tells its options only to hosts that may ask
    /// (`-allow-config-from-cidr`).
    pub async fn max_body_bytes(&self, http_address: &str) -> Option<u64> {
        let asked = timeout(PATIENCE, self.options(http_address, &["max_body_size"])).await;
        asked.ok().flatten()?.first()?.parse().ok()
    }

    /// The topic with its channels, if nsqd has it.
    ///
    /// # Errors
    /// A sentence, when nsqd does not respond.
    pub async fn topic(&self, http_address: &str, topic: &str) -> Result<Option<TopicStats>, String> {
        let path =
            format!("/stats?format=json&include_clients=false&include_mem=false&topic={}", percent_encoded(topic));
        let text = self.call(http_address, "GET", &path).await?;
        let stats: Stats =
            serde_json::from_str(&text).map_err(|error| format!("its statistics cannot be read: {error}"))?;
        Ok(stats.topics.into_iter().flatten().find(|found| found.topic_name == topic))
    }

    /// The values of nsqd's options of these names; `None` where it does not tell one.
    pub async fn options(&self, http_address: &str, names: &[&str]) -> Option<Vec<String>> {
        let mut values = Vec::new();
        for name in names {
            values.push(self.call(http_address, "GET", &format!("/config/{name}")).await.ok()?.trim().to_owned());
        }
        Some(values)
    }

    /// # Errors
    /// nsqd's words, when it refuses.
    pub async fn create_topic(&self, http_address: &str, topic: &str) -> Result<(), String> {
        self.call(http_address, "POST", &format!("/topic/create?topic={}", percent_encoded(topic))).await.map(drop)
    }

    /// # Errors
    /// nsqd's words, when it refuses.
    pub async fn delete_topic(&self, http_address: &str, topic: &str) -> Result<(), String> {
        self.delete(http_address, &format!("/topic/delete?topic={}", percent_encoded(topic))).await
    }

    /// # Errors
    /// nsqd's words, when it refuses.
    pub async fn delete_channel(&self, http_address: &str, topic: &str, channel: &str) -> Result<(), String> {
        let path = format!("/channel/delete?topic={}&channel={}", percent_encoded(topic), percent_encoded(channel));
        self.delete(http_address, &path).await
    }

    /// nsqd removes ephemeral topics and channels itself when they are left: what is gone need not be removed.
    async fn delete(&self, address: &str, path: &str) -> Result<(), String> {
        match self.ask(address, "POST", path).await? {
            HttpResponse { status: 404, .. } => Ok(()),
            response => answered(response).map(drop),
        }
    }

    async fn call(&self, address: &str, method: &'static str, path: &str) -> Result<String, String> {
        answered(self.ask(address, method, path).await?)
    }

    async fn ask(&self, address: &str, method: &'static str, path: &str) -> Result<HttpResponse, String> {
        let url = format!("http://{address}{path}");
        self.http.send(&HttpRequest { method, url: &url, ..HttpRequest::default() }).await
    }
}

/// The text of a response, or nsqd's words for a refusal.
fn answered(response: HttpResponse) -> Result<String, String> {
    match response.status {
        200 => Ok(response.text),
        status => Err(format!("HTTP status {status}: {}", super::connect::text(response.text.as_bytes()))),
    }
}

/// The options of nsqd that decide it, by the names that its HTTP interface knows (`GET /config/…`, nsqd's `doConfig`).
pub const OPTIONS: [&str; 3] = ["mem_queue_size", "sync_every", "sync_timeout"];

/// From the values of [`OPTIONS`], in their order, of the nsqd that answered; unknown where several differ.
///
/// A message waits in memory while fewer than `mem_queue_size` do, else in a file, which is synchronised after `sync_every`
/// messages (nsqd's `Topic.put` and go-diskqueue).
pub fn durability(nodes: &[Vec<String>], ephemeral: bool) -> Durability {
    let source = "nsqd's configuration";
    let alike = nodes.windows(2).all(|pair| pair[0] == pair[1]);
    let Some(values) = nodes.first().filter(|_| alike) else { return Durability::default() };
    let settings = OPTIONS.into_iter().zip(values.iter().cloned());
    let level = match values.as_slice() {
        [in_memory, ..] if ephemeral || in_memory != "0" => DurabilityLevel::Memory,
        [_, every, ..] if every == "1" => DurabilityLevel::Disk,
        _ => DurabilityLevel::PageCache,
    };
    Durability::new(level, Some(1), settings, source)
}

/// A topic's channel that is looked for: nsqlookupd is asked again for the topic's nsqd, so that a consumer reads those that appear later,
/// as the official clients do (`lookupd_poll_interval` of go-nsq's `Config`).
pub struct Discovery {
    pub admin: Admin,
    pub lookups: Vec<String>,
    pub interval: Duration,
    pub topic: String,
    pub channel: String,
    /// Addresses that are read already.
    pub known: BTreeSet<String>,
    /// Whether the HTTP interfaces of nsqd are used. Without them, channels are not removed.
    pub has_http: bool,
    /// Channels that are made are removed at the end.
    pub assigned: Arc<Mutex<Assigned>>,
}

/// The addresses of nsqd that have appeared. The search ends with this value.
pub struct Appeared {
    addresses: mpsc::UnboundedReceiver<String>,
    task: AbortHandle,
}

impl Appeared {
    pub fn poll(&mut self, context: &mut Context<'_>) -> Option<String> {
        match self.addresses.poll_recv(context) {
            Poll::Ready(address) => address,
            Poll::Pending => None,
        }
    }
}

impl Drop for Appeared {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Discovery {
    pub fn start(mut self) -> Appeared {
        let (found, addresses) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(self.interval).await;
                for address in self.look().await {
                    if found.send(address).is_err() {
                        return;
                    }
                }
            }
        });
        Appeared { addresses, task: task.abort_handle() }
    }

    /// The addresses of nsqd that have the topic by now. An nsqlookupd that does not respond is asked again next time.
    async fn look(&mut self) -> Vec<String> {
        let mut appeared = Vec::new();
        for node in self.admin.nodes_of(&self.lookups, &self.topic).await {
            if self.known.contains(&node.address) {
                continue;
            }
            if self.has_http {
                let Ok(topic) = self.admin.topic(&node.http_address, &self.topic).await else { continue };
                let channels = topic.and_then(|topic| topic.channels).unwrap_or_default();
                let is_there = channels.iter().any(|channel| channel.channel_name == self.channel);
                self.note_channel(node.http_address, is_there);
            }
            self.known.insert(node.address.clone());
            appeared.push(node.address);
        }
        appeared
    }

    /// A channel that is there already stays there, unless the trial has made one of that name elsewhere: nsqd itself makes the
    /// channels that nsqlookupd knows of a new topic (`GetTopic` in `nsqd/nsqd.go`).
    fn note_channel(&self, http: String, is_there: bool) {
        let channels = &mut self.assigned.lock().channels;
        let is_own = channels.iter().any(|(location, name)| location.topic == self.topic && *name == self.channel);
        if is_own || !is_there {
            channels.insert((TopicLocation { http, topic: self.topic.clone() }, self.channel.clone()));
        }
    }
}

/// Groups so far, and the topics and channels that were found and created.
#[derive(Default)]
pub struct Assigned {
    /// Groups of each topic, in the order in which they came.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Topics made.
    pub made: BTreeSet<TopicLocation>,
    /// Channels that each topic had before.
    pub found: BTreeMap<TopicLocation, Vec<String>>,
    /// Channels made.
    pub channels: BTreeSet<(TopicLocation, String)>,
}

/// A topic of one nsqd, which is named by its HTTP address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicLocation {
    pub http: String,
    pub topic: String,
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::net::tcp;
    use crate::net::tcp::silent;

    #[tokio::test]
    async fn a_silent_lookupd_does_not_hold_up_the_others() {
        let silent = silent::at("127.0.0.2:0").await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let answering = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            // The second one was taken out of its only topic.
            let body = r#"{"producers":[{"broadcast_address":"::1","tcp_port":4150,"http_port":4151,"topics":[],"tombstones":[]},
                {"broadcast_address":"::1","tcp_port":5150,"http_port":5151,"topics":["a"],"tombstones":[true]}]}"#;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        });
        let began = Instant::now();
        let lookups = [silent.address.to_string(), answering.clone()];
        let (nodes, answered) = Admin::new(Duration::from_secs(20)).nodes(&lookups).await.unwrap();
        assert!(began.elapsed() < tcp::LIMIT, "it waited for the silent one");
        let lookup = Some(answering.clone());
        let found = Node { address: "[::1]:4150".to_owned(), http_address: "[::1]:4151".to_owned(), lookup };
        assert_eq!((nodes, answered), (vec![found], vec![answering]));
    }

    #[test]
    fn a_queue_in_memory_comes_before_the_disk() {
        let of = |values: [&str; 3], ephemeral| durability(&[values.map(str::to_owned).to_vec()], ephemeral).level;
        assert_eq!(of(["10000", "1", "2s"], false), DurabilityLevel::Memory);
        assert_eq!(of(["0", "1", "2s"], false), DurabilityLevel::Disk);
        assert_eq!(of(["0", "2500", "2s"], false), DurabilityLevel::PageCache);
        assert_eq!(of(["0", "1", "2s"], true), DurabilityLevel::Memory);
        let differ = [vec!["0".to_owned()], vec!["1".to_owned()]];
        assert_eq!(durability(&differ, false), Durability::default());
    }
}
