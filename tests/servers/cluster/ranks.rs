//! Ranks on hosts of their own load a cluster whose nodes have hosts of their own as well.

use crate::harness::cluster::Cluster;
use crate::harness::hosts::Hosts;
use crate::harness::{Bench, PATIENCE, Running, assert_delivered};

#[test]
fn real_ranks_on_three_hosts_load_kafka_on_three_others() {
    let (cluster, hosts) = (Cluster::kafka(), Hosts::up(3));
    let bench = Bench::new(&format!(
        "broker = {{ kind = \"kafka\", client = \"native\", addresses = {:?} }}
        topology = {{ partitions = 3, replication = 3 }}
        producers.count = 6
        load.rate = \"600/s\"
        consumers = {{ members = 3, verify = true }}
        run = {{ messages = 1_800, drain_deadline = \"10s\" }}",
        cluster.addresses()
    ));
    let record = Running::start(&mut hosts.mpirun(&bench, 3, &[])).finish(PATIENCE).expect(0).record();
    assert_delivered(&record, 1_800, 1);
    let names: Vec<_> = record.shares.iter().filter_map(|of| of.hostname.as_deref()).collect();
    assert_eq!(names, ["bm-host-1", "bm-host-2", "bm-host-3"]);
}
