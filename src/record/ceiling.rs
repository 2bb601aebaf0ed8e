//! What the load generator itself carries in a load's shape, measured without a broker. Kept beside the runs, a line for each.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Appender, DirectoryError};

/// The value of [`Ceiling::schema`].
pub const CEILING_SCHEMA: &str = "brokermark.ceiling/1";

/// Below the directory that run directories are made in.
pub const CEILINGS_FILE: &str = "ceilings.jsonl";

/// A ceiling, for one shape of the load on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Name and version of this format, `brokermark.ceiling/1`.
    pub schema: String,
    /// The parts of the scenario on which it depends.
    pub shape: serde_json::Value,
    /// Machine and build.
    pub machine: String,
    #[serde(with = "jiff::fmt::serde::timestamp::second::required")]
    pub measured_at: jiff::Timestamp,
    pub messages_per_second: f64,
    pub payload_bytes_per_second: f64,
    pub cores_used: f64,
    pub cores_available: f64,
    pub cpu_ns_per_message: Option<f64>,
}

impl Ceiling {
    /// Appends it to the file below `base`.
    ///
    /// # Errors
    /// When it cannot be brought to disk.
    pub fn keep(&self, base: &Path) -> Result<(), DirectoryError> {
        fs::create_dir_all(base).map_err(|error| DirectoryError::io("make", base, error))?;
        // Such a document can always be serialised.
        let line = serde_json::to_string(self).unwrap_or_default() + "\n";
        Appender::open(base.join(CEILINGS_FILE))?.append(line.as_bytes())
    }

    /// The last one below `base` of this shape, machine and build. What cannot be read is not known.
    pub fn find(base: &Path, shape: &serde_json::Value, machine: &str) -> io::Result<Option<Ceiling>> {
        let text = match fs::read_to_string(base.join(CEILINGS_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let mut kept = text.lines().rev().filter_map(|line| serde_json::from_str::<Ceiling>(line).ok());
        Ok(kept.find(|kept| kept.schema == CEILING_SCHEMA && kept.shape == *shape && kept.machine == machine))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_ceiling_of_a_shape_and_machine_is_found() {
        let base = tempfile::tempdir().unwrap();
        let (shape, other) = (json!({ "producers": { "count": 4 } }), json!({ "producers": { "count": 8 } }));
        assert_eq!(Ceiling::find(base.path(), &shape, "here").unwrap(), None);
        let ceiling = |shape: &serde_json::Value, machine: &str, rate| Ceiling {
            schema: CEILING_SCHEMA.to_owned(),
            shape: shape.clone(),
            machine: machine.to_owned(),
            measured_at: jiff::Timestamp::UNIX_EPOCH,
            messages_per_second: rate,
            payload_bytes_per_second: 100.0 * rate,
            cores_used: 1.5,
            cores_available: 2.0,
            cpu_ns_per_message: Some(250.0),
        };
        for (shape, machine, rate) in
            [(&shape, "here", 1e6), (&shape, "here", 2e6), (&shape, "there", 3e6), (&other, "here", 4e6)]
        {
            ceiling(shape, machine, rate).keep(base.path()).unwrap();
        }
        assert_eq!(Ceiling::find(base.path(), &shape, "here").unwrap(), Some(ceiling(&shape, "here", 2e6)));
    }
}
