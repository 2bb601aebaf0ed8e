//! Kafka's protocol as another server speaks it: kfake of franz-go, which has versions of requests that no Kafka has together, and
//! neither transactions nor groups that the server assigns.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::harness::server::variable;
use crate::harness::{Bench, Finished, assert_acknowledged, assert_delivered};

/// Three nodes, which end with the test.
struct Cluster {
    child: Child,
    addresses: String,
}

impl Cluster {
    fn start() -> Self {
        let mut command = Command::new(Path::new(&variable("BROKERMARK_KFAKE")).join("bin/kfake"));
        let mut child = command.arg("3").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut addresses = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut addresses).unwrap();
        Cluster { child, addresses: addresses.trim().to_owned() }
    }

    /// Runs 2000 messages, with these keys of `[broker]` and these tables besides.
    fn run(&self, keys: &str, tables: &str) -> Finished {
        let addresses: Vec<&str> = self.addresses.split(',').collect();
        Bench::new(&format!(
            "[broker]
            kind = \"kafka\"
            client = \"native\"
            addresses = {addresses:?}
            {keys}
            [topology]
            partitions = 5
            [producers]
            count = 2
            batch = 7
            keys = {{ kind = \"random\", distinct = 50 }}
            [payload]
            size = \"100B\"
            {tables}
            [run]
            messages = 2000"
        ))
        .run(&[])
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
fn every_way_to_send_and_to_read_works() {
    let cluster = Cluster::start();
    for keys in [
        "kafka = { acks = 1, compression = \"gzip\" }",
        "kafka = { idempotence = true, compression = \"snappy\" }",
        "kafka = { linger = \"0s\", compression = \"lz4\", partitioner = \"murmur2_random\" }",
        "kafka = { assignment = \"group\", compression = \"zstd\" }",
    ] {
        let record = cluster.run(keys, "[consumers]\ngroups = 2\nmembers = 3").expect(0).record();
        assert_delivered(&record, 2000, 2);
    }
    assert_acknowledged(&cluster.run("kafka.acks = 0", "").expect(0).record(), 2000);
}

#[test]
fn a_pipeline_commits_as_a_member_of_a_group() {
    let cluster = Cluster::start();
    let tables = "[pipeline]\nparse = \"none\"\ninstances = 2\nproducer_mode = \"backlog\"";
    let record = cluster.run("", tables).expect(0).record();
    let pipeline = record.pipeline.as_ref().unwrap();
    assert_eq!((pipeline.consumed, pipeline.consumer_lag_at_end), (2000, Some(0)), "{pipeline:#?}");
}

#[test]
fn what_the_server_lacks_is_refused_by_its_name() {
    let cluster = Cluster::start();
    let by_server = "[consumers.properties]\n\"group.protocol\" = \"consumer\"";
    let refused = cluster.run("kafka.assignment = \"group\"", by_server).expect(1);
    refused.complains_of(&["ConsumerGroupHeartbeat", "remove `\"group.protocol\" = \"consumer\"`"]);
    let transactions = "connections = 2\nkafka.transactions.messages = 100";
    let refused = cluster.run(transactions, "").expect(1);
    refused.complains_of(&["UnknownServerError", "no producer id for transactions was given"]);
}
