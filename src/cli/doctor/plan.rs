//! Findings from the scenario alone: what would make its records invalid, and which points of a sweep are examined: those whose
//! broker, topics or pipeline differ.

use super::{Finding, bad, doubtful, good};
use crate::engine;
use crate::evaluate::verdict::limits::MIN_DURATION_NS;
use crate::record::readable::{duration, settings};
use crate::scenario::{Load, Plan, Trial};

/// From this many trials on, intervals can be compared.
const MIN_TRIALS: usize = 4;

/// Examining one makes its topics.
const MAX_TARGETS: usize = 8;

pub(super) fn findings(plan: &Plan) -> Vec<Finding> {
    let scenarios = || plan.trials.iter().map(|trial| &trial.scenario);
    let points = plan.trials.iter().map(|trial| trial.point_index + 1).max().unwrap_or(1);
    let mut found =
        vec![good("scenario", format!("{}: {} trial(s) of {points} point(s)", plan.name, plan.trials.len()))];
    if let Some(reason) = scenarios().find_map(|scenario| scenario.check_alone().err()) {
        found.push(doubtful("processes", "`run` refuses it in a single process", reason));
    }
    let shortest = scenarios().filter_map(|scenario| scenario.run.stop.duration).min();
    if let Some(window) = shortest.filter(|window| (window.as_nanos() as u64) < MIN_DURATION_NS) {
        let text = format!("{} is too short for a valid record", duration(window.as_nanos() as f64));
        found.push(bad("duration", text, "--set run.duration=30s"));
    }
    if scenarios().any(|scenario| scenario.run.warm_up.is_zero()) {
        found.push(doubtful(
            "warm-up",
            "nothing is warmed up: connections are made while it is measured",
            "--set run.warm_up=5s",
        ));
    }
    if scenarios().any(|scenario| scenario.load == Load::Closed) {
        let text = "without a rate, latency is only the length of the queue";
        found.push(doubtful("load", text, "for latencies, set a rate: --set load.rate=10k/s"));
    }
    if plan.trials.len() / points < MIN_TRIALS {
        let text = format!("{} trial(s) of a point: too few to compare runs by", plan.trials.len() / points);
        found.push(doubtful("trials", text, "to compare, --set sweep.trials=10"));
    }
    if let Some(embedded) = scenarios().find(|scenario| scenario.broker.is_embedded()) {
        let port = engine::kinds().broker(&embedded.broker.kind).and_then(|kind| kind.default_port);
        let port = port.map_or("PORT".to_owned(), |port| port.to_string());
        found.push(doubtful(
            "broker",
            "the embedded broker is a demonstration: its records are not valid",
            format!("--set broker.address=HOST:{port}"),
        ));
    }
    if cfg!(debug_assertions) {
        let text = "brokermark was built without optimisation: its own cost for each message is many times higher";
        found.push(doubtful("build", text, "cargo build --release"));
    }
    found
}

/// A trial that is examined, as the first of those with its broker and its topics.
pub(super) struct DoctorTarget<'a> {
    pub trial: &'a Trial,
    /// A trial of each point with that broker and those topics, this one among them.
    pub alike: &'a [&'a Trial],
    /// Its values of the swept keys, where it is not the only one.
    pub name: Option<String>,
}

impl DoctorTarget<'_> {
    /// The values of the swept keys of one of the trials that are alike, where there is another point.
    pub(super) fn point_of(&self, trial: &Trial) -> Option<String> {
        (self.name.is_some() || self.alike.len() > 1).then(|| values(trial))
    }

    /// What was found of it, under its name.
    pub(super) fn named(&self, found: Vec<Finding>) -> impl Iterator<Item = Finding> {
        found.into_iter().map(|finding| match &self.name {
            Some(name) => Finding { found: format!("{name}: {}", finding.found), ..finding },
            None => finding,
        })
    }
}

/// The trials that are examined, and how many others there are.
pub(super) struct DoctorTargets<'a> {
    /// A trial of each point, those with the same broker and topics together.
    all: Vec<Vec<&'a Trial>>,
    points: usize,
}

impl<'a> DoctorTargets<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let mut all: Vec<Vec<&Trial>> = Vec::new();
        for trial in plan.trials.iter().filter(|trial| trial.trial == 1) {
            let is_alike = |others: &&mut Vec<&Trial>| {
                let (one, other) = (&trial.scenario, &others[0].scenario);
                (&one.broker, &one.topology, &one.pipeline) == (&other.broker, &other.topology, &other.pipeline)
            };
            match all.iter_mut().find(is_alike) {
                Some(others) => others.push(trial),
                None => all.push(vec![trial]),
            }
        }
        let points = plan.trials.iter().map(|trial| trial.point_index + 1).max().unwrap_or(0);
        DoctorTargets { all, points }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = DoctorTarget<'_>> {
        let is_alone = self.all.len() == 1;
        let examined = self.all.iter().take(MAX_TARGETS);
        examined.map(move |alike| {
            let name = (!is_alone).then(|| values(alike[0]));
            DoctorTarget { trial: alike[0], alike, name }
        })
    }

    /// Which points are examined; nothing where there is only one.
    pub(super) fn finding(&self) -> Option<Finding> {
        let (distinct, points) = (self.all.len(), self.points);
        if points < 2 {
            return None;
        }
        if distinct == 1 {
            let text = format!("the {points} points have the same broker and topics, which are examined once");
            return Some(good("points", text));
        }
        let differ = format!("{distinct} of {points} differ in their broker, topics or pipeline");
        Some(match self.all.get(MAX_TARGETS) {
            None => good("points", differ + ": each is examined"),
            Some(left) => {
                let remedy = format!("to examine another one: {}", overrides(left[0]));
                doubtful("points", format!("{differ}: {MAX_TARGETS} are examined"), remedy)
            }
        })
    }
}

fn values(trial: &Trial) -> String {
    settings(&trial.point)
}

/// The overrides that leave only the point of this trial.
fn overrides(trial: &Trial) -> String {
    let overrides = trial.point.iter().map(|(key, value)| format!("--set '{key}={value}'"));
    overrides.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::parse_for;

    fn examined(sweep: &str) -> (Vec<Option<String>>, Option<Finding>) {
        let text = format!("broker.kind = \"null\"\nrun.messages = 1\nsweep.trials = 2\n{sweep}");
        let plan = parse_for(engine::kinds(), &text, "a.toml", &[], Path::new("")).unwrap();
        let targets = DoctorTargets::new(&plan);
        (targets.iter().map(|target| target.name).collect(), targets.finding())
    }

    #[test]
    fn points_that_differ_in_their_broker_or_topics_are_examined() {
        assert_eq!(examined(""), (vec![None], None));
        let (names, finding) = examined("sweep.over = { \"producers.count\" = [1, 2] }");
        assert_eq!(names, [None]);
        assert!(finding.unwrap().found.contains("examined once"));
        let both = "{ \"broker.null.fail\" = [0.0, 0.5], \"producers.batch\" = [1, 2] }";
        let (names, finding) = examined(&format!("sweep.over = {both}"));
        let names: Vec<String> = names.into_iter().flatten().collect();
        assert_eq!(
            names,
            ["broker.null.fail = 0.0, producers.batch = 1", "broker.null.fail = 0.5, producers.batch = 1"]
        );
        assert!(finding.unwrap().found.starts_with("2 of 4 differ"));
    }

    #[test]
    fn a_scenario_of_several_processes_is_told_as_one() {
        let told = |writers: &str| {
            let text = format!(
                "broker.kind = \"null\"\nproducers.count = 2\nrun.messages = 1\ndistribution.writers = \"{writers}\"\n"
            );
            let plan = parse_for(engine::kinds(), &text, "a.toml", &[], Path::new("")).unwrap();
            findings(&plan).into_iter().find(|finding| finding.subject == "processes").and_then(|found| found.remedy)
        };
        assert_eq!(told("0"), None);
        assert!(told("0-1").unwrap().contains("use mpirun or --share"));
    }

    #[test]
    fn too_many_are_not_examined_and_the_others_have_a_command() {
        let (names, finding) = examined("sweep.over = { \"topology.partitions\" = { from = 1, to = 20, step = 1 } }");
        assert_eq!(names.len(), MAX_TARGETS);
        let finding = finding.unwrap();
        assert!(finding.found.starts_with("20 of 20 differ"), "{finding:?}");
        assert_eq!(finding.remedy.unwrap(), "to examine another one: --set 'topology.partitions=9'");
    }
}
