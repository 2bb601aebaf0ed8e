//! What responses and messages of members look like, so that the lists which they announce are there before anything makes room.
//!
//! The crate `kafka-protocol` makes room for as many elements as a list announces. Here a message is walked through first.
//! Source: the definitions of messages in Kafka's `clients/src/main/resources/common/message`.

use super::{Malformed, varint};

/// A message that has lists: its key, its oldest and newest version of that layout, and the layout. A digit stands for a number of so
/// many bytes, `s` for a text, `b` for bytes, and `[…]` for a list. In flexible versions (KIP-482), whose lengths are one more than what they
/// announce and take 7 bits a byte, `S` stands for a text, `{…}` for a list, `(…)` for what may be missing, and `t` for fields that are
/// optional.
type Row = (i16, i16, i16, &'static str);

const RESPONSES: [Row; 37] = [
    // ListOffsets
    (2, 1, 1, "[s[4288]]"),
    (2, 2, 3, "4[s[4288]]"),
    (2, 4, 5, "4[s[42884]]"),
    (2, 6, 10, "4{S{42884t}t}t"),
    // Metadata
    (3, 5, 6, "4[4s4s]s4[2s1[244[4][4][4]]]"),
    (3, 7, 7, "4[4s4s]s4[2s1[2444[4][4][4]]]"),
    (3, 8, 8, "4[4s4s]s4[2s1[2444[4][4][4]]4]4"),
    (3, 9, 9, "4{4S4St}S4{2S1{2444{4}{4}{4}t}4t}4t"),
    (3, 10, 10, "4{4S4St}S4{2S881{2444{4}{4}{4}t}4t}4t"),
    (3, 11, 12, "4{4S4St}S4{2S881{2444{4}{4}{4}t}4t}t"),
    (3, 13, 13, "4{4S4St}S4{2S881{2444{4}{4}{4}t}4t}2t"),
    // OffsetCommit
    (8, 2, 2, "[s[42]]"),
    (8, 3, 7, "4[s[42]]"),
    (8, 8, 9, "4{S{42t}t}t"),
    // OffsetFetch
    (9, 1, 1, "[s[48s2]]"),
    (9, 2, 2, "[s[48s2]]2"),
    (9, 3, 4, "4[s[48s2]]2"),
    (9, 5, 5, "4[s[484s2]]2"),
    (9, 6, 7, "4{S{484S2t}t}2t"),
    (9, 8, 9, "4{S{S{484S2t}t}2t}t"),
    // JoinGroup
    (11, 0, 1, "24sss[sb]"),
    (11, 2, 4, "424sss[sb]"),
    (11, 5, 5, "424sss[ssb]"),
    // SaslHandshake
    (17, 0, 1, "2[s]"),
    // CreateTopics
    (19, 2, 4, "4[s2s]"),
    (19, 5, 6, "4{S2S42{SS111t}t}t"),
    (19, 7, 7, "4{S882S42{SS111t}t}t"),
    // DeleteTopics
    (20, 1, 3, "4[s2]"),
    (20, 4, 4, "4{S2t}t"),
    (20, 5, 5, "4{S2St}t"),
    // AddPartitionsToTxn
    (24, 0, 2, "4[s[42]]"),
    (24, 3, 3, "4{S{42t}t}t"),
    // DescribeConfigs
    (32, 1, 2, "4[2s1s[ss111[ss1]]]"),
    (32, 3, 3, "4[2s1s[ss111[ss1]1s]]"),
    (32, 4, 4, "4{2S1S{SS111{SS1t}1St}t}t"),
    // DeleteGroups
    (42, 0, 1, "4[s2]"),
    // ConsumerGroupHeartbeat
    (68, 0, 1, "42SS44({88{4}t}t)t"),
];

/// What a member of a group reads and owns, by versions from 0 on.
pub const SUBSCRIPTIONS: [&str; 4] = ["[s]b", "[s]b[s[4]]", "[s]b[s[4]]4", "[s]b[s[4]]4s"];

/// What it is assigned, in the oldest version.
pub const ASSIGNMENT: &str = "[s[4]]b";

/// The versions of a response with lists that can be walked through; `None`: it has no lists.
pub fn versions(key: i16) -> Option<(i16, i16)> {
    let of_key = || RESPONSES.iter().filter(|row| row.0 == key);
    Some((of_key().map(|row| row.1).min()?, of_key().map(|row| row.2).max()?))
}

/// Checks that all that a response announces is there.
///
/// # Errors
/// When something is missing.
pub fn check(body: &[u8], key: i16, version: i16) -> Result<(), Malformed> {
    let row = RESPONSES.iter().find(|row| row.0 == key && (row.1..=row.2).contains(&version));
    row.map_or(Ok(()), |row| walk(body, row.3))
}

/// Checks that all that a message of this layout announces is there.
///
/// # Errors
/// When something is missing.
pub fn walk(body: &[u8], layout: &str) -> Result<(), Malformed> {
    step(&mut &*body, layout.as_bytes())
}

fn step(rest: &mut &[u8], mut layout: &[u8]) -> Result<(), Malformed> {
    while let [what, after @ ..] = layout {
        layout = after;
        match what {
            b'[' => {
                let (element, after) = list(after);
                for _ in 0..announced(i32::from_be_bytes(number(rest)?))? {
                    step(rest, element)?;
                }
                layout = after;
            }
            b'{' => {
                let (element, after) = list(after);
                for _ in 0..compact(rest)? {
                    step(rest, element)?;
                }
                layout = after;
            }
            b'(' => {
                let (element, after) = list(after);
                // As `kafka-protocol` reads it.
                if number::<1>(rest)? == [1] {
                    step(rest, element)?;
                }
                layout = after;
            }
            b'S' => {
                let length = compact(rest)?;
                skip(rest, length)?;
            }
            b't' => {
                for _ in 0..varint::read_unsigned(rest)? {
                    varint::read_unsigned(rest)?;
                    let length = varint::read_unsigned(rest)? as usize;
                    skip(rest, length)?;
                }
            }
            b's' => {
                let length = announced(i32::from(i16::from_be_bytes(number(rest)?)))?;
                skip(rest, length)?;
            }
            b'b' => {
                let length = announced(i32::from_be_bytes(number(rest)?))?;
                skip(rest, length)?;
            }
            digit => skip(rest, usize::from(digit - b'0'))?,
        }
    }
    Ok(())
}

/// The layout of a list's elements or of what may be missing, and what comes after it.
fn list(layout: &[u8]) -> (&[u8], &[u8]) {
    let mut depth = 1;
    let end = layout.iter().position(|what| {
        match what {
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let end = end.unwrap_or(layout.len());
    (&layout[..end], layout.get(end + 1..).unwrap_or_default())
}

/// A length of a flexible version. Null is as nothing.
fn compact(rest: &mut &[u8]) -> Result<usize, Malformed> {
    Ok(varint::read_unsigned(rest)?.saturating_sub(1) as usize)
}

/// Null is as nothing.
fn announced(length: i32) -> Result<usize, Malformed> {
    match length {
        -1 => Ok(0),
        length => usize::try_from(length).map_err(|_| Malformed("a length is negative")),
    }
}

fn number<const BYTES: usize>(rest: &mut &[u8]) -> Result<[u8; BYTES], Malformed> {
    let (number, after) = rest.split_first_chunk().ok_or(Malformed("it announces more than it has"))?;
    *rest = after;
    Ok(*number)
}

fn skip(rest: &mut &[u8], length: usize) -> Result<(), Malformed> {
    *rest = rest.get(length..).ok_or(Malformed("it announces more than it has"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};
    use kafka_protocol::messages::add_partitions_to_txn_response::{
        AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
    };
    use kafka_protocol::messages::consumer_group_heartbeat_response as heartbeat;
    use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
    use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
    use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
    use kafka_protocol::messages::describe_configs_response::{
        DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
    };
    use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
    use kafka_protocol::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
    use kafka_protocol::messages::offset_fetch_response::{
        OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
        OffsetFetchResponseTopic, OffsetFetchResponseTopics,
    };
    use kafka_protocol::messages::{
        AddPartitionsToTxnResponse, ConsumerGroupHeartbeatResponse, CreateTopicsResponse, DeleteGroupsResponse,
        DeleteTopicsResponse, DescribeConfigsResponse, JoinGroupResponse, ListOffsetsResponse, MetadataResponse,
        OffsetCommitResponse, OffsetFetchResponse, SaslHandshakeResponse,
    };
    use kafka_protocol::protocol::{Encodable, StrBytes};

    use super::*;

    /// A response of each key with two elements in every list.
    fn example(key: i16, version: i16) -> Bytes {
        let two = |count: i32| vec![count.into(), (count + 1).into()];
        match key {
            2 => encoded(
                &ListOffsetsResponse::default().with_topics(vec![
                    ListOffsetsTopicResponse::default().with_partitions(
                        vec![ListOffsetsPartitionResponse::default(); 2]
                    );
                    2
                ]),
                version,
            ),
            3 => {
                let partition = MetadataResponsePartition::default().with_replica_nodes(two(1)).with_isr_nodes(two(3));
                let topic = MetadataResponseTopic::default()
                    .with_name(Some(Default::default()))
                    .with_partitions(vec![partition.with_offline_replicas(two(5)); 2]);
                let brokers = vec![MetadataResponseBroker::default(); 2];
                encoded(&MetadataResponse::default().with_brokers(brokers).with_topics(vec![topic; 2]), version)
            }
            8 => encoded(
                &OffsetCommitResponse::default().with_topics(vec![
                    OffsetCommitResponseTopic::default().with_partitions(
                        vec![OffsetCommitResponsePartition::default(); 2]
                    );
                    2
                ]),
                version,
            ),
            9 if version >= 8 => {
                let topic = OffsetFetchResponseTopics::default()
                    .with_partitions(vec![OffsetFetchResponsePartitions::default(); 2]);
                let group = OffsetFetchResponseGroup::default().with_topics(vec![topic; 2]);
                encoded(&OffsetFetchResponse::default().with_groups(vec![group; 2]), version)
            }
            9 => encoded(
                &OffsetFetchResponse::default().with_topics(vec![
                    OffsetFetchResponseTopic::default().with_partitions(
                        vec![OffsetFetchResponsePartition::default(); 2]
                    );
                    2
                ]),
                version,
            ),
            11 => {
                let member = JoinGroupResponseMember::default().with_metadata(Bytes::from_static(b"topics"));
                let joined = JoinGroupResponse::default().with_protocol_name(Some(StrBytes::from_static_str("range")));
                encoded(&joined.with_members(vec![member; 2]), version)
            }
            17 => {
                let mechanisms = vec![StrBytes::from_static_str("PLAIN"); 2];
                encoded(&SaslHandshakeResponse::default().with_mechanisms(mechanisms), version)
            }
            19 => {
                let config = CreatableTopicConfigs::default().with_value(Some(StrBytes::from_static_str("1")));
                let mut topic = CreatableTopicResult::default();
                if version >= 5 {
                    topic = topic.with_configs(Some(vec![config; 2])).with_topic_config_error_code(29);
                }
                encoded(&CreateTopicsResponse::default().with_topics(vec![topic; 2]), version)
            }
            20 => {
                let topic = DeletableTopicResult::default().with_name(Some(Default::default()));
                encoded(&DeleteTopicsResponse::default().with_responses(vec![topic; 2]), version)
            }
            24 => {
                let partitions = vec![AddPartitionsToTxnPartitionResult::default(); 2];
                let topic = AddPartitionsToTxnTopicResult::default().with_results_by_partition(partitions);
                let topics = vec![topic; 2];
                encoded(&AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(topics), version)
            }
            32 => {
                let synonym = DescribeConfigsSynonym::default().with_value(Some(StrBytes::from_static_str("1")));
                let config = DescribeConfigsResourceResult::default().with_synonyms(vec![synonym; 2]);
                let result = DescribeConfigsResult::default().with_configs(vec![config; 2]);
                encoded(&DescribeConfigsResponse::default().with_results(vec![result; 2]), version)
            }
            68 => {
                let partitions = heartbeat::TopicPartitions::default().with_partitions(vec![1, 2]);
                let assignment = heartbeat::Assignment::default().with_topic_partitions(vec![partitions; 2]);
                let id = Some(StrBytes::from_static_str("member"));
                let response = ConsumerGroupHeartbeatResponse::default().with_member_id(id);
                encoded(&response.with_assignment(Some(assignment)), version)
            }
            42 => encoded(
                &DeleteGroupsResponse::default().with_results(vec![DeletableGroupResult::default(); 2]),
                version,
            ),
            key => panic!("no example of {key}"),
        }
    }

    fn encoded(message: &impl Encodable, version: i16) -> Bytes {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes, version).unwrap();
        bytes.freeze()
    }

    #[test]
    fn what_another_encoder_writes_has_its_layout_in_every_version() {
        for (key, oldest, newest, layout) in RESPONSES {
            for version in oldest..=newest {
                let body = example(key, version);
                let mut rest = &body[..];
                assert_eq!(step(&mut rest, layout.as_bytes()), Ok(()), "{key} version {version}");
                assert!(rest.is_empty(), "{key} version {version}: {} bytes are left", rest.len());
                for end in 0..body.len() {
                    assert!(check(&body[..end], key, version).is_err(), "{key} version {version}, {end} bytes");
                }
            }
        }
    }

    #[test]
    fn a_list_that_is_longer_than_its_message_is_refused() {
        let announced = [&i32::MAX.to_be_bytes()[..], &[0; 64]].concat();
        assert!(walk(&announced, SUBSCRIPTIONS[0]).is_err() && walk(&announced, ASSIGNMENT).is_err());
        assert!(walk(&(-2_i32).to_be_bytes(), SUBSCRIPTIONS[0]).is_err());
        assert_eq!(versions(3), Some((5, 13)));
        assert_eq!(versions(12), None);
    }

    #[test]
    fn what_may_be_missing_is_not_walked_through_when_it_is() {
        let nothing = encoded(&ConsumerGroupHeartbeatResponse::default(), 1);
        assert_eq!(check(&nothing, 68, 1), Ok(()));
        let mut there = nothing.to_vec();
        let marker = there.len() - 2;
        assert_eq!(there[marker], 0xff);
        there[marker] = 1;
        assert!(check(&there, 68, 1).is_err());
    }
}
