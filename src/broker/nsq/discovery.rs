//! Asks nsqlookupd again for a topic's nsqd, so that a consumer reads those that appear later, as the official clients do
//! (`lookupd_poll_interval` of go-nsq's `Config`); and keeps what was found and created, and what is to be deleted at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::admin::Admin;

/// A topic's channel that is looked for.
pub struct Discovery {
    pub admin: Admin,
    pub lookups: Vec<String>,
    pub interval: Duration,
    pub topic: String,
    pub channel: String,
    /// Addresses that are read already.
    pub known: BTreeSet<String>,
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
            let Ok(topic) = self.admin.topic(&node.http_address, &self.topic).await else { continue };
            let channels = topic.and_then(|topic| topic.channels).unwrap_or_default();
            let is_there = channels.iter().any(|channel| channel.channel_name == self.channel);
            self.note_channel(node.http_address, is_there);
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
