//! Opens a consumer's connections, when it begins and after a loss.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::admin::Admin;
use super::codec::code;
use super::codec::command::{self, Offset, Request};
use super::config::RabbitmqStreamOptions;
use super::connect::Connector;
use super::error::{ConnectError, Refusal};
use super::nodes::{Nodes, untried};
use super::stream_progress::Numbered;
use super::subscriptions::Subscriptions;
use super::tail;
use crate::net::connect::within;

/// The protocol numbers subscriptions in one byte.
pub const MAX_SUBSCRIPTIONS: usize = 256;

/// The result of an attempt to subscribe.
#[derive(Default)]
pub struct Recovered {
    pub connections: Vec<Subscriptions>,
    pub subscribed: Vec<Numbered>,
    pub failed: Vec<Numbered>,
    /// Why the last of the failed ones did, and where.
    pub failure: Option<(String, ConnectError)>,
}

/// Opens connections for consumers.
pub struct Recovery {
    connector: Arc<Connector>,
    admin: Arc<Admin>,
    nodes: Arc<Nodes>,
    /// Of all subscriptions.
    properties: Vec<(String, String)>,
    /// Whether the server decides which streams are read.
    is_shared: bool,
}

impl Recovery {
    pub fn new(connector: Arc<Connector>, admin: Arc<Admin>, nodes: Arc<Nodes>) -> Self {
        let properties = connector.options().filter_properties();
        Recovery { connector, admin, nodes, properties, is_shared: false }
    }

    /// The consumer is one of `group`, of which the server has one read each stream.
    pub fn shared(mut self, group: &str, super_stream: Option<&str>) -> Self {
        let mut add = |key: &str, value: &str| self.properties.push((key.to_owned(), value.to_owned()));
        add("single-active-consumer", "true");
        add("name", group);
        // The server spreads the streams of a super stream over the members.
        super_stream.into_iter().for_each(|name| add("super-stream", name));
        self.is_shared = true;
        self
    }

    pub fn options(&self) -> &RabbitmqStreamOptions {
        self.connector.options()
    }

    /// The time of each step of the first attempts: short ones at every node, so that one which does not answer delays the others
    /// little, then long ones, for a slow node.
    pub fn first_limits(&self) -> Vec<Duration> {
        let nodes = self.nodes.all().len();
        [vec![self.connector.recovery_limit(0); nodes], vec![self.connector.timeout(); nodes]].concat()
    }

    /// The time of each step of a later attempt.
    pub fn limit(&self, attempt: usize) -> Duration {
        self.connector.recovery_limit(attempt)
    }

    /// Connects to the nodes that lead the streams, or after failed attempts to their replicas, and subscribes.
    pub async fn subscribe(&self, places: Vec<Numbered>, limit: Duration) -> Recovered {
        let mut recovered = Recovered::default();
        let names: Vec<&str> = places.iter().map(|(_, place)| place.stream.as_str()).collect();
        let locations = match self.admin.locations_within(limit, &names).await {
            Ok(locations) => locations,
            Err(failure) => return Recovered { failed: places, failure: Some(failure), ..Recovered::default() },
        };
        let mut groups: Vec<(String, Vec<Numbered>)> = Vec::new();
        for (source, mut place) in places {
            let location = locations.iter().find(|location| location.stream == place.stream);
            let address = location.and_then(|found| untried(self.nodes.for_consuming(found, source), &mut place.tried));
            let Some(address) = address else {
                let missing = Refusal { what: "the subscription", code: code::STREAM_DOES_NOT_EXIST };
                recovered.failure = Some((place.stream.clone(), ConnectError::Refused(missing)));
                recovered.failed.push((source, place));
                continue;
            };
            match groups.iter_mut().find(|(known, group)| *known == address && group.len() < MAX_SUBSCRIPTIONS) {
                Some((_, group)) => group.push((source, place)),
                None => groups.push((address, vec![(source, place)])),
            }
        }
        let opened = groups.into_iter().map(|(address, mut group)| async move {
            let subscribed = self.subscribe_over(&address, &mut group, limit).await;
            (address, group, subscribed)
        });
        for (address, mut group, subscribed) in join_all(opened).await {
            match subscribed {
                Ok(connection) => {
                    recovered.connections.push(connection);
                    recovered.subscribed.extend(group);
                }
                Err(error) => {
                    for (_, place) in &mut group {
                        place.tried.insert(address.clone());
                    }
                    recovered.failed.extend(group);
                    recovered.failure = Some((address, error));
                }
            }
        }
        recovered
    }

    async fn subscribe_over(
        &self,
        address: &str,
        group: &mut [Numbered],
        limit: Duration,
    ) -> Result<Subscriptions, ConnectError> {
        let mut session = self.connector.connect(address, limit).await?;
        tail::locate(&mut session, group, limit).await?;
        for (id, (_, place)) in group.iter().enumerate() {
            let from = place.next.map_or(place.from, Offset::Absolute);
            // Without credit, no delivery arrives between the responses. A shared subscription is not active yet.
            let credit = if self.is_shared { self.options().credit } else { 0 };
            let subscribe = Request::subscribe(id as u8, &place.stream, from, credit, &self.properties);
            within(limit, session.request(&subscribe, "the subscription")).await?;
        }
        for id in (0..group.len()).filter(|_| !self.is_shared) {
            command::credit(&mut session.write_buffer.bytes, id as u8, self.options().credit);
        }
        within(limit, session.flush()).await?;
        Ok(Subscriptions::new(session, group.iter().map(|(source, _)| *source).collect(), self.is_shared))
    }
}
