//! One set's trials of a point, and the centre of a figure over them.

use serde::Serialize;

use super::KeptTrial;
use super::figure::FigureKind;
use crate::record::{Phase, Record, Status};
use crate::statistics::{Interval, Quartiles, centre, quantile_ranks, quartiles, series_mean};

/// The trials of a point that a comparison is made from.
#[derive(Debug, Clone)]
pub struct Side<'a> {
    /// In the order in which they ran. The valid ones; without any, all completed ones. There is at least one. Of trials that ran in
    /// turn, only those that are compared with a neighbour.
    pub(super) trials: Vec<&'a KeptTrial>,
    /// All that were completed, in the same order.
    pub(super) completed: Vec<&'a KeptTrial>,
    pub(super) valid: usize,
}

/// A figure over the trials of one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Centre {
    /// Trials that have the figure.
    pub trials: usize,
    pub median: f64,
    pub lower_quartile: f64,
    pub upper_quartile: f64,
    /// The 95 % interval of the centre: between trials, or of a single trial within it; `null` where neither can be made.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Of a single trial: how many independent seconds its seconds are worth.
    pub effective_seconds: Option<f64>,
    /// Of a single trial: the correlation of neighbouring seconds.
    pub autocorrelation: Option<f64>,
}

pub(super) fn is_complete(trial: &KeptTrial) -> bool {
    trial.record.status == Status::Completed
}

impl<'a> Side<'a> {
    pub(super) fn of(mut completed: Vec<&'a KeptTrial>) -> Self {
        completed.sort_by_key(|trial| trial.record.started_at);
        let valid: Vec<&KeptTrial> = completed.iter().copied().filter(|trial| trial.record.verdict.valid).collect();
        let number = valid.len();
        Side { trials: if valid.is_empty() { completed.clone() } else { valid }, completed, valid: number }
    }

    pub(super) fn first(&self) -> &'a Record {
        &self.trials[0].record
    }

    pub(super) fn records(&self) -> impl Iterator<Item = &'a Record> {
        self.trials.iter().map(|trial| &trial.record)
    }

    /// The figure of each trial; `None` where one of them lacks it.
    pub(super) fn figures(&self, kind: FigureKind) -> Option<Vec<f64>> {
        self.records().map(|record| kind.of(record)).collect()
    }

    /// The figure over the trials.
    pub(super) fn centre(&self, kind: FigureKind) -> Option<Centre> {
        let figures = self.figures(kind)?;
        let Quartiles { lower, median, upper } = quartiles(&figures)?;
        let within = if let [trial] = self.trials.as_slice() { within(trial, kind) } else { None };
        let interval = centre(&figures).or(within.as_ref().map(|within| within.interval));
        Some(Centre {
            trials: figures.len(),
            median,
            lower_quartile: lower,
            upper_quartile: upper,
            low: interval.map(|interval| interval.low),
            high: interval.map(|interval| interval.high),
            effective_seconds: within.as_ref().map(|within| within.effective_seconds),
            autocorrelation: within.as_ref().map(|within| within.autocorrelation),
        })
    }
}

struct Within {
    interval: Interval,
    effective_seconds: f64,
    autocorrelation: f64,
}

/// The interval of a figure from the seconds of a single trial. It knows nothing of what differs between trials.
fn within(trial: &KeptTrial, kind: FigureKind) -> Option<Within> {
    let rows = trial.series.iter().filter(|row| row.phase == Phase::Measure && row.full);
    let seconds: Vec<f64> = match kind.quantile() {
        None => rows.map(|row| row.acknowledged as f64 * 1e9 / row.length_ns as f64).collect(),
        Some(0.5) => rows.filter_map(|row| row.p50_ns).map(|value| value as f64).collect(),
        Some(_) => rows.filter_map(|row| row.p99_ns).map(|value| value as f64).collect(),
    };
    let known = series_mean(&seconds)?;
    let interval = match kind.quantile() {
        None => known.interval,
        Some(quantile) => {
            // Seconds that are alike make the values of neighbouring seconds tell less, as much as they do for the mean.
            // Of one event, the number of messages tells nothing of how far the value would vary.
            let latency = kind.latency(&trial.record).filter(|latency| !latency.is_of_few_events(quantile))?;
            let worth = known.effective_size / seconds.len() as f64;
            let ranks = quantile_ranks(quantile, latency.independent_values() as f64 * worth)?;
            let histogram = latency.decode_histogram().ok()?;
            let at = |quantile| histogram.value_at_quantile(quantile) as f64;
            Interval { estimate: at(quantile), low: at(ranks.low), high: at(ranks.high) }
        }
    };
    Some(Within { interval, effective_seconds: known.effective_size, autocorrelation: known.autocorrelation })
}
