//! Requests that manage log stores: what they are called, their refusal, and the list of a store's shards.

use super::decode::Refusal;
use super::stores::Store;

/// What a request for management is called in policies; `None`: it writes or reads logs.
pub fn management(method: &str, parts: &[&str]) -> Option<&'static str> {
    match (method, parts) {
        ("GET", ["logstores"]) => Some("log:ListLogStores"),
        ("POST", ["logstores"]) => Some("log:CreateLogStore"),
        ("GET", ["logstores", _]) => Some("log:GetLogStore"),
        ("DELETE", ["logstores", _]) => Some("log:DeleteLogStore"),
        ("GET", ["logstores", _, "shards"]) => Some("log:ListShards"),
        _ => None,
    }
}

/// What the service says: <https://github.com/aliyun/aliyun-log-go-sdk/issues/38>.
pub fn denied(action: &str) -> Refusal {
    ("Unauthorized", format!("denied by sts or ram, action: {action}, resource: acs:log:*:*:project/*"))
}

/// A store's shards, with their ranges of hashes.
pub fn listed(store: &Store) -> serde_json::Value {
    let writable = store.writable();
    let count = writable.len() as u128;
    let bound = |place: u128| match place {
        // The last range ends with the largest hash.
        _ if place == count => "f".repeat(32),
        _ => format!("{:032x}", (u128::MAX / count) * place),
    };
    let shard = |shard: usize| {
        let place = writable.iter().position(|one| *one == shard).map(|place| place as u128);
        serde_json::json!({
            "shardID": shard,
            "status": if place.is_some() { "readwrite" } else { "readonly" },
            "inclusiveBeginKey": bound(place.unwrap_or(0)),
            "exclusiveEndKey": bound(place.map_or(count, |place| place + 1)),
            "createTime": 0,
        })
    };
    (0..store.shards()).map(shard).collect()
}
