//! Clusters of three nodes with three copies of everything, which lose nodes during a load at a fixed rate: nothing that was acknowledged is
//! lost, and the record shows for how long it stood still. These are the scenarios of `configs/faults`.

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(all(feature = "mpi", feature = "kafka-native"))]
mod ranks;

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::harness::cluster::Cluster;
use crate::harness::{Running, assert_balanced, brokermark};

/// How long such a load, and what follows it, may take on a busy machine.
const ENDING: Duration = Duration::from_secs(400);

/// Runs a scenario on the cluster's nodes at these addresses, until the restart of all nodes, its last fault, which takes minutes where other
/// clusters use the same cores. Its thresholds hold: all commands did their work, and nothing is lost; where the
/// broker can promise it, nothing is duplicated.
/// Each command in `felt` (0: kill, 1: cut off, 2: freeze) was followed by at least so long without an acknowledgement, and then by the
/// whole rate.
fn lose_nodes(addresses: &[String], scenario: &str, least: Duration, felt: &[usize]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let whole = fs::read_to_string(folder.join(format!("configs/faults/{scenario}.toml"))).unwrap();
    let (text, restart) = whole.rsplit_once("[[faults]]").unwrap();
    assert!(restart.contains("scripts/brokers restart"), "{restart}");
    let restart_at = restart.split('"').nth(1).unwrap();
    let results = tempfile::tempdir().unwrap();
    let file = results.path().join(format!("{scenario}.toml"));
    fs::write(&file, text).unwrap();
    let mut command = brokermark();
    command.current_dir(folder).arg("run").arg(file);
    command
        .arg("--set")
        .arg(format!("run.duration={restart_at}"))
        .arg("--json")
        .arg("--output")
        .arg(results.path())
        .arg("--set")
        .arg(format!("broker.addresses={addresses:?}"));
    let record = Running::start(&mut command).finish(ENDING).expect(0).record();
    assert_balanced(&record);
    assert_eq!(record.counts.unresolved, 0, "{:?}", record.counts);
    assert_eq!(record.faults.len(), 3, "{:?}", record.faults);
    for command in felt.iter().map(|index| &record.faults[*index].run) {
        assert!(command.longest_gap_ns.is_some_and(|gap| u128::from(gap) >= least.as_nanos()), "{command:?}");
        assert!(command.first_acknowledgement_ns.is_some(), "{command:?}");
        assert!(command.recovered_ns >= command.first_acknowledgement_ns, "{command:?}");
    }
}

/// A follower that hears nothing of its leader asks for an election after 4 s at the earliest, and heard it less than a second before.
#[test]
#[cfg(feature = "nats")]
fn real_nats_that_loses_nodes_loses_nothing_acknowledged() {
    let cluster = Cluster::nats();
    lose_nodes(&cluster.addresses(), "nats", Duration::from_secs(3), &[0, 1, 2]);
}

/// Erlang takes a node for dead after three quarters of `net_ticktime` at the earliest. A closed connection is noticed at once: another node may
/// lead before the gap counts as an outage.
const UNHEARD: Duration = Duration::from_secs(3);

#[test]
fn real_rabbitmq_stream_that_loses_nodes_loses_nothing_confirmed() {
    let cluster = Cluster::rabbitmq();
    lose_nodes(&cluster.addresses(), "rabbitmq-stream", UNHEARD, &[1, 2]);
}

#[test]
#[cfg(feature = "rabbitmq")]
fn real_rabbitmq_queue_that_loses_nodes_loses_nothing_confirmed() {
    let cluster = Cluster::rabbitmq();
    lose_nodes(&cluster.addresses_of("_AMQP"), "rabbitmq-queue", UNHEARD, &[1, 2]);
}
