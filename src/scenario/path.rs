//! Where a value lies in a scenario: `producers.count`, `broker.properties."linger.ms"`, `load.schedule.steps[1].rate`.

use std::fmt;

use toml::Table;

/// The way from the top of a scenario to one of its values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct KeyPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// Tables whose keys belong to others and may hold dots: `linger.ms` is one key there, quoted or not. Each table `[[consumers.group]]` has one.
pub(super) const FOREIGN_TABLES: [&[&str]; 5] = [
    &["broker", "properties"],
    &["consumers", "properties"],
    &["consumers", "group", "properties"],
    &["producers", "headers"],
    &["topology", "config"],
];

impl KeyPath {
    /// A path as written by people: TOML's dotted key, where the number of an element stands behind its array (`sinks[0]`).
    ///
    /// # Errors
    /// A sentence on why the text is not a path.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` is not a key");
        let mut rest = text.trim();
        let mut steps = Vec::new();
        while let Some((keys, after)) = before_an_index(rest) {
            let (number, after) = after.split_once(']').ok_or_else(refused)?;
            steps.extend(dotted(keys).map_err(|()| refused())?.into_iter().map(Step::Key));
            steps.push(Step::Index(number.trim().parse().map_err(|_| refused())?));
            rest = match after.strip_prefix('.') {
                Some(after) => after,
                None if after.is_empty() => return Ok(KeyPath(steps)),
                None => return Err(refused()),
            };
        }
        steps.extend(dotted(rest).map_err(|()| refused())?.into_iter().map(Step::Key));
        let is_foreign = |length: &usize| {
            let (table, below) = steps.split_at(*length);
            KeyPath::from_steps(table).is_foreign_table() && below.iter().all(|step| matches!(step, Step::Key(_)))
        };
        if let Some(length) = (1..steps.len()).find(is_foreign) {
            let joined = KeyPath::from_steps(&steps[length..]).keys().join(".");
            steps.truncate(length);
            steps.push(Step::Key(joined));
        }
        Ok(KeyPath(steps))
    }

    pub(super) fn from_keys(keys: &[&str]) -> Self {
        KeyPath(keys.iter().map(|key| Step::Key((*key).to_owned())).collect())
    }

    pub(super) fn from_steps(steps: &[Step]) -> Self {
        KeyPath(steps.to_vec())
    }

    pub(super) fn key(&self, key: &str) -> Self {
        self.then(Step::Key(key.to_owned()))
    }

    pub(super) fn index(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    fn then(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        KeyPath(steps)
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.0
    }

    pub(super) fn starts_with(&self, prefix: &KeyPath) -> bool {
        self.0.starts_with(&prefix.0)
    }

    /// The path's keys, when it leads through tables only.
    pub(super) fn keys(&self) -> Vec<&str> {
        self.0
            .iter()
            .filter_map(|step| match step {
                Step::Key(key) => Some(key.as_str()),
                Step::Index(_) => None,
            })
            .collect()
    }

    /// Whether the scenario has something there.
    pub(super) fn is_in(&self, scenario: &Table) -> bool {
        let mut steps = self.0.iter();
        let Some(Step::Key(first)) = steps.next() else { return true };
        let found = steps.try_fold(scenario.get(first), |value, step| match step {
            Step::Key(key) => value.map(|value| value.get(key)),
            Step::Index(index) => value.map(|value| value.get(*index)),
        });
        found.flatten().is_some()
    }

    /// The path without its last step.
    pub(super) fn parent(&self) -> Self {
        KeyPath(self.0[..self.0.len().saturating_sub(1)].to_vec())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is, or lies below, a table whose keys belong to others.
    pub(super) fn is_foreign_table(&self) -> bool {
        FOREIGN_TABLES.iter().any(|table| self.keys() == *table)
    }
}

/// The keys before the first `[` outside of quotes, and what follows it.
fn before_an_index(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    let position = text.find(|character: char| {
        match quote {
            Some(open) if character == open => quote = None,
            None if ['"', '\''].contains(&character) => quote = Some(character),
            _ => {}
        }
        quote.is_none() && character == '['
    })?;
    Some((&text[..position], &text[position + 1..]))
}

/// The keys of TOML's dotted key.
fn dotted(text: &str) -> Result<Vec<String>, ()> {
    let keys = toml_edit::Key::parse(text.trim()).map_err(drop)?;
    Ok(keys.iter().map(|key| key.get().to_owned()).collect())
}

impl fmt::Display for KeyPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) => {
                    let dot = if position == 0 { "" } else { "." };
                    write!(formatter, "{dot}{}", toml_edit::Key::new(key).display_repr())?;
                }
                Step::Index(index) => write!(formatter, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_and_print() {
        let indexed = ["pipeline.sinks[0].address", "load.schedule.steps[12]", "a[0].\"b[1]\".c"];
        for text in ["producers.count", "broker.properties.\"linger.ms\"", "load"].into_iter().chain(indexed) {
            assert_eq!(KeyPath::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(KeyPath::from_keys(&["steps"]).index(1).key("rate").to_string(), "steps[1].rate");
        for text in ["a..b", "a[0]b", "a[0", "a[-1]", "[0]", "a[0].", "a[x]", "a[0][1]"] {
            assert!(KeyPath::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_path_is_found_in_a_scenario_or_not() {
        let scenario = "a.b = [{ c = 1 }]".parse().unwrap();
        let is_in = |path: &str| KeyPath::parse(path).unwrap().is_in(&scenario);
        assert!(["a", "a.b", "a.b[0]", "a.b[0].c"].into_iter().all(is_in));
        assert!(!["b", "a.c", "a.b.c", "a.b[1]", "a.b[0].d", "a.b[0].c.d"].into_iter().any(is_in));
    }

    #[test]
    fn properties_are_one_key() {
        let path = KeyPath::parse("broker.properties.queue.buffering.max.ms").unwrap();
        assert_eq!(path.keys(), ["broker", "properties", "queue.buffering.max.ms"]);
        let of_group = KeyPath::parse("consumers.group[1].properties.fetch.min.bytes").unwrap();
        assert_eq!(of_group.to_string(), "consumers.group[1].properties.\"fetch.min.bytes\"");
    }
}
