//! Requests to the service besides writing: log stores, their shards, and reading. The names of log stores have stricter rules than
//! those of topics.

use bytes::Bytes;
use md5::{Digest, Md5};

use super::connect::{Client, HttpRequest, HttpResponse, ServiceError, accepted};
use super::sign::hex;

/// Most bytes of a response without logs.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// Most bytes of logs in one response, compressed and uncompressed: the service sends at most 10 MB.
const MAX_PULLED_BYTES: usize = 64 << 20;

/// Most groups asked for at once.
const GROUPS_AT_ONCE: &str = "1000";

/// Sends requests to the service, one after another.
pub struct Admin {
    client: Client,
}

/// A shard of a store.
#[derive(serde::Deserialize)]
pub struct Shard {
    #[serde(rename = "shardID")]
    pub id: u32,
    status: String,
}

impl Shard {
    /// Otherwise it only keeps what it has taken.
    pub fn is_writable(&self) -> bool {
        self.status.eq_ignore_ascii_case("readwrite")
    }
}

/// Logs of one shard.
pub struct Pulled {
    /// A list of groups, as protobuf.
    pub list: Vec<u8>,
    /// The cursor of the next logs.
    pub next: String,
}

impl Admin {
    pub fn new(client: Client) -> Self {
        Admin { client }
    }

    async fn send(&mut self, request: HttpRequest<'_>) -> Result<HttpResponse, ServiceError> {
        let max_response_bytes = request.max_response_bytes.max(MAX_RESPONSE_BYTES);
        accepted(self.client.send(HttpRequest { max_response_bytes, ..request }).await?)
    }

    async fn get(&mut self, path: &str, query: &[(&str, &str)]) -> Result<HttpResponse, ServiceError> {
        self.send(HttpRequest { method: "GET", path, query, ..HttpRequest::default() }).await
    }

    /// Checks that the service accepts the project and the credentials.
    ///
    /// # Errors
    /// The service's.
    pub async fn check(&mut self) -> Result<(), ServiceError> {
        self.get("/logstores", &[("offset", "0"), ("size", "1")]).await.map(drop)
    }

    /// The shards of a store; `None`: the store does not exist.
    ///
    /// # Errors
    /// The service's.
    pub async fn shards(&mut self, store: &str) -> Result<Option<Vec<Shard>>, ServiceError> {
        let response = match self.get(&format!("/logstores/{store}/shards"), &[]).await {
            Err(fault) if fault.is_unknown_store() => return Ok(None),
            other => other?,
        };
        parsed(&response.body).map(Some)
    }

    /// # Errors
    /// The service's, as for a name it does not take.
    pub async fn create(&mut self, store: &str, shards: u32) -> Result<(), ServiceError> {
        let body = serde_json::json!({ "logstoreName": store, "ttl": 1, "shardCount": shards }).to_string();
        let headers =
            vec![("content-type", "application/json".to_owned()), ("x-log-bodyrawsize", body.len().to_string())];
        let request = HttpRequest {
            method: "POST",
            path: "/logstores",
            headers,
            body: Bytes::from(body),
            ..HttpRequest::default()
        };
        self.send(request).await.map(drop)
    }

    /// Deletes a store, if it is still there.
    ///
    /// # Errors
    /// The service's.
    pub async fn delete(&mut self, store: &str) -> Result<(), ServiceError> {
        let path = format!("/logstores/{store}");
        match self.send(HttpRequest { method: "DELETE", path: &path, ..HttpRequest::default() }).await {
            Err(fault) if fault.is_unknown_store() => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    /// The cursor of a shard's `begin` or `end`.
    ///
    /// # Errors
    /// The service's.
    pub async fn cursor(&mut self, store: &str, shard: u32, from: &str) -> Result<String, ServiceError> {
        #[derive(serde::Deserialize)]
        struct Cursor {
            cursor: String,
        }
        let path = format!("/logstores/{store}/shards/{shard}");
        let response = self.get(&path, &[("from", from), ("type", "cursor")]).await?;
        parsed(&response.body).map(|Cursor { cursor }| cursor)
    }

    /// What is in the shard from `cursor` on; an empty list if nothing is.
    ///
    /// # Errors
    /// The service's, or that its response is malformed.
    pub async fn pull(&mut self, store: &str, shard: u32, cursor: &str) -> Result<Pulled, ServiceError> {
        let path = format!("/logstores/{store}/shards/{shard}");
        let query = [("count", GROUPS_AT_ONCE), ("cursor", cursor), ("type", "logs")];
        let headers = vec![("accept", "application/x-protobuf".to_owned()), ("accept-encoding", "lz4".to_owned())];
        let request = HttpRequest {
            method: "GET",
            path: &path,
            query: &query,
            headers,
            max_response_bytes: MAX_PULLED_BYTES,
            ..HttpRequest::default()
        };
        let response = self.send(request).await?;
        let size = response.header("x-log-bodyrawsize").parse().unwrap_or(response.body.len());
        let list = match response.header("x-log-compresstype") {
            _ if response.body.is_empty() => Vec::new(),
            "lz4" if size <= MAX_PULLED_BYTES => lz4_flex::block::decompress(&response.body, size)
                .map_err(|error| bad(&format!("the logs do not decompress: {error}")))?,
            "lz4" => return Err(bad("more logs than a response may hold")),
            _ => response.body.to_vec(),
        };
        let next = response.header("x-log-cursor");
        // What comes from the network goes into the next request's address.
        if next.is_empty() || !next.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=-_".contains(&byte)) {
            return Err(bad("the cursor is missing"));
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

/// Letters of a log store's name.
const MAX_NAME_LETTERS: usize = 63;

/// The store of a topic. Names that brokermark chose begin with the run's id and are changed to fit the service's rules. A
/// name that the scenario gives is never changed.
pub fn store_name(topic: &str, run_id: &str) -> String {
    if !topic.starts_with(run_id) || is_store_name(topic) {
        return topic.to_owned();
    }
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let name: String = topic.chars().map(plain).collect();
    if name.len() <= MAX_NAME_LETTERS && is_store_name(&name) {
        return name;
    }
    // The end of the name distinguishes topics of one run.
    let digest = hex(&Md5::digest(topic)[..8]);
    let kept: String = name.chars().filter(char::is_ascii).take(MAX_NAME_LETTERS - digest.len() - 3).collect();
    format!("b-{}-{digest}", kept.trim_matches('-'))
}

/// Whether the service accepts the name.
pub fn is_store_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (2..=MAX_NAME_LETTERS).contains(&name.len())
        && name.bytes().all(|byte| plain(byte) || byte == b'-' || byte == b'_')
        && name.bytes().next().is_some_and(plain)
        && name.bytes().last().is_some_and(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "sls-emulator")]
    #[tokio::test]
    async fn a_store_that_another_client_has_deleted_is_deleted() {
        use std::sync::Arc;
        use std::time::Duration;

        use super::super::config::{Credentials, SignatureVersion};
        use super::super::connect::Endpoint;
        use super::super::sign::{CredentialSource, Signer};
        use crate::emulator::sls::{Emulator, EmulatorOptions, ListenOptions};

        let listen = ListenOptions { listen: "127.0.0.1:0".to_owned(), ..ListenOptions::default() };
        let emulator = Emulator::start(&EmulatorOptions::default(), listen).unwrap();
        let endpoint = Endpoint::new(&emulator.address().to_string(), None, "project", None).unwrap();
        let key = || "key".to_owned();
        let credentials = Credentials { key_id: key(), key_secret: key(), security_token: None };
        let credentials = CredentialSource::new(credentials, Box::new(|| None));
        let signer = Signer { credentials, version: SignatureVersion::V1, region: String::new() };
        let mut admin = Admin::new(Client::new(Arc::new(endpoint), Arc::new(signer), Duration::from_secs(60)));
        admin.create("orders", 1).await.unwrap();
        for _ in 0..2 {
            assert_eq!(admin.delete("orders").await, Ok(()));
        }
    }

    #[test]
    fn names_of_a_run_are_made_to_fit_and_given_ones_are_not() {
        let run = "Seeds.sls_io-20261121T063926Z";
        let (first, second) = (store_name(&format!("{run}-0"), run), store_name(&format!("{run}-1"), run));
        assert_eq!(first, "seeds-sls-io-20261121t063926z-0");
        assert!(is_store_name(&first) && is_store_name(&second) && first != second);
        let long = "x".repeat(100);
        let names = [store_name(&format!("{long}-0"), &long), store_name(&format!("{long}-1"), &long)];
        assert!(names.iter().all(|name| is_store_name(name)) && names[0] != names[1], "{names:?}");
        assert_eq!(store_name("Mine", run), "Mine");
        let accepted =
            ["orders0", "Orders1", "o", &format!("{run}-0")].map(|topic| is_store_name(&store_name(topic, run)));
        assert_eq!(accepted, [true, false, false, true]);
    }
}
