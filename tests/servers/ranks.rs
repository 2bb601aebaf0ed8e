//! Real brokers under ranks that `mpirun` started: consumers of one rank receive what others sent.

#![cfg(feature = "mpi")]

use crate::harness::ranks::{mpirun, mpirun_with_clock_offset, mpirun_with_exit_code, mpirun_with_small_files};
use crate::harness::{Bench, PATIENCE, Running, assert_delivered, execute, finding};
use brokermark::record::{ReasonKind, Record};

#[test]
#[cfg(feature = "nsq")]
fn nsq_benchmark_prints_the_aggregate_of_all_ranks() {
    let (addresses, http) = (crate::harness::nsq::addresses(), crate::harness::nsq::http_addresses());
    let name = format!("ranks{}", std::process::id());
    let bench = Bench::new(&format!(
        "name = \"{name}\"
        broker = {{ kind = \"nsq\", addresses = {addresses:?}, nsq = {{ http_addresses = {http:?}, rdy = 1_000 }}, connections = 18 }}
        topology.topics = 3
        producers = {{ count = 18, batch = 200, in_flight = 200, confirm = \"batch\" }}
        payload = {{ kind = \"zeros\", size = \"100B\" }}
        consumers = {{ members = 2, verify = true }}
        run = {{ messages = 18_000, drain_deadline = \"5s\" }}",
    ));
    let record = Running::start(&mut mpirun(&bench, 3)).finish(PATIENCE).expect(0).record();
    assert_delivered(&record, 18_000, 1);
    assert_eq!(record.shares.len(), 3);
    let directory = bench.run_directory();
    let shown = execute(&["show", directory.to_str().unwrap(), "--format", "nsq-bench"]).expect(0);
    shown.says(&["bench_writer", "bench_reader", "aggregate, as published"]);
    for http in crate::harness::nsq::http_addresses() {
        let left: Vec<String> =
            crate::harness::nsq::topics(&http).into_iter().filter(|topic| topic.contains(&name)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Members of a group are on several ranks, which share a durable consumer or a queue.
#[test]
#[cfg(all(feature = "nats", feature = "rabbitmq"))]
fn real_ranks_share_the_groups_of_nats_and_of_rabbitmq() {
    for (kind, address) in [("nats", crate::harness::nats::address()), ("rabbitmq", crate::harness::rabbitmq::amqp())] {
        let bench = Bench::new(&format!(
            "broker = {{ kind = \"{kind}\", address = \"{address}\" }}
            producers = {{ count = 6, batch = 10 }}
            load.rate = \"2k/s\"
            consumers = {{ members = 3, groups = 2 }}
            run = {{ messages = 6_000, drain_deadline = \"5s\" }}",
        ));
        let record = Running::start(&mut mpirun(&bench, 3)).finish(PATIENCE).expect(0).record();
        assert_delivered(&record, 6_000, 2);
        assert_eq!(record.shares.len(), 3, "{kind}");
    }
}

/// librdkafka makes no consumer of these properties: topics exist by then, and no rank becomes ready.
#[test]
#[cfg(feature = "kafka")]
fn real_kafka_topics_are_removed_where_no_rank_could_begin() {
    let address = crate::harness::kafka::address();
    let name = format!("unready{}", std::process::id());
    let bench = Bench::new(&format!(
        "name = \"{name}\"
        broker = {{ kind = \"kafka\", client = \"librdkafka\", address = \"{address}\" }}
        producers.count = 2
        consumers = {{ members = 2, properties.\"max.poll.interval.ms\" = \"1000\" }}
        run.messages = 10",
    ));
    let ended = Running::start(&mut mpirun(&bench, 2)).finish(PATIENCE);
    ended.complains_of(&["has failed", "max.poll.interval.ms"]);
    let left: Vec<String> =
        crate::harness::kafka::topics(&address).into_iter().filter(|topic| topic.contains(&name)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The numbers of the messages of one rank are more than its disk takes as well.
#[test]
#[cfg(feature = "nsq")]
fn nsq_messages_are_verified_with_a_full_disk_of_a_rank() {
    let addresses = crate::harness::nsq::addresses();
    let bench = Bench::new(&format!(
        "broker = {{ kind = \"nsq\", addresses = {addresses:?} }}
        producers.count = 4
        load.rate = \"2k/s\"
        consumers = {{ members = 2, verify = true }}
        run = {{ messages = 4_000, drain_deadline = \"5s\" }}",
    ));
    let ended = Running::start(&mut mpirun_with_small_files(&bench, 1)).finish(PATIENCE).expect(1);
    ended.complains_of(&["error: rank 1: ", "error: rank 1 (", "could not write all of its files"]);
    let record = ended.record();
    assert_delivered(&record, 4_000, 1);
    assert_eq!(record.shares.len(), 2);
}

/// The record of all ranks cannot be brought to disk: a folder has the place of one of its files.
#[test]
#[cfg(feature = "nsq")]
fn nsq_topics_are_removed_where_rank_0_cannot_keep_its_record() {
    let (addresses, http) = (crate::harness::nsq::addresses(), crate::harness::nsq::http_addresses());
    let name = format!("unkept{}", std::process::id());
    let bench = Bench::new(&format!(
        "name = \"{name}\"
        broker = {{ kind = \"nsq\", addresses = {addresses:?}, nsq.http_addresses = {http:?} }}
        topology.topics = 3
        producers.count = 6
        load.rate = \"600/s\"
        run = {{ warm_up = \"0s\", duration = \"5s\" }}",
    ));
    let mut running = Running::start(&mut mpirun_with_exit_code(&bench, 2));
    running.await_stderr("measuring");
    std::fs::create_dir(bench.run_directory().join("shares.jsonl")).unwrap();
    let ended = running.finish(PATIENCE).expect(1);
    ended.complains_of(&["shares.jsonl"]);
    assert_eq!(ended.record().shares.len(), 2);
    for http in http {
        let left: Vec<String> =
            crate::harness::nsq::topics(&http).into_iter().filter(|topic| topic.contains(&name)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// The scenarios as they are published, for a second.
#[test]
#[cfg(feature = "nsq")]
fn nsq_s_published_scenarios_run_on_three_ranks() {
    for (file, shown) in [("nsq-pub", &["bench_writer"][..]), ("nsq-pubsub", &["bench_writer", "bench_reader"])] {
        let path = format!("{}/configs/published/{file}.toml", env!("CARGO_MANIFEST_DIR"));
        let published: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
        let bench = Bench::new(&shortened(published, crate::harness::nsq::addresses()).to_string());
        let record = Running::start(&mut mpirun(&bench, 3)).finish(PATIENCE).expect(0).record();
        assert_eq!((record.shares.len(), record.counts.failed), (3, 0));
        assert!(
            record.shares.iter().all(|of| of.share.producers == 6 && of.messages_per_second > 0.0),
            "{:?}",
            record.shares
        );
        let directory = bench.run_directory();
        let printed = execute(&["show", directory.to_str().unwrap(), "--format", "nsq-bench"]).expect(0);
        printed.says(shown);
        printed.says(&["aggregate, as published"]);
    }
}

/// A published scenario on these servers, for a second.
#[cfg(feature = "nsq")]
pub fn shortened(mut scenario: toml::Table, addresses: Vec<String>) -> toml::Table {
    let mut set = |table: &str, key: &str, value: toml::Value| {
        scenario[table].as_table_mut().unwrap().insert(key.to_owned(), value);
    };
    set("broker", "addresses", addresses.into());
    set("run", "duration", "1s".into());
    set("run", "drain_deadline", "3s".into());
    scenario
}

/// A run of two ranks, of which the second reads by a clock that is 50 ms ahead.
#[cfg(feature = "nsq")]
fn read_by_another_clock(consumers: &str, more: &str) -> Record {
    let addresses = crate::harness::nsq::addresses();
    let http = crate::harness::nsq::http_addresses();
    let bench = Bench::new(&format!(
        "name = \"clocks{}\"
        broker = {{ kind = \"nsq\", addresses = {addresses:?}, nsq = {{ http_addresses = {http:?}, output_buffer_timeout = \"25ms\" }} }}
        producers = {{ count = 2 }}
        load.rate = \"500/s\"
        consumers = {{ {consumers} }}
        run = {{ messages = 1_000, drain_deadline = \"5s\" }}
        {more}",
        std::process::id()
    ));
    Running::start(&mut mpirun_with_clock_offset(&bench, "50ms")).finish(PATIENCE).expect(0).record()
}

/// One rank writes and the other reads, so that every latency is between two clocks. A message cannot arrive before it was sent: 50 ms that
/// were not corrected would be seen in the fastest messages, either way.
#[test]
#[cfg(feature = "nsq")]
fn nsq_s_latency_between_two_clocks_is_right_within_their_bound() {
    let record = read_by_another_clock("verify = true", "distribution = { writers = \"0\", readers = \"1\" }");
    assert_delivered(&record, 1_000, 1);
    let clock = record.shares[1].clock.unwrap();
    assert!(clock.offset_ns.abs_diff(50_000_000) <= clock.error_ns, "{clock:?}");
    let latency = record.latency.end_to_end.as_ref().unwrap();
    assert_eq!(latency.count, 1_000);
    // The fastest way of a message through an nsqd on the same machine takes far less than the offset.
    assert!(latency.min_ns < 25_000_000 + clock.error_ns, "{latency:?}");
    let early: u64 = record.shares.iter().map(|share| share.share.before_intended).sum();
    assert!(early == 0 || latency.min_ns <= clock.error_ns, "{early} arrived before they were sent: {latency:?}");
    let told = finding(&record, ReasonKind::ClocksDiffer).unwrap();
    assert_eq!(told.figures["clock_uncertainty_ns"], clock.error_ns as f64, "{told:?}");
}

/// Both ranks write and read, and each times its own messages: no clock's offset is in any of them, so none arrives early.
#[test]
#[cfg(feature = "nsq")]
fn nsq_s_latency_of_own_messages_has_no_other_clock_in_it() {
    let record = read_by_another_clock("members = 2, timing = \"own\"", "");
    let latency = record.latency.end_to_end.as_ref().unwrap();
    assert!(latency.count > 0 && latency.count < 1_000, "{latency:?}");
    let early: u64 = record.shares.iter().map(|share| share.share.before_intended).sum();
    assert_eq!(early, 0);
    assert!(latency.min_ns < 25_000_000, "{latency:?}");
    assert!(finding(&record, ReasonKind::ClocksDiffer).is_none());
}
