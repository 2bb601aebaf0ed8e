//! A client's connection to a node: its task gathers the batches that are due for the partitions which the node leads, sends them
//! in requests of which several may wait for their responses, and opens a lost connection again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::client::Client;
use super::connection::Connection;
use super::partition::{Partition, Turn};
use super::pending::Pending;
use crate::measure::AckRecorder;
use crate::net::backoff::Backoff;

/// Most bytes of the batches of a request, unless one has more: `max.request.size` of Kafka's own client.
const MOST_REQUEST_BYTES: usize = 1 << 20;

/// A node of the cluster, as one client sees it.
pub struct Node {
    pub id: i32,
    address: Mutex<String>,
    lists: Mutex<Lists>,
    /// Wakes the task: something is on a list.
    pub work: Notify,
}

/// Partitions that the task looks at.
#[derive(Default)]
struct Lists {
    /// Something can be sent.
    ready: VecDeque<Arc<Partition>>,
    /// The open batch has waited at that moment. All wait for the same time, so the first is due first.
    lingering: VecDeque<(Instant, Arc<Partition>)>,
    /// After errors.
    later: Vec<(Instant, Arc<Partition>)>,
}

impl Node {
    pub fn new(id: i32, address: String) -> Self {
        Node { id, address: Mutex::new(address), lists: Mutex::default(), work: Notify::new() }
    }

    /// The node may be found at another address than before.
    pub fn set_address(&self, address: String) {
        *self.address.lock() = address;
    }

    /// A batch of the partition can be sent.
    pub fn schedule(&self, partition: Arc<Partition>) {
        self.lists.lock().ready.push_back(partition);
        self.work.notify_one();
    }

    /// The open batch of the partition is sent at `due` at the latest.
    pub fn linger(&self, due: Instant, partition: Arc<Partition>) {
        let mut lists = self.lists.lock();
        let is_first = lists.lingering.is_empty();
        lists.lingering.push_back((due, partition));
        drop(lists);
        if is_first {
            self.work.notify_one();
        }
    }

    /// When a list has to be looked at again.
    pub fn next_due(&self) -> Option<Instant> {
        let lists = self.lists.lock();
        let later = lists.later.iter().map(|(due, _)| *due);
        later.chain(lists.lingering.front().map(|(due, _)| *due)).min()
    }

    /// Puts what is due on the list of what can be sent.
    fn update(self: &Arc<Self>, client: &Client, now: Instant) {
        let mut due = Vec::new();
        let mut lists = self.lists.lock();
        while lists.lingering.front().is_some_and(|(moment, _)| *moment <= now) {
            due.extend(lists.lingering.pop_front().map(|(_, partition)| partition));
        }
        let later: Vec<_> = lists.later.extract_if(.., |(moment, _)| *moment <= now).collect();
        lists.ready.extend(later.into_iter().map(|(_, partition)| partition));
        drop(lists);
        for partition in due {
            partition.stop_lingering(self, client.limits.linger, now);
        }
    }

    /// The next batches to send, one of a partition at most.
    pub fn gather(self: &Arc<Self>, client: &Client, recorder: &AckRecorder) -> Vec<(Arc<Partition>, Pending)> {
        let now = Instant::now();
        self.update(client, now);
        let (mut batches, mut more, mut expired) = (Vec::new(), Vec::new(), Vec::new());
        let mut bytes = 0;
        while bytes < MOST_REQUEST_BYTES {
            let Some(partition) = self.lists.lock().ready.pop_front() else { break };
            match partition.take(self, &client.limits, now, &mut expired) {
                Turn::Batch(pending, has_more) => {
                    bytes += pending.batch.bytes.len();
                    if has_more {
                        more.push(partition.clone());
                    }
                    batches.push((partition, pending));
                }
                Turn::Nothing => {}
                Turn::Later(moment) => self.lists.lock().later.push((moment, partition)),
                Turn::Elsewhere(leader) => leader.schedule(partition),
            }
        }
        self.lists.lock().ready.extend(more);
        client.fail_expired(expired, recorder);
        batches
    }

    /// Hands partitions on that another node leads now.
    fn hand_on(self: &Arc<Self>) {
        let mut lists = self.lists.lock();
        let mut ready = std::mem::take(&mut lists.ready);
        ready.extend(lists.later.drain(..).map(|(_, partition)| partition));
        drop(lists);
        for partition in ready {
            match partition.leader() {
                Some(leader) if !Arc::ptr_eq(&leader, self) => leader.schedule(partition),
                _ => self.lists.lock().ready.push_back(partition),
            }
        }
    }
}

/// Serves a node until the task is aborted.
pub async fn serve(node: Arc<Node>, client: Arc<Client>) {
    let recorder = client.acks.recorder();
    let mut backoff = Backoff::RECONNECT;
    loop {
        let address = node.address.lock().clone();
        match client.connector.open(&address).await {
            Ok(link) => {
                backoff.succeeded();
                let connection = Connection::start(&client, &node, &recorder, link);
                let error = match connection {
                    Ok(connection) => connection.serve().await,
                    Err(error) => error,
                };
                client.note_error(&address, error);
            }
            Err(error) => client.note_error(&address, error),
        }
        client.refresh();
        node.hand_on();
        backoff.pause().await;
    }
}
