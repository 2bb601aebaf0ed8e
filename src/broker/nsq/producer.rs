//! A producer of one topic of one nsqd; which nsqd each publishing connection goes to, and which connection each producer uses.

use std::sync::Arc;
use std::time::Duration;

use super::connection::Connection;
use crate::broker::{Outgoing, Producer, SubmitError};

/// A producer of one topic, over a connection that it shares with others.
pub struct NsqProducer {
    connection: Arc<Connection>,
    topic: Arc<str>,
    reconnect: Duration,
}

impl NsqProducer {
    pub(super) fn new(connection: Arc<Connection>, topic: Arc<str>, reconnect: Duration) -> Self {
        NsqProducer { connection, topic, reconnect }
    }
}

impl Producer for NsqProducer {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        let topic = &self.topic;
        let write = self.connection.submit(
            || false,
            self.reconnect,
            |publishing, in_flight, out| publishing.publish(topic, batch, in_flight, out),
        );
        write.await
    }
}

/// The publishing connections of a trial.
#[derive(Debug, PartialEq, Eq)]
pub struct Placement {
    /// The nsqd of each connection.
    pub nodes: Vec<usize>,
    /// The connection of each producer.
    of_producers: Vec<usize>,
}

impl Placement {
    /// `places`: for each producer, which of the producers on its topic it is. A topic's producers use the nsqd in turn. There are as
    /// many connections as asked for, and at least one to each nsqd that is used; without producers, to the first one.
    pub fn new(places: &[usize], nsqd: usize, connections: usize) -> Self {
        let mut used = Vec::new();
        for node in places.iter().map(|place| place % nsqd) {
            if !used.contains(&node) {
                used.push(node);
            }
        }
        if used.is_empty() {
            used.push(0);
        }
        let count = connections.max(used.len());
        let nodes: Vec<usize> = used.iter().copied().cycle().take(count).collect();
        let mut turns = vec![0; nsqd];
        let of_producers = places.iter().map(|place| {
            let node = place % nsqd;
            let to_node: Vec<usize> = (0..count).filter(|connection| nodes[*connection] == node).collect();
            turns[node] += 1;
            to_node[(turns[node] - 1) % to_node.len()]
        });
        let of_producers = of_producers.collect();
        Placement { nodes, of_producers }
    }

    /// The connection of a producer, by its index in this process.
    pub fn for_producer(&self, producer_index: usize) -> usize {
        self.of_producers.get(producer_index).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The nsqd of each producer.
    fn nodes(placement: &Placement) -> Vec<usize> {
        placement.of_producers.iter().map(|connection| placement.nodes[*connection]).collect()
    }

    #[test]
    fn producers_use_nsqd_and_their_connections_in_turn() {
        let placement = Placement::new(&[0, 1, 2, 3, 4, 5, 6, 7], 3, 4);
        assert_eq!(placement.nodes, [0, 1, 2, 0]);
        assert_eq!(placement.of_producers, [0, 1, 2, 3, 1, 2, 0, 1]);
        let topics = Placement::new(&[0, 1, 0, 1, 0, 1], 3, 6);
        assert_eq!(nodes(&topics), [0, 1, 0, 1, 0, 1]);
        assert_eq!(topics.of_producers, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn processes_together_place_their_producers_as_one_process_does() {
        let all: Vec<usize> = (0..8).collect();
        let one = nodes(&Placement::new(&all, 3, 4));
        let two_each: Vec<usize> = all.chunks(2).flat_map(|places| nodes(&Placement::new(places, 3, 1))).collect();
        assert_eq!(two_each, one);
    }

    #[test]
    fn a_process_without_producers_has_a_connection() {
        assert_eq!(Placement::new(&[], 3, 1), Placement { nodes: vec![0], of_producers: vec![] });
    }
}
