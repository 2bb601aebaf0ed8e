//! Real brokers under several processes that run one scenario together: their consumers verify each other's messages, and the topics are
//! removed when all have ended.

use crate::harness::shares::{assert_partitions_are_begun_as_by_one_process, merge, record_at, run_shares};
use crate::harness::{Bench, PATIENCE, Running, assert_delivered, brokermark};

const LOAD: &str = "[producers]
    count = 4
    batch = 5
    [load]
    rate = \"1k/s\"
    [consumers]
    members = 2
    groups = 2
    end_to_end = true
    [run]
    messages = 2_000
    warm_up = \"500ms\"
    drain_deadline = \"5s\"";

/// Runs the load in three shares on the broker of these keys, checks what became of every message, and returns the run's id.
fn loads(keys: &str) -> (Bench, String) {
    let bench = Bench::new(&format!("{keys}\n{LOAD}"));
    let shares = run_shares(&bench, 3, 8);
    let merged = merge(&bench, &shares, "merged").expect(0).record();
    assert_delivered(&merged, 2_000, 2);
    let end_to_end = merged.latency.end_to_end.as_ref().unwrap();
    assert_eq!(end_to_end.count + end_to_end.beyond_range, 4_000);
    let run_id = record_at(&shares[0]).run_id;
    (bench, run_id)
}

/// As [`loads`], and removes the topics.
fn delivers(keys: &str) -> Bench {
    let (bench, run_id) = loads(keys);
    let mut removal = brokermark();
    removal.arg("remove-topics").arg(bench.scenario()).args(["--run-id", &run_id]);
    let removed = Running::start(&mut removal).finish(PATIENCE).expect(0).stdout;
    assert!(removed.lines().count() > 0 && removed.lines().all(|topic| topic.starts_with(&run_id)), "{removed}");
    bench
}

#[test]
#[cfg(feature = "kafka")]
fn real_kafka_is_loaded_by_three_processes() {
    let address = crate::harness::kafka::address();
    let broker = format!("broker = {{ kind = \"kafka\", client = \"librdkafka\", address = \"{address}\" }}");
    delivers(&format!("name = \"librdkafka\"\n{broker}\ntopology = {{ topics = 2, partitions = 4 }}"));
}

#[test]
#[cfg(feature = "kafka-native")]
fn real_kafka_s_groups_are_not_divided_among_processes() {
    let address = crate::harness::kafka::address();
    for client in ["native", "librdkafka"] {
        let keys = format!("kind = \"kafka\", client = \"{client}\", kafka.assignment = \"group\"");
        let broker = format!("broker = {{ {keys}, address = \"{address}\" }}");
        let bench = Bench::new(&format!("{broker}\ntopology = {{ partitions = 4 }}\n{LOAD}"));
        let refused = bench.run(&["--share", "1/2", "--start-at", "1"]).expect(1);
        refused.complains_of(&["broker.kafka.assignment = \"manual\""]);
    }
}

#[test]
#[cfg(feature = "kafka-native")]
fn real_kafka_is_loaded_by_three_processes_natively() {
    let address = crate::harness::kafka::address();
    let broker = format!("broker = {{ kind = \"kafka\", client = \"native\", address = \"{address}\" }}");
    delivers(&format!("name = \"native\"\n{broker}\ntopology = {{ topics = 2, partitions = 4 }}"));
}

/// A group of each topic is shared by members in several processes.
#[test]
#[cfg(feature = "nats")]
fn real_nats_is_loaded_by_three_processes() {
    let address = crate::harness::nats::address();
    for consumer in ["pull", "push"] {
        let broker = format!("broker = {{ kind = \"nats\", address = \"{address}\", nats.consumer = \"{consumer}\" }}");
        delivers(&format!("name = \"{consumer}\"\n{broker}\ntopology.topics = 2"));
    }
    // Its subjects need no topics: there are none to wait for, and none to remove.
    let broker = format!("broker = {{ kind = \"nats\", address = \"{address}\", nats.mode = \"core\" }}");
    loads(&format!("name = \"core\"\n{broker}\ntopology.topics = 2"));
}

#[test]
#[cfg(feature = "rabbitmq")]
fn real_queues_of_rabbitmq_are_loaded_by_three_processes() {
    let address = crate::harness::rabbitmq::amqp();
    for queue in ["quorum", "classic"] {
        let broker =
            format!("broker = {{ kind = \"rabbitmq\", address = \"{address}\", rabbitmq.queue = \"{queue}\" }}");
        delivers(&format!("name = \"{queue}\"\n{broker}\ntopology.topics = 2"));
    }
}

#[test]
#[cfg(feature = "rabbitmq-stream")]
fn real_rabbitmq_is_loaded_by_three_processes() {
    let address = crate::harness::rabbitmq::address();
    for (name, keys) in [("nameless", ""), ("named", ", rabbitmq-stream.publisher = \"orders\"")] {
        let broker = format!("broker = {{ kind = \"rabbitmq-stream\", address = \"{address}\"{keys} }}");
        delivers(&format!("name = \"{name}\"\n{broker}\ntopology.partitions = 4"));
    }
}

#[test]
#[cfg(feature = "pulsar")]
fn real_pulsar_is_loaded_by_three_processes() {
    let (address, admin) = (crate::harness::pulsar::address(), crate::harness::pulsar::admin());
    let broker = format!("broker = {{ kind = \"pulsar\", address = \"{address}\", pulsar.admin = \"{admin}\" }}");
    delivers(&format!("{broker}\ntopology.partitions = 4"));
}

#[test]
#[cfg(feature = "kafka-native")]
fn real_kafka_s_partitions_are_begun_as_by_one_process() {
    let address = crate::harness::kafka::address();
    let broker = format!("broker = {{ kind = \"kafka\", client = \"native\", address = \"{address}\" }}");
    assert_partitions_are_begun_as_by_one_process(&broker);
}

#[test]
#[cfg(feature = "rabbitmq-stream")]
fn real_super_stream_partitions_begin_as_by_one_process() {
    let address = crate::harness::rabbitmq::address();
    let broker = format!("broker = {{ kind = \"rabbitmq-stream\", address = \"{address}\" }}");
    assert_partitions_are_begun_as_by_one_process(&broker);
}

#[test]
#[cfg(feature = "pulsar")]
fn real_pulsar_s_partitions_are_begun_as_by_one_process() {
    let (address, admin) = (crate::harness::pulsar::address(), crate::harness::pulsar::admin());
    let broker = format!("broker = {{ kind = \"pulsar\", address = \"{address}\", pulsar.admin = \"{admin}\" }}");
    assert_partitions_are_begun_as_by_one_process(&broker);
}

#[test]
#[cfg(feature = "nsq")]
fn real_nsqd_have_the_producers_of_one_process() {
    use crate::harness::nsq::Nsqd;

    let nsqd = [Nsqd::start(&[]), Nsqd::start(&[]), Nsqd::start(&[])];
    let addresses: Vec<String> = nsqd.iter().map(|nsqd| format!("127.0.0.1:{}", nsqd.port())).collect();
    let http: Vec<String> = nsqd.iter().map(Nsqd::http_address).collect();
    let broker = format!("broker = {{ kind = \"nsq\", addresses = {addresses:?}, nsq.http_addresses = {http:?} }}");
    let bench = Bench::new(&format!("{broker}\nproducers.count = 6\nrun = {{ messages = 600, warm_up = \"0s\" }}"));
    run_shares(&bench, 6, 4);
    assert_eq!(nsqd.each_ref().map(Nsqd::published), [200, 200, 200]);
}

#[test]
#[cfg(feature = "nsq")]
fn real_nsqd_are_loaded_by_three_processes() {
    let (addresses, http) = (crate::harness::nsq::addresses(), crate::harness::nsq::http_addresses());
    let broker = format!(
        "broker = {{ kind = \"nsq\", addresses = {addresses:?}, nsq.http_addresses = {http:?}, connections = 3 }}"
    );
    let name = format!("shared{}", std::process::id());
    delivers(&format!("name = \"{name}\"\n{broker}"));
    for http in crate::harness::nsq::http_addresses() {
        let left: Vec<String> =
            crate::harness::nsq::topics(&http).into_iter().filter(|topic| topic.contains(&name)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
