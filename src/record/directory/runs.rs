//! The directory in which runs lie: the runs in it and the newest of them, and the check before any load that results can be written.

use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
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

/// The directory of a run, which may have been named by its file of records.
pub fn directory_of(path: &Path) -> &Path {
    if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) }
}

/// What a run is called: the last part of its path.
pub fn run_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
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

/// What must fit: the records and series of a long run of several trials take about this much.
const ROOM_BYTES: usize = 4 << 20;

/// Checks that `base` (made if it is not there) is writable and has some free space, by writing a file and removing it.
///
/// Asking the file system for its free space would not see quotas.
///
/// # Errors
/// When the directory cannot be made, is not writable or has no free space.
pub fn probe(base: &Path) -> Result<(), DirectoryError> {
    fs::create_dir_all(base).map_err(|error| DirectoryError::io("make", base, error))?;
    // Containers that share the directory may have the same process id.
    let path = base.join(format!(".brokermark-probe-{:016x}", RandomState::new().build_hasher().finish()));
    let created = OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = created.map_err(|error| DirectoryError::io("write", base, error))?;
    let mut write = || -> io::Result<()> {
        // Not zeros, which a file system may store as nothing.
        let block: Vec<u8> = (0..64 << 10).map(|index: u32| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for _ in 0..ROOM_BYTES / block.len() {
            file.write_all(&block)?;
        }
        file.sync_all()
    };
    let written = write().map_err(|error| DirectoryError::io("write", base, error));
    let _ = fs::remove_file(&path);
    written
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

    #[test]
    fn a_writable_directory_is_made_and_left_empty() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().join("results");
        probe(&base).unwrap();
        assert_eq!(fs::read_dir(&base).unwrap().count(), 0);
    }

    #[test]
    fn a_file_of_another_process_stays() {
        let base = tempfile::tempdir().unwrap();
        let other = base.path().join(format!(".brokermark-probe-{}", std::process::id()));
        fs::write(&other, "").unwrap();
        probe(base.path()).unwrap();
        assert!(other.exists() && fs::read_dir(base.path()).unwrap().count() == 1);
    }

    #[test]
    fn a_file_in_the_way_is_an_error_that_names_it() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("results");
        fs::write(&file, "").unwrap();
        let error = probe(&file).unwrap_err();
        assert!(error.to_string().contains("results"), "{error}");
    }
}
