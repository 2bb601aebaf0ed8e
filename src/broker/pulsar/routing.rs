//! Chooses the partition of a message.

use super::config::Hashing;
use crate::broker::murmur3::murmur3;

/// The partition, of `partitions`, for `key`: what the Java client computes, so that both send a key to the same one.
pub fn partition(hashing: Hashing, key: &[u8], partitions: usize) -> usize {
    let hash = match hashing {
        Hashing::Java => java_hash(key),
        Hashing::Murmur3 => murmur3(key, 0),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_java() {
        // As the JDK computes them.
        assert_eq!(java_hash(b"hello"), 99_162_322);
        assert_eq!(java_hash(b""), 0);
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
