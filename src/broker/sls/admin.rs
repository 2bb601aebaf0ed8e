//! What is asked of the service besides writing: log stores, their shards, and reading.

use bytes::Bytes;

use super::connect::{Client, HttpRequest, HttpResponse};
use super::error::{ServiceError, accepted};

/// Most bytes of an answer that is no logs.
const MOST_ANSWER_BYTES: usize = 4 << 20;

/// Most bytes of logs in one answer, as they are sent and as they unfold: the service sends at most 10 MB.
const MOST_PULLED_BYTES: usize = 64 << 20;

/// Most groups asked for at once.
const GROUPS_AT_ONCE: &str = "1000";

/// Asks the service, one question after another.
pub struct Admin {
    client: Client,
}

/// Logs of one shard.
pub struct Pulled {
    /// A list of groups, as protobuf.
    pub list: Vec<u8>,
    /// Where to go on.
    pub next: String,
}

impl Admin {
    pub fn new(client: Client) -> Self {
        Admin { client }
    }

    async fn ask(&mut self, question: HttpRequest<'_>) -> Result<HttpResponse, ServiceError> {
        let most_answer_bytes = question.most_answer_bytes.max(MOST_ANSWER_BYTES);
        accepted(self.client.ask(HttpRequest { most_answer_bytes, ..question }).await?)
    }

    async fn get(&mut self, path: &str, query: &[(&str, &str)]) -> Result<HttpResponse, ServiceError> {
        self.ask(HttpRequest { method: "GET", path, query, ..HttpRequest::default() }).await
    }

    /// Whether the service answers to this project and these credentials.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn check(&mut self) -> Result<(), ServiceError> {
        self.get("/logstores", &[("offset", "0"), ("size", "1")]).await.map(drop)
    }

    /// The shards of a store that can be written to; `None`: there is no such store.
    ///
    /// # Errors
    /// The service's.
    pub async fn shards(&mut self, store: &str) -> Result<Option<Vec<u32>>, ServiceError> {
        #[derive(serde::Deserialize)]
        struct Shard {
            #[serde(rename = "shardID")]
            id: u32,
            status: String,
        }
        let answer = match self.get(&format!("/logstores/{store}/shards"), &[]).await {
            Err(fault) if fault.is_unknown_store() => return Ok(None),
            other => other?,
        };
        let shards: Vec<Shard> = parsed(&answer.body)?;
        let writable = shards.into_iter().filter(|shard| shard.status.eq_ignore_ascii_case("readwrite"));
        Ok(Some(writable.map(|shard| shard.id).collect()))
    }

    /// # Errors
    /// The service's, as for a name it does not take.
    pub async fn create(&mut self, store: &str, shards: u32) -> Result<(), ServiceError> {
        let body = serde_json::json!({ "logstoreName": store, "ttl": 1, "shardCount": shards }).to_string();
        let headers =
            vec![("content-type", "application/json".to_owned()), ("x-log-bodyrawsize", body.len().to_string())];
        let question = HttpRequest {
            method: "POST",
            path: "/logstores",
            headers,
            body: Bytes::from(body),
            ..HttpRequest::default()
        };
        self.ask(question).await.map(drop)
    }

    /// # Errors
    /// The service's.
    pub async fn delete(&mut self, store: &str) -> Result<(), ServiceError> {
        let path = format!("/logstores/{store}");
        self.ask(HttpRequest { method: "DELETE", path: &path, ..HttpRequest::default() }).await.map(drop)
    }

    /// The place in a shard: `begin` or `end`.
    ///
    /// # Errors
    /// The service's.
    pub async fn cursor(&mut self, store: &str, shard: u32, from: &str) -> Result<String, ServiceError> {
        #[derive(serde::Deserialize)]
        struct Cursor {
            cursor: String,
        }
        let path = format!("/logstores/{store}/shards/{shard}");
        let answer = self.get(&path, &[("from", from), ("type", "cursor")]).await?;
        parsed(&answer.body).map(|Cursor { cursor }| cursor)
    }

    /// What is in the shard from `cursor` on; an empty list if nothing is.
    ///
    /// # Errors
    /// The service's, or that its answer cannot be read.
    pub async fn pull(&mut self, store: &str, shard: u32, cursor: &str) -> Result<Pulled, ServiceError> {
        let path = format!("/logstores/{store}/shards/{shard}");
        let query = [("count", GROUPS_AT_ONCE), ("cursor", cursor), ("type", "logs")];
        let headers = vec![("accept", "application/x-protobuf".to_owned()), ("accept-encoding", "lz4".to_owned())];
        let question = HttpRequest {
            method: "GET",
            path: &path,
            query: &query,
            headers,
            most_answer_bytes: MOST_PULLED_BYTES,
            ..HttpRequest::default()
        };
        let answer = self.ask(question).await?;
        let size = answer.header("x-log-bodyrawsize").parse().unwrap_or(answer.body.len());
        let list = match answer.header("x-log-compresstype") {
            _ if answer.body.is_empty() => Vec::new(),
            "lz4" if size <= MOST_PULLED_BYTES => lz4_flex::block::decompress(&answer.body, size)
                .map_err(|error| bad(&format!("the logs do not decompress: {error}")))?,
            "lz4" => return Err(bad("more logs than an answer may hold")),
            _ => answer.body.to_vec(),
        };
        let next = answer.header("x-log-cursor");
        // What comes from the network goes into the next request's address.
        if next.is_empty() || !next.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte)) {
            return Err(bad("no place to go on from"));
        }
        Ok(Pulled { list, next: next.to_owned() })
    }
}

fn bad(message: &str) -> ServiceError {
    ServiceError { code: "BadResponse".to_owned(), message: message.to_owned() }
}

fn parsed<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, ServiceError> {
    serde_json::from_slice(body).map_err(|error| bad(&error.to_string()))
}
