//! Which stream of a super stream a key belongs to: as every other client decides it.

/// The seed that RabbitMQ's clients share.
const SEED: u32 = 104_729;

/// The partition of a key: the remainder of its MurmurHash3 (x86, 32 bits), as the Java client's `HashRoutingStrategy`.
pub fn partition(key: &[u8], partitions: usize) -> usize {
    murmur3(key, SEED) as usize % partitions
}

/// Austin Appleby's MurmurHash3_x86_32.
fn murmur3(bytes: &[u8], seed: u32) -> u32 {
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

    const MMH3: [(&str, u32, u32); 6] = [
        ("", 0, 0x00000000),
        ("", 1, 0x514e28b7),
        ("a", 104729, 0x40c5855a),
        ("key-7", 104729, 0x8b90d3cc),
        ("hello, world", 104729, 0xf6b542c7),
        ("The quick brown fox jumps over the lazy dog", 2538058380, 0x2fa826cd),
    ];

    #[test]
    fn hashes_are_those_of_other_implementations() {
        // From the Python package mmh3.
        for (text, seed, hash) in MMH3 {
            assert_eq!(murmur3(text.as_bytes(), seed), hash, "{text}");
        }
    }
}
