//! Checksums of the files that payloads are made from, so that a resumed run sends the same payloads.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
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
    /// Keeps what is in the files of a run that begins.
    ///
    /// # Errors
    /// When that cannot be brought to disk.
    pub fn keep_inputs(&self, files: &[InputFile]) -> Result<(), DirectoryError> {
        if files.is_empty() {
            return Ok(());
        }
        let path = self.path.join(INPUTS_FILE);
        let lines: String = files.iter().map(line_of).collect();
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
            file.write_all(lines.as_bytes())?;
            file.sync_all()
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
    let path = directory.join(INPUTS_FILE);
    let kept: Vec<InputFile> = match fs::read(&path) {
        Ok(text) => read_lines(&path, &text)?.values,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DirectoryError::io("read", &path, error)),
    };
    Ok(files.iter().find(|file| kept.iter().any(|kept| kept.file == file.file && kept != *file)))
}
