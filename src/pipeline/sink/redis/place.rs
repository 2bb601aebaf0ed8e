//! Where a sink's rows are in Redis, outside of the load: the proof that it may write there, counting, reading back and removing, and what an
//! acknowledgement meant.

use std::collections::BTreeMap;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Value, cmd};

use super::super::{ReadBack, RowCount, SinkError};
use super::key_sample::{Expected, KeySample};
use super::reply::{self, lost};
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(literally("a:b"), "a:b");
        assert_eq!(literally("*[x]"), "\\*\\[x\\]");
    }
}
