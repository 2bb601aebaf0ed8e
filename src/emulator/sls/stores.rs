//! Log stores: shards with a quota each, and what they keep; and the account of what happened, to be read over HTTP at `/account`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use super::options::{Basis, EmulatorOptions, FaultKind, MAX_SHARDS, MAX_SHARDS_OF_ALL};

/// Most stores.
const MAX_STORES: usize = 10_000;

/// Letters of a store's name.
const MAX_NAME_LETTERS: usize = 63;

/// What keeping a body costs beside its bytes.
const KEEPING_BYTES: u64 = size_of::<Written>() as u64 + 32;

/// A body as it was written.
#[derive(Debug, Clone)]
pub struct Written {
    pub body: Bytes,
    /// `lz4`, `zstd`, or nothing.
    pub compression: String,
    pub raw_size: usize,
    pub logs: u64,
    pub counted_bytes: u64,
}

impl Written {
    /// An empty body takes memory as well.
    fn kept_bytes(&self) -> u64 {
        self.body.len() as u64 + KEEPING_BYTES
    }
}

/// 2 to 63 lower-case letters, digits, hyphens and underscores, with a letter or digit at both ends.
fn is_name(name: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (2..=MAX_NAME_LETTERS).contains(&bytes.len())
        && bytes.iter().all(|byte| plain(byte) || b"-_".contains(byte))
        && bytes.first().is_some_and(plain)
        && bytes.last().is_some_and(plain)
}

/// What a shard has taken.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct Taken {
    pub requests: u64,
    pub logs: u64,
    /// 4 and the lengths of all keys and values, of each log.
    pub counted_bytes: u64,
    /// Logs as protobuf.
    pub raw_bytes: u64,
    pub compressed_bytes: u64,
    /// Requests that came when the quota was used up.
    pub quota_refusals: u64,
}

struct Shard {
    taken: Taken,
    kept: VecDeque<Written>,
    kept_bytes: u64,
    /// Number of the oldest that is kept.
    first: u64,
    /// Bytes that may be taken now; below zero after a body larger than was left.
    level: f64,
    filled: Instant,
}

/// One log store.
pub struct Store {
    layout: RwLock<Layout>,
    next: Mutex<usize>,
}

/// The shards of a store.
struct Layout {
    shards: Vec<Arc<Mutex<Shard>>>,
    /// The numbers of those that take logs, in the order of their ranges of hashes.
    writable: Vec<usize>,
}

/// All log stores of all projects.
pub struct Stores {
    rate: Option<f64>,
    basis: Basis,
    keep: u64,
    stores: Mutex<BTreeMap<String, Arc<Store>>>,
}

/// Why no store was made.
pub enum NotMade {
    Exists,
    Limit,
    /// Its name is not one of a log store.
    Name,
}

impl Stores {
    pub fn new(options: &EmulatorOptions) -> Self {
        let stores = options.stores.iter().map(|(name, shards)| (name.clone(), Arc::new(Store::new(*shards))));
        Stores {
            rate: options.shard_rate,
            basis: options.basis,
            keep: options.keep,
            stores: Mutex::new(stores.collect()),
        }
    }

    pub fn find(&self, name: &str) -> Option<Arc<Store>> {
        self.stores.lock().get(name).cloned()
    }

    pub fn names(&self) -> Vec<String> {
        self.stores.lock().keys().cloned().collect()
    }

    pub fn make(&self, name: &str, shards: u32) -> Result<(), NotMade> {
        let mut stores = self.stores.lock();
        if stores.contains_key(name) {
            return Err(NotMade::Exists);
        }
        if !is_name(name) {
            return Err(NotMade::Name);
        }
        let of_all: usize = stores.values().map(|store| store.shards()).sum();
        let is_too_many = stores.len() >= MAX_STORES || of_all + shards as usize > MAX_SHARDS_OF_ALL;
        if is_too_many || shards == 0 || shards > MAX_SHARDS {
            return Err(NotMade::Limit);
        }
        stores.insert(name.to_owned(), Arc::new(Store::new(shards)));
        Ok(())
    }

    pub fn remove(&self, name: &str) -> bool {
        self.stores.lock().remove(name).is_some()
    }

    /// Writes to a shard, if its quota allows: one that is full pays for the body later, so that no body is too large.
    pub fn write(&self, store: &Store, shard: usize, written: Written) -> bool {
        let shard = store.shard(shard);
        let mut shard = shard.lock();
        if let Some(rate) = self.rate {
            let now = Instant::now();
            let gained = now.duration_since(shard.filled).as_secs_f64() * rate;
            shard.filled = now;
            // A second's worth may be saved up.
            shard.level = (shard.level + gained).min(rate);
            if shard.level <= 0.0 {
                shard.taken.quota_refusals += 1;
                return false;
            }
            shard.level -= match self.basis {
                Basis::Raw => written.raw_size as f64,
                Basis::Compressed => written.body.len() as f64,
            };
        }
        shard.taken.requests += 1;
        shard.taken.logs += written.logs;
        shard.taken.counted_bytes += written.counted_bytes;
        shard.taken.raw_bytes += written.raw_size as u64;
        shard.taken.compressed_bytes += written.body.len() as u64;
        shard.kept_bytes += written.kept_bytes();
        shard.kept.push_back(written);
        while shard.kept_bytes > self.keep
            && let Some(oldest) = shard.kept.pop_front()
        {
            shard.kept_bytes -= oldest.kept_bytes();
            shard.first += 1;
        }
        true
    }
}

impl Shard {
    fn new() -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Shard {
            taken: Taken::default(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            first: 0,
            level: f64::INFINITY,
            filled: Instant::now(),
        }))
    }
}

impl Store {
    fn new(shards: u32) -> Self {
        let shards = shards as usize;
        let layout = Layout { shards: (0..shards).map(|_| Shard::new()).collect(), writable: (0..shards).collect() };
        Store { layout: RwLock::new(layout), next: Mutex::new(0) }
    }

    /// Shards of all ages: also those that only keep what they have taken.
    pub fn shards(&self) -> usize {
        self.layout.read().shards.len()
    }

    /// The numbers of the shards that take logs, in the order of their ranges.
    pub fn writable(&self) -> Vec<usize> {
        self.layout.read().writable.clone()
    }

    fn shard(&self, number: usize) -> Arc<Mutex<Shard>> {
        self.layout.read().shards[number].clone()
    }

    /// Lets two new shards take over the range of a shard, which then only keeps what it has. False: it does not take logs now, or
    /// there are too many shards.
    pub fn split(&self, shard: usize) -> bool {
        let mut layout = self.layout.write();
        let all = layout.shards.len();
        let Some(position) = layout.writable.iter().position(|one| *one == shard) else { return false };
        if all + 2 > MAX_SHARDS as usize {
            return false;
        }
        layout.shards.extend([Shard::new(), Shard::new()]);
        layout.writable.splice(position..=position, [all, all + 1]);
        true
    }

    /// The shard of a request that does not name one.
    pub fn next_shard(&self) -> usize {
        let layout = self.layout.read();
        let mut next = self.next.lock();
        *next = (*next + 1) % layout.writable.len();
        layout.writable[*next]
    }

    /// The shard whose range a hash's first 32 bits fall into.
    pub fn shard_of(&self, hash: u32) -> usize {
        let layout = self.layout.read();
        layout.writable[((u64::from(hash) * layout.writable.len() as u64) >> 32) as usize]
    }

    pub fn taken(&self) -> Vec<Taken> {
        self.layout.read().shards.iter().map(|shard| shard.lock().taken).collect()
    }

    /// The number of the oldest that is kept, and of the next that comes.
    pub fn ends(&self, shard: usize) -> (u64, u64) {
        let shard = self.shard(shard);
        let shard = shard.lock();
        (shard.first, shard.first + shard.kept.len() as u64)
    }

    /// From number `from` on, at most so many and so large, at least one if there is one; and the number after them.
    pub fn read(&self, shard: usize, from: u64, most: usize, most_bytes: usize) -> (Vec<Written>, u64) {
        let shard = self.shard(shard);
        let shard = shard.lock();
        let begin = from.max(shard.first);
        let mut bytes = 0;
        let skipped = (begin - shard.first) as usize;
        let read: Vec<Written> = shard
            .kept
            .iter()
            .skip(skipped)
            .take(most)
            .take_while(|written| {
                let fits = bytes == 0 || bytes + written.raw_size <= most_bytes;
                bytes += written.raw_size.max(1);
                fits
            })
            .cloned()
            .collect();
        let next = begin + read.len() as u64;
        (read, next)
    }
}

/// The counts of what no shard has taken.
#[derive(Default)]
pub struct Account {
    refused: Mutex<BTreeMap<&'static str, u64>>,
    injected: Mutex<BTreeMap<FaultKind, u64>>,
}

impl Account {
    /// Counts a request that failed with that error.
    pub fn refused(&self, code: &'static str) {
        *self.refused.lock().entry(code).or_default() += 1;
    }

    /// Counts a fault on purpose.
    pub fn injected(&self, kind: FaultKind) {
        *self.injected.lock().entry(kind).or_default() += 1;
    }

    /// Everything, as JSON.
    pub fn tell(&self, stores: &Stores) -> serde_json::Value {
        let each: BTreeMap<String, Vec<Taken>> =
            stores.stores.lock().iter().map(|(name, store)| (name.clone(), store.taken())).collect();
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
            "refused": *self.refused.lock(),
            "injected": *self.injected.lock(),
        })
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/emulator/sls/stores.rs"]
mod tests;
