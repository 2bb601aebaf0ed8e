//! How many records a file has, and how large they are.

use std::path::{Path, PathBuf};

use crate::scenario::check::files_at;

/// What a pool takes by default.
pub(super) const POOL_BYTES: usize = 64 << 20;

/// Payload sizes where they are known before anything is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Sizes {
    pub mean: Option<f64>,
    pub largest: Option<usize>,
}

/// What a file's lines, or several files, come to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct LineSizes {
    count: usize,
    bytes: usize,
    longest: usize,
}

impl LineSizes {
    /// Of the lines of a file that are not empty.
    ///
    /// # Errors
    /// A sentence: the file cannot be read, or has no lines.
    pub(super) fn read(file: &Path) -> Result<LineSizes, String> {
        let bytes = std::fs::read(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
        let mut sizes = LineSizes::default();
        for line in bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
            if !line.is_empty() {
                sizes.add(line.len());
            }
        }
        if sizes.count == 0 { Err(format!("{} has no lines", file.display())) } else { Ok(sizes) }
    }

    /// The files at a path that are not empty, as records.
    ///
    /// # Errors
    /// A sentence: the path cannot be read, or has no such files.
    pub(super) fn of_files(path: &Path) -> Result<(Vec<PathBuf>, LineSizes), String> {
        let unreadable = |error| format!("{} cannot be read: {error}", path.display());
        let (mut files, mut sizes) = (Vec::new(), LineSizes::default());
        for file in files_at(path).map_err(unreadable)? {
            let bytes = std::fs::metadata(&file).map_err(unreadable)?.len();
            if bytes > 0 {
                sizes.add(usize::try_from(bytes).unwrap_or(usize::MAX));
                files.push(file);
            }
        }
        if files.is_empty() { Err(format!("{} has nothing to send", path.display())) } else { Ok((files, sizes)) }
    }

    pub(super) fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes;
        self.longest = self.longest.max(bytes);
    }

    pub(super) fn mean(self) -> f64 {
        self.bytes as f64 / self.count.max(1) as f64
    }

    pub(super) fn sizes(self) -> Sizes {
        Sizes { mean: Some(self.mean()), largest: Some(self.longest) }
    }

    /// How many payloads the pool holds by default.
    pub(super) fn pool(self) -> usize {
        self.count.min((POOL_BYTES as f64 / self.mean().max(1.0)) as usize).max(1)
    }
}
