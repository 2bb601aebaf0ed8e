//! Redis's replies: which rows it has, and which errors are temporary.

use redis::{ErrorKind, RedisError, Value};

use super::super::{RefusedRow, SinkError, WriteOutcome};
use crate::measure::FailureClass;

/// A row that was sent: its number in the batch, and the hash of its key.
pub type Sent = (usize, u64);

/// The errors with which Redis refuses all commands for a while.
const AWAY: [&str; 5] = ["LOADING", "BUSY", "READONLY", "MASTERDOWN", "NOREPLICAS"];

/// The errors that only a node of a cluster has:
/// <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.
const OF_A_CLUSTER: [&str; 5] = ["MOVED", "ASK", "CROSSSLOT", "CLUSTERDOWN", "TRYAGAIN"];

/// An error of a command: a word in capitals, and a sentence.
pub struct ReplyError(String);

pub fn error(reply: Value) -> Option<ReplyError> {
    match reply {
        Value::ServerError(error) => {
            Some(ReplyError(format!("{} {}", error.code(), error.details().unwrap_or_default()).trim_end().to_owned()))
        }
        _ => None,
    }
}

/// From one reply for each of `rows` to the result of each; `written` is called with each row that Redis has.
pub fn account(
    mut replies: Vec<Value>,
    is_transaction: bool,
    rows: &[Sent],
    mut written: impl FnMut(&Sent),
) -> Result<WriteOutcome, SinkError> {
    if is_transaction {
        match replies.pop() {
            Some(Value::Array(each)) => replies = each,
            // Nothing was executed; the reason is with the command that was not queued.
            executed => {
                let refused = replies.into_iter().chain(executed).find_map(error);
                return Err(refused.map_or_else(malformed, |refused| refused.batch_error()));
            }
        }
    }
    let mut account = WriteOutcome::default();
    for (sent, reply) in rows.iter().zip(replies) {
        match error(reply) {
            None => {
                account.rows += 1;
                written(sent);
            }
            Some(refusal) if refusal.batch_error().retriable => return Err(refusal.batch_error()),
            Some(ReplyError(message)) => {
                account.refused.push(RefusedRow { row: sent.0, class: FailureClass::Refused, message });
            }
        }
    }
    Ok(account)
}

impl ReplyError {
    /// The error of a whole batch. The words: <https://redis.io/docs/latest/develop/reference/protocol-spec/>
    /// and `src/server.c` of Redis 7.
    pub fn batch_error(&self) -> SinkError {
        let contains = |word: &str| self.0.contains(word);
        let (class, retriable) = match () {
            () if OF_A_CLUSTER.into_iter().any(|word| self.0.starts_with(word)) => return cluster_error(&self.0),
            () if contains("OOM") || contains("maxmemory") => (FailureClass::Full, true),
            () if contains("MISCONF") => (FailureClass::Full, true),
            () if contains("NOAUTH") || contains("WRONGPASS") || contains("NOPERM") => {
                (FailureClass::Authorisation, true)
            }
            () if AWAY.into_iter().any(contains) => (FailureClass::Unavailable, true),
            () => (FailureClass::Refused, false),
        };
        SinkError { class, message: self.0.clone(), retriable, disconnected: false }
    }

    /// Whether the user may run the command, and only not on this key: `getAclErrorMessage` in `src/acl.c` of Redis 7.
    pub fn is_of_the_key(&self) -> bool {
        self.0.contains("NOPERM") && self.0.contains("key")
    }
}

/// The server is a node of a cluster, which takes the rows of its own hash slots only.
pub fn cluster_error(evidence: &str) -> SinkError {
    let message = format!("Redis Cluster is not supported, only a single server ({})", evidence.trim_end());
    SinkError { class: FailureClass::Refused, message, retriable: false, disconnected: false }
}

fn malformed() -> SinkError {
    SinkError {
        class: FailureClass::Other,
        message: "Redis answered EXEC with something else than a list".to_owned(),
        retriable: true,
        disconnected: true,
    }
}

pub fn lost(error: RedisError) -> SinkError {
    let text = [error.code(), error.detail()].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let refusal = ReplyError(if text.is_empty() { error.to_string() } else { text }).batch_error();
    if error.is_timeout() {
        return SinkError::disconnected(FailureClass::Timeout, error.to_string());
    }
    if error.is_io_error() || error.is_connection_dropped() || error.is_connection_refusal() {
        return SinkError::disconnected(FailureClass::ConnectionLost, error.to_string());
    }
    let class = match error.kind() {
        ErrorKind::AuthenticationFailed => FailureClass::Authorisation,
        _ => refusal.class,
    };
    // The login is tried again: the account may be corrected meanwhile.
    SinkError { class, retriable: true, disconnected: true, ..refusal }
}
