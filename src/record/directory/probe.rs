//! Checks before any load that results can be written.

use std::fs::{self, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::Path;

use super::DirectoryError;

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
