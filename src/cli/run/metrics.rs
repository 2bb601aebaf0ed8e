//! `run --metrics ADDRESS`: an endpoint for Prometheus, which tells the figures of the trial that runs.
//!
//! A thread of its own answers, from what the sampler handed over last. So a scrape costs the load only the time of that thread.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::engine::{Phase, Second};
use crate::measure::{Condition, Interval, Reception};
use crate::record::export::open_metrics::{Buckets, Labels, Text};
use crate::scenario::Trial;

/// Of OpenMetrics 1.0.
const CONTENT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The quantiles that are told of the last sample.
const QUANTILES: [(f64, &str); 4] = [(0.5, "0.5"), (0.9, "0.9"), (0.99, "0.99"), (0.999, "0.999")];

/// What the sampler writes and the endpoint reads.
pub type SharedFigures = Arc<Mutex<Figures>>;

/// Answers at `address` until the program ends.
///
/// # Errors
/// When the address cannot be listened at.
pub fn serve(address: SocketAddr) -> io::Result<SharedFigures> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let figures = SharedFigures::default();
    let shared = figures.clone();
    thread::Builder::new()
        .name("brokermark-metrics".into())
        .spawn(move || runtime.block_on(accept(listener, shared, Limits::default())))?;
    Ok(figures)
}

/// What all connections together may take: their descriptors are those of the load's process.
#[derive(Debug, Clone, Copy)]
struct Limits {
    connections: usize,
    /// For the head of a request.
    head: Duration,
    /// For the whole connection, which serves one request.
    whole: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connections: 16, head: Duration::from_secs(2), whole: Duration::from_secs(10) }
    }
}

async fn accept(listener: TcpListener, figures: SharedFigures, limits: Limits) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= limits.connections {
            connections.join_next().await;
        }
        // A connection that failed is the other side's to try again.
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let figures = figures.clone();
        let answer = service_fn(move |request| std::future::ready(respond(&request, &figures)));
        let mut server = hyper::server::conn::http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(limits.head).keep_alive(false);
        connections.spawn(timeout(limits.whole, server.serve_connection(TokioIo::new(stream), answer)));
    }
}

fn respond(request: &Request<Incoming>, figures: &SharedFigures) -> Result<Response<Full<Bytes>>, Infallible> {
    let is_known = matches!(request.uri().path(), "/" | "/metrics");
    let body = if is_known { figures.lock().text() } else { "the metrics are at /metrics\n".to_owned() };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    if is_known {
        response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(CONTENT));
    } else {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    Ok(response)
}

/// The figures of the trial that runs, or ran last.
#[derive(Default)]
pub struct Figures {
    scenario: String,
    point: String,
    trial: String,
    phase: Option<Phase>,
    /// Since the trial began, warm-up included.
    due: Option<u64>,
    attempted: u64,
    acknowledged: u64,
    failed: u64,
    payload_bytes: u64,
    consumed: u64,
    /// Of measured messages.
    response: Buckets,
    service: Buckets,
    end_to_end: Buckets,
    last: Option<Last>,
    /// What holds messages up at the last sample.
    pub conditions: Vec<Condition>,
}

/// The last sample.
struct Last {
    second: Second,
    /// By the name of the latency.
    quantiles: Vec<(&'static str, [u64; QUANTILES.len()])>,
}

impl Figures {
    /// Another trial begins.
    pub fn begin(&mut self, trial: &Trial) {
        *self = Figures {
            scenario: trial.scenario.name.clone(),
            point: trial.point_index.to_string(),
            trial: trial.trial.to_string(),
            ..Figures::default()
        };
    }

    pub fn phase(&mut self, phase: Phase) {
        self.phase = Some(phase);
    }

    /// A sample was taken.
    pub fn second(&mut self, second: &Second, outcomes: &Interval, arrivals: &Reception) {
        self.due = second.due.map(|due| due + self.due.unwrap_or(0)).or(self.due);
        self.attempted += second.attempted;
        self.acknowledged += second.acknowledged;
        self.failed += second.failed;
        self.payload_bytes += second.payload_bytes;
        self.consumed += second.consumed;
        let all = [
            ("response", &outcomes.response, &mut self.response),
            ("service", &outcomes.service, &mut self.service),
            ("end_to_end", &arrivals.end_to_end, &mut self.end_to_end),
        ];
        let mut quantiles = Vec::new();
        for (name, distribution, buckets) in all.into_iter().filter(|(_, distribution, _)| !distribution.is_empty()) {
            buckets.add(distribution.histogram(), distribution.beyond_range());
            quantiles.push((name, QUANTILES.map(|(quantile, _)| distribution.histogram().value_at_quantile(quantile))));
        }
        self.last = Some(Last { second: second.clone(), quantiles });
    }

    /// All of it as OpenMetrics.
    pub fn text(&self) -> String {
        let labels = [("scenario", self.scenario.as_str()), ("point", &self.point), ("trial", &self.trial)];
        let mut text = Text::default();
        text.metric("brokermark_build", "info", "", "The load generator.");
        text.sample("brokermark_build", "_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        if self.phase.is_none() {
            return text.finish();
        }
        let counters = [
            ("brokermark_messages_due", self.due),
            ("brokermark_messages_attempted", Some(self.attempted)),
            ("brokermark_messages_acknowledged", Some(self.acknowledged)),
            ("brokermark_messages_failed", Some(self.failed)),
            ("brokermark_messages_consumed", Some(self.consumed)),
            ("brokermark_payload_acknowledged_bytes", Some(self.payload_bytes)),
        ];
        for (name, value) in counters {
            text.figure(name, &labels, value.map(|value| value as f64));
        }
        self.gauges(&mut text, &labels);
        let histograms = [("response", &self.response), ("service", &self.service), ("end_to_end", &self.end_to_end)];
        for (name, buckets) in histograms.into_iter().filter(|(_, buckets)| **buckets != Buckets::default()) {
            text.latency(name, &labels, buckets);
        }
        text.finish()
    }

    /// Of the last sample.
    fn gauges(&self, text: &mut Text, labels: &Labels<'_>) {
        let phase = self.phase.map_or("", name);
        text.metric("brokermark_phase", "gauge", "", "1 for the phase that the trial is in.");
        text.sample("brokermark_phase", "", &[labels, &[("phase", phase)]].concat(), 1);
        text.metric("brokermark_condition", "gauge", "", "Subjects that a condition holds up, while it lasts.");
        for condition in &self.conditions {
            let (kind, subject) = (condition.kind.to_string(), condition.subject.to_string());
            let of = [("condition", kind.as_str()), ("subject", subject.as_str())];
            text.sample("brokermark_condition", "", &[labels, &of[..]].concat(), condition.now);
        }
        let Some(Last { second, quantiles }) = &self.last else { return };
        let seconds = (second.end_ns - second.begin_ns).max(1) as f64 / 1e9;
        let gauges = [
            ("brokermark_expected_messages_per_second", second.due.map(|due| due as f64 / seconds)),
            ("brokermark_achieved_messages_per_second", Some(second.acknowledged as f64 / seconds)),
            ("brokermark_messages_in_flight", Some(second.in_flight as f64)),
            ("brokermark_client_cores", Some(second.cpu_cores)),
            ("brokermark_broker_cores", second.broker_cores),
            ("brokermark_broker_memory_bytes", second.broker_memory_bytes.map(|bytes| bytes as f64)),
        ];
        gauges.into_iter().for_each(|(name, value)| text.figure(name, labels, value));
        text.metric("brokermark_latency_seconds", "gauge", "seconds", "Quantiles of the last sample.");
        for (latency, values) in quantiles {
            for ((_, quantile), value_ns) in QUANTILES.iter().zip(values) {
                let of = [("latency", *latency), ("quantile", *quantile)];
                text.sample("brokermark_latency_seconds", "", &[labels, &of].concat(), *value_ns as f64 / 1e9);
            }
        }
    }
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Prepare => "prepare",
        Phase::WarmUp => "warm-up",
        Phase::Measure => "measure",
        Phase::Drain => "drain",
        Phase::Verify => "verify",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hdrhistogram::Histogram;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn listening(limits: Limits) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(accept(listener, SharedFigures::default(), limits));
        address
    }

    async fn scrape(address: SocketAddr) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    /// The dashboard asks for nothing that a full scrape does not have, and leaves out nothing of it.
    #[test]
    fn the_dashboard_shows_what_the_endpoint_tells() {
        let mut one = Histogram::<u64>::new(3).unwrap();
        one.record(1_000_000).unwrap();
        let mut buckets = Buckets::default();
        buckets.add(&one, 0);
        let second = Second {
            phase: Phase::Measure,
            begin_ns: 0,
            end_ns: 1_000_000_000,
            intended_length_ns: 1_000_000_000,
            due: Some(1),
            attempted: 1,
            acknowledged: 1,
            failed: 0,
            payload_bytes: 1,
            consumed: 1,
            groups: Default::default(),
            finished: None,
            consumer_lag: None,
            in_flight: 0,
            p50_ns: None,
            p99_ns: None,
            queue_messages: None,
            cpu_cores: 1.0,
            memory_bytes: None,
            broker_cores: Some(1.0),
            broker_memory_bytes: Some(1),
            faults: Vec::new(),
        };
        let figures = Figures {
            phase: Some(Phase::Measure),
            due: Some(1),
            response: buckets,
            service: buckets,
            end_to_end: buckets,
            last: Some(Last { second, quantiles: vec![("response", [1; QUANTILES.len()])] }),
            ..Figures::default()
        };
        let text = figures.text();
        let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let told: BTreeSet<String> = families
            .map(|(name, kind)| match kind {
                "counter" => format!("{name}_total"),
                "histogram" => format!("{name}_bucket"),
                "info" => format!("{name}_info"),
                _ => name.to_owned(),
            })
            .collect();
        let dashboard: serde_json::Value = serde_json::from_str(include_str!("../../../configs/grafana.json")).unwrap();
        let panels = dashboard["panels"].as_array().unwrap().iter();
        let expressions: Vec<&str> = panels
            .flat_map(|panel| panel["targets"].as_array().unwrap())
            .map(|target| target["expr"].as_str().unwrap())
            .collect();
        let is_of_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let words = expressions.iter().flat_map(|text| text.split(|character| !is_of_name(character)));
        let shown: BTreeSet<String> = words.filter(|word| word.starts_with("brokermark_")).map(str::to_owned).collect();
        assert_eq!(shown, told);
    }

    #[tokio::test]
    async fn silent_connections_do_not_keep_a_scrape_out() {
        let limits = Limits { connections: 4, head: Duration::from_millis(20), ..Limits::default() };
        let address = listening(limits).await;
        let mut silent = Vec::new();
        for _ in 0..40 {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = timeout(Duration::from_secs(60), scrape(address)).await.expect("an answer");
        assert!(answer.contains("brokermark_build_info") && answer.ends_with("# EOF\n"), "{answer}");
        for mut stream in silent {
            // It was closed: with an error of HTTP, or at once.
            timeout(Duration::from_secs(60), stream.read_to_end(&mut Vec::new())).await.expect("an end").unwrap();
        }
    }

    #[tokio::test]
    async fn only_so_many_connections_are_taken_at_a_time() {
        let limits = Limits { connections: 1, head: Duration::from_secs(600), whole: Duration::from_secs(600) };
        let address = listening(limits).await;
        let silent = TcpStream::connect(address).await.unwrap();
        let mut scraped = Box::pin(scrape(address));
        assert!(timeout(Duration::from_millis(50), &mut scraped).await.is_err(), "the first connection is still there");
        drop(silent);
        assert!(scraped.await.contains("200 OK"));
    }

    #[tokio::test]
    async fn a_reader_that_reads_nothing_is_let_go() {
        let limits = Limits { connections: 1, head: Duration::from_secs(600), whole: Duration::from_millis(20) };
        let address = listening(limits).await;
        let _idle = TcpStream::connect(address).await.unwrap();
        assert!(scrape(address).await.contains("200 OK"));
    }
}
