//! Payloads from a text file: a line each.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use crate::limits::MAX_POOL_BYTES;
use crate::load::LoadError;
use crate::load::draft::{Draft, check_limit};

/// The first `count` lines that are not empty, without `\n` or `\r\n`. The rest of the file is never read, and a file
/// without line ends not beyond what a pool may hold.
pub(super) fn lines(file: &Path, count: usize) -> Result<Draft, LoadError> {
    let unreadable = |reason| LoadError::Unreadable { file: file.to_owned(), reason };
    let mut reader = BufReader::new(File::open(file).map_err(unreadable)?);
    let mut draft = Draft::default();
    let mut line = Vec::new();
    while draft.ranges.len() < count {
        line.clear();
        let room = (MAX_POOL_BYTES - draft.bytes.len()) as u64 + 1;
        let read = reader.by_ref().take(room).read_until(b'\n', &mut line).map_err(unreadable)?;
        check_limit(draft.ranges.len(), (draft.bytes.len() + read) as u128)?;
        if read == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        if !text.is_empty() {
            draft.push(|bytes| bytes.extend_from_slice(text))?;
        }
    }
    if draft.ranges.is_empty() {
        return Err(LoadError::NoLines { file: file.to_owned() });
    }
    Ok(draft)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payloads(text: &[u8], count: usize) -> Result<Vec<Vec<u8>>, LoadError> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("lines.txt");
        std::fs::write(&file, text).unwrap();
        let draft = lines(&file, count)?;
        Ok(draft.ranges.into_iter().map(|range| draft.bytes[range].to_vec()).collect())
    }

    #[test]
    fn lines_lose_their_ends_and_empty_ones_are_passed_over() {
        assert_eq!(payloads(b"one\r\n\n\xff two\nthree", 10).unwrap(), [&b"one"[..], b"\xff two", b"three"]);
    }

    #[test]
    fn no_more_lines_are_read_than_the_pool_takes() {
        assert_eq!(payloads(b"one\ntwo\nthree\n", 2).unwrap(), [b"one", b"two"]);
    }

    #[test]
    fn a_file_without_payloads_is_an_error() {
        assert!(matches!(payloads(b"", 2), Err(LoadError::NoLines { .. })));
        assert!(matches!(payloads(b"\n\r\n", 2), Err(LoadError::NoLines { .. })));
        let error = lines(Path::new("/no/such/file"), 1).unwrap_err();
        assert!(error.to_string().contains("/no/such/file"), "{error}");
    }
}
