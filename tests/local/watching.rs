//! What a run tells while it goes on and of what else goes on: the broker's processes, and metrics for Prometheus.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use brokermark::record::{ReasonKind, read_records, read_series, runs_by_age};

use crate::harness::{Bench, PATIENCE, Running, brokermark, eventually, execute, finding};

/// A process that only works, until it is dropped.
struct Busy(Child);

impl Busy {
    fn begin() -> Self {
        Busy(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Answers each request with a process that has used one more second of CPU time; the URL.
fn endpoint(status: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let asked = AtomicU64::new(0);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = BufReader::new(stream.try_clone().unwrap());
            let mut line = String::new();
            while request.read_line(&mut line).is_ok_and(|length| length > 2) {
                line.clear();
            }
            let seconds = asked.fetch_add(1, Ordering::Relaxed);
            let body = format!("process_cpu_seconds_total{{x=\"y\"}} {seconds}\nprocess_resident_memory_bytes 4096\n");
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    url
}

fn null(tables: &str) -> String {
    format!("broker.kind = \"null\"\nload.rate = \"1k/s\"\nrun.warm_up = \"1s\"\nrun.duration = \"3s\"\n{tables}")
}

#[test]
fn the_broker_s_processes_are_in_record_series_and_text() {
    let busy = Busy::begin();
    let bench = Bench::new("");
    let pid_file = bench.write("server.pid", &format!("{} 12345\n", busy.0.id()));
    let url = endpoint("200 OK");
    let watch = format!("broker.watch.processes = [{pid_file:?}]\nbroker.watch.metrics = [{url:?}]");
    let bench = Bench::new(&null(&watch));
    let ended = bench.run(&[]).expect(0);
    let record = ended.record();
    let usage = record.broker_usage.as_ref().expect("the processes are watched");
    let [process, metrics] = &usage.sources[..] else { panic!("{usage:?}") };
    assert!(process.name.contains("server.pid (sh)") && process.cores_used.unwrap() > 0.0, "{usage:?}");
    assert!(process.memory_bytes_max.unwrap() > 0 && process.failures == 0, "{usage:?}");
    assert!(metrics.name == url && metrics.cores_used.unwrap() > 0.0, "{usage:?}");
    assert_eq!((metrics.memory_bytes_max, usage.cores_of_machine), (Some(4096), None), "one is elsewhere");
    assert_eq!(finding(&record, ReasonKind::BrokerUnwatched), None);
    let rows = read_series(&bench.run_directory()).unwrap();
    assert!(rows.iter().any(|row| row.broker_cpu_cores.is_some() && row.broker_memory_bytes.is_some()), "{rows:?}");
    let shown = execute(&["show", bench.run_directory().to_str().unwrap()]).expect(0).stdout;
    assert!(shown.contains("\nbroker uses  "), "{shown}");
}

#[test]
fn a_broker_that_tells_nothing_is_a_note_and_ends_nothing() {
    let url = endpoint("503 Service Unavailable");
    let bench =
        Bench::new(&null(&format!("broker.watch.metrics = [{url:?}]\nbroker.watch.processes = [\"/no/file\"]")));
    let record = bench.run(&[]).expect(0).record();
    let note = finding(&record, ReasonKind::BrokerUnwatched).expect("a note");
    assert!(note.evidence.contains("the process in /no/file"), "{note:?}");
    let usage = record.broker_usage.as_ref().unwrap();
    assert_eq!((usage.cores_used, usage.memory_bytes_max), (None, None));
    assert_eq!(usage.sources[1].first_failure.as_deref(), Some("it answered with status 503"));
}

/// The body of a response.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    response.split_once("\r\n\r\n").map(|(head, body)| format!("{}\n{body}", head.lines().next().unwrap_or_default()))
}

#[test]
fn metrics_tell_of_the_trial_that_runs_and_are_kept_at_its_end() {
    // Freed at once, so that the program can have it.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let bench = Bench::new(
        "name = \"told\"\nbroker.kind = \"null\"\nload.rate = \"1k/s\"\nrun.duration = \"100s\"\n[consumers]\nend_to_end = true",
    );
    let running = bench.start(&["--quiet", "--metrics", &address]);
    let mut text = String::new();
    eventually("the metrics have latencies", || {
        text = get(&address, "/metrics").unwrap_or_default();
        text.contains("brokermark_response_seconds_bucket")
    });
    let labels = "{scenario=\"told\",point=\"0\",trial=\"1\"";
    for line in [
        "HTTP/1.1 200 OK\n".to_owned(),
        format!("brokermark_messages_acknowledged_total{labels}}} "),
        format!("brokermark_expected_messages_per_second{labels}}} "),
        format!("brokermark_latency_seconds{labels},latency=\"end_to_end\",quantile=\"0.99\"}} "),
        format!("brokermark_messages_in_flight{labels}}} "),
        format!("brokermark_phase{labels},phase=\"measure\"}} 1"),
    ] {
        assert!(text.contains(&line), "{line}: {text}");
    }
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert!(get(&address, "/else").unwrap().starts_with("HTTP/1.1 404"));
    running.signal(libc::SIGINT);
    assert_eq!(running.finish(PATIENCE).code, Some(130));
    // An interrupted trial is among them as well.
    let kept = std::fs::read_to_string(bench.run_directory().join("metrics.txt")).unwrap();
    assert!(kept.contains("brokermark_response_seconds_count{scenario=\"told\",run="), "{kept}");
}

#[test]
fn metrics_address_in_use_is_refused_before_the_run() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let bench = Bench::new(&null(""));
    let ended = bench.run(&["--metrics", &taken.local_addr().unwrap().to_string()]);
    ended.expect(1).complains_of(&["--metrics", "cannot be listened at"]);
    assert!(bench.run_directories().is_empty());
}

#[test]
fn the_runs_of_a_directory_are_listed_and_the_newest_is_shown() {
    let bench = Bench::new(
        "name = \"first\"\nbroker.kind = \"null\"\nrun.messages = 100\npayload.kind = \"template\"\npayload.text = \"abc\"",
    );
    bench.run(&[]).expect(0);
    std::fs::write(bench.scenario(), "name = \"second\"\nbroker.kind = \"null\"\nrun.messages = 100").unwrap();
    bench.run(&[]).expect(0);
    let listed = execute(&["list", bench.results().to_str().unwrap()]).expect(0).stdout;
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 3, "{listed}");
    assert!(lines[1].contains("first") && lines[2].contains("second"), "{listed}");
    let mut show = brokermark();
    show.current_dir(bench.path()).arg("show");
    let shown = Running::start(&mut show).finish(PATIENCE).expect(0).stdout;
    assert!(shown.contains("\nsecond  "), "{shown}");
    let newest = execute(&["show", bench.results().to_str().unwrap()]).expect(0).stdout;
    assert!(newest.starts_with("── ") && newest.contains("\nsecond  "), "{newest}");
    let first = runs_by_age(&bench.results()).unwrap().remove(0);
    let record = read_records(&first).unwrap().records.remove(0);
    let sizes = record.payload_sizes.unwrap();
    assert_fields!(sizes, { mean_bytes: 3.0, smallest_bytes: 3, largest_bytes: 3 });
    assert_eq!(record.topics.len(), 1);
    assert_eq!(record.defaults["producers.count"], 1);
}

/// On a terminal of its own, whose Ctrl-C is the signal that it is without a screen.
#[test]
#[cfg(target_os = "linux")]
fn the_screen_shows_the_trial_and_gives_the_terminal_back() {
    let bench = Bench::new(
        "name = \"screened\"\nbroker.kind = \"null\"\nload.rate = \"1k/s\"\nrun.duration = \"100s\"\ntopology.topics = 2\nproducers.count = 2",
    );
    let program = brokermark();
    let program = program.get_program().to_str().unwrap();
    let (scenario, results) = (bench.scenario(), bench.results());
    let run = format!("exec {program} run --tui {} --output {}", scenario.display(), results.display());
    let command = format!("stty rows 24 cols 100; {run}");
    let mut terminal = Command::new("script")
        .args(["-qefc", &command, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let shown = Arc::new(Mutex::new(Vec::new()));
    let mut output = terminal.stdout.take().unwrap();
    let reader = {
        let shown = shown.clone();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = output.read(&mut part) {
                shown.lock().unwrap().extend_from_slice(&part[..length]);
            }
        })
    };
    let text = || String::from_utf8_lossy(&shown.lock().unwrap()).into_owned();
    eventually("figures of both topics are drawn", || {
        text().contains("screened-") && text().contains("acknowledged/s")
    });
    terminal.stdin.as_mut().unwrap().write_all(&[3]).unwrap();
    let ended = terminal.wait().unwrap();
    reader.join().unwrap();
    let text = text();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} in {text:?}"));
    assert_eq!(ended.code(), Some(130), "{text}");
    let (opened, closed) = (at("\u{1b}[?1049h"), at("\u{1b}[?1049l"));
    assert!(opened < at("trial 1 of 1") && at("trial 1 of 1") < closed && closed < at("records: "), "{text:?}");
    assert!(text[closed..].contains("interrupted: ending this phase"), "{text:?}");
}

#[test]
fn a_screen_without_a_terminal_is_refused() {
    let bench = Bench::new(&null(""));
    let mut command = brokermark();
    command.arg("run").arg("--tui").arg(bench.scenario()).arg("--output").arg(bench.results());
    Running::start(&mut command).finish(PATIENCE).expect(2).complains_of(&["--tui", "not a terminal"]);
}
