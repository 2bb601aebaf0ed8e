use proptest::prelude::*;

use super::*;
use crate::scenario::{Content, Payload, Size};

const ALL: [Compression; 5] =
    [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

#[test]
fn a_block_of_snappy_without_a_length_is_read_as_well() {
    let mut out = Vec::new();
    let block = snap::raw::Encoder::new().compress_vec(b"aaaaaaaaaaaaaaaaaaaa").unwrap();
    Compression::Snappy.decompress(&block, &mut out).unwrap();
    assert_eq!(out, [b'a'; 20]);
}

#[test]
fn what_a_block_of_snappy_announces_takes_no_memory() {
    let mut out = Vec::new();
    // 4 GiB less a byte, of which nothing is there.
    let announced = [0xff, 0xff, 0xff, 0xff, 0x0f, 0];
    assert_eq!(Compression::Snappy.decompress(&announced, &mut out), Err(BROKEN));
    assert!(out.capacity() < 1 << 20);
}

/// Zeros are packed into a thousandth and less.
#[test]
fn a_batch_that_unpacks_to_far_more_than_its_size_is_refused() {
    let content = vec![0; MIN_LIMIT + 1];
    for compression in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
        let pack = |content: &[u8]| {
            let mut packed = Vec::new();
            Compressor::new(compression).unwrap().compress(content, &mut packed).unwrap();
            packed
        };
        let mut out = Vec::new();
        assert_eq!(compression.decompress(&pack(&content), &mut out), Err(TOO_LARGE), "{compression:?}");
        assert!(out.len() <= MIN_LIMIT + 1);
        assert_eq!(compression.decompress(&pack(&content[1..]), &mut out), Ok(()), "{compression:?}");
    }
}

/// Which is several blocks of xerial's library.
#[test]
fn a_large_batch_is_compressed_and_decompressed() {
    let content: Vec<u8> = (0..100_000_u32).map(|index| (index / 7) as u8).collect();
    for compression in ALL {
        let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
        Compressor::new(compression).unwrap().compress(&content, &mut packed).unwrap();
        compression.decompress(&packed, &mut unpacked).unwrap();
        assert!(unpacked == content, "{compression:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_compressed_is_decompressed(
        batches in proptest::collection::vec(proptest::collection::vec(0..4_u8, 1..3_000), 1..4),
    ) {
        for compression in ALL {
            let mut compressor = Compressor::new(compression).unwrap();
            for content in &batches {
                let (mut packed, mut unpacked) = (vec![7], Vec::new());
                compressor.compress(content, &mut packed).unwrap();
                compression.decompress(&packed[1..], &mut unpacked).unwrap();
                prop_assert!(packed[0] == 7 && unpacked == *content, "{:?}", compression);
            }
        }
    }

    #[test]
    fn nonsense_is_refused_or_read_without_panic(content: Vec<u8>) {
        for compression in ALL {
            let _ = compression.decompress(&content, &mut Vec::new());
        }
    }
}

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
            prop_assert_eq!(append_checksum(crc_fast::crc32_iscsi(&before), payload), whole);
        }
    }
}

/// The check value of CRC-32/ISCSI in the catalogue of parametrised CRC algorithms.
#[test]
fn the_polynomial_is_that_of_crc_32c() {
    assert_eq!(append_checksum(crc_fast::crc32_iscsi(b"1234"), b"56789"), 0xe306_9283);
}

/// Equal payloads lie in one stretch.
#[test]
fn equal_payloads_have_one_checksum() {
    let content = Content::Zeros { size: Size::Fixed(1024) };
    let pool = PayloadPool::build(&Payload { content, pool: 8, seed: 1, tombstones: 0.0 }, 0).unwrap();
    assert_eq!(PayloadChecksums::new(&pool, 512).of_payloads, [crc_fast::crc32_iscsi(&[0; 1024])]);
}
