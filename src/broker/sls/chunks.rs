//! A batch's bytes in pieces of one size, so that a batch takes the memory of what it holds and no more.
//!
//! One buffer of a whole batch would be simpler and was tried: ten open groups of 3 MiB held 34 MiB, however little was in
//! them, since a buffer that has been used once stays in memory.

use parking_lot::Mutex;

/// Bytes of a piece: small beside a batch, large beside a log.
const PIECE_BYTES: usize = 64 << 10;

/// Space for the bytes that close a group, so that the buffer does not double for them.
const CLOSING_BYTES: usize = 4 << 10;

/// Bytes that are appended to until they are gathered.
#[derive(Default)]
pub struct Chunks {
    pieces: Vec<Vec<u8>>,
    length: usize,
}

impl Chunks {
    pub fn len(&self) -> usize {
        self.length
    }

    /// Appends `bytes`, with pieces from `spare` where the last one is full.
    pub fn extend(&mut self, mut bytes: &[u8], spare: &SparePieces) {
        self.length += bytes.len();
        while !bytes.is_empty() {
            match self.pieces.last_mut().filter(|piece| piece.len() < PIECE_BYTES) {
                Some(piece) => {
                    let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - piece.len()));
                    piece.extend_from_slice(now);
                    bytes = later;
                }
                None => self.pieces.push(spare.take()),
            }
        }
    }

    /// Appends everything to `into`, in order, and gives the pieces back to `spare`.
    pub fn gather(self, into: &mut Vec<u8>, spare: &SparePieces) {
        into.reserve(self.length + CLOSING_BYTES);
        for piece in &self.pieces {
            into.extend_from_slice(piece);
        }
        spare.give(self.pieces);
    }
}

/// Unused pieces: at most as many as were once in use at the same time.
#[derive(Default)]
pub struct SparePieces(Mutex<Vec<Vec<u8>>>);

impl SparePieces {
    fn take(&self) -> Vec<u8> {
        let piece = self.0.lock().pop();
        piece.unwrap_or_else(|| Vec::with_capacity(PIECE_BYTES))
    }

    fn give(&self, mut pieces: Vec<Vec<u8>>) {
        pieces.iter_mut().for_each(Vec::clear);
        self.0.lock().append(&mut pieces);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_appended_is_gathered_in_order(lengths in prop::collection::vec(0..3 * PIECE_BYTES, 0..8)) {
            let spare = SparePieces::default();
            for _ in 0..2 {
                let (mut chunks, mut whole) = (Chunks::default(), Vec::new());
                for (number, &length) in lengths.iter().enumerate() {
                    let bytes: Vec<u8> = (0..length).map(|place| (place * 7 + number) as u8).collect();
                    chunks.extend(&bytes, &spare);
                    whole.extend(bytes);
                }
                prop_assert_eq!(chunks.len(), whole.len());
                prop_assert_eq!(chunks.pieces.len(), whole.len().div_ceil(PIECE_BYTES));
                let mut gathered = Vec::new();
                chunks.gather(&mut gathered, &spare);
                prop_assert!(gathered == whole);
            }
            // The second round used the pieces of the first.
            let total: usize = lengths.iter().sum();
            prop_assert_eq!(spare.0.lock().len(), total.div_ceil(PIECE_BYTES));
        }
    }
}
