//! The admin interface: creates, finds and removes topics and subscriptions over HTTP.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use super::name::TopicName;
use crate::broker::{BrokerError, Topic};
use crate::net::tls::{self, TlsIdentity};

/// Requests at a time: making a topic costs the broker some milliseconds of waiting for its own metadata.
const WORKERS: usize = 16;

/// Times a broker may send us on to another.
const MOST_REDIRECTS: usize = 10;

/// Talks to the admin interface; blocking, so not for a thread of the runtime.
pub struct Admin {
    agent: Agent,
    /// Without a slash at its end.
    url: String,
    authorization: Option<String>,
}

/// A response.
struct Response {
    status: u16,
    /// Where else to ask.
    location: Option<String>,
    text: String,
}

impl Admin {
    /// For the interface at `url`, authenticated by `token`.
    pub fn new(url: &str, token: Option<&str>, identity: Option<&TlsIdentity>, timeout: Duration) -> Self {
        let mut config = Agent::config_builder().http_status_as_error(false).timeout_global(Some(timeout));
        config = config.max_idle_connections_per_host(WORKERS);
        // Redirects are followed here, with the method and the token kept. Brokers are not behind a proxy for browsers.
        config = config.max_redirects(0).proxy(None);
        if let Some(identity) = identity {
            config = config.tls_config(tls_config(identity));
        }
        Admin {
            agent: config.build().new_agent(),
            url: url.trim_end_matches('/').to_owned(),
            authorization: token.map(|token| format!("Bearer {token}")),
        }
    }

    /// Makes those of `topics` that do not exist. Returns, in their order, how many partitions each has (0: it is not
    /// partitioned) and whether it was made.
    ///
    /// # Errors
    /// When one exists with another number of partitions, or cannot be made; those that were made are removed again.
    pub fn prepare(&self, topics: &[(TopicName, Topic)]) -> Result<Vec<(u32, bool)>, BrokerError> {
        let made: Mutex<Vec<(TopicName, bool)>> = Mutex::default();
        let prepared = in_parallel(topics, |(name, topic)| {
            let (partitions, is_made) = self.prepare_one(name, topic)?;
            if is_made {
                made.lock().push((name.clone(), partitions > 0));
            }
            Ok((partitions, is_made))
        });
        if prepared.is_err() {
            // The first error is the cause; that of the removal would hide it.
            let _ = self.remove(&made.into_inner());
        }
        prepared
    }

    /// Removes topics, also while clients are connected to them. `partitioned`: whether the topic has partitions.
    ///
    /// # Errors
    /// When the broker does not.
    pub fn remove(&self, topics: &[(TopicName, bool)]) -> Result<(), BrokerError> {
        in_parallel(topics, |(name, partitioned)| {
            let path = if *partitioned { format!("{}/partitions", name.admin_path()) } else { name.admin_path() };
            self.delete(name, &format!("{path}?force=true"), "removed")
        })
        .map(drop)
    }

    /// Removes subscriptions from topics that stay.
    ///
    /// # Errors
    /// When the broker does not.
    pub fn unsubscribe(&self, subscriptions: &[(TopicName, String)]) -> Result<(), BrokerError> {
        in_parallel(subscriptions, |(name, subscription)| {
            let path = format!("{}/subscription/{subscription}?force=true", name.admin_path());
            self.delete(name, &path, "left")
        })
        .map(drop)
    }

    fn prepare_one(&self, name: &TopicName, topic: &Topic) -> Result<(u32, bool), BrokerError> {
        let failed = |reason: String| name.error("created", reason);
        let path = name.admin_path();
        let answer = match topic.partitions {
            1 => self.call("PUT", &path, None)?,
            partitions => self.call("PUT", &format!("{path}/partitions"), Some(&partitions.to_string()))?,
        };
        match answer.status {
            200..300 if topic.partitions == 1 => Ok((0, true)),
            200..300 => Ok((topic.partitions, true)),
            409 => {
                let answer = self.call("GET", &format!("{path}/partitions"), None)?;
                let found = serde_json::from_str::<serde_json::Value>(&answer.text).ok();
                let found = found.and_then(|found| found["partitions"].as_u64()).map(|partitions| partitions as u32);
                match found {
                    Some(found) if found.max(1) == topic.partitions => Ok((found, false)),
                    Some(found) => Err(BrokerError::TopicMismatch {
                        topic: topic.name.clone(),
                        found: format!("{} partition(s)", found.max(1)),
                        wanted: format!("{} partition(s)", topic.partitions),
                    }),
                    None => {
                        Err(failed(format!("it exists, but its partitions cannot be counted: {}", answer.reason())))
                    }
                }
            }
            404 => Err(failed(format!(
                "{}: does the namespace {} exist? Make it, or name another in `broker.pulsar.namespace`",
                answer.reason(),
                name.namespace()
            ))),
            _ => Err(failed(answer.reason())),
        }
    }

    fn delete(&self, name: &TopicName, path: &str, action: &'static str) -> Result<(), BrokerError> {
        let answer = self.call("DELETE", path, None)?;
        match answer.status {
            // What is gone need not be removed.
            200..300 | 404 => Ok(()),
            _ => Err(name.error(action, answer.reason())),
        }
    }

    /// Asks, and asks again where the answer sends us: each namespace has a broker that knows of its topics, and others
    /// redirect to it.
    fn call(&self, method: &str, path: &str, body: Option<&str>) -> Result<Response, BrokerError> {
        let mut url = format!("{}/admin/v2/{path}", self.url);
        for _ in 0..MOST_REDIRECTS {
            let answer = self.call_at(method, &url, body)?;
            match (answer.status, &answer.location) {
                (401 | 403, _) => {
                    let (address, reason) = (self.url.clone(), answer.reason());
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
        Err(self.unreachable(format!("it redirected {MOST_REDIRECTS} times without a response")))
    }

    fn call_at(&self, method: &str, url: &str, body: Option<&str>) -> Result<Response, BrokerError> {
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        request = request.header("Content-Type", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let request =
            request.body(body.unwrap_or_default().to_owned()).map_err(|error| self.unreachable(error.to_string()))?;
        let mut response = self.agent.run(request).map_err(|error| self.unreachable(error.to_string()))?;
        let status = response.status().as_u16();
        let location = response.headers().get("Location").and_then(|to| to.to_str().ok()).map(str::to_owned);
        let text = response.body_mut().read_to_string().map_err(|error| self.unreachable(error.to_string()))?;
        Ok(Response { status, location, text })
    }

    fn unreachable(&self, reason: String) -> BrokerError {
        let address = format!("its admin interface {} (`broker.pulsar.admin`)", self.url);
        BrokerError::Unreachable { broker: "pulsar", address, reason }
    }
}

impl Response {
    /// The broker's reason, or its status.
    fn reason(&self) -> String {
        let said = serde_json::from_str::<serde_json::Value>(&self.text).ok();
        match said.as_ref().and_then(|said| said["reason"].as_str()) {
            Some(reason) => reason.lines().next().unwrap_or_default().to_owned(),
            None => format!("HTTP status {}", self.status),
        }
    }
}

fn tls_config(identity: &TlsIdentity) -> TlsConfig {
    let roots = identity.authorities.iter().map(|authority| Certificate::from_der(authority).to_owned());
    let own = identity.own.as_ref().and_then(|own| {
        let chain: Vec<_> = own.chain.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
        // It was read once already, so that this cannot fail.
        PrivateKey::from_pem(&own.key_pem).ok().map(|key| ClientCert::new_with_certs(&chain, key))
    });
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots.collect::<Vec<_>>()))
        .client_cert(own)
        // This client cannot leave out the name alone.
        .disable_verification(!identity.verify_host)
        .unversioned_rustls_crypto_provider(tls::provider())
        .build()
}

/// Does `work` for all items on a few threads; results in the order of the items. After an error no item is begun.
fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, BrokerError> + Sync,
) -> Result<Vec<R>, BrokerError> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::default();
    let failed: Mutex<Option<BrokerError>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..WORKERS.min(items.len()) {
            scope.spawn(|| {
                while let Some((index, item)) = Some(next.fetch_add(1, Ordering::Relaxed))
                    .and_then(|index| items.get(index).map(|item| (index, item)))
                {
                    match work(item) {
                        Ok(result) => done.lock().push((index, result)),
                        Err(error) => {
                            next.store(items.len(), Ordering::Relaxed);
                            failed.lock().get_or_insert(error);
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failed.into_inner() {
        return Err(error);
    }
    let mut done = done.into_inner();
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

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

    #[test]
    fn another_broker_is_asked_in_the_same_words_with_the_same_token() {
        let (owner, at_owner) = answering(vec!["204 No Content".to_owned()]);
        let (entrance, at_entrance) =
            answering(vec![format!("307 Temporary Redirect\r\nLocation: {owner}/admin/v2/persistent/a/b/c")]);
        let admin = Admin::new(&entrance, Some("good"), None, Duration::from_secs(10));
        let name = TopicName::new("a/b", "c");
        let topic = Topic { name: "c".to_owned(), partitions: 1, replication: 1 };
        assert_eq!(admin.prepare(&[(name, topic)]), Ok(vec![(0, true)]));
        let expected = vec![("PUT /admin/v2/persistent/a/b/c HTTP/1.1".to_owned(), true)];
        assert_eq!(at_entrance.join().unwrap(), expected);
        assert_eq!(at_owner.join().unwrap(), expected);
    }

    #[test]
    fn work_is_done_in_parallel_and_stops_at_an_error() {
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(
            in_parallel(&items, |item| Ok(item * 2)).unwrap(),
            (0..100).map(|item| item * 2).collect::<Vec<_>>()
        );
        let failure = BrokerError::Client { broker: "pulsar", reason: "no".into() };
        let failed = in_parallel(&items, |item| if *item == 5 { Err(failure.clone()) } else { Ok(()) });
        assert_eq!(failed, Err(failure));
        assert_eq!(in_parallel(&[0; 0], |_| Ok(())), Ok(Vec::new()));
    }
}
