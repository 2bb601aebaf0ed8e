//! Ranks on hosts of their own: one is far away or off the network, and brokers are on other hosts.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::hosts::Hosts;
use crate::harness::{Bench, PATIENCE, Running, assert_acknowledged, assert_balanced, eventually, finding};
use brokermark::record::{ReasonKind, Record, Status, read_records, read_series};

/// Ranks that wait for no server.
fn on_null(duration: &str) -> Bench {
    Bench::new(&format!(
        "broker.kind = \"null\"\nproducers.count = 6\nload.rate = \"600/s\"\nrun.duration = \"{duration}\""
    ))
}

/// What the test's host sends takes 300 ms, and what it receives takes none: no round trip shows such a difference, and the bound of
/// the clock has to contain it.
#[test]
fn real_host_that_is_300_ms_away_is_one_of_three() {
    let hosts = Hosts::up(3);
    hosts.shape(3, "delay 300ms");
    let record = Running::start(&mut hosts.mpirun(&on_null("4s"), 3, &[2])).finish(PATIENCE).expect(0).record();
    assert_acknowledged(&record, 2_400);
    assert_eq!(record.status, Status::Completed);
    assert_eq!(record.shares.len(), 3);
    assert_eq!(record.lost_ranks.len(), 0);
    let clock = record.shares[2].clock.unwrap();
    assert!(clock.round_trip_ns >= 300_000_000, "{clock:?}");
    assert!(clock.offset_ns.abs_diff(50_000_000) <= clock.error_ns, "{clock:?}");
    assert!(clock.error_ns < 200_000_000, "half of the round trip and a little more: {clock:?}");
}

/// The example's commands run on the host of the load, and change what the broker's host sends.
#[test]
#[cfg(feature = "nats")]
fn real_fault_of_the_network_is_felt_and_taken_back() {
    use crate::harness::nats;

    let (hosts, data, results) = (Hosts::up(2), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = ["-a", &Hosts::address(2), "-js", "-sd", data.path().to_str().unwrap()].map(str::to_owned);
    let _server = hosts.start(2, &nats::programs().join("nats-server"), &server);
    let address = format!("{}:4222", Hosts::address(2));
    eventually("nats-server listens", || std::net::TcpStream::connect(&address).is_ok());
    let example = ["run", "configs/examples/nats-delay.toml", "--json", "--output", results.path().to_str().unwrap()];
    let program = Path::new(env!("CARGO_BIN_EXE_brokermark"));
    let record = hosts.start(1, program, &example.map(str::to_owned)).finish(PATIENCE).expect(0).record();
    let [fault] = record.faults.as_slice() else { panic!("{:?}", record.faults) };
    assert!(fault.commands().all(|(_, command)| command.exit_code == Some(0)), "{fault:?}");
    let run = std::fs::read_dir(results.path()).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    let rows = read_series(&run.unwrap()).unwrap();
    let is_late = |p50_ns: u64| if p50_ns >= 50_000_000 { '#' } else { '.' };
    let course: String = rows.iter().filter_map(|row| row.p50_ns.map(is_late)).collect();
    let around = course.rsplit_once("###");
    assert!(around.is_some_and(|(before, after)| before.starts_with('.') && after.contains('.')), "{course}");
}

/// Waits until rank 0 has heard of messages that were acknowledged.
fn started(hosts: &Hosts, bench: &Bench) -> Running {
    let mut running = Running::start(&mut hosts.mpirun(bench, 3, &[]));
    running.await_stderr(" p99 ");
    running
}

#[test]
fn real_host_that_is_off_the_network_for_5_s_loses_nothing() {
    let (hosts, bench) = (Hosts::up(3), on_null("9s"));
    let running = started(&hosts, &bench);
    hosts.cut(2);
    let begin = Instant::now();
    eventually("the fault has lasted", || begin.elapsed() >= Duration::from_secs(5));
    hosts.join(2);
    let record = running.finish(PATIENCE).expect(0).record();
    assert_acknowledged(&record, 5_400);
    assert_eq!(record.status, Status::Completed);
    assert_eq!(record.shares.len(), 3);
    assert_eq!(record.lost_ranks.len(), 0);
}

#[test]
fn real_host_that_stays_off_the_network_is_lost_and_named() {
    let (hosts, bench) = (Hosts::up(3), on_null("10m"));
    let mut running = started(&hosts, &bench);
    hosts.cut(3);
    running.await_stderr("rank 2 was lost");
    running.await_stderr("records: ");
    // mpirun itself waits for what it has started on the host.
    hosts.join(3);
    running.finish(PATIENCE);
    let record = read_records(&bench.run_directory()).unwrap().records.remove(0);
    assert_balanced(&record);
    assert_eq!((record.status, record.shares.len()), (Status::Interrupted, 2));
    let [lost] = record.lost_ranks.as_slice() else { panic!("{:?}", record.lost_ranks) };
    assert_eq!(lost.number, 3);
    assert_eq!(lost.hostname.as_deref(), Some("bm-host-3"));
    assert_eq!(lost.phase.as_str(), "measure");
    let missing = finding(&record, ReasonKind::ShareMissing).unwrap();
    assert!(missing.evidence.contains("Rank 2 on bm-host-3"), "{missing:?}");
}

/// NSQ's distributed benchmark as it was: every nsqd and every process of the load on a host of its own.
#[test]
#[cfg(feature = "nsq")]
fn real_nsqd_and_ranks_on_six_hosts_print_the_aggregate() {
    use crate::harness::execute;
    use crate::harness::server::variable;

    let hosts = Hosts::up(6);
    let data = tempfile::tempdir().unwrap();
    let program = Path::new(&variable("BROKERMARK_NSQ_PROGRAMS")).join("nsqd");
    let servers = 4..=6;
    let _running: Vec<Running> = servers
        .clone()
        .map(|number| {
            let (address, folder) = (Hosts::address(number), data.path().join(number.to_string()));
            std::fs::create_dir(&folder).unwrap();
            let arguments = [
                format!("-tcp-address={address}:4150"),
                format!("-http-address={address}:4151"),
                format!("-broadcast-address={address}"),
                format!("-data-path={}", folder.display()),
                "-max-rdy-count=10000".to_owned(),
                "-mem-queue-size=1000000".to_owned(),
            ];
            hosts.start(number, &program, &arguments)
        })
        .collect();
    let addresses: Vec<String> = servers.map(|number| format!("{}:4150", Hosts::address(number))).collect();
    for address in &addresses {
        eventually("nsqd listens", || std::net::TcpStream::connect(address).is_ok());
    }
    for (file, shown) in [("nsq-pub", &["bench_writer"][..]), ("nsq-pubsub", &["bench_writer", "bench_reader"])] {
        let path = format!("{}/configs/published/{file}.toml", env!("CARGO_MANIFEST_DIR"));
        let published: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
        let bench = Bench::new(&crate::ranks::shortened(published, addresses.clone()).to_string());
        let record: Record = Running::start(&mut hosts.mpirun(&bench, 3, &[])).finish(PATIENCE).expect(0).record();
        assert_eq!((record.shares.len(), record.counts.failed), (3, 0));
        assert!(record.shares.iter().all(|of| of.messages_per_second > 0.0), "{:?}", record.shares);
        let names: Vec<_> = record.shares.iter().filter_map(|of| of.hostname.as_deref()).collect();
        assert_eq!(names, ["bm-host-1", "bm-host-2", "bm-host-3"]);
        let printed = execute(&["show", bench.run_directory().to_str().unwrap(), "--format", "nsq-bench"]).expect(0);
        printed.says(shown);
        printed.says(&["aggregate, as published"]);
    }
}
