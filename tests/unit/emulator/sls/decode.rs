use proptest::prelude::*;
use prost::Message;

use rand::{RngExt, SeedableRng};

use super::*;

#[derive(Message)]
struct LogGroup {
    #[prost(message, repeated, tag = "1")]
    logs: Vec<Log>,
    #[prost(string, optional, tag = "3")]
    topic: Option<String>,
    #[prost(message, repeated, tag = "6")]
    tags: Vec<Pair>,
}

#[derive(Message)]
struct Log {
    #[prost(uint32, required, tag = "1")]
    time: u32,
    #[prost(message, repeated, tag = "2")]
    contents: Vec<Pair>,
    #[prost(fixed32, optional, tag = "4")]
    time_ns: Option<u32>,
}

#[derive(Message)]
struct Pair {
    #[prost(string, required, tag = "1")]
    key: String,
    #[prost(string, required, tag = "2")]
    value: String,
}

proptest! {
    #[test]
    fn body_of_another_implementation_is_read(
        logs in proptest::collection::vec((any::<u32>(), any::<Option<u32>>(), proptest::collection::vec(("[a-z]{0,200}", ".{0,9}"), 0..5)), 0..9),
        topic in any::<Option<String>>(),
    ) {
        let pair = |(key, value): &(String, String)| Pair { key: key.clone(), value: value.clone() };
        let log = |(time, time_ns, contents): &(u32, Option<u32>, Vec<(String, String)>)| {
            Log { time: *time, contents: contents.iter().map(pair).collect(), time_ns: *time_ns }
        };
        let fields = || logs.iter().flat_map(|(_, _, fields)| fields);
        let bytes: usize = fields().map(|(key, value)| key.len() + value.len()).sum();
        let group = LogGroup { logs: logs.iter().map(log).collect(), topic, tags: vec![pair(&("k".into(), "v".into()))] };
        let expected = Contents { logs: logs.len() as u64, fields: fields().count() as u64, counted_bytes: (bytes + 4 * logs.len()) as u64 };
        prop_assert_eq!(examine(&group.encode_to_vec()), Ok(expected));
    }
}

/// What `tests/fuzz/fuzz_targets/sls_body.rs` does, of the inputs that are kept for it, whole and with some bytes changed.
#[test]
fn fuzzing_corpus_is_read_or_refused_after_any_change() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/sls_body");
    let mut random = rand::rngs::Xoshiro256PlusPlus::seed_from_u64(17);
    let (mut inputs, mut whole) = (0, 0);
    for file in std::fs::read_dir(corpus).unwrap() {
        let input = std::fs::read(file.unwrap().path()).unwrap();
        inputs += 1;
        for round in 0..500 {
            let mut changed = input.clone();
            for _ in 0..round.min(3) {
                let place = random.random_range(4..changed.len().max(5));
                if let Some(byte) = changed.get_mut(place) {
                    *byte = random.random();
                }
            }
            let kind = ["", "lz4", "zstd", "deflate"][usize::from(changed[0] % 4)];
            let size = u32::from_be_bytes([0, changed[1], changed[2], changed[3]]) as usize;
            if let Ok(group) = unfold(&changed[4..], kind, size) {
                assert_eq!(group.len(), size);
                whole += usize::from(examine(&group).is_ok());
            }
        }
    }
    assert!(inputs >= 4 && whole >= 3, "{inputs} {whole}");
}

#[test]
fn decompression_bomb_is_refused() {
    let bomb = lz4_flex::block::compress(&vec![0; 32 << 20]);
    assert_eq!(unfold(&bomb, "lz4", 32 << 20).unwrap_err().0, "PostBodyTooLarge");
    assert_eq!(unfold(&bomb, "lz4", 1000).unwrap_err().0, "PostBodyUncompressError");
    let bomb = zstd::bulk::compress(&vec![0; 32 << 20], 1).unwrap();
    assert_eq!(unfold(&bomb, "zstd", 1000).unwrap_err().0, "PostBodyUncompressError");
}

#[test]
fn wrong_raw_size_is_refused() {
    let body = lz4_flex::block::compress(b"twelve bytes");
    assert_eq!(unfold(&body, "lz4", 12), Ok(b"twelve bytes".to_vec()));
    for size in [11, 13] {
        assert_eq!(unfold(&body, "lz4", size).unwrap_err().0, "PostBodyUncompressError");
    }
}
