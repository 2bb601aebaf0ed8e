//! Keys that are read back after the run, with the value that was written to each of them last.
//!
//! SET and HSET overwrite, so Redis cannot count the rows of a run. Each connection keeps a sample of the keys it writes:
//! those whose hash lies below a limit, which sinks until they are few enough. All connections judge a key by the same hash, so
//! below the lowest of their limits each has every key it wrote. A key's value is then that of the last row of one of them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

/// At most this many keys of each connection are read back.
const MAX: usize = 64;

/// A row that was sent: its number in the batch, and the hash of its key.
pub type Sent = (usize, u64);

/// The same for every connection.
pub fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key.as_bytes());
    hasher.finish()
}

/// The keys of one connection.
#[derive(Debug)]
pub struct KeySample {
    limit: u64,
    /// The last values, by the hashes of the keys.
    last: BTreeMap<u64, Last>,
    batches: u64,
    /// Whether a batch was sent whose outcome is not known.
    is_unsettled: bool,
}

/// What was written to a key last, and in which batch.
#[derive(Debug)]
struct Last {
    key: String,
    value: ValueIdentity,
    batch: u64,
}

/// The checksum and the length of a value.
type ValueIdentity = (u32, usize);

fn identity(value: &[u8]) -> ValueIdentity {
    (crc32fast::hash(value), value.len())
}

impl Default for KeySample {
    fn default() -> Self {
        KeySample { limit: u64::MAX, last: BTreeMap::new(), batches: 0, is_unsettled: false }
    }
}

impl KeySample {
    /// A batch is about to be sent.
    pub fn begin(&mut self) {
        self.is_unsettled = true;
    }

    /// The batch has been acknowledged: these of its rows, in their order, are stored.
    pub fn settle<'a>(
        &mut self,
        rows: &[Sent],
        key: impl Fn(usize) -> Option<String>,
        value: impl Fn(usize) -> &'a [u8],
    ) {
        self.is_unsettled = false;
        self.batches += 1;
        // The last row of a key comes first.
        for (row, hash) in rows.iter().rev().filter(|(_, hash)| *hash <= self.limit) {
            match self.last.get_mut(hash) {
                Some(last) if last.batch == self.batches => {}
                Some(last) => (last.value, last.batch) = (identity(value(*row)), self.batches),
                None => {
                    let Some(key) = key(*row) else { continue };
                    self.last.insert(*hash, Last { key, value: identity(value(*row)), batch: self.batches });
                }
            }
        }
        while self.last.len() > MAX {
            self.limit /= 2;
            self.last.retain(|hash, _| *hash <= self.limit);
        }
    }
}

/// What is expected of the keys that are read back.
#[derive(Debug, Default)]
pub struct Expected {
    keys: BTreeMap<String, Vec<ValueIdentity>>,
}

impl Expected {
    /// `None`: the last write of a connection has no known outcome, so any key may have another value.
    pub fn new<'a>(samples: impl Iterator<Item = &'a KeySample> + Clone) -> Option<Self> {
        if samples.clone().any(|sample| sample.is_unsettled) {
            return None;
        }
        let limit = samples.clone().map(|sample| sample.limit).min()?;
        let mut expected = Expected::default();
        for (_, last) in samples.flat_map(|sample| &sample.last).filter(|(hash, _)| **hash <= limit) {
            expected.keys.entry(last.key.clone()).or_default().push(last.value);
        }
        Some(expected)
    }

    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.keys.keys()
    }

    /// Whether this is what the key must hold.
    pub fn is_met(&self, key: &str, found: Option<&[u8]>) -> bool {
        let found = found.map(identity);
        found.is_some_and(|found| self.keys.get(key).is_some_and(|values| values.contains(&found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(rows: &[(String, String)]) -> KeySample {
        let mut sample = KeySample::default();
        let sent: Vec<Sent> = rows.iter().enumerate().map(|(row, (key, _))| (row, hash(key))).collect();
        // In batches, as a writer sends them.
        for batch in sent.chunks(40) {
            sample.settle(batch, |row| Some(rows[row].0.clone()), |row| rows[row].1.as_bytes());
        }
        sample
    }

    fn rows(count: usize, value: &str) -> Vec<(String, String)> {
        (0..count).map(|number| (format!("key-{number}"), format!("{value}-{number}"))).collect()
    }

    #[test]
    fn a_key_holds_the_last_value_of_one_of_the_connections_that_wrote_it() {
        let one = sample(&[("a".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())]);
        let other = sample(&[("a".to_owned(), "3".to_owned())]);
        let expected = Expected::new([&one, &other].into_iter()).unwrap();
        let is_met = |found: Option<&str>| expected.is_met("a", found.map(str::as_bytes));
        assert_eq!([Some("1"), Some("2"), Some("3"), None].map(is_met), [false, true, true, false]);
    }

    #[test]
    fn of_many_keys_few_are_read_back_and_of_each_every_connection_that_wrote_it_is_known() {
        let (many, few) = (sample(&rows(10_000, "many")), sample(&rows(50, "few")));
        let expected = Expected::new([&many, &few].into_iter()).unwrap();
        assert!((MAX / 8..=MAX).contains(&many.last.len()), "{}", many.last.len());
        assert_eq!(expected.keys.len(), many.last.len(), "the other's keys were written by both");
        for (key, values) in &expected.keys {
            let number: usize = key["key-".len()..].parse().unwrap();
            assert_eq!(values.len(), if number < 50 { 2 } else { 1 }, "{key}");
        }
    }

    #[test]
    fn after_a_write_without_outcome_nothing_can_be_expected() {
        let mut unsettled = sample(&rows(1, "a"));
        unsettled.begin();
        assert!(Expected::new([&unsettled, &sample(&rows(1, "b"))].into_iter()).is_none());
    }
}
