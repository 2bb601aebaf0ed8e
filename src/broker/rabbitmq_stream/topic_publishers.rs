//! A producer's ways to the streams of its topic: the publishers, and the connections that they are on.

use std::sync::Arc;

use super::connection::{Connection, StreamPublisher};
use super::pool::Route;
use super::routing;
use crate::broker::{Outgoing, SubmitError};

/// For each stream of a topic, the publisher and its connection.
pub struct TopicPublishers {
    routes: Vec<Arc<Route>>,
    publishers: Vec<StreamPublisher>,
    /// Each connection once.
    connections: Vec<Arc<Connection>>,
    /// Of each stream, the number of its connection.
    connection_of: Vec<usize>,
    /// Largest frame that all of them accept.
    frame_max: usize,
    /// The stream of the next batch without keys.
    turn: usize,
}

impl TopicPublishers {
    pub fn new(routes: Vec<Arc<Route>>, producer_number: usize) -> Self {
        let turn = producer_number % routes.len().max(1);
        let (publishers, connections, connection_of) = (Vec::new(), Vec::new(), Vec::new());
        let mut topic = TopicPublishers { routes, publishers, connections, connection_of, frame_max: 0, turn };
        topic.redirect();
        topic
    }

    /// Whether a stream is published to over another connection now.
    pub fn is_redirected(&self) -> bool {
        self.routes.iter().zip(&self.publishers).any(|(route, publisher)| route.has_left(publisher))
    }

    /// Why no stream can be published to any more, if that is so.
    pub fn final_loss(&self) -> Option<SubmitError> {
        let mut losses = self.publishers.iter().map(StreamPublisher::final_loss);
        let first = losses.next()??;
        losses.all(|loss| loss.is_some()).then_some(first)
    }

    /// Uses the connections over which streams are published to now.
    pub fn redirect(&mut self) {
        self.publishers = self.routes.iter().map(|route| route.current()).collect();
        self.connections.clear();
        self.connection_of.clear();
        for StreamPublisher { connection, .. } in &self.publishers {
            let known = self.connections.iter().position(|known| Arc::ptr_eq(known, connection));
            self.connection_of.push(known.unwrap_or_else(|| {
                self.connections.push(connection.clone());
                self.connections.len() - 1
            }));
        }
        self.frame_max = self.connections.iter().map(|connection| connection.frame_max()).min().unwrap_or(0);
    }

    pub fn frame_max(&self) -> usize {
        self.frame_max
    }

    pub fn streams(&self) -> usize {
        self.publishers.len()
    }

    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    pub fn connection(&self, number: usize) -> &Arc<Connection> {
        &self.connections[number]
    }

    /// The number of the connection of a stream.
    #[inline]
    pub fn connection_of(&self, stream: usize) -> usize {
        self.connection_of[stream]
    }

    /// The publisher of a stream on its connection.
    #[inline]
    pub fn publisher(&self, stream: usize) -> u8 {
        self.publishers[stream].publisher
    }

    /// Finds each message's stream. A batch without keys stays together and goes to the streams in turn. Of a topic of one
    /// stream, `targets` stays empty.
    pub fn assign(&mut self, batch: &[Outgoing<'_>], targets: &mut Vec<usize>) {
        targets.clear();
        let streams = self.publishers.len();
        if streams > 1 {
            let target = |one: &Outgoing<'_>| one.key.map_or(self.turn, |key| routing::partition(key, streams));
            targets.extend(batch.iter().map(target));
            self.turn = (self.turn + 1) % streams;
        }
    }
}
