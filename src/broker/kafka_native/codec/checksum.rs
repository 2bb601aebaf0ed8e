//! The checksum of a batch that refers to payloads: CRC-32C, put together from those of its pieces.
//!
//! Payloads do not change, so that theirs are computed once. For two stretches A and B, `crc(AB) = crc(A) · x^(8 |B|) ⊕ crc(B)`, by
//! polynomials over GF(2) modulo CRC-32C's (zlib's `crc32_combine` has the same for its own polynomial). Where all payloads have one length, the
//! multiplication is a fixed linear map, which four tables hold.

use crc_fast::{CrcAlgorithm, Digest};

use crate::load::{PayloadPlace, PayloadPool};

/// CRC-32C's polynomial; the coefficient of x^0 is the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// x^0.
const ONE: u32 = 1 << 31;

/// x^8.
const ONE_BYTE: u32 = 1 << 23;

/// What is computed once of the payloads of a trial.
pub struct PayloadChecksums {
    /// Bytes of every payload. 0: they differ, or are small.
    size: usize,
    /// CRC-32C of each payload, by its place.
    of_payloads: Vec<u32>,
    /// Product with x^(8 size), for each byte of a checksum and each of its values.
    shift: Box<[[u32; 256]; 4]>,
}

impl PayloadChecksums {
    /// Of payloads that have `least` bytes or more.
    pub fn new(payloads: &PayloadPool, least: usize) -> Self {
        let size = payloads.uniform_size().filter(|size| *size >= least).unwrap_or(0);
        let of_payloads = match size {
            0 => Vec::new(),
            _ => payloads.bytes().chunks_exact(size).map(crc_fast::crc32_iscsi).collect(),
        };
        PayloadChecksums { size, of_payloads, shift: shift_by(size) }
    }

    /// The checksum of what has the checksum `before` with the payload behind it.
    #[inline]
    pub fn append(&self, before: u32, place: PayloadPlace, payloads: &PayloadPool) -> u32 {
        if self.size > 0 && place.begin().is_multiple_of(self.size) {
            return self.shifted(before) ^ self.of_payloads[place.begin() / self.size];
        }
        append(before, payloads.at(place))
    }

    #[inline]
    fn shifted(&self, checksum: u32) -> u32 {
        let [first, second, third, fourth] = checksum.to_le_bytes();
        let tables = &*self.shift;
        tables[0][first as usize] ^ tables[1][second as usize] ^ tables[2][third as usize] ^ tables[3][fourth as usize]
    }
}

/// The checksum of what has the checksum `before` with `bytes` behind it.
#[inline]
pub fn append(before: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!before));
    digest.update(bytes);
    digest.finalize() as u32
}

fn shift_by(bytes: usize) -> Box<[[u32; 256]; 4]> {
    let factor = power(ONE_BYTE, bytes);
    let mut tables = Box::new([[0; 256]; 4]);
    for (byte, table) in tables.iter_mut().enumerate() {
        for (value, product) in table.iter_mut().enumerate() {
            *product = multiply(factor, (value as u32) << (8 * byte));
        }
    }
    tables
}

fn power(mut base: u32, mut exponent: usize) -> u32 {
    let mut product = ONE;
    while exponent > 0 {
        if exponent % 2 == 1 {
            product = multiply(product, base);
        }
        base = multiply(base, base);
        exponent /= 2;
    }
    product
}

/// The product modulo the polynomial.
fn multiply(one: u32, mut other: u32) -> u32 {
    let mut product = 0;
    // From x^0 on.
    for bit in (0..32).rev() {
        if one >> bit & 1 == 1 {
            product ^= other;
        }
        other = if other & 1 == 1 { other >> 1 ^ POLYNOMIAL } else { other >> 1 };
    }
    product
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scenario::{Content, Payload, Size};

    fn random(size: Size) -> PayloadPool {
        let content = Content::Random { size, compressibility: 0.0 };
        PayloadPool::build(&Payload { content, pool: 8, seed: 1, tombstones: 0.0 }, 0).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_is_that_of_all_bytes(before: Vec<u8>, size in 1..3000_usize, range in 1..3000_usize, index in 0..8_u64) {
            for pool in [random(Size::Fixed(size)), random(Size::Uniform { min: size, max: size + range })] {
                let payload = pool.get(index);
                let place = pool.place(payload).unwrap();
                let whole = crc_fast::crc32_iscsi(&[&before, payload].concat());
                for least in [0, 1 << 20] {
                    let checksums = PayloadChecksums::new(&pool, least);
                    prop_assert_eq!(checksums.append(crc_fast::crc32_iscsi(&before), place, &pool), whole);
                }
                prop_assert_eq!(append(crc_fast::crc32_iscsi(&before), payload), whole);
            }
        }
    }

    /// The check value of CRC-32/ISCSI in the catalogue of parametrised CRC algorithms.
    #[test]
    fn the_polynomial_is_that_of_crc_32c() {
        assert_eq!(append(crc_fast::crc32_iscsi(b"1234"), b"56789"), 0xe306_9283);
        assert_eq!(multiply(ONE, 0x1234_5678), 0x1234_5678);
        assert_eq!(power(ONE_BYTE, 3), 1 << 7);
    }

    /// Equal payloads lie in one stretch.
    #[test]
    fn equal_payloads_have_one_checksum() {
        let content = Content::Zeros { size: Size::Fixed(1024) };
        let pool = PayloadPool::build(&Payload { content, pool: 8, seed: 1, tombstones: 0.0 }, 0).unwrap();
        assert_eq!(PayloadChecksums::new(&pool, 512).of_payloads, [crc_fast::crc32_iscsi(&[0; 1024])]);
    }
}
