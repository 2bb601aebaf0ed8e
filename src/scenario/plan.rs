//! From the text of a scenario to its plan: overrides are applied, the sweep is expanded, every point is read and
//! checked, and only then is there a plan.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};
use toml_edit::DocumentMut;

use super::overrides::{Origin, Override, Written};
use super::path::KeyPath;
use super::problem::{Problem, Problems, ScenarioError, Source, SourcePosition};
use super::resolve::{self, Context};
use super::sweep::{self, Sweep};
use super::{Kinds, Plan, Point, Scenario, Trial};
use crate::secrets::{mask_document, mask_text, mask_tree};

/// Reads and checks a scenario's text, for these kinds of brokers and sinks. `origin` names it in errors, and names the scenario
/// itself if it has no `name`; relative paths start at `directory`.
///
/// # Errors
/// For everything that is not right.
pub fn parse_for(
    kinds: Kinds<'_>,
    text: &str,
    origin: &str,
    overrides: &[String],
    directory: &Path,
) -> Result<Plan, ScenarioError> {
    parse_written(kinds, &Written::in_file(text, origin, overrides, directory))
}

/// As [`parse_for`], of a scenario that may be another thing than a file.
///
/// # Errors
/// For everything that is not right.
pub fn parse_written(kinds: Kinds<'_>, written: &Written) -> Result<Plan, ScenarioError> {
    let Written { text, origin, settings, directory, note: _ } = written;
    let overrides = settings.iter().map(Override::parse);
    let overrides = overrides.collect::<Result<Vec<_>, _>>().map_err(ScenarioError::single)?;
    let source = Source {
        origin: origin.clone(),
        text: text.clone(),
        overrides: overrides.iter().map(|one| (one.path.clone(), one.typed.clone())).collect(),
    };
    let origin = origin.name();
    let mut document = text.parse::<DocumentMut>().map_err(|error| syntax_error(&source, &error))?;
    for one in &overrides {
        one.apply(&mut document).map_err(ScenarioError::single)?;
    }
    let mut table: Table = toml::from_str(&document.to_string()).map_err(|error| {
        let error = mask_text(&error.to_string());
        ScenarioError::single(format!("{origin}: with its overrides, the scenario is not valid TOML: {error}"))
    })?;
    if let Some(doubled) = resolve::flatten_properties(&mut table) {
        let message = format!("`{doubled}` is written twice, with quotes around its dots and without");
        let place = SourcePosition::Key(doubled);
        return Err(refusal(&source, vec![Problem { place, message, advice: Some("keep one of them".to_owned()) }]));
    }
    let context = Context::new(kinds, directory, default_name(origin));
    let points = read_points(&table, &source, &context)?;
    if matches!(source.origin, Origin::Made(_)) && points.read.iter().any(|point| !point.scenario.faults.is_empty()) {
        // A URL from another person must not run commands here.
        let reason = "the scenario of a URL has no faults\n   = write it to a file (`--print-scenario`), and add [[faults]] there\n";
        return Err(ScenarioError::single(format!("{origin}: {reason}")));
    }
    let (name, output) = resolve::identity(&table, &context);
    let payload_files = context.files.of_payloads.take();
    let (text, pause, until) = (mask_document(&mut document), points.sweep.pause, points.sweep.until.clone());
    Ok(Plan { name, text, output, payload_files, pause, until, trials: points.trials() })
}

/// What the scenario does not have as its origin has it, and what the settings take out of it, as sentences for people: a key that is set displaces
/// those that contradict it. Empty where the scenario is not right: [`parse_written`] says why.
pub fn notes_on(written: &Written) -> Vec<String> {
    let Ok(scenario) = written.text.parse::<Table>() else { return Vec::new() };
    let overrides = written.settings.iter().filter_map(|setting| Override::parse(setting).ok());
    written.note.iter().cloned().chain(overrides.flat_map(|one| one.notes(&scenario))).collect()
}

fn syntax_error(source: &Source, error: &toml_edit::TomlError) -> ScenarioError {
    let place = SourcePosition::Bytes(error.span().unwrap_or(0..0));
    let message = format!("this is not TOML: {}", error.message().replace('\n', ", "));
    let advice = other_format(&source.text, error.message());
    ScenarioError::single(source.report(&Problem { place, message, advice }))
}

/// What to do about a text that is not TOML.
fn other_format(text: &str, message: &str) -> Option<String> {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    // What the parser says of a word without quotes depends on its first letter.
    if ["must be quoted", "invalid float", "invalid boolean"].iter().any(|says| message.contains(says)) {
        return Some("write the value in quotes, as in `kind = \"kafka\"`".to_owned());
    }
    let is_json = first.starts_with('{') || first.starts_with("[{");
    let is_yaml = first == "---" || (first.split_once(':').is_some() && !first.contains('='));
    (is_json || is_yaml).then(|| {
        "scenarios are TOML: `brokermark new kafka` writes one; `--omb` reads workloads of OpenMessaging Benchmark"
            .to_owned()
    })
}

/// The file's name without its ending, with what a name cannot hold replaced.
fn default_name(origin: &str) -> String {
    let stem = Path::new(origin).file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let safe =
        |character: char| if character.is_ascii_alphanumeric() || "._-".contains(character) { character } else { '-' };
    let name: String = stem.chars().map(safe).take(100).collect();
    if name.chars().all(|character| character == '.') { "scenario".to_owned() } else { name }
}

/// A point that was found right.
#[derive(Clone)]
struct ReadPoint {
    point: Point,
    scenario: Scenario,
    document: serde_json::Value,
    defaults: BTreeMap<String, serde_json::Value>,
}

/// A sweep's points, each read and found right.
struct Points {
    sweep: Sweep,
    read: Vec<ReadPoint>,
}

fn read_points(table: &Table, source: &Source, context: &Context<'_>) -> Result<Points, ScenarioError> {
    let own_keys = resolve::own_keys(table, context.kinds);
    let problems = context.problems(&own_keys);
    let sweep = sweep::read(table, context, &problems);
    sweep.refuse_hidden(&source.overrides, &problems);
    if !problems.is_empty() {
        return Err(refusal(source, problems.into_inner()));
    }
    let points = sweep.points();
    let mut found: Vec<(Problem, usize, usize)> = Vec::new();
    let mut read = Vec::with_capacity(points.len());
    for (number, indices) in points.iter().enumerate() {
        let problems = context.problems(&own_keys);
        match read_point(table, &sweep, indices, context, &problems) {
            Some(point) if problems.is_empty() => read.push(point),
            _ => {
                for problem in problems.into_inner() {
                    let problem = relocate(problem, table, &sweep, indices);
                    match found.iter_mut().find(|(known, ..)| *known == problem) {
                        Some((_, times, _)) => *times += 1,
                        None => found.push((problem, 1, number)),
                    }
                }
            }
        }
    }
    if found.is_empty() {
        return Ok(Points { sweep, read });
    }
    let everywhere = points.len();
    let problems = found.into_iter().map(|(mut problem, times, first)| {
        let swept = problem.place.path().is_some_and(|path| path.starts_with(&KeyPath::from_keys(&["sweep"])));
        if times < everywhere && !(swept && sweep.axes.len() == 1) {
            problem.message.push_str(&format!(" (at {})", sweep_text(&sweep, &points[first])));
        }
        problem
    });
    Err(refusal(source, problems.collect()))
}

fn read_point(
    table: &Table,
    sweep: &Sweep,
    indices: &[usize],
    context: &Context<'_>,
    problems: &Problems,
) -> Option<ReadPoint> {
    let mut table = table.clone();
    let mut point = Point::new();
    for (axis, index) in sweep.axes.iter().zip(indices) {
        let value = axis.values[*index].clone();
        let mut shown = value.clone();
        mask_tree(&mut shown, &axis.path.keys());
        point.insert(axis.key.clone(), shown);
        if let Err(problem) = sweep::substitute(&mut table, &axis.path, value) {
            problems.add(problem.place, problem.message, problem.advice);
            return None;
        }
    }
    let (scenario, tables) = resolve::read(&table, context, problems)?;
    if let Some(until) = &sweep.until
        && let Some((reason, advice)) = resolve::unmeasured_figure(until.metric, &scenario)
    {
        let message = format!("\"{}\" cannot be judged: {reason}", until.text);
        problems.value(KeyPath::from_keys(&["sweep", "until"]), message, advice);
    }
    table.remove("sweep");
    table.insert("name".to_owned(), Value::String(scenario.name.clone()));
    let mut document = Value::Table(table);
    mask_tree(&mut document, &[]);
    match serde_json::to_value(&document) {
        Ok(document) => {
            let defaults = tables.defaults(&document);
            Some(ReadPoint { point, scenario, document, defaults })
        }
        Err(error) => {
            problems.add(
                SourcePosition::Value(KeyPath::default()),
                format!("this cannot be written as JSON: {error}"),
                None,
            );
            None
        }
    }
}

/// A problem of a swept value lies where the sweep gives that value; so does one of a table that is only there because a key in it is
/// swept.
fn relocate(mut problem: Problem, written: &Table, sweep: &Sweep, indices: &[usize]) -> Problem {
    for (axis, index) in sweep.axes.iter().zip(indices) {
        match &problem.place {
            SourcePosition::Key(path) | SourcePosition::Value(path)
                if *path != axis.path && axis.path.starts_with(path) && !path.is_in(written) =>
            {
                problem.place = SourcePosition::Key(axis.place().clone());
                return problem;
            }
            SourcePosition::Key(path) if *path == axis.path => {
                problem.place = SourcePosition::Key(axis.place().clone());
                return problem;
            }
            SourcePosition::Key(path) | SourcePosition::Value(path) if path.starts_with(&axis.path) => {
                problem.place = SourcePosition::Value(axis.place_of(*index));
                return problem;
            }
            _ => {}
        }
    }
    problem
}

fn sweep_text(sweep: &Sweep, indices: &[usize]) -> String {
    let each = sweep.axes.iter().zip(indices).map(|(axis, index)| {
        let mut value = axis.values[*index].clone();
        mask_tree(&mut value, &axis.path.keys());
        format!("{} = {value}", axis.path)
    });
    each.collect::<Vec<_>>().join(", ")
}

fn refusal(source: &Source, problems: Vec<Problem>) -> ScenarioError {
    let mut problems = problems;
    problems.sort_by_key(|problem| source.position(problem));
    ScenarioError { reports: problems.iter().map(|problem| source.report(problem)).collect() }
}

impl Points {
    fn trials(self) -> Vec<Trial> {
        let order = self.sweep.order(self.read.len()).into_iter();
        order
            .map(|(point_index, trial)| {
                let ReadPoint { point, scenario, document, defaults } = self.read[point_index].clone();
                Trial { point_index, point, trial, scenario, document, defaults }
            })
            .collect()
    }
}
