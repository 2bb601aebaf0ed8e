//! Austin Appleby's MurmurHash3_x86_32, by which several brokers' clients choose a partition.

/// The hash of `bytes`.
pub fn murmur3(bytes: &[u8], seed: u32) -> u32 {
    let mix = |block: u32| block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (blocks, tail) = bytes.as_chunks::<4>();
    let mut hash = seed;
    for block in blocks {
        hash = (hash ^ mix(u32::from_le_bytes(*block))).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let mut block = [0; 4];
        block[..tail.len()].copy_from_slice(tail);
        hash ^= mix(u32::from_le_bytes(block));
    }
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_other_implementations() {
        // From the Python package mmh3, and the published values of seed 0.
        for (text, seed, hash) in [
            ("", 0, 0),
            ("", 1, 0x514e_28b7),
            ("a", 104_729, 0x40c5_855a),
            ("key-7", 104_729, 0x8b90_d3cc),
            ("hello, world", 104_729, 0xf6b5_42c7),
            ("The quick brown fox jumps over the lazy dog", 2_538_058_380, 0x2fa8_26cd),
            ("test", 0, 0xba6b_d213),
            ("Hello, world!", 0, 0xc036_3e43),
            ("The quick brown fox jumps over the lazy dog", 0, 0x2e4f_f723),
        ] {
            assert_eq!(murmur3(text.as_bytes(), seed), hash, "{text}");
        }
    }
}
