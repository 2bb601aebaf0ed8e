//! The task of a client for one node: it keeps a connection open, and opens one that was lost again.

use std::sync::Arc;

use super::client::Client;
use super::connection::Connection;
use super::node::Node;
use crate::net::backoff::Backoff;

/// Serves a node until the task is aborted.
pub async fn serve(node: Arc<Node>, client: Arc<Client>) {
    let recorder = client.acks.recorder();
    let mut backoff = Backoff::RECONNECT;
    loop {
        let address = node.address();
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
