//! Where a sink's rows are in Redis, outside of the load: the proof that it may write there, counting, reading back and removing, and what an
//! acknowledgement meant.
//!
//! SET and HSET overwrite, so Redis cannot count the rows of a run. Each connection keeps a sample of the keys it writes, with the value that was
//! written to each of them last: those whose hash lies below a limit, which sinks until they are few enough. All connections judge a key by the
//! same hash, so below the lowest of their limits each has every key it wrote. A key's value is then that of the last row of one of them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Value, cmd};

use super::super::{ReadBack, RowCount, SinkError};
use super::reply::{self, Sent, lost};
use super::{Command, Options};

/// Keys that one SCAN looks at.
const SCANNED: usize = 1000;

/// Proves that the user may write, without writing: between MULTI and DISCARD, Redis checks the command as if it were to be
/// executed (`processCommand` in `src/server.c` of Redis 7).
pub async fn prove(connection: &mut MultiplexedConnection, options: &Options) -> Result<(), SinkError> {
    // Not every user may ask for it.
    if let Ok(information) = cmd("INFO").arg("cluster").query_async::<String>(connection).await
        && information.contains("cluster_enabled:1")
    {
        return Err(reply::cluster_error("cluster_enabled:1"));
    }
    let name = options.name.as_deref().unwrap_or_default();
    let key = format!("{}brokermark", options.prefix);
    let mut write = cmd(options.command.name());
    match options.command {
        Command::Set => write.arg(&key).arg("1"),
        Command::Hset => write.arg(name).arg(&key).arg("1"),
        Command::Xadd => write.arg(name).arg("*").arg("payload").arg("1"),
    };
    if let Some(refusal) = reply::error(send(connection, &cmd("MULTI")).await?) {
        // Outside of a transaction the command would be executed.
        return if options.transaction { Err(refusal.batch_error()) } else { Ok(()) };
    }
    let queued = reply::error(send(connection, &write).await?);
    send(connection, &cmd("DISCARD")).await?;
    match queued {
        // Rows have other keys.
        Some(refusal) if options.command == Command::Set && refusal.is_of_the_key() => Ok(()),
        Some(refusal) => Err(refusal.batch_error()),
        None => Ok(()),
    }
}

/// The entries of the stream. `None`: rows overwrite each other.
pub async fn count(connection: &mut MultiplexedConnection, options: &Options) -> Result<Option<RowCount>, SinkError> {
    let Some(name) = options.name.as_ref().filter(|_| options.command == Command::Xadd) else { return Ok(None) };
    let count: u64 = cmd("XLEN").arg(name).query_async(connection).await.map_err(lost)?;
    // Not every user may ask for it.
    let server: String = cmd("INFO").arg("server").query_async(connection).await.unwrap_or_default();
    let life = server.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or_default().to_owned();
    Ok(Some(RowCount { count, of: format!("entries of the stream {name}"), life }))
}

/// Compares the keys of the sample with what was written to them last.
pub async fn read_back<'a>(
    connection: &mut MultiplexedConnection,
    options: &Options,
    samples: impl Iterator<Item = &'a KeySample> + Clone,
) -> Result<Option<ReadBack>, SinkError> {
    if options.command == Command::Xadd {
        return Ok(None);
    }
    let Some(expected) = Expected::new(samples) else { return Ok(None) };
    let mut read_back = ReadBack::default();
    for key in expected.keys() {
        let read = match (&options.command, &options.name) {
            (Command::Hset, Some(name)) => cmd("HGET").arg(name).arg(key).to_owned(),
            _ => cmd("GET").arg(key).to_owned(),
        };
        let found: Option<Vec<u8>> = read.query_async(connection).await.map_err(lost)?;
        read_back.keys += 1;
        read_back.found += u64::from(expected.is_met(key, found.as_deref()));
    }
    Ok(Some(read_back))
}

/// Whether the database has no key that rows of this sink may have.
pub async fn is_empty(connection: &mut MultiplexedConnection, options: &Options) -> Result<bool, SinkError> {
    match &options.name {
        Some(name) if options.command != Command::Set => {
            let found: u64 = cmd("EXISTS").arg(name).query_async(connection).await.map_err(lost)?;
            Ok(found == 0)
        }
        _ => {
            let mut cursor = String::from("0");
            loop {
                let (next, keys) = scan(connection, options, &cursor).await?;
                if !keys.is_empty() || next == "0" {
                    return Ok(keys.is_empty());
                }
                cursor = next;
            }
        }
    }
}

/// Removes the hash, the stream, or the keys with the prefix.
pub async fn remove(connection: &mut MultiplexedConnection, options: &Options) -> Result<(), SinkError> {
    let unlink = |keys: &[String]| cmd("UNLINK").arg(keys).to_owned();
    match &options.name {
        Some(name) if options.command != Command::Set => {
            unlink(std::slice::from_ref(name)).query_async(connection).await.map_err(lost)
        }
        _ => {
            let mut cursor = String::from("0");
            loop {
                let (next, keys) = scan(connection, options, &cursor).await?;
                if !keys.is_empty() {
                    unlink(&keys).query_async::<()>(connection).await.map_err(lost)?;
                }
                if next == "0" {
                    return Ok(());
                }
                cursor = next;
            }
        }
    }
}

/// Some of the keys with the sink's prefix, and where to go on.
async fn scan(
    connection: &mut MultiplexedConnection,
    options: &Options,
    cursor: &str,
) -> Result<(String, Vec<String>), SinkError> {
    let pattern = format!("{}*", literally(&options.prefix));
    let mut scan = cmd("SCAN");
    scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCANNED);
    scan.query_async(connection).await.map_err(lost)
}

/// A text as a pattern that matches nothing else: `stringmatchlen` in `src/util.c` of Redis 7.
fn literally(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if ['*', '?', '[', ']', '\\', '^', '-'].contains(&character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// The reply, which may be an error of the command.
async fn send(connection: &mut MultiplexedConnection, command: &Cmd) -> Result<Value, SinkError> {
    let mut pipeline = redis::Pipeline::with_capacity(1);
    pipeline.add_command(command.clone());
    let mut replies = connection.req_packed_commands(&pipeline, 0, 1).await.map_err(lost)?;
    Ok(replies.pop().unwrap_or(Value::Nil))
}

/// Whether the server keeps a log, and when it synchronises it (Redis' documentation, "Redis persistence"). Servers that are
/// rented often forbid to ask.
pub(super) async fn durability(connection: &mut MultiplexedConnection) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for key in ["appendonly", "appendfsync"] {
        let asked = cmd("CONFIG").arg("GET").arg(key).query_async(connection).await;
        found.extend(asked.unwrap_or(BTreeMap::<String, String>::new()));
    }
    found
}

/// At most this many keys of each connection are read back.
const MAX: usize = 64;

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

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(literally("a:b"), "a:b");
        assert_eq!(literally("*[x]"), "\\*\\[x\\]");
    }

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
    fn key_holds_the_last_value_of_one_of_its_connections() {
        let one = sample(&[("a".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())]);
        let other = sample(&[("a".to_owned(), "3".to_owned())]);
        let expected = Expected::new([&one, &other].into_iter()).unwrap();
        let is_met = |found: Option<&str>| expected.is_met("a", found.map(str::as_bytes));
        assert_eq!([Some("1"), Some("2"), Some("3"), None].map(is_met), [false, true, true, false]);
    }

    #[test]
    fn many_keys_are_sampled_with_all_their_connections() {
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
