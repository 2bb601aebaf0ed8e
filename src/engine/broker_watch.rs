//! What the broker's own processes use meanwhile: read where the client's host is sampled, or scraped by a task of its own, so that
//! neither the load nor its sampling ever waits for it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

use super::observer::Phase;
use crate::measure::host::{OtherUsage, ProcessFamily, parse_metrics};
use crate::net::http::{HttpClient, HttpRequest, HttpResponse};
use crate::scenario::{Watch, WatchedProcess};

/// Between two scrapes, and how long one may take.
const SCRAPE_EVERY: Duration = Duration::from_secs(1);

/// What the broker's processes used at the last look, all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct BrokerUse {
    pub cores: Option<f64>,
    pub memory_bytes: Option<u64>,
}

/// What one of the things that are watched came to.
#[derive(Debug, Clone, PartialEq)]
pub struct WatchedUsage {
    /// What is watched, in words.
    pub name: String,
    /// Whether it is a process on this machine.
    pub is_local: bool,
    /// Cores that it used during the measured window; `None`: unknown.
    pub cores: Option<f64>,
    /// Most resident memory at a look during the window.
    pub memory_bytes_max: Option<u64>,
    /// Looks and scrapes that failed, and why the first one did.
    pub failures: u64,
    pub first_failure: Option<String>,
}

/// All that is watched.
pub(super) struct BrokerWatch {
    watched: Vec<Watched>,
}

struct Watched {
    name: String,
    source: Source,
    meter: Meter,
    failures: u64,
    first_failure: Option<String>,
}

enum Source {
    Processes(ProcessFamily),
    Metrics(Scraper),
    /// Nothing can be read: why is in `first_failure`.
    Absent,
}

impl BrokerWatch {
    /// Begins to watch.
    pub fn begin(watch: &Watch) -> Self {
        let processes = watch.processes.iter().map(|process| match family(process) {
            Ok(family) => {
                let name = format!("{process} ({})", family.name());
                Watched::begin(name, Source::Processes(family))
            }
            Err(reason) => {
                let absent = Watched::begin(process.to_string(), Source::Absent);
                Watched { failures: 1, first_failure: Some(reason), ..absent }
            }
        });
        let metrics = watch.metrics.iter().map(|url| Watched::begin(url.clone(), Source::Metrics(Scraper::begin(url))));
        let mut watched = BrokerWatch { watched: processes.chain(metrics).collect() };
        watched.look(Phase::Prepare);
        watched
    }

    /// Reads what can be read at once, and takes what was scraped.
    pub fn look(&mut self, phase: Phase) -> BrokerUse {
        let mut sum = BrokerUse::default();
        for watched in &mut self.watched {
            watched.look(phase == Phase::Measure);
            let Meter { cores, latest, .. } = &watched.meter;
            sum.cores = cores.map(|cores| cores + sum.cores.unwrap_or(0.0)).or(sum.cores);
            let memory_bytes = latest.and_then(|latest| latest.usage.memory_bytes);
            sum.memory_bytes = memory_bytes.map(|bytes| bytes + sum.memory_bytes.unwrap_or(0)).or(sum.memory_bytes);
        }
        sum
    }

    /// What each of them came to so far.
    pub fn usage(&self) -> Vec<WatchedUsage> {
        self.watched.iter().map(Watched::usage).collect()
    }
}

fn family(process: &WatchedProcess) -> Result<ProcessFamily, String> {
    let id = match process {
        WatchedProcess::Id(id) => *id,
        WatchedProcess::File(path) => id_in(path)?,
    };
    ProcessFamily::from_id(id).ok_or_else(|| format!("no process {id} runs on this machine"))
}

fn id_in(path: &Path) -> Result<u32, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let word = text.split_whitespace().next().unwrap_or_default();
    word.parse().map_err(|_| format!("{} does not begin with the id of a process", path.display()))
}

impl Watched {
    fn begin(name: String, source: Source) -> Self {
        Watched { name, source, meter: Meter::default(), failures: 0, first_failure: None }
    }

    fn look(&mut self, is_measured: bool) {
        let readings = match &self.source {
            Source::Absent => return,
            Source::Processes(family) => {
                let usage = family.usage().ok_or_else(|| "it has ended".to_owned());
                vec![usage.map(|usage| Reading { at: Instant::now(), usage })]
            }
            Source::Metrics(scraper) => std::mem::take(&mut *scraper.readings.lock()),
        };
        for reading in readings {
            match reading {
                Ok(reading) => self.meter.note(reading, is_measured),
                Err(reason) => {
                    self.failures += 1;
                    self.first_failure.get_or_insert(reason);
                    self.meter.lose();
                }
            }
        }
    }

    fn usage(&self) -> WatchedUsage {
        WatchedUsage {
            name: self.name.clone(),
            is_local: !matches!(self.source, Source::Metrics(_)),
            cores: self.meter.mean_cores(),
            memory_bytes_max: self.meter.memory_bytes_max,
            failures: self.failures,
            first_failure: self.first_failure.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Instant,
    usage: OtherUsage,
}

/// Turns counters into cores.
#[derive(Debug, Default)]
struct Meter {
    latest: Option<Reading>,
    /// Between the last two readings.
    cores: Option<f64>,
    /// CPU time in the measured window.
    cpu: Duration,
    elapsed: Duration,
    memory_bytes_max: Option<u64>,
}

impl Meter {
    /// A counter that fell is that of a process that was started again: the time in between is unknown.
    fn note(&mut self, reading: Reading, is_measured: bool) {
        let before = self.latest.replace(reading);
        let passed = before.and_then(|before| {
            let cpu = reading.usage.cpu.checked_sub(before.usage.cpu)?;
            Some((cpu, reading.at.saturating_duration_since(before.at)))
        });
        self.cores =
            passed.filter(|(_, elapsed)| !elapsed.is_zero()).map(|(cpu, elapsed)| cpu.div_duration_f64(elapsed));
        if is_measured {
            let (cpu, elapsed) = passed.unwrap_or_default();
            self.cpu += cpu;
            self.elapsed += elapsed;
            self.memory_bytes_max = self.memory_bytes_max.max(reading.usage.memory_bytes);
        }
    }

    /// Nothing is known at the moment.
    fn lose(&mut self) {
        (self.latest, self.cores) = (None, None);
    }

    fn mean_cores(&self) -> Option<f64> {
        (!self.elapsed.is_zero()).then(|| self.cpu.div_duration_f64(self.elapsed))
    }
}

/// Asks an endpoint once a second, until it is dropped.
struct Scraper {
    readings: Arc<Mutex<Vec<Result<Reading, String>>>>,
    task: AbortHandle,
}

impl Scraper {
    fn begin(url: &str) -> Self {
        let readings: Arc<Mutex<Vec<_>>> = Arc::default();
        let (url, into) = (url.to_owned(), readings.clone());
        let task = tokio::spawn(async move {
            let mut times = tokio::time::interval(SCRAPE_EVERY);
            times.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                times.tick().await;
                let reading = scrape(&url).await;
                into.lock().push(reading);
            }
        });
        Scraper { readings, task: task.abort_handle() }
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn scrape(url: &str) -> Result<Reading, String> {
    let request = HttpRequest { method: "GET", url, headers: &[("Accept", "text/plain")], ..HttpRequest::default() };
    let text = match HttpClient::without_tls(SCRAPE_EVERY).send(&request).await? {
        HttpResponse { status: 200, text, .. } => text,
        HttpResponse { status, .. } => return Err(format!("it answered with status {status}")),
    };
    let usage =
        parse_metrics(&text).ok_or("it has no metric with the CPU time of its process (process_cpu_seconds_total)")?;
    Ok(Reading { at: Instant::now(), usage })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(of: &[(u64, u64, u64, bool)]) -> Meter {
        let begin = Instant::now();
        let mut meter = Meter::default();
        for (at_ms, cpu_ms, memory_bytes, is_measured) in of {
            let usage = OtherUsage { cpu: Duration::from_millis(*cpu_ms), memory_bytes: Some(*memory_bytes) };
            meter.note(Reading { at: begin + Duration::from_millis(*at_ms), usage }, *is_measured);
        }
        meter
    }

    #[test]
    fn the_window_s_cores_leave_the_warm_up_out() {
        let meter = readings(&[
            (0, 0, 900, false),
            (1000, 5000, 900, false),
            (2000, 5500, 10, true),
            (4000, 8500, 30, true),
            (5000, 8500, 20, true),
        ]);
        assert_eq!(meter.mean_cores(), Some(0.875));
        assert_eq!(meter.cores, Some(0.0));
        assert_eq!(meter.memory_bytes_max, Some(30));
        assert_eq!(readings(&[(0, 0, 1, false)]).mean_cores(), None);
    }

    #[test]
    fn restarted_server_leaves_a_gap_without_negative_time() {
        let meter = readings(&[(0, 9000, 1, true), (1000, 10_000, 1, true), (2000, 100, 1, true)]);
        assert_eq!((meter.cores, meter.mean_cores()), (None, Some(1.0)));
    }

    #[test]
    fn what_is_not_there_is_told_and_nothing_else() {
        let watch = Watch { processes: vec![WatchedProcess::File("/no/such/file".into())], metrics: Vec::new() };
        let mut watching = BrokerWatch::begin(&watch);
        assert_eq!(watching.look(Phase::Measure), BrokerUse::default());
        let usage = &watching.usage()[0];
        assert_eq!((usage.cores, usage.failures), (None, 1));
        assert!(usage.first_failure.as_ref().unwrap().contains("/no/such/file cannot be read"), "{usage:?}");
    }
}
