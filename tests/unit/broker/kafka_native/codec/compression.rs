use proptest::prelude::*;

use super::*;

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
