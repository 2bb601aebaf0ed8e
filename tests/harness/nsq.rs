//! Real nsqd: those that `scripts/test` starts, and further ones for tests that limit or kill them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::process;
use super::server::variable;

/// `host:port` of each nsqd that `scripts/test` starts.
pub fn addresses() -> Vec<String> {
    list("BROKERMARK_NSQ")
}

/// Their HTTP addresses.
pub fn http_addresses() -> Vec<String> {
    list("BROKERMARK_NSQ_HTTP")
}

/// The HTTP address of nsqlookupd, which knows them.
pub fn lookup_addresses() -> Vec<String> {
    list("BROKERMARK_NSQLOOKUPD")
}

fn list(name: &str) -> Vec<String> {
    variable(name).split(',').map(str::to_owned).collect()
}

/// An nsqlookupd of a test's own.
pub struct Nsqlookupd {
    child: Child,
    tcp: u16,
    http: u16,
}

impl Nsqlookupd {
    pub fn start() -> Self {
        let [tcp, http] = two_ports();
        let child = Command::new(Path::new(&variable("BROKERMARK_NSQ_PROGRAMS")).join("nsqlookupd"))
            .arg(format!("-tcp-address=127.0.0.1:{tcp}"))
            .arg(format!("-http-address=127.0.0.1:{http}"))
            .arg("-log-level=fatal")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        await_ports([tcp, http]);
        Nsqlookupd { child, tcp, http }
    }

    pub fn http_address(&self) -> String {
        format!("127.0.0.1:{}", self.http)
    }

    /// An nsqd that registers here, and is known by now.
    pub fn nsqd(&self) -> Nsqd {
        self.nsqd_at("127.0.0.1")
    }

    /// As [`Nsqlookupd::nsqd`], with another host than its own.
    pub fn nsqd_at(&self, host: &str) -> Nsqd {
        let lookup = format!("-lookupd-tcp-address=127.0.0.1:{}", self.tcp);
        let nsqd = Nsqd::start(&[&lookup, &format!("-broadcast-address={host}")]);
        let port = format!("\"tcp_port\":{}", nsqd.port());
        super::eventually("nsqlookupd knows nsqd", || ask(&self.http_address(), "GET", "/nodes").contains(&port));
        nsqd
    }
}

impl Drop for Nsqlookupd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Free ports, which differ because both are held until both are known.
fn two_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

fn await_ports(ports: [u16; 2]) {
    super::eventually("it answers", || ports.iter().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok()));
}

/// An nsqd of a test's own, with its data in memory or a folder that goes with it.
pub struct Nsqd {
    child: Child,
    tcp: u16,
    http: u16,
    options: Vec<String>,
    data: TempDir,
}

impl Nsqd {
    pub fn start(options: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let [tcp, http] = two_ports();
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let child = Self::launch(data.path(), tcp, http, &options);
        Nsqd { child, tcp, http, options, data }
    }

    fn launch(data: &Path, tcp: u16, http: u16, options: &[String]) -> Child {
        let child = Command::new(Path::new(&variable("BROKERMARK_NSQ_PROGRAMS")).join("nsqd"))
            .arg(format!("-data-path={}", data.display()))
            .arg(format!("-tcp-address=127.0.0.1:{tcp}"))
            .arg(format!("-http-address=127.0.0.1:{http}"))
            .arg("-log-level=fatal")
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        await_ports([tcp, http]);
        child
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Makes it stand still for so long.
    pub fn stall(&self, fault: Duration) {
        process::stall(&self.child, fault);
    }

    /// Starts it again on the same data.
    pub fn restart(&mut self) {
        self.child = Self::launch(self.data.path(), self.tcp, self.http, &self.options);
    }

    pub fn port(&self) -> u16 {
        self.tcp
    }

    pub fn http_address(&self) -> String {
        format!("127.0.0.1:{}", self.http)
    }

    /// The beginning of a scenario for it.
    pub fn broker(&self) -> String {
        self.broker_by_way_of(self.tcp)
    }

    /// As [`Nsqd::broker`], connecting to another port.
    pub fn broker_by_way_of(&self, port: u16) -> String {
        let http = self.http_address();
        format!(
            "broker.kind = \"nsq\"\nbroker.address = \"127.0.0.1:{port}\"\nbroker.nsq.http_addresses = [{http:?}]\n"
        )
    }

    /// Messages published to all of its topics since it started.
    pub fn published(&self) -> u64 {
        let topics = statistics(&self.http_address());
        topics.iter().map(|topic| topic["message_count"].as_u64().unwrap()).sum()
    }
}

impl Drop for Nsqd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The topics that an nsqd has.
pub fn topics(http: &str) -> Vec<String> {
    statistics(http).iter().map(|topic| topic["topic_name"].as_str().unwrap().to_owned()).collect()
}

/// The channels of a topic.
pub fn channels(http: &str, topic: &str) -> Vec<String> {
    let topics = statistics(http);
    let found = topics.iter().find(|found| found["topic_name"] == topic);
    let channels = found.and_then(|found| found["channels"].as_array()).cloned().unwrap_or_default();
    channels.iter().map(|channel| channel["channel_name"].as_str().unwrap().to_owned()).collect()
}

/// How many messages wait in a channel; `None`: it is not there.
pub fn depth(http: &str, topic: &str, channel: &str) -> Option<u64> {
    let topics = statistics(http);
    let channels = topics.iter().find(|found| found["topic_name"] == topic)?["channels"].as_array()?;
    let channel = channels.iter().find(|found| found["channel_name"] == channel)?;
    Some(channel["depth"].as_u64()? + channel["in_flight_count"].as_u64()?)
}

fn statistics(http: &str) -> Vec<serde_json::Value> {
    let answer = ask(http, "GET", "/stats?format=json&include_clients=false");
    let parsed: serde_json::Value = serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error} in {answer}"));
    parsed["topics"].as_array().cloned().unwrap_or_default()
}

/// Asks nsqd over HTTP; the body of its answer.
pub fn ask(http: &str, method: &str, path: &str) -> String {
    send(http, method, path, "")
}

/// Publishes a message over HTTP.
pub fn publish(http: &str, topic: &str, body: &str) {
    send(http, "POST", &format!("/pub?topic={topic}"), body);
}

fn send(http: &str, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(http).unwrap();
    write!(stream, "{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.split(' ').nth(1).is_some_and(|status| status.starts_with('2')), "{method} {path}: {answer}");
    body.to_owned()
}
