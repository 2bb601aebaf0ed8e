//! Checksums of the files that payloads are made from, so that a resumed run sends the same payloads.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::read::read_lines;
use super::{DirectoryError, INPUTS_FILE, RunDirectory, synchronise_directory};

/// Length and checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Its path, as the scenario has it.
    pub file: String,
    pub bytes: u64,
    /// Of its contents, in hexadecimal digits.
    pub crc32: String,
}

impl InputFile {
    /// Reads the files at these paths, which are named as the scenario names them.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn read_all(files: &BTreeMap<String, PathBuf>) -> Result<Vec<Self>, DirectoryError> {
        let read = |(file, path): (&String, &PathBuf)| {
            let contents = fs::read(path).map_err(|error| DirectoryError::io("read", path, error))?;
            let crc32 = format!("{:08x}", crc32fast::hash(&contents));
            Ok(InputFile { file: file.clone(), bytes: contents.len() as u64, crc32 })
        };
        files.iter().map(read).collect()
    }
}

impl RunDirectory {
    /// Keeps what is in the files of a run that begins, or of one that was killed before all of them were listed.
    ///
    /// # Errors
    /// When that cannot be brought to disk.
    pub fn keep_inputs(&self, files: &[InputFile]) -> Result<(), DirectoryError> {
        let mut listed = kept(&self.path)?;
        let before = listed.len();
        for file in files {
            if !listed.iter().any(|listed| listed.file == file.file) {
                listed.push(file.clone());
            }
        }
        if listed.len() == before {
            return Ok(());
        }
        let (path, new) = (self.path.join(INPUTS_FILE), self.path.join(format!("{INPUTS_FILE}.new")));
        let lines: String = listed.iter().map(line_of).collect();
        let write = || -> io::Result<()> {
            let mut file = File::create(&new)?;
            file.write_all(lines.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)
        };
        write().map_err(|error| DirectoryError::io("write", &path, error))?;
        synchronise_directory(&self.path)
    }
}

/// With its line end. Such a document can always be serialised.
fn line_of(file: &InputFile) -> String {
    serde_json::to_string(file).unwrap_or_default() + "\n"
}

/// The first of `files` whose contents are not those that the run in `directory` was begun with. A run that kept none is
/// taken to have had the same.
///
/// # Errors
/// When what was kept cannot be read.
pub(super) fn changed<'a>(directory: &Path, files: &'a [InputFile]) -> Result<Option<&'a InputFile>, DirectoryError> {
    let kept = kept(directory)?;
    Ok(files.iter().find(|file| kept.iter().any(|kept| kept.file == file.file && kept != *file)))
}

/// What the run in `directory` listed. A line that a crash cut off is left out.
fn kept(directory: &Path) -> Result<Vec<InputFile>, DirectoryError> {
    let path = directory.join(INPUTS_FILE);
    match fs::read(&path) {
        Ok(text) => Ok(read_lines(&path, &text)?.values),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(DirectoryError::io("read", &path, error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that is killed while it begins may have listed a part of them.
    #[test]
    fn files_that_were_not_listed_are_listed_when_a_run_resumes() {
        let base = tempfile::tempdir().unwrap();
        let run = RunDirectory::create_at(&base.path().join("run"), "").unwrap();
        let file = |name: &str, bytes| InputFile { file: name.to_owned(), bytes, crc32: "0".to_owned() };
        let (a, b) = (file("a", 1), file("b", 1));
        fs::write(run.path().join(INPUTS_FILE), format!("{}{{\"file\":\"b", line_of(&a))).unwrap();
        assert_eq!(changed(run.path(), &[file("b", 2)]).unwrap(), None);
        run.keep_inputs(&[a.clone(), b.clone()]).unwrap();
        assert_eq!(kept(run.path()).unwrap(), [a, b]);
        assert_eq!(changed(run.path(), &[file("b", 2)]).unwrap(), Some(&file("b", 2)));
    }
}
