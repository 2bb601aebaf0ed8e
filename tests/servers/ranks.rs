//! Real brokers under ranks that `mpirun` started: consumers of one rank receive what others sent.

#![cfg(feature = "mpi")]

use crate::harness::ranks::mpirun;
use crate::harness::{Bench, PATIENCE, Running, assert_delivered, execute};

#[test]
#[cfg(feature = "nsq")]
fn nsq_s_distributed_benchmark_prints_the_aggregate_of_all_ranks() {
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
