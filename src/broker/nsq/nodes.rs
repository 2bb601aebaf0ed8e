//! The nsqd of a trial: those that the scenario names, or that nsqlookupd lists, each once. One that nsqlookupd lists and that cannot be reached is
//! left out with a notice, as long as another one can: it stays listed for minutes after it is gone.

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout, timeout_at};

use super::admin::{Admin, Node, PATIENCE};
use super::config::NsqOptions;
use super::connect::{ConnectError, Connector, Role};
use crate::broker::BrokerError;
use crate::net::address;
use crate::notices::notice;

/// The nsqd that are used.
pub struct Nodes {
    pub nodes: Vec<Node>,
    /// Nsqd that nsqlookupd lists and that are not used.
    pub left_out: usize,
    /// nsqlookupd that answered.
    pub lookups: Vec<String>,
}

impl Nodes {
    /// Finds them.
    ///
    /// # Errors
    /// When no nsqlookupd or no listed nsqd answers, when one refuses the connection, or when the scenario's addresses do not go together.
    pub async fn find(
        addresses: &[String],
        options: &NsqOptions,
        admin: &Admin,
        connector: &Connector,
    ) -> Result<Self, BrokerError> {
        if !options.lookup {
            let named = named(addresses, options).map_err(BrokerError::Configuration)?;
            return Ok(Nodes { nodes: distinct(named, admin).await, left_out: 0, lookups: Vec::new() });
        }
        let (listed, lookups) = admin.nodes(addresses).await?;
        let (mut nodes, left_out) = reachable(distinct(listed, admin).await, connector).await?;
        if options.http_addresses.as_ref().is_some_and(Vec::is_empty) {
            nodes.iter_mut().for_each(|node| node.http_address.clear());
        }
        Ok(Nodes { nodes, left_out, lookups })
    }
}

/// The nsqd that accept a connection, and how many do not. Once one has, a silent one does not hold it up for long.
async fn reachable(listed: Vec<Node>, connector: &Connector) -> Result<(Vec<Node>, usize), BrokerError> {
    let all = listed.len();
    let mut waiting = listed.clone();
    let mut connecting: FuturesUnordered<_> = listed
        .into_iter()
        .map(|node| async move { (connector.connect(&node.address, &Role::Writer).await.map(drop), node) })
        .collect();
    let (mut nodes, mut failed) = (Vec::new(), Vec::new());
    let mut deadline = None;
    loop {
        let ended = match deadline {
            None => connecting.next().await,
            Some(deadline) => timeout_at(deadline, connecting.next()).await.unwrap_or_default(),
        };
        let Some((connected, node)) = ended else { break };
        waiting.retain(|waiting| *waiting != node);
        match connected {
            Ok(()) => {
                nodes.push(node);
                deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
            }
            Err(error @ (ConnectError::Io(_) | ConnectError::Timeout(_))) => failed.push((node, error)),
            Err(error) => return Err(error.into_broker_error(&node.told())),
        }
    }
    failed.extend(waiting.into_iter().map(|node| (node, ConnectError::Timeout(PATIENCE))));
    if nodes.is_empty()
        && let Some((node, error)) = failed.pop()
    {
        return Err(error.into_broker_error(&node.told()));
    }
    for (node, error) in &failed {
        notice!("note: nsqd at {} is left out: {error}", node.told());
    }
    nodes.sort_by(|one, other| one.address.cmp(&other.address));
    let left_out = all - nodes.len();
    Ok((nodes, left_out))
}

/// Without those that are the same nsqd under another address, as its HTTP interface tells.
async fn distinct(nodes: Vec<Node>, admin: &Admin) -> Vec<Node> {
    if nodes.len() < 2 {
        return nodes;
    }
    let information = nodes.iter().map(|node| async {
        let asked = timeout(PATIENCE, admin.information(&node.http_address));
        if node.http_address.is_empty() { None } else { asked.await.ok().flatten() }
    });
    let information: Vec<Option<String>> = join_all(information).await;
    let mut kept: Vec<(Node, Option<String>)> = Vec::new();
    for (node, information) in nodes.into_iter().zip(information) {
        match kept.iter().find(|(_, known)| known.is_some() && *known == information) {
            Some((first, _)) => {
                notice!("note: nsqd at {} is the one at {}: it is used once", node.told(), first.address);
            }
            None => kept.push((node, information)),
        }
    }
    kept.into_iter().map(|(node, _)| node).collect()
}

/// By NSQ's convention, HTTP listens one port above TCP.
fn next_port(address: &str) -> Option<String> {
    let (host, port) = address::split(address)?;
    Some(format!("{host}:{}", port.checked_add(1)?))
}

/// The nsqd of the scenario, with their HTTP addresses: those of the scenario, or NSQ's default. Empty: HTTP is not used.
fn named(addresses: &[String], options: &NsqOptions) -> Result<Vec<Node>, String> {
    let http = match &options.http_addresses {
        None => addresses.iter().map(|address| next_port(address).unwrap_or_default()).collect(),
        Some(named) if named.is_empty() => vec![String::new(); addresses.len()],
        Some(named) if named.len() == addresses.len() => named.clone(),
        Some(named) => {
            return Err(format!(
                "`broker.nsq.http_addresses` has {} addresses and `broker.addresses` {}: give one for each",
                named.len(),
                addresses.len()
            ));
        }
    };
    let pair =
        |(address, http_address): (&String, String)| Node { address: address.clone(), http_address, lookup: None };
    Ok(addresses.iter().zip(http).map(pair).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_nsqd_wants_them() {
        assert_eq!(next_port("[::1]:4150").as_deref(), Some("[::1]:4151"));
        assert_eq!(next_port("nsqd"), None);
        assert_eq!(next_port("nsqd:65535"), None);
    }
}
