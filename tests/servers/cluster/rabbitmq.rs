//! RabbitMQ streams, which a majority of the nodes confirms. A node counts as dead after 5 s without a sign of life.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::{Load, Replicated, lose_leader, restart_all};
use crate::harness::cluster::Cluster;
use crate::harness::rabbitmq::Stranger;

/// How long a node is given to accept a connection: one that is cut off never does.
const CONNECT: Duration = Duration::from_secs(1);

struct Stream {
    cluster: Cluster,
    name: String,
}

impl Stream {
    fn new(name: &str) -> Self {
        Stream { cluster: Cluster::rabbitmq(), name: format!("{name}-{}", std::process::id()) }
    }

    /// A connection to the first of these nodes that answers.
    fn ask(addresses: &[String]) -> Option<Stranger> {
        let connect = |address: &String| {
            let address: SocketAddr = address.parse().unwrap();
            let stream = TcpStream::connect_timeout(&address, CONNECT).ok()?;
            stream.set_read_timeout(Some(5 * CONNECT)).unwrap();
            Some(Stranger::arrive_at(stream))
        };
        addresses.iter().find_map(connect)
    }
}
