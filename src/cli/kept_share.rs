//! What a process left of its share: its run directory, read as `merge` takes it.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use crate::distributed::KeptShare;
use crate::measure::MessageSets;
use crate::record::{
    DirectoryError, HLOG_FILE, Record, current_records, current_series, read_messages, read_records, read_series,
};

/// A directory is not that of a share.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("{path} has {records} records: a share has one")]
    NotOne { path: String, records: usize },
}

/// What one process kept of its share.
///
/// # Errors
/// When the directory cannot be read, or has more than one record.
pub fn read(path: &Path) -> Result<KeptShare, ShareError> {
    let read = read_records(path)?;
    let current = current_records(&read.records);
    let [record] = current.as_slice() else {
        return Err(ShareError::NotOne { path: path.display().to_string(), records: current.len() });
    };
    Ok(with_record(path, (*record).clone(), read_messages(path)?.map(Arc::new))?)
}

/// This record of a share and the numbers of its messages, with what else is in its directory.
///
/// # Errors
/// When the directory cannot be read.
pub fn with_record(
    path: &Path,
    record: Record,
    messages: Option<Arc<MessageSets>>,
) -> Result<KeptShare, DirectoryError> {
    let series = read_series(path)?;
    Ok(KeptShare {
        origin: path.display().to_string(),
        series: current_series(&series, record.point_index, record.trial),
        interval_log: read_text(&path.join(HLOG_FILE))?,
        messages,
        record,
        clock: None,
    })
}

/// A file of a share's directory: nothing where there is no such file.
///
/// # Errors
/// When there is one and it cannot be read.
pub fn read_text(path: &Path) -> Result<String, DirectoryError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(DirectoryError::Io { action: "read", path: path.to_owned(), source }),
    }
}
