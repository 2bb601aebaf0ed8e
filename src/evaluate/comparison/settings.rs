//! How the trials of both sets ran, which decides what is a unit of chance, and what differs between two sets of records beside their figures.

use std::collections::{BTreeMap, BTreeSet};
use std::f64::consts::SQRT_2;

use serde::Serialize;
use serde_json::Value;

use super::side::Side;
use super::{Bounds, KeptTrial, Pair};
use crate::record::readable::percent;
use crate::record::{LoadModel, Record, SinkRecord, Status};
use crate::statistics::{self, median};

/// Runs a side from which on the runs themselves show what differs between them: of fewer, no order of them is rarer than 1 in 20.
pub(super) const MIN_RUNS: usize = 4;

/// What a comparison takes for a unit of chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// The trials of both sides ran in turn: a pair of neighbours.
    InTurn,
    /// Each side has several runs: a run.
    SeveralRuns,
    /// Each side has one run, or few: a trial, and what differs between runs is taken from elsewhere.
    SingleRuns,
}

/// In turn if, at every point, the completed trials in the order of their begin are one of each set, two by two. Such neighbours met
/// the machine in the same state, so each is compared with the other of its pair, and the sides keep only pairs of valid trials.
pub(super) fn design(pairs: &mut [Pair<'_>]) -> Design {
    if let Some(neighbours) = pairs.iter().map(valid_neighbours).collect::<Option<Vec<_>>>() {
        for ((a, b), neighbours) in pairs.iter_mut().zip(neighbours) {
            (a.trials, b.trials) = neighbours.into_iter().unzip();
        }
        return Design::InTurn;
    }
    if pairs.iter().all(|(a, b)| a.runs().min(b.runs()) >= MIN_RUNS) { Design::SeveralRuns } else { Design::SingleRuns }
}

impl Design {
    /// Compares a figure of both sides, by this unit.
    pub(super) fn compare(
        self,
        (a, of_a): (&Side<'_>, &[f64]),
        (b, of_b): (&Side<'_>, &[f64]),
        bounds: Bounds,
    ) -> Option<statistics::Comparison> {
        match self {
            Design::InTurn => statistics::compare(of_a, of_b, statistics::Design::Paired),
            Design::SeveralRuns => {
                let centres = |side: &Side<'_>, figures| statistics::run_centres(&side.logarithms_by_run(figures));
                statistics::compare(&centres(a, of_a), &centres(b, of_b), statistics::Design::Independent)
            }
            Design::SingleRuns => {
                let runs = [a.logarithms_by_run(of_a), b.logarithms_by_run(of_b)];
                let spread = statistics::spread_of_runs(&runs, bounds.between_runs.ln_1p());
                statistics::compare(of_a, of_b, statistics::Design::Separate { spread })
            }
        }
    }

    /// The smallest change, as a share, that can be told at all with one run a side; `None` where only the trials decide.
    pub(super) fn least_change(self, bounds: Bounds) -> Option<f64> {
        (self == Design::SingleRuns).then(|| statistics::least_change(bounds.between_runs.ln_1p() * SQRT_2))
    }
}

/// Neighbours that are both valid; without any valid trial, all neighbours. `None` where trials did not run in turn, or where valid
/// ones have no valid neighbour.
fn valid_neighbours<'a>((a, b): &Pair<'a>) -> Option<Vec<(&'a KeptTrial, &'a KeptTrial)>> {
    let neighbours = neighbours(a, b)?;
    if a.valid + b.valid == 0 {
        return Some(neighbours);
    }
    let is_valid = |trial: &KeptTrial| trial.record.verdict.valid;
    let valid: Vec<_> = neighbours.into_iter().filter(|(of_a, of_b)| is_valid(of_a) && is_valid(of_b)).collect();
    (!valid.is_empty()).then_some(valid)
}

fn neighbours<'a>(a: &Side<'a>, b: &Side<'a>) -> Option<Vec<(&'a KeptTrial, &'a KeptTrial)>> {
    let of_a = a.ended.iter().map(|trial| (*trial, false));
    let mut begun: Vec<_> = of_a.chain(b.ended.iter().map(|trial| (*trial, true))).collect();
    begun.sort_by_key(|(trial, is_b)| (trial.record.started_at, *is_b));
    // Two single trials are always neighbours, which says nothing.
    if begun.len() <= 2 {
        return None;
    }
    let is_complete = |trial: &KeptTrial| trial.record.status == Status::Completed;
    let neighbours = begun.chunks(2).map(|pair| match pair {
        [(of_a, false), (of_b, true)] | [(of_b, true), (of_a, false)] => Some((*of_a, *of_b)),
        _ => None,
    });
    let complete: Vec<_> = neighbours.collect::<Option<Vec<_>>>()?;
    let complete: Vec<_> = complete.into_iter().filter(|(of_a, of_b)| is_complete(of_a) && is_complete(of_b)).collect();
    (!complete.is_empty()).then_some(complete)
}

/// Sides whose machines were busy with other work by shares that differ by more than this were not alike.
const MAX_LOAD_DIFFERENCE: f64 = 0.1;

/// Keys of a scenario that do not change what is measured.
const INDIFFERENT: [&str; 5] = ["name", "output", "sweep", "thresholds", "broker.watch"];

/// A condition that the sets do not share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    /// What differs: a key of the scenario, or a part of the environment.
    pub what: String,
    pub a: String,
    pub b: String,
    /// Whether figures cannot be compared because of it, unless the user permits it.
    pub refused: bool,
}

/// All differences, those that forbid a comparison first.
pub(super) fn differences(pairs: &[Pair<'_>]) -> Vec<Difference> {
    let a: Vec<&Record> = pairs.iter().flat_map(|(a, _)| a.records()).collect();
    let b: Vec<&Record> = pairs.iter().flat_map(|(_, b)| b.records()).collect();
    // A side of which no trial was completed has met nothing that could be compared.
    let has_both = !a.is_empty() && !b.is_empty();
    let texts = |what: &str, refused: bool, text: &dyn Fn(&Record) -> String| {
        let of = |records: &[&Record]| -> BTreeSet<String> { records.iter().map(|record| text(record)).collect() };
        let (a, b) = (of(&a), of(&b));
        let shown = |texts: BTreeSet<String>| texts.into_iter().collect::<Vec<_>>().join("; ");
        (has_both && a != b).then(|| Difference { what: what.to_owned(), a: shown(a), b: shown(b), refused })
    };
    let mut found = Vec::new();
    found.extend(texts("what an acknowledgement meant", true, &|record| record.durability.to_string()));
    found.extend(texts("what an acknowledgement of the databases meant", true, &databases));
    found.extend(texts("load", true, &load_model));
    found.extend(scenario(pairs));
    found.extend(texts("build", false, &|record| record.environment.build()));
    found.extend(texts("client library", false, &|record| known(&record.environment.client_library)));
    found.extend(texts("scheduling policy", false, &|record| known(&record.client.scheduling_policy)));
    found.extend(texts("broker version", false, &|record| known(&record.environment.broker)));
    found.extend(texts("machine", false, &machine));
    found.extend(host_load(&a, &b));
    found
}

/// Of each database of the pipeline, the settings that decide it.
fn databases(record: &Record) -> String {
    let sinks = record.pipeline.iter().flat_map(|pipeline| &pipeline.sinks);
    sinks.map(SinkRecord::durability).collect::<Vec<_>>().join("; ")
}

fn known(text: &Option<String>) -> String {
    text.clone().unwrap_or_else(|| "unknown".to_owned())
}

fn load_model(record: &Record) -> String {
    match record.load_model {
        LoadModel::Open => "open loop".to_owned(),
        LoadModel::Closed => "closed loop".to_owned(),
    }
}

fn machine(record: &Record) -> String {
    let environment = &record.environment;
    format!(
        "{}: {}, {} cores, kernel {}",
        known(&environment.hostname),
        known(&environment.cpu_model),
        environment.cores,
        known(&environment.kernel)
    )
}

/// Keys of the scenarios with other values, each once. The runs of a side may be of several scenarios.
fn scenario(pairs: &[Pair<'_>]) -> BTreeSet<Difference> {
    let of_side = |side: &Side<'_>| side.ended().map(|record| keys(&record.scenario)).collect::<BTreeSet<_>>();
    let mut found = BTreeSet::new();
    for (a, b) in pairs {
        let (a, b) = (of_side(a), of_side(b));
        let names: BTreeSet<&String> = a.iter().chain(&b).flat_map(BTreeMap::keys).collect();
        for name in names {
            let shown = |scenarios: &BTreeSet<BTreeMap<String, String>>| {
                let values = scenarios.iter().map(|keys| keys.get(name).map_or("default", String::as_str));
                values.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join("; ")
            };
            let (a, b) = (shown(&a), shown(&b));
            if a != b {
                found.insert(Difference { what: name.clone(), a, b, refused: false });
            }
        }
    }
    found
}

fn keys(scenario: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    collect("", scenario, &mut found);
    found.retain(|key, _| {
        !INDIFFERENT
            .iter()
            .any(|prefix| key.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
    });
    found
}

fn collect(prefix: &str, value: &Value, found: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(table) => table.iter().for_each(|(key, value)| {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            collect(&path, value, found);
        }),
        Value::String(text) => drop(found.insert(prefix.to_owned(), text.clone())),
        other => drop(found.insert(prefix.to_owned(), other.to_string())),
    }
}

/// Other processes' share of the machine.
fn host_load(a: &[&Record], b: &[&Record]) -> Option<Difference> {
    let others = |record: &&Record| {
        let own = record.client.cores_used / record.environment.cores.max(1) as f64;
        record.host_load.map(|load| (load.system_cpu_busy + load.steal - own).max(0.0))
    };
    let middle = |records: &[&Record]| median(&records.iter().filter_map(others).collect::<Vec<_>>());
    let (a, b) = (middle(a)?, middle(b)?);
    ((a - b).abs() > MAX_LOAD_DIFFERENCE).then(|| Difference {
        what: "other processes' share of the machine".to_owned(),
        a: percent(a),
        b: percent(b),
        refused: false,
    })
}
