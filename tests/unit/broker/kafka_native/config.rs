use super::*;
use crate::broker::kafka_native::KafkaNativeBroker;
use crate::broker::registry;

fn parse(text: &str) -> Result<KafkaNativeOptions, String> {
    registry::options::<KafkaNativeBroker>(text.parse().unwrap()).map_err(|error| error.message().to_owned())
}

#[test]
fn batches_without_numbers_may_change_their_order() {
    let may = |text| parse(text).unwrap().may_reorder();
    assert!(may(""));
    for text in ["idempotence = true", "max_in_flight = 1", "acks = \"0\"", "[transactions]"] {
        assert!(!may(text), "{text}");
    }
}

#[test]
fn what_is_left_out_has_its_default() {
    assert_eq!(parse(""), Ok(KafkaNativeOptions::default()));
    let options = parse("acks = \"1\"\nlinger = \"0s\"\nbatch_bytes = \"64 KiB\"\ncompression = \"lz4\"").unwrap();
    assert_eq!(options.acks, RequiredAcks::Leader);
    assert_eq!(options.linger, Duration::ZERO);
    assert_eq!(options.batch_bytes, 65_536);
    assert_eq!(options.compression, Compression::Lz4);
    for (text, acks) in [("acks = 1", RequiredAcks::Leader), ("acks = -1", RequiredAcks::All)] {
        assert_eq!(parse(text).unwrap().acks, acks, "{text}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (text, key) in [
        ("idempotence = true\nacks = \"1\"", "acks"),
        ("idempotence = true\nmax_in_flight = 6", "max_in_flight"),
        ("acks = \"1\"\n[transactions]", "acks"),
        ("max_in_flight = 6\n[transactions]", "max_in_flight"),
        ("idempotence = false\n[transactions]", "idempotence"),
        ("[transactions]\nmessages = 0", "1 to 10,000,000"),
        ("max_in_flight = 0", "max_in_flight"),
        ("batch_bytes = \"1 GiB\"", "batch_bytes"),
        ("request_timeout = \"0s\"", "request_timeout"),
        ("session_timeout = \"0s\"", "session_timeout"),
        ("static_members = true", "assignment = \"group\""),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(key), "{text}: {error}");
    }
}

/// From the tests of Kafka (`UtilsTest.testMurmur2`).
#[test]
fn hashes_are_those_of_java() {
    for (key, hash) in [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ] {
        assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
    }
}

#[test]
fn keyless_messages_go_anywhere_if_the_partitioner_says_so() {
    for (partitioner, without, empty) in [
        (Partitioner::Random, None, None),
        (Partitioner::Consistent, Some(0), Some(0)),
        (Partitioner::ConsistentRandom, None, None),
        (Partitioner::Murmur2, Some(0x106e_08d9 % 7), Some(0x106e_08d9 % 7)),
        (Partitioner::Murmur2Random, None, Some(0x106e_08d9 % 7)),
    ] {
        assert_eq!(partitioner.partition(None, 7), without, "{partitioner:?}");
        assert_eq!(partitioner.partition(Some(b""), 7), empty, "{partitioner:?}");
    }
    // CRC-32 of "key", as zlib computes it.
    assert_eq!(Partitioner::ConsistentRandom.partition(Some(b"key"), 1000), Some(0x8a90_aba9 % 1000));
}
