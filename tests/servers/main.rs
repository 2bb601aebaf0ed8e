//! Tests against real servers, which `scripts/test` starts, and against scripted ones.
//!
//! One program, because each test program links the whole crate.

#[macro_use]
#[path = "../harness/mod.rs"]
mod harness;

/// Makes a test of each of these functions for each client of Kafka, whose name they take.
macro_rules! for_each_kafka_client {
    ($($test:ident),* $(,)?) => {
        mod librdkafka {
            $(
                #[test]
                fn $test() {
                    super::$test("librdkafka");
                }
            )*
        }

        #[cfg(feature = "kafka-native")]
        mod native {
            $(
                #[test]
                fn $test() {
                    super::$test("native");
                }
            )*
        }
    };
}

mod browser;
mod cluster;
mod conditions;
mod conformance;
mod doctor;
mod faults;
mod fingerprints;
#[cfg(feature = "mpi")]
mod hosts;
#[cfg(any(feature = "mqtt", feature = "nats", feature = "rabbitmq", feature = "redis"))]
mod idle_connections;
mod interchange;
mod kafka;
#[cfg(all(feature = "kafka", feature = "kafka-native"))]
mod kafka_conditions;
#[cfg(feature = "kafka-native")]
mod kafka_native;
#[cfg(feature = "kafka-native")]
mod kafka_native_groups;
#[cfg(feature = "kafka-native")]
mod kafka_readers;
#[cfg(feature = "kafka-native")]
mod kafka_share_groups;
mod kafka_transactions;
#[cfg(feature = "kafka-native")]
mod kfake;
mod load;
mod manifests;
mod mqtt;
mod nats;
mod nsq;
mod pipeline;
mod pulsar;
mod pulsar_policies;
mod pulsar_rs;
mod rabbitmq_queues;
mod rabbitmq_stream;
mod ranks;
mod rebalance;
mod redis;
mod removal;
#[cfg(all(feature = "kafka-native", feature = "schemas"))]
mod schemas;
mod shares;
mod slow_readers;
mod sls;
mod topics;
mod verbs;
