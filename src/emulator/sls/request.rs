//! The response to a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use percent_encoding::percent_decode_str;

use super::decode::{MAX_RAW_BYTES, Refusal, examine, unfold};
use super::options::{EmulatorOptions, FaultKind, Faults, Key, MAX_SHARDS};
use super::signature::{Asked, SignatureCheck};
use super::stores::{Account, NotMade, Store, Stores, Written};

/// How long a request without a response is held.
const SILENCE: Duration = Duration::from_secs(120);

/// Most groups of one response, and most bytes of several groups.
const MAX_GROUPS: usize = 1000;
const MAX_READ_BYTES: usize = 8 << 20;

/// The connection ends without a response.
#[derive(Debug, thiserror::Error)]
#[error("no response, on purpose")]
pub struct Silence;

type Reply = Response<Full<Bytes>>;

/// Everything behind the connections.
pub struct Endpoint {
    signature: SignatureCheck,
    stores: Stores,
    faults: Faults,
    account: Account,
    responses: AtomicU64,
    patience: Duration,
    /// Whether log stores may be listed, looked at, created and removed.
    management: bool,
}

impl Endpoint {
    pub fn new(options: &EmulatorOptions, key: Option<Key>) -> Self {
        Endpoint {
            signature: SignatureCheck::new(key),
            stores: Stores::new(options),
            faults: Faults::new(&options.faults),
            account: Account::default(),
            responses: AtomicU64::new(0),
            patience: options.patience,
            management: options.management,
        }
    }

    /// # Errors
    /// When the connection must end without a response.
    pub async fn respond(self: Arc<Self>, request: Request<Incoming>) -> Result<Reply, Silence> {
        let (head, body) = request.into_parts();
        // Refused before anything is read: a client that claims too much, or is not let in, need not send it.
        if body.size_hint().lower() > MAX_RAW_BYTES as u64 {
            return Ok(self.refuse(&too_large(), true));
        }
        let query = head.uri.query().unwrap_or_default();
        let query: Vec<(String, String)> = query.split('&').filter(|pair| !pair.is_empty()).map(decoded).collect();
        let (method, path, has_body) = (head.method.as_str(), head.uri.path(), !body.is_end_stream());
        if (method, path) == ("GET", "/account") {
            return Ok(self.json(&self.account.tell(&self.stores)));
        }
        let asked = Asked { method, path, query: &query, headers: &head.headers, has_body };
        let admitted = self.signature.admit(&asked, jiff::Timestamp::now());
        if let Err(refusal) = admitted.and_then(|()| check_claims(&asked)) {
            return Ok(self.refuse(&refusal, has_body));
        }
        let body = match self.take(body).await? {
            Ok(body) => body,
            Err(refusal) => return Ok(self.refuse(&refusal, true)),
        };
        if let Err(refusal) = self.signature.admit_body(&asked, &body) {
            return Ok(self.refuse(&refusal, false));
        }
        match self.route(&asked, &body).await? {
            Ok(response) => Ok(response),
            Err(refusal) => Ok(self.refuse(&refusal, false)),
        }
    }

    /// The body, within the endpoint's patience.
    async fn take(&self, body: Incoming) -> Result<Result<Bytes, Refusal>, Silence> {
        match tokio::time::timeout(self.patience, Limited::new(body, MAX_RAW_BYTES).collect()).await {
            Ok(Ok(body)) => Ok(Ok(body.to_bytes())),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Ok(Err(too_large())),
            Ok(Err(_)) => Err(Silence),
            Err(_) => {
                let reason = format!("the body took longer than {:?}", self.patience);
                Ok(Err(("RequestTimeout", reason)))
            }
        }
    }

    async fn route(&self, asked: &Asked<'_>, body: &Bytes) -> Result<Result<Reply, Refusal>, Silence> {
        let parts: Vec<&str> = asked.path.trim_matches('/').split('/').collect();
        if let Some(refusal) = management(asked.method, &parts).filter(|_| !self.management).map(denied) {
            return Ok(Err(refusal));
        }
        Ok(match (asked.method, &parts[..]) {
            ("POST", ["logstores", store, "shards", way @ ("lb" | "route")]) => {
                return self.write(asked, body, store, *way == "route").await;
            }
            ("GET", ["logstores"]) => {
                let names = self.stores.names();
                Ok(self.json(&serde_json::json!({ "count": names.len(), "total": names.len(), "logstores": names })))
            }
            ("POST", ["logstores"]) => self.make(body),
            ("GET", ["logstores", store]) => self.store(store).map(|found| {
                self.json(&serde_json::json!({ "logstoreName": store, "shardCount": found.shards(), "ttl": 1 }))
            }),
            ("DELETE", ["logstores", store]) => {
                if self.stores.remove(store) {
                    Ok(self.done())
                } else {
                    Err(unknown_store(store))
                }
            }
            ("GET", ["logstores", store, "shards"]) => self.store(store).map(|found| self.json(&listed(&found))),
            ("GET", ["logstores", store, "shards", shard]) => self.read(asked, store, shard),
            ("POST", ["logstores", store, "shards", shard]) => self.split(asked, store, shard),
            _ => Err(("InvalidAPI", "this endpoint does not do that".to_owned())),
        })
    }

    async fn write(
        &self,
        asked: &Asked<'_>,
        body: &Bytes,
        store: &str,
        by_hash: bool,
    ) -> Result<Result<Reply, Refusal>, Silence> {
        let fault = self.faults.deal();
        if let Some(kind) = fault {
            self.account.injected(kind);
        }
        let refusal = |code, reason: &str| Ok(Err((code, reason.to_owned())));
        match fault {
            None | Some(FaultKind::AcceptedReset) => {}
            Some(FaultKind::Quota) => return refusal("WriteQuotaExceed", "the project's quota is used up, on purpose"),
            Some(FaultKind::ShardQuota) => {
                return refusal("ShardWriteQuotaExceed", "the shard's quota is used up, on purpose");
            }
            Some(FaultKind::Busy) => return refusal("ServerBusy", "on purpose"),
            Some(FaultKind::Internal) => return refusal("InternalServerError", "on purpose"),
            Some(FaultKind::Unauthorized) => return refusal("Unauthorized", "on purpose"),
            Some(FaultKind::Invalid) => return refusal("PostBodyInvalid", "on purpose"),
            Some(FaultKind::Garbage) => return Ok(Ok(plain(502, "<html>Bad Gateway</html>"))),
            Some(FaultKind::NoRequestId) => return Ok(Ok(plain(200, ""))),
            Some(FaultKind::Reset) => return Err(Silence),
            Some(FaultKind::Timeout) => {
                tokio::time::sleep(SILENCE).await;
                return Err(Silence);
            }
        }
        let response = self.accept(asked, body, store, by_hash);
        if fault == Some(FaultKind::AcceptedReset) && response.is_ok() {
            return Err(Silence);
        }
        Ok(response)
    }

    fn accept(&self, asked: &Asked<'_>, body: &Bytes, store: &str, by_hash: bool) -> Result<Reply, Refusal> {
        let found = self.store(store)?;
        let raw_size = raw_size(asked)?;
        let compression = asked.header("x-log-compresstype").to_owned();
        let contents = examine(&unfold(body, &compression, raw_size)?)?;
        let shard = if by_hash {
            let key = asked.query.iter().find(|(name, _)| name == "key").map_or("", |(_, key)| key);
            let begin = key.get(..8).filter(|_| key.len() == 32).and_then(|begin| u32::from_str_radix(begin, 16).ok());
            found.shard_of(begin.ok_or(("ParameterInvalid", "the key is not 32 hexadecimal digits".to_owned()))?)
        } else {
            found.next_shard()
        };
        let written = Written {
            body: body.clone(),
            compression,
            raw_size,
            logs: contents.logs,
            counted_bytes: contents.counted_bytes,
        };
        if self.stores.write(&found, shard, written) {
            Ok(self.done())
        } else {
            Err(("ShardWriteQuotaExceed", format!("shard {shard} takes no more for now")))
        }
    }

    fn make(&self, body: &[u8]) -> Result<Reply, Refusal> {
        #[derive(serde::Deserialize)]
        struct Wanted {
            #[serde(rename = "logstoreName")]
            name: String,
            #[serde(rename = "shardCount")]
            shards: u32,
        }
        let invalid = |reason: String| ("ParameterInvalid", reason);
        let wanted: Wanted = serde_json::from_slice(body).map_err(|error| invalid(error.to_string()))?;
        match self.stores.make(&wanted.name, wanted.shards) {
            Ok(()) => Ok(self.done()),
            Err(NotMade::Exists) => Err(("LogStoreAlreadyExist", format!("logstore {} already exists", wanted.name))),
            Err(NotMade::Limit) => {
                Err(invalid(format!("a store has 1 to {MAX_SHARDS} shards, and there are not too many stores")))
            }
            Err(NotMade::Name) => Err(invalid("this is not the name of a log store".to_owned())),
        }
    }

    fn read(&self, asked: &Asked<'_>, store: &str, shard: &str) -> Result<Reply, Refusal> {
        let found = self.store(store)?;
        let number = shard.parse().ok().filter(|shard: &usize| *shard < found.shards());
        let shard = number.ok_or(("ShardNotExist", format!("shard {} does not exist", shard.escape_default())))?;
        let parameter = |name: &str| asked.query.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value);
        if parameter("type") == "cursor" {
            let (begin, end) = found.ends(shard);
            let position = match parameter("from") {
                "begin" => begin,
                "end" => end,
                _ => {
                    return Err((
                        "ParameterInvalid",
                        "this endpoint supports only the cursors begin and end".to_owned(),
                    ));
                }
            };
            return Ok(self.json(&serde_json::json!({ "cursor": cursor(position) })));
        }
        let invalid = || ("InvalidCursor", "no cursor of this endpoint".to_owned());
        let from = STANDARD.decode(parameter("cursor")).ok().and_then(|text| String::from_utf8(text).ok());
        let from = from.and_then(|text| text.parse().ok()).ok_or_else(invalid)?;
        let most = parameter("count").parse().unwrap_or(MAX_GROUPS).min(MAX_GROUPS);
        let (read, next) = found.read(shard, from, most, MAX_READ_BYTES);
        let list = group_list(&read)?;
        let raw_size = list.len();
        let compressed = !list.is_empty() && asked.header("accept-encoding").contains("lz4");
        let body = if compressed { lz4_flex::block::compress(&list) } else { list };
        let mut response = self.answered(200, "application/x-protobuf", Bytes::from(body));
        let headers = response.headers_mut();
        headers.insert("x-log-count", read.len().into());
        headers.insert("x-log-bodyrawsize", raw_size.into());
        if let Ok(position) = cursor(next).parse() {
            headers.insert("x-log-cursor", position);
        }
        if compressed {
            headers.insert("x-log-compresstype", hyper::header::HeaderValue::from_static("lz4"));
        }
        Ok(response)
    }

    /// <https://www.alibabacloud.com/help/en/sls/developer-reference/api-sls-2020-12-30-splitshard>, at the middle of the range.
    fn split(&self, asked: &Asked<'_>, store: &str, shard: &str) -> Result<Reply, Refusal> {
        let found = self.store(store)?;
        if !asked.query.iter().any(|(name, value)| (name.as_str(), value.as_str()) == ("action", "split")) {
            return Err(("ParameterInvalid", "this endpoint can only split shards".to_owned()));
        }
        if shard.parse().is_ok_and(|shard| found.split(shard)) {
            Ok(self.json(&listed(&found)))
        } else {
            Err(("ParameterInvalid", format!("shard {} cannot be split", shard.escape_default())))
        }
    }

    fn store(&self, name: &str) -> Result<Arc<Store>, Refusal> {
        self.stores.find(name).ok_or_else(|| unknown_store(name))
    }

    fn done(&self) -> Reply {
        self.answered(200, "text/plain", Bytes::new())
    }

    fn json(&self, value: &serde_json::Value) -> Reply {
        self.answered(200, "application/json", Bytes::from(value.to_string()))
    }

    /// `ends`: the connection as well, as what is left on it has not been read.
    fn refuse(&self, (code, reason): &Refusal, ends: bool) -> Reply {
        self.account.refused(code);
        let status = match *code {
            "Unauthorized" | "SignatureNotMatch" => 401,
            "WriteQuotaExceed" | "ShardWriteQuotaExceed" => 403,
            "LogStoreNotExist" | "ShardNotExist" | "InvalidAPI" => 404,
            "RequestTimeout" => 408,
            "PostBodyTooLarge" => 413,
            "InvalidContentType" => 415,
            "InternalServerError" => 500,
            "ServerBusy" => 503,
            _ => 400,
        };
        let body = serde_json::json!({ "errorCode": code, "errorMessage": reason }).to_string();
        let mut response = self.answered(status, "application/json", Bytes::from(body));
        if ends {
            response.headers_mut().insert("connection", hyper::header::HeaderValue::from_static("close"));
        }
        response
    }

    fn answered(&self, status: u16, kind: &'static str, body: Bytes) -> Reply {
        let number = self.responses.fetch_add(1, Ordering::Relaxed) + 1;
        let mut response = plain(status, "");
        response.headers_mut().insert("content-type", hyper::header::HeaderValue::from_static(kind));
        if let Ok(id) = format!("{number:024X}").parse() {
            response.headers_mut().insert("x-log-requestid", id);
        }
        response.map(|_| Full::new(body))
    }
}

/// The name in policies of a request that manages log stores; `None`: it writes or reads logs.
fn management(method: &str, parts: &[&str]) -> Option<&'static str> {
    match (method, parts) {
        ("GET", ["logstores"]) => Some("log:ListLogStores"),
        ("POST", ["logstores"]) => Some("log:CreateLogStore"),
        ("GET", ["logstores", _]) => Some("log:GetLogStore"),
        ("DELETE", ["logstores", _]) => Some("log:DeleteLogStore"),
        ("GET", ["logstores", _, "shards"]) => Some("log:ListShards"),
        _ => None,
    }
}

/// The refusal in the service's words: <https://github.com/aliyun/aliyun-log-go-sdk/issues/38>.
fn denied(action: &str) -> Refusal {
    ("Unauthorized", format!("denied by sts or ram, action: {action}, resource: acs:log:*:*:project/*"))
}

/// A store's shards, with their ranges of hashes.
fn listed(store: &Store) -> serde_json::Value {
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

/// Checks what the headers of a write say of its body.
fn check_claims(asked: &Asked<'_>) -> Result<(), Refusal> {
    let is_write =
        asked.method == "POST" && (asked.path.ends_with("/shards/lb") || asked.path.ends_with("/shards/route"));
    if is_write { raw_size(asked).map(drop) } else { Ok(()) }
}

/// The size that a body is said to have when it is unfolded.
fn raw_size(asked: &Asked<'_>) -> Result<usize, Refusal> {
    match asked.header("x-log-bodyrawsize") {
        "" => Err(("MissingBodyRawSize", "x-log-bodyrawsize is missing".to_owned())),
        size => size.parse().map_err(|_| ("InvalidBodyRawSize", "x-log-bodyrawsize is not a number".to_owned())),
    }
}

fn plain(status: u16, body: &'static str) -> Reply {
    let mut response = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    response
}

fn too_large() -> Refusal {
    ("PostBodyTooLarge", format!("a body of more than {MAX_RAW_BYTES} bytes"))
}

fn unknown_store(name: &str) -> Refusal {
    ("LogStoreNotExist", format!("logstore {} does not exist", name.escape_default()))
}

/// A `LogGroupList`: the groups as its field 1.
fn group_list(groups: &[Written]) -> Result<Vec<u8>, Refusal> {
    let mut list = Vec::new();
    for written in groups {
        let group = unfold(&written.body, &written.compression, written.raw_size)?;
        list.push(0x0a);
        let mut length = group.len();
        while length >= 0x80 {
            list.push((length % 0x80 + 0x80) as u8);
            length /= 0x80;
        }
        list.push(length as u8);
        list.extend_from_slice(&group);
    }
    Ok(list)
}

fn cursor(position: u64) -> String {
    STANDARD.encode(position.to_string())
}

/// A name and its value, decoded.
fn decoded(pair: &str) -> (String, String) {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let decode = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
    (decode(name), decode(value))
}
