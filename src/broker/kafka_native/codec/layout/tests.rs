//! Layouts against what another encoder writes.

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
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
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
            let topic =
                OffsetFetchResponseTopics::default().with_partitions(vec![OffsetFetchResponsePartitions::default(); 2]);
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
        42 => encoded(&DeleteGroupsResponse::default().with_results(vec![DeletableGroupResult::default(); 2]), version),
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
