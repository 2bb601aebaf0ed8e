//! `messages.json`: which messages a share had acknowledged and which arrived there, for the account over all shares.

use std::fs;
use std::io;
use std::path::Path;

use super::{DirectoryError, MESSAGES_FILE, RunDirectory};
use crate::measure::MessageSets;

impl RunDirectory {
    /// Keeps the messages of a share.
    ///
    /// # Errors
    /// When they cannot be brought to disk.
    pub fn keep_messages(&self, messages: &MessageSets) -> Result<(), DirectoryError> {
        let path = self.path.join(MESSAGES_FILE);
        let text = serde_json::to_vec(messages).map_err(|error| DirectoryError::io("write", &path, error.into()))?;
        self.keep(MESSAGES_FILE, &text)
    }
}

/// The messages of a share; `None` where nothing was verified.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn read_messages(directory: &Path) -> Result<Option<MessageSets>, DirectoryError> {
    let path = directory.join(MESSAGES_FILE);
    match fs::read(&path) {
        Ok(text) => match serde_json::from_slice(&text) {
            Ok(messages) => Ok(Some(messages)),
            Err(error) => Err(DirectoryError::Damaged { path, line: error.line(), reason: error.to_string() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(DirectoryError::io("read", &path, error)),
    }
}
