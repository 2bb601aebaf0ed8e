//! Result files of OpenMessaging Benchmark, each of them a run: with one trial, or with those of a run of brokermark. They have a rate and
//! percentiles, and nothing that says whether these can be trusted.

use serde::Deserialize;

use super::settings::MIN_RUNS;
use super::{
    Bounds, Centre, Comparison, ComparisonError, Design, Difference, FigureComparison, FigureKind, MissingFigure,
    PointComparison, SideTrials, begun, concluded,
};
use crate::record::readable::percent;
use crate::statistics::{self, centre, mean, quartiles};

/// What such files do not tell.
pub const UNKNOWN: &str = "files of OpenMessaging Benchmark do not tell whether a trial is valid, which messages were lost, duplicated or reordered, how long messages \
                           waited to be sent (their publish latency begins at the sending, so it hides a stall: coordinated omission), what an acknowledgement \
                           meant, and on which machine it ran; their end-to-end latency begins at the sending";

/// A share of the messages that failed, by which sides may differ.
const MAX_ERROR_DIFFERENCE: f64 = 0.001;

/// The fields of `TestResult.java` that are compared. Latencies are in milliseconds, rates in messages per second.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OmbResult {
    workload: String,
    #[serde(default)]
    driver: Option<String>,
    #[serde(default)]
    message_size: u64,
    #[serde(default)]
    topics: u64,
    #[serde(default)]
    partitions: u64,
    #[serde(default)]
    producers_per_topic: u64,
    #[serde(default)]
    consumers_per_topic: u64,
    publish_rate: Vec<f64>,
    #[serde(default)]
    publish_error_rate: Vec<f64>,
    aggregated_publish_latency_50pct: Option<f64>,
    aggregated_publish_latency_99pct: Option<f64>,
    aggregated_publish_latency_999pct: Option<f64>,
    aggregated_end_to_end_latency_99pct: Option<f64>,
}

impl OmbResult {
    /// In messages per second or nanoseconds; `None` where the file has no such figure, for which the benchmark writes 0.
    fn figure(&self, kind: &FigureKind) -> Option<f64> {
        let (value, unit) = match kind {
            FigureKind::MessagesPerSecond => (Some(mean(&self.publish_rate)), 1.0),
            FigureKind::ServiceP50 => (self.aggregated_publish_latency_50pct, 1e6),
            FigureKind::ServiceP99 => (self.aggregated_publish_latency_99pct, 1e6),
            FigureKind::ServiceP999 => (self.aggregated_publish_latency_999pct, 1e6),
            FigureKind::EndToEndP99 => (self.aggregated_end_to_end_latency_99pct, 1e6),
            _ => (None, 1.0),
        };
        value.filter(|value| *value > 0.0 && value.is_finite()).map(|value| value * unit)
    }

    /// Share of the messages that failed.
    fn errors(&self) -> f64 {
        let errors: f64 = self.publish_error_rate.iter().sum();
        let all = errors + self.publish_rate.iter().sum::<f64>();
        if all > 0.0 { errors / all } else { 0.0 }
    }
}

/// The trials of each file.
type Runs = [Vec<OmbResult>];

/// Compares the files of A and B: each is a run.
///
/// # Errors
/// When a side has no file with a rate.
pub fn compare_omb(a: &Runs, b: &Runs, bounds: Bounds) -> Result<Comparison, ComparisonError> {
    for (side, runs) in [("A", a), ("B", b)] {
        if !runs.iter().flatten().any(|result| result.figure(&FigureKind::MessagesPerSecond).is_some()) {
            return Err(ComparisonError::NoTrial { side });
        }
    }
    let design = if a.len().min(b.len()) >= MIN_RUNS { Design::SeveralRuns } else { Design::SingleRuns };
    let (mut figures, mut missing_figures) = (Vec::new(), Vec::new());
    for kind in FigureKind::ALL {
        if a.iter().chain(b).flatten().all(|result| result.figure(&kind).is_none()) {
            continue;
        }
        let of_run = |run: &Vec<OmbResult>| run.iter().map(|result| result.figure(&kind)).collect();
        let whole = |runs: &Runs| runs.iter().map(of_run).collect::<Option<Vec<Vec<f64>>>>();
        match whole(a).zip(whole(b)).and_then(|(of_a, of_b)| figure(&kind, &of_a, &of_b, design, bounds)) {
            Some(found) => figures.push(found),
            None => missing_figures.push(MissingFigure { figure: kind, reason: "a file does not have it".to_owned() }),
        }
    }
    let point = PointComparison {
        point: Default::default(),
        trials_of_a: untold(a),
        trials_of_b: untold(b),
        counts: Vec::new(),
        figures,
        missing_figures,
    };
    let compared = Comparison { unknown: Some(UNKNOWN), ..begun(design, bounds, differences(a, b), vec![point]) };
    Ok(concluded(compared, false))
}

fn untold(runs: &Runs) -> SideTrials {
    SideTrials::untold(runs.iter().map(Vec::len).sum(), runs.len())
}

fn figure(
    kind: &FigureKind,
    a: &[Vec<f64>],
    b: &[Vec<f64>],
    design: Design,
    bounds: Bounds,
) -> Option<FigureComparison> {
    let logarithms = |runs: &[Vec<f64>]| -> Vec<Vec<f64>> {
        runs.iter().map(|trials| trials.iter().map(|figure| figure.ln()).collect()).collect()
    };
    let (ln_a, ln_b) = (logarithms(a), logarithms(b));
    let (a, b, of_chance) = match design {
        Design::SingleRuns => {
            let spread = statistics::spread_of_runs(&[ln_a, ln_b], bounds.between_runs.ln_1p());
            (a.concat(), b.concat(), statistics::Design::Separate { spread })
        }
        _ => (statistics::run_centres(&ln_a), statistics::run_centres(&ln_b), statistics::Design::Independent),
    };
    let compared = statistics::compare(&a, &b, of_chance)?;
    Some(FigureComparison::new(kind.clone(), (of_side(&a)?, of_side(&b)?), compared, design))
}

fn of_side(figures: &[f64]) -> Option<Centre> {
    let quartiles = quartiles(figures)?;
    let interval = centre(figures);
    Some(Centre {
        trials: figures.len(),
        median: quartiles.median,
        lower_quartile: quartiles.lower,
        upper_quartile: quartiles.upper,
        low: interval.map(|interval| interval.low),
        high: interval.map(|interval| interval.high),
        effective_seconds: None,
        autocorrelation: None,
    })
}

/// Other messages or clients, and shares of failed messages, forbid a comparison.
fn differences(a: &Runs, b: &Runs) -> Vec<Difference> {
    let text = |what: &str, refused: bool, of: &dyn Fn(&OmbResult) -> String| {
        let all = |runs: &Runs| {
            let mut texts: Vec<String> = runs.iter().flatten().map(of).collect();
            texts.sort();
            texts.dedup();
            texts.join("; ")
        };
        let (a, b) = (all(a), all(b));
        (a != b).then(|| Difference { what: what.to_owned(), a, b, refused })
    };
    let load = |result: &OmbResult| {
        let OmbResult { message_size, topics, partitions, producers_per_topic, consumers_per_topic, .. } = result;
        format!(
            "{message_size} B, {topics} topic(s) of {partitions} partition(s), {producers_per_topic} producer(s) and {consumers_per_topic} consumer(s) each"
        )
    };
    let errors = |runs: &Runs| mean(&runs.iter().flatten().map(OmbResult::errors).collect::<Vec<_>>());
    let (of_a, of_b) = (errors(a), errors(b));
    let failed = ((of_a - of_b).abs() > MAX_ERROR_DIFFERENCE).then(|| Difference {
        what: "share of failed messages".to_owned(),
        a: percent(of_a),
        b: percent(of_b),
        refused: true,
    });
    let driver = |result: &OmbResult| result.driver.clone().unwrap_or_default();
    let found = [
        failed,
        text("load", true, &load),
        text("workload", false, &|result| result.workload.clone()),
        text("driver", false, &driver),
    ];
    found.into_iter().flatten().collect()
}
