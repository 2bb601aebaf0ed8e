//! Result files of OpenMessaging Benchmark in place of runs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Compared, Options, tell};
use crate::evaluate::comparison::{OmbResult, compare_omb};
use crate::record::{run_name, runs_at};

/// A field that its files have and no record has.
const MARK: &str = "\"publishRate\"";

/// Compares such files and prints the result; `None` where neither side has one.
pub(super) fn compare(a: &Path, b: &Path, options: Options, out: &mut dyn Write) -> Option<Compared> {
    let (of_a, of_b) = (texts(a), texts(b));
    let (ours, theirs) = match (of_a.is_empty(), of_b.is_empty()) {
        (true, true) => return None,
        (false, false) => {
            let both = results(&of_a).and_then(|of_a| Ok((of_a, results(&of_b)?)));
            return Some(match both {
                Ok((of_a, of_b)) => {
                    let compared = compare_omb(&of_a, &of_b, options.bounds);
                    tell(compared, (&run_name(a), &[]), (&run_name(b), &[]), options, out)
                }
                Err(error) => Compared::failed(error),
            });
        }
        (true, false) => (a, b),
        (false, true) => (b, a),
    };
    Some(Compared::failed(format!(
        "{} is a result of OpenMessaging Benchmark, and {} is not: write what the run has in its format, as in `brokermark show {} --format omb > \
         ours.json`, and compare that",
        theirs.display(),
        ours.display(),
        ours.display()
    )))
}

/// The path and text of the file, or of each file of a directory that holds no run.
fn texts(path: &Path) -> Vec<(PathBuf, String)> {
    let mut files = match fs::read_dir(path) {
        Ok(_) if runs_at(path).is_ok() => Vec::new(),
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => vec![path.to_owned()],
    };
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let read = files.into_iter().filter_map(|file| fs::read_to_string(&file).ok().map(|text| (file, text)));
    read.filter(|(_, text)| text.contains(MARK)).collect()
}

/// The results of each file, which is a run: one, or what `show --format omb` prints, which has one for each trial.
fn results(texts: &[(PathBuf, String)]) -> Result<Vec<Vec<OmbResult>>, String> {
    let of_file = |(file, text): &(PathBuf, String)| {
        let read = serde_json::Deserializer::from_str(text).into_iter().collect::<Result<_, _>>();
        read.map_err(|error| format!("{}: {error}", file.display()))
    };
    texts.iter().map(of_file).collect()
}
