//! The admin interface: creates, finds and removes topics and subscriptions over HTTP, and reads their policies and statistics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustls::ClientConfig;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::policies::{BacklogQuota, Persistence, Policies, TopicStats};
use crate::broker::{BrokerError, Removal};
use crate::net::address;
use crate::net::http::{HttpClient, HttpRequest, HttpResponse};
use crate::net::token::Token;
use crate::printable::printable;

/// How long a question may take whose answer is not needed.
const PATIENCE: Duration = Duration::from_secs(1);

/// Times a broker may send us on to another.
const MAX_REDIRECTS: usize = 10;

/// `MessageId.earliest` (Pulsar, `MessageIdImpl.java` and `PersistentTopics.createSubscription`).
const EARLIEST: &str = r#"{"ledgerId":-1,"entryId":-1,"partitionIndex":-1}"#;

/// A client of the admin interface.
pub struct Admin {
    http: HttpClient,
    /// Without a slash at their ends. Any of them does.
    urls: Vec<String>,
    /// The number of the one that answered last.
    entrance: AtomicUsize,
    token: Option<Arc<Token>>,
    /// Hosts to which the token may go.
    trusted: Mutex<BTreeSet<String>>,
}

impl Admin {
    /// For the interface at any of `urls`, authenticated by `token`. `tls` is for URLs that begin with `https`.
    pub fn new(urls: &[String], token: Option<Arc<Token>>, tls: Option<Arc<ClientConfig>>, timeout: Duration) -> Self {
        let urls: Vec<String> = urls.iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
        let trusted = Mutex::new(urls.iter().map(|url| host(url).to_owned()).collect());
        Admin { http: HttpClient::new(tls, timeout), urls, entrance: AtomicUsize::new(0), token, trusted }
    }

    /// Creates a topic, unless it exists. How many partitions it has (0: it is not partitioned), and whether it was created.
    ///
    /// # Errors
    /// When it cannot be created.
    pub async fn create(&self, name: &TopicName, partitions: u32) -> Result<(u32, bool), BrokerError> {
        let failed = |reason: String| name.error("created", reason);
        let path = name.admin_path();
        let answer = match partitions {
            1 => self.call("PUT", &path, None).await?,
            partitions => self.call("PUT", &format!("{path}/partitions"), Some(&partitions.to_string())).await?,
        };
        match answer.status {
            200..300 if partitions == 1 => Ok((0, true)),
            200..300 => Ok((partitions, true)),
            409 => {
                let answer = self.call("GET", &format!("{path}/partitions"), None).await?;
                let found = partitions_in(&answer).ok_or_else(|| {
                    failed(format!("it exists, but its partitions cannot be counted: {}", reason(&answer)))
                })?;
                Ok((found, false))
            }
            404 => Err(failed(format!(
                "{}: does the namespace {} exist? Make it, or name another in `broker.pulsar.namespace`",
                reason(&answer),
                name.namespace()
            ))),
            _ => Err(failed(reason(&answer))),
        }
    }

    /// How many partitions a topic has, 0 where it is not partitioned; `None`: it does not exist.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn partitions(&self, name: &TopicName) -> Result<Option<u32>, BrokerError> {
        let path = name.admin_path();
        let answer = self.call("GET", &format!("{path}/partitions"), None).await?;
        if let Some(found) = partitions_in(&answer).filter(|partitions| *partitions > 0) {
            return Ok(Some(found));
        }
        // Brokers tell 0 partitions of a topic that does not exist as well.
        let answer = self.call("GET", &format!("{path}/stats"), None).await?;
        match answer.status {
            200..300 => Ok(Some(0)),
            404 => Ok(None),
            _ => Err(name.error("found", reason(&answer))),
        }
    }

    /// Deletes a topic, also while clients are connected to it. `is_partitioned`: whether the topic has partitions.
    ///
    /// # Errors
    /// When the broker does not delete it.
    pub async fn delete(&self, name: &TopicName, is_partitioned: bool) -> Result<(), BrokerError> {
        let partitions = if is_partitioned { "/partitions" } else { "" };
        self.call_delete(name, &format!("{}{partitions}?force=true", name.admin_path()), "removed").await
    }

    /// Makes a subscription that begins at the earliest message, so that the broker keeps all messages until it has read them.
    ///
    /// # Errors
    /// When the broker does not make it.
    pub async fn subscribe(&self, name: &TopicName, subscription: &str) -> Result<(), BrokerError> {
        let path = format!("{}/subscription/{subscription}", name.admin_path());
        let answer = self.call("PUT", &path, Some(EARLIEST)).await?;
        match answer.status {
            200..300 => Ok(()),
            _ => Err(name.error("subscribed to", reason(&answer))),
        }
    }

    /// Removes a subscription from a topic that stays.
    ///
    /// # Errors
    /// When the broker does not remove it.
    pub async fn unsubscribe(&self, name: &TopicName, subscription: &str) -> Result<(), BrokerError> {
        let path = format!("{}/subscription/{subscription}?force=true", name.admin_path());
        self.call_delete(name, &path, "left").await
    }

    /// The persistence policies that apply to a topic; `None` where the broker does not tell them.
    pub async fn persistence(&self, name: &TopicName) -> Option<Persistence> {
        self.get(&format!("{}/persistence?applied=true", name.admin_path())).await
    }

    /// What the rules of a topic have removed from `subscriptions`; `None` where there is no such rule, or the broker does not tell.
    pub async fn removal(&self, name: &TopicName, is_partitioned: bool, subscriptions: &[String]) -> Option<Removal> {
        let path = name.admin_path();
        let stats = if is_partitioned { "partitioned-stats?perPartition=false&" } else { "stats?" };
        let stats: TopicStats = self.get(&format!("{path}/{stats}getPreciseBacklog=true")).await?;
        let time_to_live: Option<i64> = self.get(&format!("{path}/messageTTL?applied=true")).await;
        let quotas: Option<BTreeMap<String, BacklogQuota>> =
            self.get(&format!("{path}/backlogQuotaMap?applied=true")).await;
        stats.removal(time_to_live, quotas.unwrap_or_default().into_values(), subscriptions)
    }

    /// What a namespace lets its producers publish, in words; `None` where it has no limit, or the broker does not tell it in a moment.
    pub async fn publish_rate(&self, namespace: &str) -> Option<String> {
        let path = format!("namespaces/{namespace}");
        let policies: Policies = timeout(PATIENCE, self.get(&path)).await.ok().flatten()?;
        let told = policies.publish_rate()?;
        Some(format!("the policy publishMaxMessageRate of the namespace {namespace} is {told}"))
    }

    /// What the broker tells at `path`; `None` where it does not tell it.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        let answer = self.call("GET", path, None).await.ok().filter(|answer| (200..300).contains(&answer.status))?;
        serde_json::from_str(&answer.text).ok()
    }

    async fn call_delete(&self, name: &TopicName, path: &str, action: &'static str) -> Result<(), BrokerError> {
        let answer = self.call("DELETE", path, None).await?;
        match answer.status {
            // What is gone need not be removed.
            200..300 | 404 => Ok(()),
            _ => Err(name.error(action, reason(&answer))),
        }
    }

    /// Asks the interface that answered last, or the next one if it cannot be reached.
    async fn call(&self, method: &'static str, path: &str, body: Option<&str>) -> Result<HttpResponse, BrokerError> {
        let first = self.entrance.load(Ordering::Relaxed);
        let mut failure = None;
        for number in (0..self.urls.len()).map(|number| (first + number) % self.urls.len()) {
            match self.call_from(&self.urls[number], method, path, body).await {
                Err(error @ BrokerError::Unreachable { .. }) => failure = failure.or(Some(error)),
                answer => {
                    self.entrance.store(number, Ordering::Relaxed);
                    return answer;
                }
            }
        }
        Err(failure.unwrap_or_else(|| unreachable("", "there is no address".to_owned())))
    }

    /// Asks, and asks again where the answer sends us: each namespace has a broker that knows of its topics, and others
    /// redirect to it.
    async fn call_from(
        &self,
        first: &str,
        method: &'static str,
        path: &str,
        body: Option<&str>,
    ) -> Result<HttpResponse, BrokerError> {
        let mut url = format!("{first}/admin/v2/{path}");
        for _ in 0..MAX_REDIRECTS {
            let answer = self.call_at(method, &url, body).await?;
            match (answer.status, &answer.location) {
                // 403 is about what a role may do with a topic, as its own errors are (`PulsarWebResource.java` of Apache Pulsar).
                (401, _) => {
                    let (address, reason) = (root(&url).to_owned(), reason(&answer));
                    return Err(BrokerError::Authorisation { address, reason });
                }
                // A redirect must not remove the encryption.
                (301 | 302 | 307 | 308, Some(to))
                    if to.starts_with("https://") || to.starts_with("http://") && !url.starts_with("https://") =>
                {
                    self.trust(&url, to).await?;
                    url.clone_from(to);
                }
                _ => return Ok(answer),
            }
        }
        Err(unreachable(&url, format!("it redirected {MAX_REDIRECTS} times without a response")))
    }

    /// Lets the token go where the interface at `from` sends us, if the cluster has a broker on that host.
    async fn trust(&self, from: &str, to: &str) -> Result<(), BrokerError> {
        if self.token.is_none() || self.trusted.lock().contains(host(to)) {
            return Ok(());
        }
        let answer = self.call_at("GET", &format!("{}/admin/v2/brokers", root(from)), None).await?;
        // Only superusers may list brokers. Who may use a topic may ask where it is.
        let is_allowed = !matches!(answer.status, 401 | 403);
        let answer = if is_allowed { answer } else { self.call_at("GET", &lookup(from), None).await? };
        let named: Vec<String> = match is_allowed {
            true => serde_json::from_str(&answer.text).unwrap_or_default(),
            false => serde_json::from_str::<Owner>(&answer.text).unwrap_or_default().urls(),
        };
        if !named.iter().any(|named| host(named) == host(to)) {
            let among = match is_allowed {
                true => "the cluster does not list among its brokers (pulsar-admin brokers list)",
                false => {
                    "a lookup of the topic does not name (pulsar-admin topics lookup), and the token may not list brokers"
                }
            };
            let reason = format!(
                "it redirects to {}, which {among}: the token does not go there unless `broker.pulsar.admin` names it",
                printable(root(to))
            );
            return Err(unreachable(from, reason));
        }
        self.trusted.lock().insert(host(to).to_owned());
        Ok(())
    }

    async fn call_at(&self, method: &'static str, url: &str, body: Option<&str>) -> Result<HttpResponse, BrokerError> {
        let mut headers = vec![("Content-Type", "application/json")];
        let authorization = match &self.token {
            Some(token) => {
                let token = token.current().await.map_err(BrokerError::Client)?;
                Some(format!("Bearer {token}"))
            }
            None => None,
        };
        headers.extend(authorization.as_deref().map(|authorization| ("Authorization", authorization)));
        let body = body.unwrap_or_default().to_owned();
        let request = HttpRequest { method, url, headers: &headers, body };
        self.http.send(&request).await.map_err(|reason| unreachable(url, reason))
    }
}

fn unreachable(url: &str, reason: String) -> BrokerError {
    let address = format!("its admin interface {} (`broker.pulsar.admin`)", root(url));
    BrokerError::Unreachable { address, reason }
}

/// A URL without its path.
fn root(url: &str) -> &str {
    let path = url.find("/admin/v2/").or_else(|| url.find("/lookup/v2/"));
    &url[..path.unwrap_or(url.len())]
}

/// Where the interface tells which broker has the topic that the URL is about.
fn lookup(url: &str) -> String {
    let path = url.split_once("/admin/v2/").map_or("", |(_, path)| path);
    let topic: Vec<&str> = path.split(['/', '?']).take(4).collect();
    format!("{}/lookup/v2/topic/{}", root(url), topic.join("/"))
}

/// The answer to `GET lookup/v2/topic/…` (Pulsar's `LookupData`), as far as it is about the admin interface.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Owner {
    http_url: Option<String>,
    http_url_tls: Option<String>,
}

impl Owner {
    fn urls(self) -> Vec<String> {
        self.http_url.into_iter().chain(self.http_url_tls).collect()
    }
}

/// The host of a URL.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    address::host(rest.split(['/', '?', '#']).next().unwrap_or_default())
}

/// The number of partitions that an answer has.
fn partitions_in(response: &HttpResponse) -> Option<u32> {
    let parsed = serde_json::from_str::<serde_json::Value>(&response.text).ok()?;
    parsed["partitions"].as_u64().map(|partitions| partitions as u32)
}

/// The broker's reason, or its status.
fn reason(response: &HttpResponse) -> String {
    let parsed = serde_json::from_str::<serde_json::Value>(&response.text).ok();
    match parsed.as_ref().and_then(|parsed| parsed["reason"].as_str()) {
        Some(reason) => printable(reason.lines().next().unwrap_or_default()).into_owned(),
        None => format!("HTTP status {}", response.status),
    }
}

/// A topic's full name: `persistent://tenant/namespace/name`, or `non-persistent://…`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName {
    domain: &'static str,
    namespace: String,
    name: String,
}

impl TopicName {
    /// The topic `name` in `namespace`, which is `tenant/namespace`.
    pub fn new(namespace: &str, name: &str, persistent: bool) -> Self {
        let domain = if persistent { "persistent" } else { "non-persistent" };
        TopicName { domain, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its partitions' full names, or its own where it has none (0).
    pub fn parts(&self, partitions: u32) -> Vec<Arc<str>> {
        let full = format!("{}://{}/{}", self.domain, self.namespace, self.name);
        match partitions {
            0 => vec![full.into()],
            _ => (0..partitions).map(|partition| format!("{full}-partition-{partition}").into()).collect(),
        }
    }

    /// Where the admin interface has it.
    pub fn admin_path(&self) -> String {
        format!("{}/{}/{}", self.domain, self.namespace, self.name)
    }

    /// Why it cannot be used.
    pub fn error(&self, action: &'static str, reason: String) -> BrokerError {
        BrokerError::Topic { topic: self.name.clone(), action, reason }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/broker/pulsar/admin.rs"]
mod tests;
