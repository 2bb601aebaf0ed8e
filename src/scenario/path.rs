//! Where a value lies in a scenario: `producers.count`, `broker.properties."linger.ms"`, `load.schedule.steps[1].rate`.

use std::fmt;

/// The way from the top of a scenario to one of its values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct KeyPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

/// Tables whose keys belong to others and may hold dots: `linger.ms` is one key there, quoted or not.
pub(super) const FOREIGN_TABLES: [[&str; 2]; 4] =
    [["broker", "properties"], ["consumers", "properties"], ["producers", "headers"], ["topology", "config"]];

impl KeyPath {
    /// A path as written by people: TOML's dotted key.
    ///
    /// # Errors
    /// A sentence on why the text is not a path.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let keys = toml_edit::Key::parse(text.trim()).map_err(|_| format!("`{text}` is not a key"))?;
        let keys: Vec<String> = keys.iter().map(|key| key.get().to_owned()).collect();
        let foreign = keys.len() > 3 && FOREIGN_TABLES.iter().any(|table| keys[..2] == table[..]);
        Ok(KeyPath(if foreign {
            let joined = keys[2..].join(".");
            keys.into_iter().take(2).chain([joined]).map(Step::Key).collect()
        } else {
            keys.into_iter().map(Step::Key).collect()
        }))
    }

    pub(super) fn of(keys: &[&str]) -> Self {
        KeyPath(keys.iter().map(|key| Step::Key((*key).to_owned())).collect())
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

    /// The path without its last step.
    pub(super) fn parent(&self) -> Self {
        KeyPath(self.0[..self.0.len().saturating_sub(1)].to_vec())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is, or lies below, a table whose keys belong to others.
    pub(super) fn is_foreign_table(&self) -> bool {
        FOREIGN_TABLES.iter().any(|table| self.keys() == table)
    }
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
        for text in ["producers.count", "broker.properties.\"linger.ms\"", "load"] {
            assert_eq!(KeyPath::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(KeyPath::of(&["steps"]).index(1).key("rate").to_string(), "steps[1].rate");
        assert!(KeyPath::parse("a..b").is_err());
    }

    #[test]
    fn properties_are_one_key() {
        let path = KeyPath::parse("broker.properties.queue.buffering.max.ms").unwrap();
        assert_eq!(path.keys(), ["broker", "properties", "queue.buffering.max.ms"]);
    }
}
