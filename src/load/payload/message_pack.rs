//! Random bytes as MessagePack writes them: what a client that serialises its messages puts on the wire.

use rand::Rng;

use super::size;
use crate::load::LoadError;
use crate::load::draft::Draft;
use crate::load::random::{Purpose, generator};
use crate::scenario::Size;

/// The longest head of a `bin`: its mark and a length of 32 bits.
const MAX_HEAD: usize = 5;

/// Each payload is one value of the type `bin` with as many random bytes as the size asks for.
pub(super) fn message_pack(size: &Size, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let sizes = size::draw(size, count, seed)?;
    let mut generator = generator(seed, Purpose::Content, 0);
    let mut draft = Draft::with_capacity(count, size::total(&sizes) + (count * MAX_HEAD) as u128)?;
    for size in sizes {
        let length = u32::try_from(size).unwrap_or(u32::MAX);
        draft.push(|bytes| {
            // Writing to memory cannot fail.
            let _ = rmp::encode::write_bin_len(bytes, length);
            let start = bytes.len();
            bytes.resize(start + length as usize, 0);
            generator.fill_bytes(&mut bytes[start..]);
        })?;
    }
    Ok(draft)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The heads of the MessagePack specification: `bin 8`, `bin 16` and `bin 32`, with big-endian lengths.
    #[test]
    fn each_payload_is_one_value_of_bytes() {
        for (size, head) in [(10, &[0xc4, 10][..]), (300, &[0xc5, 1, 44]), (70_000, &[0xc6, 0, 1, 0x11, 0x70])] {
            let draft = message_pack(&Size::Fixed(size), 4, 1).unwrap();
            let mut bodies = Vec::new();
            for range in draft.ranges {
                let body = draft.bytes[range].strip_prefix(head).expect("the head");
                assert_eq!(body.len(), size);
                bodies.push(body);
            }
            assert!(bodies.windows(2).all(|two| two[0] != two[1]), "random");
        }
    }
}
