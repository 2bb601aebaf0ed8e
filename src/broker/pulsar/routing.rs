//! Which partition a message goes to.

use super::config::Hashing;

/// The partition, of `partitions`, for `key`: what the Java client computes, so that both send a key to the same one.
pub fn partition(hashing: Hashing, key: &[u8], partitions: usize) -> usize {
    let hash = match hashing {
        Hashing::Java => java_hash(key),
        Hashing::Murmur3 => murmur3(key),
    };
    // `MathUtils.signSafeMod` of a hash whose sign was taken off.
    (hash & 0x7fff_ffff) as usize % partitions
}

/// `String.hashCode`: `s[0]·31^(n−1) + … + s[n−1]` over the UTF-16 units, which for ASCII are the bytes.
fn java_hash(key: &[u8]) -> u32 {
    match std::str::from_utf8(key) {
        Ok(text) => text.encode_utf16().fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(unit.into())),
        Err(_) => key.iter().fold(0, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add((*byte).into())),
    }
}

/// MurmurHash3_x86_32 with seed 0, by Austin Appleby, as `Murmur3_32Hash` of the Java client.
fn murmur3(key: &[u8]) -> u32 {
    const C1: u32 = 0xcc9e_2d51;
    const C2: u32 = 0x1b87_3593;
    let scramble = |word: u32| word.wrapping_mul(C1).rotate_left(15).wrapping_mul(C2);
    let mut blocks = key.chunks_exact(4);
    let mut hash = blocks.by_ref().fold(0, |hash: u32, block| {
        let word = block.iter().rev().fold(0, |word: u32, byte| word << 8 | u32::from(*byte));
        (hash ^ scramble(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let tail = blocks.remainder().iter().rev().fold(0, |word: u32, byte| word << 8 | u32::from(*byte));
    hash ^= scramble(tail);
    hash ^= key.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_java_and_of_the_reference() {
        // As the JDK computes them.
        assert_eq!(java_hash(b"hello"), 99_162_322);
        assert_eq!(java_hash(b""), 0);
        // Reference values of MurmurHash3_x86_32 with seed 0.
        assert_eq!(murmur3(b""), 0);
        assert_eq!(murmur3(b"test"), 0xba6b_d213);
        assert_eq!(murmur3(b"Hello, world!"), 0xc036_3e43);
        assert_eq!(murmur3(b"The quick brown fox jumps over the lazy dog"), 0x2e4f_f723);
    }

    #[test]
    fn every_key_has_a_partition() {
        for key in 0..1000 {
            let key = format!("key-{key:06}");
            for hashing in [Hashing::Java, Hashing::Murmur3] {
                assert!(partition(hashing, key.as_bytes(), 7) < 7);
            }
        }
    }
}
