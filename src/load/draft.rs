//! The payloads that a generator family has made, before they become a pool.

use std::ops::Range;

use super::error::LoadError;
use super::live::Slot;
pub(super) use crate::limits::MAX_POOL_BYTES;

/// What the pool notes of each payload.
pub(super) const ENTRY_BYTES: usize = 24;

/// Payloads that a generator family has made so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) bytes: Vec<u8>,
    /// Where each payload lies in `bytes`; payloads may share bytes.
    pub(super) ranges: Vec<Range<usize>>,
    /// The live fields, the same number for each payload.
    pub(super) slots: Vec<Slot>,
}

impl Draft {
    /// Capacity for payloads of `bytes` altogether.
    pub(super) fn with_capacity(payloads: usize, bytes: u128) -> Result<Draft, LoadError> {
        check_limit(payloads, bytes)?;
        Ok(Draft {
            bytes: Vec::with_capacity(bytes as usize),
            ranges: Vec::with_capacity(payloads),
            ..Draft::default()
        })
    }

    /// Appends the payload that `write` appends to the bytes.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), LoadError> {
        let start = self.bytes.len();
        write(&mut self.bytes);
        self.finish(start)
    }

    /// Makes what has been appended since `start` a payload.
    pub(super) fn finish(&mut self, start: usize) -> Result<(), LoadError> {
        self.ranges.push(start..self.bytes.len());
        check_limit(self.ranges.len(), self.bytes.len() as u128)
    }
}

/// Counts the bookkeeping too, so that a thousand million tiny payloads are refused as well.
pub(super) fn check_limit(payloads: usize, bytes: u128) -> Result<(), LoadError> {
    let bytes = bytes + (payloads as u128) * ENTRY_BYTES as u128;
    if bytes > MAX_POOL_BYTES as u128 {
        return Err(LoadError::PoolTooLarge { bytes, limit: MAX_POOL_BYTES });
    }
    Ok(())
}
