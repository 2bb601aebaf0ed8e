//! Which points of a sweep are examined: those whose broker, topics or pipeline differ.

use super::{Finding, doubtful, good};
use crate::scenario::{Plan, Trial};

/// Examining one makes its topics.
const MAX: usize = 8;

/// A trial that is examined, as the first of those with its broker and its topics.
pub(super) struct Examinee<'a> {
    pub trial: &'a Trial,
    /// Its values of the swept keys, where it is not the only one.
    pub name: Option<String>,
}

impl Examinee<'_> {
    /// What was found of it, under its name.
    pub(super) fn named(&self, found: Vec<Finding>) -> impl Iterator<Item = Finding> {
        found.into_iter().map(|finding| match &self.name {
            Some(name) => Finding { found: format!("{name}: {}", finding.found), ..finding },
            None => finding,
        })
    }
}

/// The trials that are examined, and how many others there are.
pub(super) struct Examinees<'a> {
    all: Vec<&'a Trial>,
    points: usize,
}

impl<'a> Examinees<'a> {
    pub(super) fn of(plan: &'a Plan) -> Self {
        let mut all: Vec<&Trial> = Vec::new();
        for trial in &plan.trials {
            let is_alike = |other: &&Trial| {
                let (one, other) = (&trial.scenario, &other.scenario);
                (&one.broker, &one.topology, &one.pipeline) == (&other.broker, &other.topology, &other.pipeline)
            };
            if !all.iter().any(is_alike) {
                all.push(trial);
            }
        }
        let points = plan.trials.iter().map(|trial| trial.point_index + 1).max().unwrap_or(0);
        Examinees { all, points }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Examinee<'a>> {
        let is_alone = self.all.len() == 1;
        let examined = self.all.iter().copied().take(MAX);
        examined.map(move |trial| Examinee { trial, name: (!is_alone).then(|| values(trial)) })
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
        match self.all.get(MAX) {
            None => {
                let text =
                    format!("{distinct} of {points} differ in their broker, topics or pipeline: each is examined");
                Some(good("points", text))
            }
            Some(left) => {
                let text =
                    format!("{distinct} of {points} differ in their broker, topics or pipeline: {MAX} are examined");
                Some(doubtful("points", text, format!("to examine another one: {}", overrides(left))))
            }
        }
    }
}

fn values(trial: &Trial) -> String {
    let values = trial.point.iter().map(|(key, value)| format!("{key} = {value}"));
    values.collect::<Vec<_>>().join(", ")
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
        let plan = parse_for(crate::engine::kinds(), &text, "a.toml", &[], Path::new("")).unwrap();
        let examinees = Examinees::of(&plan);
        (examinees.iter().map(|examinee| examinee.name).collect(), examinees.finding())
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
    fn too_many_are_not_examined_and_the_others_have_a_command() {
        let (names, finding) = examined("sweep.over = { \"topology.partitions\" = { from = 1, to = 20, step = 1 } }");
        assert_eq!(names.len(), MAX);
        let finding = finding.unwrap();
        assert!(finding.found.starts_with("20 of 20 differ"), "{finding:?}");
        assert_eq!(finding.remedy.unwrap(), "to examine another one: --set 'topology.partitions=9'");
    }
}
