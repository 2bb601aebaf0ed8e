//! `[sweep]`: one scenario becomes many. Every swept key is an axis; a point takes one value of each.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use toml::{Table, Value};

use super::fields::{Field, Fields};
use super::path::{KeyPath, Step};
use super::problem::{Problem, Problems, SourcePosition};
use super::units;
use super::until::{self, Until};

pub(super) const KEYS: &[&str] = &["over", "trials", "until", "trials_at_most", "order", "seed", "combine", "pause"];

/// More trials than this are a mistake: at a second each they would take a day.
const MAX_TRIALS: usize = 100_000;

#[derive(Debug)]
pub(super) struct Sweep {
    pub axes: Vec<Axis>,
    /// Most trials of a point.
    trials: u32,
    /// When fewer are enough.
    pub until: Option<Until>,
    order: Order,
    combine: Combine,
    seed: u64,
    /// Between two trials.
    pub pause: Duration,
}

/// A swept key with its values.
#[derive(Debug)]
pub(super) struct Axis {
    /// As written, for the record.
    pub key: String,
    /// What it changes.
    pub path: KeyPath,
    pub values: Vec<Value>,
    /// Where the sweep has it.
    place: KeyPath,
    listed: bool,
}

impl Axis {
    /// Where the scenario gives the value of that index.
    pub(super) fn place_of(&self, index: usize) -> KeyPath {
        if self.listed { self.place.index(index) } else { self.place.clone() }
    }

    pub(super) fn place(&self) -> &KeyPath {
        &self.place
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Sequential,
    Interleaved,
    Shuffled,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Combine {
    Cartesian,
    Zipped,
}

const OVER_ADVICE: &str = "write a list, { doubling = [128, 8192] } or { from = 1, to = 10, step = 3 }";

/// Reads the sweep of a scenario; without one there is a single point and a single trial.
pub(super) fn read(scenario: &Table, problems: &Problems) -> Sweep {
    let mut sweep = Sweep {
        axes: Vec::new(),
        trials: 1,
        until: None,
        order: Order::Sequential,
        combine: Combine::Cartesian,
        seed: 1,
        pause: Duration::ZERO,
    };
    let path = KeyPath::of(&["sweep"]);
    let Some(value) = scenario.get("sweep") else { return sweep };
    let Some(fields) = (Field { value, path, problems }).fields(KEYS) else { return sweep };
    if let Some(trials) = fields.get("trials").and_then(|field| field.amount(1, MAX_TRIALS)) {
        sweep.trials = u32::try_from(trials).unwrap_or(u32::MAX);
    }
    sweep.until = until::read(&fields, MAX_TRIALS, &mut sweep.trials);
    let orders =
        [("sequential", Order::Sequential), ("interleaved", Order::Interleaved), ("shuffled", Order::Shuffled)];
    if let Some(order) = fields.get("order").and_then(|field| field.one_of(&orders)) {
        sweep.order = order;
    }
    let combinations = [("cartesian", Combine::Cartesian), ("zipped", Combine::Zipped)];
    if let Some(combine) = fields.get("combine").and_then(|field| field.one_of(&combinations)) {
        sweep.combine = combine;
    }
    if let Some(seed) = fields.get("seed").and_then(|field| field.seed()) {
        sweep.seed = seed;
    }
    if let Some(pause) = fields.get("pause").and_then(|field| field.duration()) {
        sweep.pause = pause;
    }
    if let Some(over) = fields.get("over") {
        match over.value {
            Value::Table(table) => axes("", table, &over, &mut sweep.axes),
            _ => over.refuse(
                "`sweep.over` should be a table",
                "write `[sweep.over]` and below it `\"producers.count\" = [1, 2]`",
            ),
        }
    }
    sweep.check(&fields);
    sweep
}

/// The axes of a table, whose keys may have been written without quotes around their dots.
fn axes(prefix: &str, table: &Table, over: &Field<'_>, found: &mut Vec<Axis>) {
    for (key, value) in table {
        let name = format!("{prefix}{key}");
        let field = Field { value, path: over.path.key(key), problems: over.problems };
        match value {
            Value::Table(inner) if !is_span(inner) => axes(&format!("{name}."), inner, &field, found),
            _ => found.extend(axis(name, &field)),
        }
    }
}

fn is_span(table: &Table) -> bool {
    table.is_empty() || table.keys().any(|key| ["doubling", "from", "to", "step"].contains(&key.as_str()))
}

fn axis(key: String, field: &Field<'_>) -> Option<Axis> {
    let path = match KeyPath::parse(&key) {
        Ok(path) => path,
        Err(reason) => {
            field.problems.key(field.path.clone(), reason, "write it as in \"producers.count\"");
            return None;
        }
    };
    if let ["sweep" | "name" | "output", ..] = path.keys().as_slice() {
        field.problems.key(field.path.clone(), format!("`{path}` cannot be swept"), "it is the same for the whole run");
        return None;
    }
    let (values, listed) = match field.value {
        Value::Array(_) => (field.elements(OVER_ADVICE)?.iter().map(|element| element.value.clone()).collect(), true),
        Value::Table(_) => (span(field)?, false),
        _ => {
            field.refuse(format!("`{path}` is swept over a single value"), OVER_ADVICE);
            return None;
        }
    };
    Some(Axis { key, path, values, place: field.path.clone(), listed })
}

/// The values of a `doubling` or of `from`, `to` and `step`.
fn span(field: &Field<'_>) -> Option<Vec<Value>> {
    let fields = field.fields(&["doubling", "from", "to", "step"])?;
    fields.exclusive("from", "doubling", "keep one of them");
    if let Some(doubling) = fields.get("doubling") {
        let ends = doubling.pair("write the first and the last value, as in [128, 8192]")?;
        let [first, last] = [quantity(&ends[0])?, quantity(&ends[1])?];
        check_ends(field, &first, &last)?;
        if first.number <= 0.0 {
            ends[0].refuse("the first value must be above 0", "begin with a number above 0");
            return None;
        }
        return collect(field, &first, (0..).map(|step| first.number * 2f64.powi(step)), last.number);
    }
    let [from, to] = ["from", "to"].map(|key| fields.require(key, OVER_ADVICE).and_then(|field| quantity(&field)));
    let step = fields.require("step", OVER_ADVICE);
    let (from, to, step_field) = (from?, to?, step?);
    let step = quantity(&step_field)?;
    check_ends(field, &from, &to)?;
    if step.number <= 0.0 || step.unit != from.unit {
        step_field.refuse(
            "the step must be above 0, in the unit of `from`",
            "let it be above 0, in the unit of `from` and `to`",
        );
        return None;
    }
    let whole = Quantity { whole: from.whole && step.whole, ..from.clone() };
    collect(field, &whole, (0..).map(|index| from.number + f64::from(index) * step.number), to.number)
}

/// A number with the unit it was written with, if it was.
#[derive(Debug, Clone, PartialEq)]
struct Quantity {
    number: f64,
    unit: Option<String>,
    whole: bool,
}

impl Quantity {
    /// `number` written as this quantity was.
    fn write(&self, number: f64) -> Value {
        // Twelve digits are enough for people and hide what adding fractions in binary leaves behind.
        let number = format!("{number:.12}").parse().unwrap_or(number);
        match &self.unit {
            Some(unit) => Value::String(format!("{number}{unit}")),
            None if self.whole => Value::Integer(number as i64),
            None => Value::Float(number),
        }
    }
}

fn quantity(field: &Field<'_>) -> Option<Quantity> {
    let quantity = match field.value {
        Value::Integer(number) => Some(Quantity { number: *number as f64, unit: None, whole: true }),
        Value::Float(number) => Some(Quantity { number: *number, unit: None, whole: false }),
        Value::String(text) => {
            let (number, unit) = units::split(text.trim());
            let number = number.replace('_', "").parse().ok();
            number.map(|number| Quantity { number, unit: Some(unit.to_owned()), whole: false })
        }
        _ => None,
    };
    if quantity.as_ref().is_none_or(|quantity| !quantity.number.is_finite()) {
        field.refuse(
            format!("`{}` is not a number, with or without a unit", field.path),
            "write it as in 128 or \"64KiB\"",
        );
        return None;
    }
    quantity
}

fn check_ends(field: &Field<'_>, first: &Quantity, last: &Quantity) -> Option<()> {
    if first.unit != last.unit {
        let advice = "write both with the same one: from \"1KiB\" to \"1024KiB\"";
        field.refuse(format!("`{}` begins and ends in different units", field.path), advice);
        return None;
    }
    if first.number > last.number {
        field.refuse(format!("`{}` ends below its beginning", field.path), "write the smaller value first");
        return None;
    }
    Some(())
}

fn collect(field: &Field<'_>, like: &Quantity, numbers: impl Iterator<Item = f64>, last: f64) -> Option<Vec<Value>> {
    let tolerance = last.abs() * 1e-9;
    let values: Vec<Value> = numbers
        .take_while(|number| *number <= last + tolerance)
        .take(MAX_TRIALS + 1)
        .map(|number| like.write(number))
        .collect();
    if values.len() > MAX_TRIALS {
        field
            .refuse(format!("`{}` has too many values", field.path), format!("at most {MAX_TRIALS} trials make a run"));
        return None;
    }
    Some(values)
}

impl Sweep {
    fn check(&self, fields: &Fields<'_>) {
        for (index, axis) in self.axes.iter().enumerate() {
            if let Some(other) = self.axes[..index]
                .iter()
                .find(|other| other.path.starts_with(&axis.path) || axis.path.starts_with(&other.path))
            {
                let message = format!("`{}` and `{}` change the same value", other.path, axis.path);
                fields.problems.key(axis.place.clone(), message, "keep one of them");
            }
        }
        let lengths: Vec<usize> = self.axes.iter().map(|axis| axis.values.len()).collect();
        if self.combine == Combine::Zipped && lengths.windows(2).any(|pair| pair[0] != pair[1]) {
            let lengths: Vec<String> =
                self.axes.iter().map(|axis| format!("`{}` has {}", axis.path, axis.values.len())).collect();
            let message = format!("zipped axes need equally many values, but {}", lengths.join(", "));
            fields.problems.value(KeyPath::of(&["sweep", "combine"]), message, "or write `combine = \"cartesian\"`");
        } else {
            let points = match self.combine {
                Combine::Zipped => lengths.first().copied().unwrap_or(1),
                Combine::Cartesian => {
                    lengths.iter().try_fold(1usize, |all, one| all.checked_mul(*one)).unwrap_or(usize::MAX)
                }
            };
            let trials = points.saturating_mul(self.trials as usize);
            if trials > MAX_TRIALS {
                let message = format!("the sweep has {points} points of {} trials each", self.trials);
                fields.problems.value(fields.path.clone(), message, format!("at most {MAX_TRIALS} trials make a run"));
            }
        }
    }

    /// Each point as the index of its value on every axis; the first axis changes slowest.
    pub(super) fn points(&self) -> Vec<Vec<usize>> {
        match self.combine {
            Combine::Zipped if !self.axes.is_empty() => {
                let length = self.axes.iter().map(|axis| axis.values.len()).min().unwrap_or(0);
                (0..length).map(|index| vec![index; self.axes.len()]).collect()
            }
            _ => self.axes.iter().fold(vec![Vec::new()], |points, axis| {
                let with = |point: &Vec<usize>, index| point.iter().copied().chain([index]).collect();
                points.iter().flat_map(|point| (0..axis.values.len()).map(move |index| with(point, index))).collect()
            }),
        }
    }

    /// The order in which the trials of that many points run: point, and trial from 1.
    ///
    /// Shuffled trials stay in blocks of one trial of every point, each shuffled by itself (a randomised complete block
    /// design: Montgomery, Design and Analysis of Experiments, chapter 4), so that a machine that drifts, or a run that is cut
    /// short, does so for all points alike.
    pub(super) fn order(&self, points: usize) -> Vec<(usize, u32)> {
        let rounds = 1..=self.trials;
        match self.order {
            Order::Sequential => {
                (0..points).flat_map(|point| rounds.clone().map(move |trial| (point, trial))).collect()
            }
            Order::Interleaved => rounds.flat_map(|trial| (0..points).map(move |point| (point, trial))).collect(),
            Order::Shuffled => {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
                let block = |trial| {
                    let mut block: Vec<(usize, u32)> = (0..points).map(|point| (point, trial)).collect();
                    block.shuffle(&mut random);
                    block
                };
                rounds.flat_map(block).collect()
            }
        }
    }
}

/// Puts a swept value into a scenario.
///
/// # Errors
/// When the path leads through something that is not a table, or to an element that is not there.
pub(super) fn substitute(scenario: &mut Table, path: &KeyPath, value: Value) -> Result<(), Problem> {
    let refuse = |message: String, advice: &str| {
        Err(Problem { place: SourcePosition::Key(path.clone()), message, advice: Some(advice.to_owned()) })
    };
    let itself = "sweep the value itself";
    let mut steps = path.steps().iter();
    let Some(Step::Key(first)) = steps.next() else { return Ok(()) };
    let mut lead = KeyPath::of(&[first]);
    let mut place = scenario.entry(first.clone()).or_insert_with(|| Value::Table(Table::new()));
    for step in steps {
        place = match (step, place) {
            (Step::Key(key), Value::Table(table)) => {
                table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()))
            }
            (Step::Key(_), _) => {
                return refuse(
                    format!("`{path}` leads through `{lead}`, which is not a table in this scenario"),
                    itself,
                );
            }
            (Step::Index(index), Value::Array(array)) => {
                let elements = array.len();
                let Some(element) = array.get_mut(*index) else {
                    let message = format!("`{lead}` has {elements} element(s) in this scenario");
                    return refuse(message, "their numbers begin with 0");
                };
                element
            }
            (Step::Index(_), _) => return refuse(format!("`{lead}` is not an array in this scenario"), itself),
        };
        lead = match step {
            Step::Key(key) => lead.key(key),
            Step::Index(index) => lead.index(*index),
        };
    }
    *place = value;
    Ok(())
}
