//! What an acknowledgement of Redis meant.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;

/// Whether the server keeps a log, and when it synchronises it (Redis' documentation, "Redis persistence"). Servers that are
/// rented often forbid to ask.
pub(super) async fn durability(connection: &mut MultiplexedConnection) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for key in ["appendonly", "appendfsync"] {
        let asked = redis::cmd("CONFIG").arg("GET").arg(key).query_async(connection).await;
        found.extend(asked.unwrap_or(BTreeMap::<String, String>::new()));
    }
    found
}
