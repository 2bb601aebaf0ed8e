//! Finds runs: those of a directory, and which of them is the newest.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{DirectoryError, RECORDS_FILE, read_records};

/// The run at `path`, or all runs in the directory `path`, in the order of their names.
///
/// # Errors
/// When it does not exist, cannot be read, or holds no run.
pub fn runs_at(path: &Path) -> Result<Vec<PathBuf>, DirectoryError> {
    if !path.exists() {
        return Err(DirectoryError::Missing { path: path.to_owned() });
    }
    if path.is_file() || path.join(RECORDS_FILE).exists() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(|error| DirectoryError::io("read", path, error))?;
    let below = entries.flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> = below.filter(|path| path.join(RECORDS_FILE).exists()).collect();
    runs.sort();
    if runs.is_empty() {
        return Err(DirectoryError::NotARun { path: path.to_owned(), missing: RECORDS_FILE });
    }
    Ok(runs)
}

/// The same in the order in which the runs began.
///
/// # Errors
/// As [`runs_at`].
pub fn runs_by_age(path: &Path) -> Result<Vec<PathBuf>, DirectoryError> {
    let mut runs = runs_at(path)?;
    // Of those that began in the same second, the later one has the longer name or the higher number.
    runs.sort_by_cached_key(|run| (begun_at(run), run.as_os_str().len(), run.clone()));
    Ok(runs)
}

/// The run at `path`, or the newest of those in the directory `path`.
///
/// # Errors
/// As [`runs_at`].
pub fn newest_run(path: &Path) -> Result<PathBuf, DirectoryError> {
    let newest = runs_by_age(path)?.pop();
    newest.ok_or_else(|| DirectoryError::NotARun { path: path.to_owned(), missing: RECORDS_FILE })
}

/// When a run began: its directory's name tells. Of one that was renamed, its first record does, which a run that has just begun
/// does not have.
pub fn begun_at(run: &Path) -> Option<Timestamp> {
    let of_name = run.file_name().and_then(|name| name.to_str()).and_then(moment_in);
    of_name.or_else(|| read_records(run).ok()?.records.first().map(|record| record.started_at))
}

/// The moment in `<name>-<yyyymmddThhmmssZ>` or `<name>-<yyyymmddThhmmssZ>-2`.
fn moment_in(name: &str) -> Option<Timestamp> {
    let moment = name.rsplit('-').take(2).find(|part| part.ends_with('Z'))?;
    let civil = DateTime::strptime("%Y%m%dT%H%M%SZ", moment).ok()?;
    TimeZone::UTC.to_timestamp(civil).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    #[test]
    fn the_newest_run_is_the_one_that_began_last_whatever_its_name() {
        let base = tempfile::tempdir().unwrap();
        let names =
            ["z-20260301T120000Z", "a-20260302T120000Z", "a-20260302T120000Z-2", "a-20260302T120000Z-10", "renamed"];
        for name in names {
            fs::create_dir(base.path().join(name)).unwrap();
            fs::write(base.path().join(name).join(RECORDS_FILE), sample::record().to_line()).unwrap();
        }
        fs::create_dir(base.path().join("b-20990101T000000Z")).unwrap();
        let by_age = runs_by_age(base.path()).unwrap();
        let shown: Vec<_> = by_age.iter().map(|run| run.file_name().unwrap().to_str().unwrap()).collect();
        // The record of the one that was renamed began a quarter of a second after the first.
        assert_eq!(shown, [names[0], "renamed", names[1], names[2], names[3]]);
        assert_eq!(newest_run(base.path()).unwrap(), base.path().join(names[3]));
        assert_eq!(newest_run(&base.path().join(names[0])).unwrap(), base.path().join(names[0]));
        assert!(newest_run(&base.path().join("b-20990101T000000Z")).is_err());
    }
}
