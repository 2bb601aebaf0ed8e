//! `[sweep]`: one scenario becomes many. Every swept key is an axis; a point takes one value of each.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::SliceRandom;
use toml::{Table, Value};

use super::check::Check;
use super::path::{KeyPath, Step};
use super::problem::{Problem, Problems, Refusal, SourcePosition};
use super::resolve::Context;
use super::tables::{
    self, Combine, DoublingTable, MAX_TRIALS, Order, SpanEnd, SpanTable, StepsTable, SweepTable, Until,
    metric_and_share, units,
};

/// Fewest trials of a point with `until`: the spread of fewer is known so badly that a run would end by luck.
const MIN_TRIALS_UNTIL: u32 = 6;

/// Most trials of a point with `until`, unless the scenario says otherwise.
const MAX_TRIALS_UNTIL: u32 = 30;

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

/// Reads the sweep of a scenario; without one there is a single point and a single trial.
pub(super) fn read(scenario: &Table, context: &Context<'_>, problems: &Problems) -> Sweep {
    let path = KeyPath::from_keys(&["sweep"]);
    let check = Check { files: &context.files, problems, files_exist: true };
    let mut value = scenario.get("sweep").cloned().unwrap_or_else(|| Value::Table(Table::new()));
    let is_table = check.value(&mut value, &context.schema["properties"]["sweep"], &path);
    let table = is_table.then(|| value.try_into::<SweepTable>().ok()).flatten().unwrap_or_default();
    let mut trials = table.trials.unwrap_or(1);
    let until = until(&table, &mut trials, problems);
    let SweepTable { over, order, combine, seed, pause, .. } = table;
    let mut axes = Vec::new();
    find_axes("", &over, &path.key("over"), &check, &mut axes);
    let sweep = Sweep { axes, trials, until, order, combine, seed, pause };
    sweep.check(problems);
    sweep
}

/// Reads `until` and `trials_at_most`. `trials` is how many trials of a point run in any case; it becomes how many may run.
fn until(table: &SweepTable, trials: &mut u32, problems: &Problems) -> Option<Until> {
    let sweep = KeyPath::from_keys(&["sweep"]);
    let at_most = table.trials_at_most;
    let Some(text) = &table.until else {
        if at_most.is_some() {
            let advice = "write `until = \"p99 ± 5 %\"`, or set `trials`";
            problems.key(sweep.key("trials_at_most"), "`trials_at_most` needs `until`", advice);
        }
        return None;
    };
    let least = table.trials.unwrap_or(MIN_TRIALS_UNTIL);
    if least < MIN_TRIALS_UNTIL {
        let message = format!("an interval needs {MIN_TRIALS_UNTIL} trials or more");
        problems.value(sweep.key("trials"), message, "with `until`, `trials` is the fewest");
        return None;
    }
    if at_most.is_some_and(|at_most| at_most < least) {
        let message = format!("`sweep.trials_at_most` cannot be {}", at_most.unwrap_or_default());
        problems.value(sweep.key("trials_at_most"), message, format!("it is at least {least}"));
        return None;
    }
    *trials = at_most.unwrap_or(least.max(MAX_TRIALS_UNTIL));
    let (metric, share) = metric_and_share(text)
        .map_err(|Refusal { message, advice }| problems.value(sweep.key("until"), message, advice))
        .ok()?;
    Some(Until { text: text.clone(), metric, share, least_trials: least })
}

/// The axes of a table, whose keys may have been written without quotes around their dots.
fn find_axes(prefix: &str, table: &Table, place: &KeyPath, check: &Check<'_>, found: &mut Vec<Axis>) {
    for (key, value) in table {
        let (name, place) = (format!("{prefix}{key}"), place.key(key));
        match value {
            Value::Table(inner) if !is_span(inner) => find_axes(&format!("{name}."), inner, &place, check, found),
            _ => found.extend(axis(name, value, place, check)),
        }
    }
}

/// Keys of the language may have these names as well: `consumers.from` has a list of values.
fn is_span(table: &Table) -> bool {
    let is_end = |(key, value): (&String, &Value)| match key.as_str() {
        "doubling" => true,
        "from" | "to" | "step" => !matches!(value, Value::Array(_) | Value::Table(_)),
        _ => false,
    };
    table.is_empty() || table.iter().any(is_end)
}

fn axis(key: String, value: &Value, place: KeyPath, check: &Check<'_>) -> Option<Axis> {
    let problems = check.problems;
    let path = match KeyPath::parse(&key) {
        Ok(path) => path,
        Err(reason) => {
            problems.key(place, reason, "write it as in \"producers.count\"");
            return None;
        }
    };
    if let ["sweep" | "name" | "output", ..] = path.keys().as_slice() {
        problems.key(place, format!("`{path}` cannot be swept"), "it is the same for the whole run");
        return None;
    }
    let (values, listed) = match value {
        Value::Array(values) => (values.clone(), true),
        Value::Table(_) => {
            let mut value = value.clone();
            let schema = tables::schema_of::<SpanTable>().to_value();
            let is_right = check.value(&mut value, &schema, &place);
            let table = is_right.then(|| value.try_into::<SpanTable>().ok()).flatten()?;
            (span(&table, &place, problems)?, false)
        }
        // Refused by the check.
        _ => return None,
    };
    Some(Axis { key, path, values, place, listed })
}

/// The values of a `doubling` or of `from`, `to` and `step`.
fn span(table: &SpanTable, place: &KeyPath, problems: &Problems) -> Option<Vec<Value>> {
    let read = |end: &SpanEnd, place: KeyPath| quantity(end, &place, problems);
    match table {
        SpanTable::Doubling(DoublingTable { doubling: [first, last] }) => {
            let ends = place.key("doubling");
            let (first, last) = (read(first, ends.index(0)), read(last, ends.index(1)));
            let (first, last) = (first?, last?);
            check_ends(&first, &last, place, problems)?;
            if first.number <= 0.0 {
                problems.value(ends.index(0), "the first value must be above 0", "doubling never leaves zero");
                return None;
            }
            collect(place, problems, &first, (0..).map(|step| first.number * 2f64.powi(step)), last.number)
        }
        SpanTable::Steps(StepsTable { from, to, step }) => {
            let read = |end: &SpanEnd, key: &str| read(end, place.key(key));
            let (from, to, step) = (read(from, "from"), read(to, "to"), read(step, "step"));
            let (from, to, step) = (from?, to?, step?);
            check_ends(&from, &to, place, problems)?;
            if step.number <= 0.0 || step.unit != from.unit {
                let message = "the step must be above 0, in the unit of `from` and `to`";
                problems.value(place.key("step"), message, "write it as in { from = 1, to = 10, step = 3 }");
                return None;
            }
            let like = Quantity { whole: from.whole && step.whole, ..from.clone() };
            let numbers = (0..).map(|index| from.number + f64::from(index) * step.number);
            collect(place, problems, &like, numbers, to.number)
        }
    }
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

fn quantity(end: &SpanEnd, place: &KeyPath, problems: &Problems) -> Option<Quantity> {
    let quantity = match end {
        SpanEnd::Whole(number) => Some(Quantity { number: *number as f64, unit: None, whole: true }),
        SpanEnd::Fraction(number) => Some(Quantity { number: *number, unit: None, whole: false }),
        SpanEnd::Text(text) => {
            let (number, unit) = units::split(text.trim());
            let number = number.replace('_', "").parse().ok();
            number.map(|number| Quantity { number, unit: Some(unit.to_owned()), whole: false })
        }
    };
    let quantity = quantity.filter(|quantity| quantity.number.is_finite());
    if quantity.is_none() {
        let message = format!("`{place}` is not a number, with or without a unit");
        problems.value(place.clone(), message, "write it as in 128 or \"64KiB\"");
    }
    quantity
}

fn check_ends(first: &Quantity, last: &Quantity, place: &KeyPath, problems: &Problems) -> Option<()> {
    if first.unit != last.unit {
        let advice = "write both with the same one: from \"1KiB\" to \"1024KiB\"";
        problems.value(place.clone(), format!("`{place}` begins and ends in different units"), advice);
        return None;
    }
    if first.number > last.number {
        let message = format!("`{place}` ends below its beginning");
        problems.value(place.clone(), message, "write the smaller value first");
        return None;
    }
    Some(())
}

fn collect(
    place: &KeyPath,
    problems: &Problems,
    like: &Quantity,
    numbers: impl Iterator<Item = f64>,
    last: f64,
) -> Option<Vec<Value>> {
    let tolerance = last.abs() * 1e-9;
    let values: Vec<Value> = numbers
        .take_while(|number| *number <= last + tolerance)
        .take(MAX_TRIALS + 1)
        .map(|number| like.write(number))
        .collect();
    if values.len() > MAX_TRIALS {
        let advice = format!("at most {MAX_TRIALS} trials make a run");
        problems.value(place.clone(), format!("`{place}` has too many values"), advice);
        return None;
    }
    Some(values)
}

impl Sweep {
    fn check(&self, problems: &Problems) {
        for (index, axis) in self.axes.iter().enumerate() {
            if let Some(other) = self.axes[..index]
                .iter()
                .find(|other| other.path.starts_with(&axis.path) || axis.path.starts_with(&other.path))
            {
                let message = format!("`{}` and `{}` change the same value", other.path, axis.path);
                problems.key(axis.place.clone(), message, "keep one of them");
            }
        }
        let lengths: Vec<usize> = self.axes.iter().map(|axis| axis.values.len()).collect();
        if self.combine == Combine::Zipped && lengths.windows(2).any(|pair| pair[0] != pair[1]) {
            let lengths: Vec<String> =
                self.axes.iter().map(|axis| format!("`{}` has {}", axis.path, axis.values.len())).collect();
            let message = format!("zipped axes need equally many values, but {}", lengths.join(", "));
            problems.value(KeyPath::from_keys(&["sweep", "combine"]), message, "or write `combine = \"cartesian\"`");
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
                problems.value(
                    KeyPath::from_keys(&["sweep"]),
                    message,
                    format!("at most {MAX_TRIALS} trials make a run"),
                );
            }
        }
    }

    /// Refuses overrides of a part of a swept value: each value of the sweep would take their place.
    pub(super) fn refuse_hidden(&self, overrides: &[(KeyPath, String)], problems: &Problems) {
        for axis in &self.axes {
            let is_part = |path: &KeyPath| *path != axis.path && path.starts_with(&axis.path);
            if let Some((_, typed)) = overrides.iter().find(|(path, _)| is_part(path)) {
                let message = format!("each value of `{}` takes the place of what `{typed}` sets", axis.path);
                let advice = format!("override `{}` itself, which is then not swept, or remove it here", axis.path);
                problems.key(axis.place.clone(), message, advice);
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
    let mut lead = KeyPath::from_keys(&[first]);
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
