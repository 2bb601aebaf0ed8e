//! The admin interface: creates, finds and removes topics and subscriptions over HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use parking_lot::Mutex;
use rustls::ClientConfig;

use super::durability::Persistence;
use super::name::TopicName;
use super::token::Token;
use crate::broker::{BrokerError, Topic};
use crate::net::http::{HttpClient, HttpRequest, HttpResponse};
use crate::printable::printable;

/// Requests at a time: making a topic costs the broker some milliseconds of waiting for its own metadata.
const WORKERS: usize = 16;

/// Times a broker may send us on to another.
const MAX_REDIRECTS: usize = 10;

/// `MessageId.earliest` (Pulsar, `MessageIdImpl.java` and `PersistentTopics.createSubscription`).
const EARLIEST: &str = r#"{"ledgerId":-1,"entryId":-1,"partitionIndex":-1}"#;

/// A client of the admin interface.
pub struct Admin {
    http: HttpClient,
    /// Without a slash at its end.
    url: String,
    token: Option<Arc<Token>>,
}

impl Admin {
    /// For the interface at `url`, authenticated by `token`. `tls` is for a URL that begins with `https`.
    pub fn new(url: &str, token: Option<Arc<Token>>, tls: Option<Arc<ClientConfig>>, timeout: Duration) -> Self {
        Admin { http: HttpClient::new(tls, timeout), url: url.trim_end_matches('/').to_owned(), token }
    }

    /// Makes those of `topics` that do not exist. Returns, in their order, how many partitions each has (0: it is not
    /// partitioned) and whether it was made.
    ///
    /// # Errors
    /// When one exists with another number of partitions, or cannot be made; those that were made are removed again.
    pub async fn prepare(&self, topics: &[(TopicName, Topic)]) -> Result<Vec<(u32, bool)>, BrokerError> {
        let made: Mutex<Vec<(TopicName, bool)>> = Mutex::default();
        let made_here = &made;
        let prepare = topics.iter().map(|(name, topic)| async move {
            let (partitions, is_made) = self.prepare_one(name, topic).await?;
            if is_made {
                made_here.lock().push((name.clone(), partitions > 0));
            }
            Ok((partitions, is_made))
        });
        let prepared = in_parallel(prepare, Upon::Stop).await;
        if prepared.is_err() {
            // The first error is the cause; that of the removal would hide it.
            let _ = self.remove(&made.into_inner()).await;
        }
        prepared
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
        // Brokers tell 0 partitions of a topic that does not exist, too.
        let answer = self.call("GET", &format!("{path}/stats"), None).await?;
        match answer.status {
            200..300 => Ok(Some(0)),
            404 => Ok(None),
            _ => Err(name.error("found", reason(&answer))),
        }
    }

    /// Removes topics, also while clients are connected to them. `partitioned`: whether the topic has partitions.
    ///
    /// # Errors
    /// The first, when the broker does not remove one; the others are removed nevertheless.
    pub async fn remove(&self, topics: &[(TopicName, bool)]) -> Result<(), BrokerError> {
        let remove = topics.iter().map(|(name, partitioned)| async move {
            let path = if *partitioned { format!("{}/partitions", name.admin_path()) } else { name.admin_path() };
            self.delete(name, &format!("{path}?force=true"), "removed").await
        });
        in_parallel(remove, Upon::GoOn).await.map(drop)
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

    /// Removes subscriptions from topics that stay.
    ///
    /// # Errors
    /// The first, when the broker does not remove one; the others are removed nevertheless.
    pub async fn unsubscribe(&self, subscriptions: &[(TopicName, String)]) -> Result<(), BrokerError> {
        let remove = subscriptions.iter().map(|(name, subscription)| async move {
            let path = format!("{}/subscription/{subscription}?force=true", name.admin_path());
            self.delete(name, &path, "left").await
        });
        in_parallel(remove, Upon::GoOn).await.map(drop)
    }

    /// The persistence policies that apply to a topic; `None` where the broker does not tell them.
    pub async fn persistence(&self, name: &TopicName) -> Option<Persistence> {
        let answer = self.call("GET", &format!("{}/persistence?applied=true", name.admin_path()), None).await.ok()?;
        serde_json::from_str(&answer.text).ok()
    }

    async fn prepare_one(&self, name: &TopicName, topic: &Topic) -> Result<(u32, bool), BrokerError> {
        let failed = |reason: String| name.error("created", reason);
        let path = name.admin_path();
        let answer = match topic.partitions {
            1 => self.call("PUT", &path, None).await?,
            partitions => self.call("PUT", &format!("{path}/partitions"), Some(&partitions.to_string())).await?,
        };
        match answer.status {
            200..300 if topic.partitions == 1 => Ok((0, true)),
            200..300 => Ok((topic.partitions, true)),
            409 => {
                let answer = self.call("GET", &format!("{path}/partitions"), None).await?;
                match partitions_in(&answer) {
                    Some(found) if found.max(1) == topic.partitions => Ok((found, false)),
                    Some(found) => Err(BrokerError::TopicMismatch {
                        topic: topic.name.clone(),
                        found: format!("{} partition(s)", found.max(1)),
                        wanted: format!("{} partition(s)", topic.partitions),
                    }),
                    None => {
                        Err(failed(format!("it exists, but its partitions cannot be counted: {}", reason(&answer))))
                    }
                }
            }
            404 => Err(failed(format!(
                "{}: does the namespace {} exist? Make it, or name another in `broker.pulsar.namespace`",
                reason(&answer),
                name.namespace()
            ))),
            _ => Err(failed(reason(&answer))),
        }
    }

    async fn delete(&self, name: &TopicName, path: &str, action: &'static str) -> Result<(), BrokerError> {
        let answer = self.call("DELETE", path, None).await?;
        match answer.status {
            // What is gone need not be removed.
            200..300 | 404 => Ok(()),
            _ => Err(name.error(action, reason(&answer))),
        }
    }

    /// Asks, and asks again where the answer sends us: each namespace has a broker that knows of its topics, and others
    /// redirect to it.
    async fn call(&self, method: &'static str, path: &str, body: Option<&str>) -> Result<HttpResponse, BrokerError> {
        let mut url = format!("{}/admin/v2/{path}", self.url);
        for _ in 0..MAX_REDIRECTS {
            let answer = self.call_at(method, &url, body).await?;
            match (answer.status, &answer.location) {
                (401 | 403, _) => {
                    let (address, reason) = (self.url.clone(), reason(&answer));
                    return Err(BrokerError::Authorisation { broker: "pulsar", address, reason });
                }
                // A redirect must not remove the encryption.
                (301 | 302 | 307 | 308, Some(to))
                    if to.starts_with("https://") || to.starts_with("http://") && !url.starts_with("https://") =>
                {
                    url.clone_from(to);
                }
                _ => return Ok(answer),
            }
        }
        Err(self.unreachable(format!("it redirected {MAX_REDIRECTS} times without a response")))
    }

    async fn call_at(&self, method: &'static str, url: &str, body: Option<&str>) -> Result<HttpResponse, BrokerError> {
        let mut headers = vec![("Content-Type", "application/json")];
        let authorization = match &self.token {
            Some(token) => Some(format!("Bearer {}", token.current().await)),
            None => None,
        };
        headers.extend(authorization.as_deref().map(|authorization| ("Authorization", authorization)));
        let body = body.unwrap_or_default().to_owned();
        let request = HttpRequest { method, url, headers: &headers, body };
        self.http.send(&request).await.map_err(|reason| self.unreachable(reason))
    }

    fn unreachable(&self, reason: String) -> BrokerError {
        let address = format!("its admin interface {} (`broker.pulsar.admin`)", self.url);
        BrokerError::Unreachable { broker: "pulsar", address, reason }
    }
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

/// What an error in one item means for those that have not begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Upon {
    Stop,
    GoOn,
}

/// Awaits all `work`, a few at a time; results in its order. What has begun is awaited also after an error.
///
/// # Errors
/// The first, in the order of the work.
async fn in_parallel<R>(
    work: impl Iterator<Item = impl Future<Output = Result<R, BrokerError>>>,
    upon_error: Upon,
) -> Result<Vec<R>, BrokerError> {
    let stopped = &AtomicBool::new(false);
    let guarded = work.map(|one| async move {
        if stopped.load(Ordering::Relaxed) {
            return None;
        }
        let result = one.await;
        if result.is_err() && upon_error == Upon::Stop {
            stopped.store(true, Ordering::Relaxed);
        }
        Some(result)
    });
    // Made before the stream, whose own `map` the compiler cannot prove to be `Send` here.
    let guarded: Vec<_> = guarded.collect();
    let results: Vec<Option<_>> = stream::iter(guarded).buffered(WORKERS).collect().await;
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use super::*;
    use crate::secrets::Secret;

    /// Answers requests one by one, and returns the first line and the authorization of each.
    fn answering(answers: Vec<String>) -> (String, thread::JoinHandle<Vec<(String, bool)>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = thread::spawn(move || {
            answers
                .into_iter()
                .map(|answer| {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                    let first = lines.next().unwrap().unwrap();
                    let head: Vec<_> = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
                    write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
                    (first, head.iter().any(|line| line.eq_ignore_ascii_case("authorization: bearer good")))
                })
                .collect()
        });
        (url, serving)
    }

    #[tokio::test]
    async fn another_broker_is_asked_in_the_same_words_with_the_same_token() {
        let (owner, at_owner) = answering(vec!["204 No Content".to_owned()]);
        let (entrance, at_entrance) =
            answering(vec![format!("307 Temporary Redirect\r\nLocation: {owner}/admin/v2/persistent/a/b/c")]);
        let token = Token::read(Secret::Inline("good".to_owned())).unwrap();
        let admin = Admin::new(&entrance, Some(Arc::new(token)), None, Duration::from_secs(10));
        let name = TopicName::new("a/b", "c", true);
        let topic = Topic { name: "c".to_owned(), partitions: 1, replication: 1 };
        assert_eq!(admin.prepare(&[(name, topic)]).await, Ok(vec![(0, true)]));
        let expected = vec![("PUT /admin/v2/persistent/a/b/c HTTP/1.1".to_owned(), true)];
        assert_eq!(at_entrance.join().unwrap(), expected);
        assert_eq!(at_owner.join().unwrap(), expected);
    }

    #[tokio::test]
    async fn work_is_done_in_parallel_and_stops_at_an_error_or_goes_on() {
        let items: Vec<usize> = (0..100).collect();
        let doubled = in_parallel(items.iter().map(async |item| Ok(item * 2)), Upon::Stop).await.unwrap();
        assert_eq!(doubled, (0..100).map(|item| item * 2).collect::<Vec<_>>());
        let failure = BrokerError::Client { broker: "pulsar", reason: "no".into() };
        for (upon, all) in [(Upon::Stop, false), (Upon::GoOn, true)] {
            let begun = AtomicUsize::new(0);
            let work = items.iter().map(async |item| {
                begun.fetch_add(1, Ordering::Relaxed);
                if *item == 5 { Err(failure.clone()) } else { Ok(()) }
            });
            assert_eq!(in_parallel(work, upon).await, Err(failure.clone()));
            assert_eq!(begun.into_inner() == 100, all);
        }
    }
}
