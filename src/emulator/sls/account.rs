//! What happened at the endpoint, to be read over HTTP at `/account`.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::faults::FaultKind;
use super::stores::{Stores, Taken};

/// Counts what is in no shard.
#[derive(Default)]
pub struct Account {
    counted: Mutex<Counted>,
}

#[derive(Default)]
struct Counted {
    refused: BTreeMap<&'static str, u64>,
    injected: BTreeMap<&'static str, u64>,
}

impl Account {
    /// A request failed with that error.
    pub fn refused(&self, code: &'static str) {
        let mut counted = self.counted.lock();
        *counted.refused.entry(code).or_default() += 1;
    }

    /// That was done to a request on purpose.
    pub fn injected(&self, kind: FaultKind) {
        let mut counted = self.counted.lock();
        *counted.injected.entry(kind.name()).or_default() += 1;
    }

    /// Everything, as JSON.
    pub fn tell(&self, stores: &Stores) -> serde_json::Value {
        let counted = self.counted.lock();
        let each: BTreeMap<String, Vec<Taken>> =
            stores.names().into_iter().filter_map(|name| Some((name.clone(), stores.find(&name)?.taken()))).collect();
        let all = each.values().flatten().fold(Taken::default(), |sum, one| Taken {
            requests: sum.requests + one.requests,
            logs: sum.logs + one.logs,
            counted_bytes: sum.counted_bytes + one.counted_bytes,
            raw_bytes: sum.raw_bytes + one.raw_bytes,
            compressed_bytes: sum.compressed_bytes + one.compressed_bytes,
            quota_refusals: sum.quota_refusals + one.quota_refusals,
        });
        serde_json::json!({
            "accepted": all,
            "stores": each,
            "refused": counted.refused,
            "injected": counted.injected,
        })
    }
}
