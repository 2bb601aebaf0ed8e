use proptest::prelude::{any, proptest};

use super::*;

fn shares(strategy: Strategy, members: &[(&str, &[&str])], topics: &[(&str, usize)]) -> Vec<String> {
    let members = members.iter().map(|(member, topics)| {
        let topics = topics.iter().map(|one| (*one).to_owned()).collect();
        ((*member).to_owned(), Subscription { topics, ..Subscription::new("") })
    });
    let topics = topics.iter().map(|(topic, partitions)| ((*topic).to_owned(), *partitions));
    let shares = strategy.share(&members.collect(), &topics.collect());
    shares.into_iter().map(|(member, share)| format!("{member} {share:?}")).collect()
}

/// The examples of the documentation of Kafka's `RangeAssignor` and `RoundRobinAssignor`.
#[test]
fn partitions_are_shared_as_kafkas_own_clients_share_them() {
    let both: &[(&str, &[&str])] = &[("C0", &["t0", "t1"]), ("C1", &["t0", "t1"])];
    let topics = [("t0", 3), ("t1", 3)];
    assert_eq!(
        shares(Strategy::Range, both, &topics),
        [r#"C0 {"t0": [0, 1], "t1": [0, 1]}"#, r#"C1 {"t0": [2], "t1": [2]}"#]
    );
    assert_eq!(
        shares(Strategy::RoundRobin, both, &topics),
        [r#"C0 {"t0": [0, 2], "t1": [1]}"#, r#"C1 {"t0": [1], "t1": [0, 2]}"#]
    );
    let more: &[(&str, &[&str])] = &[("a", &["t0"]), ("b", &["t0"]), ("c", &["t0"])];
    assert_eq!(shares(Strategy::Range, more, &[("t0", 2)]), [r#"a {"t0": [0]}"#, r#"b {"t0": [1]}"#, "c {}"]);
}

#[test]
fn what_is_written_is_read_and_nonsense_is_refused() {
    let alone = Subscription::new("orders");
    assert_eq!(Subscription::decode(alone.encode(false).unwrap()).unwrap(), alone);
    let owning = Subscription { owned: [("orders".to_owned(), vec![0, 3])].into(), generation: 7, ..alone.clone() };
    assert_eq!(Subscription::decode(owning.encode(true).unwrap()).unwrap(), owning);
    // A version that is not known has more behind what is known.
    let mut later = BytesMut::from(&owning.encode(true).unwrap()[..]);
    later[..2].copy_from_slice(&9_i16.to_be_bytes());
    later.put_slice(&[0xff, 0xff, 1, 2, 3]);
    assert_eq!(Subscription::decode(later.freeze()).unwrap(), owning);
    // Older members read the topics only.
    let mut older = owning.encode(true).unwrap().to_vec();
    older[..2].copy_from_slice(&[0, 0]);
    assert_eq!(Subscription::decode(older.into()).unwrap(), alone);

    let share = BTreeMap::from([("orders".to_owned(), vec![0, 3]), ("other".to_owned(), vec![1])]);
    assert_eq!(partitions(assignment(&share).unwrap(), "orders").unwrap(), [0, 3]);
    assert_eq!(partitions(Bytes::new(), "orders").unwrap(), [0; 0]);
    for bytes in [&[0_u8][..], &[0, 0], &[0, 0, 0, 0, 0, 1], &[0, 0, 0, 0, 0, 1, 0, 9, b'x'], &[0xff, 0xff, 0, 0]] {
        assert!(partitions(Bytes::from(bytes.to_vec()), "orders").is_err(), "{bytes:?}");
        assert!(Subscription::decode(Bytes::from(bytes.to_vec())).is_err(), "{bytes:?}");
    }
}

/// What librdkafka 2.12.1 writes (`rd_kafka_consumer_protocol_member_metadata_new`): version 3 with a topic "t", no data of the user,
/// partitions 1 and 2 of it, generation 5, and no rack.
#[test]
fn what_librdkafka_says_of_a_member_is_read() {
    let bytes: &[u8] = &[
        0, 3, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0,
        5, 0xff, 0xff,
    ];
    let owned = [("t".to_owned(), vec![1, 2])].into();
    let expected = Subscription { owned, generation: 5, ..Subscription::new("t") };
    assert_eq!(Subscription::decode(Bytes::from_static(bytes)).unwrap(), expected);
}

proptest! {
    /// Also where a length says that more follows than there is.
    #[test]
    fn any_bytes_of_a_member_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..64), version in -1..4_i16) {
        bytes.splice(..bytes.len().min(2), version.to_be_bytes());
        let _ = Subscription::decode(bytes.clone().into());
        let _ = partitions(bytes.into(), "orders");
    }

    #[test]
    fn a_byte_that_is_wrong_is_refused_or_read_without_panic(place: proptest::sample::Index, byte: u8) {
        let owned = [("orders".to_owned(), vec![0, 3])].into();
        let subscription = Subscription { owned, generation: 7, ..Subscription::new("orders") };
        let share = BTreeMap::from([("orders".to_owned(), vec![0, 3])]);
        for message in [subscription.encode(true).unwrap(), assignment(&share).unwrap()] {
            let mut bytes = message.to_vec();
            let place = place.index(bytes.len());
            bytes[place] = byte;
            let _ = Subscription::decode(bytes.clone().into());
            let _ = partitions(bytes.into(), "orders");
        }
    }
}
