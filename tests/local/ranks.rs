//! `mpirun brokermark run`: ranks run one scenario together and write one record; ranks die, and clocks differ.

use std::path::Path;

use brokermark::record::{ReasonKind, Record, Status, read_records};

use crate::harness::ranks::{
    mpirun, mpirun_bound, mpirun_with_clock_offset, mpirun_with_clock_offset_and_recovery, mpirun_with_exit_code,
    mpirun_with_small_files, process_of, signal,
};
use crate::harness::{Bench, Finished, PATIENCE, Running, assert_acknowledged, assert_balanced, eventually, finding};
use crate::shares::NULL;

/// Goes on until it is ended.
fn endless(warm_up: &str) -> Bench {
    Bench::new(&format!(
        "broker.kind = \"null\"\nproducers.count = 6\nload.rate = \"600/s\"\nrun = {{ warm_up = \"{warm_up}\", duration = \"1h\" }}"
    ))
}

fn finish(command: &mut std::process::Command) -> Finished {
    Running::start(command).finish(PATIENCE)
}

/// What the ranks kept of themselves.
fn kept(directory: &Path) -> Vec<Record> {
    let text = std::fs::read_to_string(directory.join("shares.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn four_ranks_are_one_record_with_exact_quantiles() {
    let bench = Bench::new(NULL);
    let record = finish(mpirun(&bench, 4).arg("--report")).expect(0).record();
    assert!(bench.run_directory().join("report.html").is_file());
    assert_acknowledged(&record, 2_003);
    assert_eq!(record.thresholds.iter().map(|threshold| threshold.held).collect::<Vec<_>>(), [true, true]);
    let shares = kept(&bench.run_directory());
    assert_eq!(record.shares.len(), 4);
    assert_eq!(shares.len(), 4);
    assert_eq!(record.lost_ranks.len(), 0);
    let response = |record: &Record| record.latency.response.as_ref().unwrap().decode_histogram().unwrap();
    let mut whole = response(&shares[0]);
    shares[1..].iter().for_each(|share| whole.add(response(share)).unwrap());
    assert_eq!(response(&record), whole);
    assert_together(&record);
    // Each rank's own run directory can be merged again, should rank 0 be lost.
    let own = (1..=4).map(|number| bench.run_directory().join(format!("share-{number}")));
    let merged = crate::harness::shares::merge(&bench, &own.collect::<Vec<_>>(), "again").expect(0).record();
    assert_eq!((merged.counts, response(&merged)), (record.counts, whole));
}

/// All shares were to begin at one time, by one clock, and the record says how far apart they did.
fn assert_together(record: &Record) {
    let starts: Vec<_> = record.shares.iter().map(|share| share.start.as_ref().unwrap()).collect();
    assert!(starts.iter().all(|start| start.planned_at == starts[0].planned_at), "{starts:?}");
    assert!(record.shares.iter().all(|share| share.clock.is_some_and(|clock| clock.error_ns == 0)), "one clock");
    let begins: Vec<u64> = record
        .shares
        .iter()
        .map(|of| {
            let late_ns = of.share.first_sent_unix_ns.unwrap() - of.share.first_due_unix_ns.unwrap();
            of.start.as_ref().unwrap().began_at.as_nanosecond() as u64 + late_ns
        })
        .collect();
    let together = record.together.unwrap();
    assert_eq!(together.start_skew_ns, Some(begins.iter().max().unwrap() - begins.iter().min().unwrap()));
    assert!((0.5..=1.0).contains(&together.window_overlap), "{together:?}");
}

/// The messages of a closed loop are all due when the load begins. Other tests need the cores as well, so that one of some tries has to do.
#[test]
fn ranks_begin_within_a_millisecond() {
    let mut skews_ns = Vec::new();
    while skews_ns.len() < 8 && skews_ns.iter().all(|skew_ns| *skew_ns >= 1_000_000) {
        let bench = Bench::new("broker.kind = \"null\"\nproducers.count = 2\nrun.messages = 1_000");
        let record = finish(&mut mpirun(&bench, 2)).expect(0).record();
        let sent: Vec<u64> = record.shares.iter().map(|of| of.share.first_sent_unix_ns.unwrap()).collect();
        let began_ns = record.shares[0].start.as_ref().unwrap().began_at.as_nanosecond() as u64;
        assert!(sent.iter().all(|sent_ns| *sent_ns >= began_ns), "{sent:?} before {began_ns}");
        skews_ns.push(sent[0].abs_diff(sent[1]));
    }
    // Two clocks were read: the same nanosecond would be one by construction.
    let least_ns = *skews_ns.iter().min().unwrap();
    assert!((1..1_000_000).contains(&least_ns), "{skews_ns:?}");
}

#[test]
fn the_trials_of_a_sweep_run_one_after_another() {
    let bench = Bench::new(
        "broker.kind = \"null\"\nproducers.count = 4\nrun.messages = 400\nsweep = { trials = 2, over = { \"producers.batch\" = [1, 10] } }",
    );
    let records = finish(&mut mpirun(&bench, 2)).expect(0).records();
    assert_eq!(records.len(), 4);
    for record in &records {
        assert_acknowledged(record, 400);
        assert_eq!(record.shares.len(), 2);
    }
    let shares = kept(&bench.run_directory());
    assert_eq!(shares.len(), 8);
    // Ranks on one host share its cores.
    let threads = (std::thread::available_parallelism().unwrap().get() / 2).max(1);
    let own: Vec<_> = shares.iter().map(|share| share.defaults["run.threads"].as_u64()).collect();
    assert_eq!(own, [Some(threads as u64); 8]);
}

/// How many threads of a rank carry load.
fn load_threads(bench: &Bench, rank: usize) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process_of(bench, rank))).unwrap();
    let names = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
    names.filter(|name| name.trim() == "brokermark-load").count()
}

#[test]
fn each_trial_of_a_sweep_has_its_own_threads() {
    let bench = Bench::new(
        "broker.kind = \"null\"\nproducers.count = 4\nrun = { warm_up = \"0s\", duration = \"3s\" }\n\
         sweep.over = { \"run.scheduling_policy\" = [\"other\", \"batch\"], \"run.threads\" = [1, 3] }",
    );
    let mut running = Running::start(&mut mpirun(&bench, 2));
    let mut threads = Vec::new();
    for trial in 1..=4 {
        running.await_stderr(&format!("{trial}/4 measuring"));
        threads.push(load_threads(&bench, 1));
    }
    assert_eq!(threads, [1, 3, 1, 3]);
    let records = running.finish(PATIENCE).expect(0).records();
    let policies: Vec<_> = records.iter().map(|record| record.client.scheduling_policy.as_deref().unwrap()).collect();
    assert_eq!(policies, ["other", "other", "batch", "batch"]);
    // The connections between ranks have another thread.
    let busiest: Vec<_> = records.iter().map(|record| record.client.busiest_thread.as_deref().unwrap()).collect();
    assert_eq!(busiest, ["brokermark-load"; 4]);
}

/// Far more than there are cores.
#[test]
fn sixty_four_ranks_form_run_and_merge() {
    let bench = Bench::new(
        "broker.kind = \"null\"\nproducers.count = 640\nload.rate = \"6400/s\"\nrun = { messages = 6_400, warm_up = \"100ms\" }",
    );
    let record = finish(&mut mpirun(&bench, 64)).expect(0).record();
    assert_acknowledged(&record, 6_400);
    assert_eq!((record.shares.len(), record.lost_ranks.len()), (64, 0));
    assert!(record.shares.iter().all(|of| of.share.producers == 10), "{:?}", record.shares);
}

#[test]
fn ranks_that_are_bound_to_cores_have_those_of_all() {
    let bench = Bench::new("broker.kind = \"null\"\nproducers.count = 4\nrun.messages = 400");
    let record = finish(&mut mpirun_bound(&bench)).expect(0).record();
    let own: Vec<_> = kept(&bench.run_directory()).into_iter().map(|share| share.client).collect();
    let cores = match own[0].cores_allowed == own[1].cores_allowed {
        // There is only one.
        true => own[0].cores_available,
        false => own[0].cores_available + own[1].cores_available,
    };
    assert_eq!(record.client.cores_available, cores, "{own:?}");
}

/// The record and the series of one rank are more than its disk takes.
#[test]
fn rank_with_full_disk_is_still_merged() {
    let bench = Bench::new(NULL);
    let ended = finish(&mut mpirun_with_small_files(&bench, 4)).expect(1);
    ended.complains_of(&["error: rank 1: ", "share-2", "error: rank 1 (", "could not write all of its files"]);
    let record = ended.record();
    assert_acknowledged(&record, 2_003);
    assert_eq!((record.shares.len(), record.lost_ranks.len()), (2, 0));
}

#[test]
fn a_clock_that_differs_is_found_within_its_bound_and_corrected() {
    let bench = Bench::new(NULL);
    let record = finish(&mut mpirun_with_clock_offset(&bench, "50ms")).expect(0).record();
    let clock = record.shares[1].clock.unwrap();
    assert!(clock.offset_ns.abs_diff(50_000_000) <= clock.error_ns, "{clock:?}");
    assert!(clock.round_trips >= 40 && clock.error_ns > 0, "{clock:?}");
    assert_eq!(record.shares[1].share.clock_error_ns, Some(clock.error_ns));
    let begins: Vec<_> = record.shares.iter().map(|share| share.start.as_ref().unwrap()).collect();
    assert_eq!(begins[0].planned_at, begins[1].planned_at, "by the clock of rank 0");
    let apart = begins[0].began_at.as_nanosecond().abs_diff(begins[1].began_at.as_nanosecond());
    let late: u64 = begins.iter().map(|start| start.late_ns).sum();
    assert!(apart <= u128::from(late), "{begins:?}");
}

/// Kills rank 1 of three, and expects the others to end with a record that names it, lost in this phase.
fn kill(bench: &Bench, running: Running, phase: &str) -> Record {
    signal(bench, 1, libc::SIGKILL);
    let ended = running.finish(PATIENCE);
    assert!(ended.stderr.contains("rank 1 was lost"), "{}", ended.stderr);
    let record = read_records(&bench.run_directory()).unwrap().records.remove(0);
    assert_balanced(&record);
    let [lost] = record.lost_ranks.as_slice() else { panic!("{:?}", record.lost_ranks) };
    assert_eq!((lost.number, lost.phase.as_str()), (2, phase));
    assert!(lost.reason.contains("connection"), "{lost:?}");
    record
}

#[test]
fn a_rank_that_is_killed_ends_the_others_and_is_named() {
    let unanswered = Bench::new(
        "broker = { kind = \"null\", null = { ignore = 1.0 } }
        producers.count = 6
        load.rate = \"600/s\"
        run = { duration = \"1s\", drain_deadline = \"9m\" }",
    );
    let benches = [
        ("warming up", "warmup", endless("1h")),
        ("measuring", "measure", endless("0s")),
        ("draining", "drain", unanswered),
    ];
    for (shown, phase, bench) in benches {
        let mut running = Running::start(&mut mpirun(&bench, 3));
        running.await_stderr(shown);
        let record = kill(&bench, running, phase);
        assert_eq!((record.status, record.shares.len()), (Status::Interrupted, 2));
        assert!(record.lost_ranks[0].attempted > 0, "{:?}", record.lost_ranks);
        let missing = finding(&record, ReasonKind::ShareMissing).unwrap();
        assert!(missing.evidence.contains("missing: 2") && missing.evidence.contains("Rank 1"), "{missing:?}");
    }
}

/// What it measured cannot be read again, so that it has nothing to tell.
#[test]
fn failed_rank_is_named_and_fails_the_run() {
    let bench = Bench::new(
        "broker.kind = \"null\"\nproducers.count = 4\nload.rate = \"400/s\"\nrun = { warm_up = \"0s\", duration = \"5s\" }",
    );
    let mut running = Running::start(&mut mpirun_with_exit_code(&bench, 2));
    running.await_stderr("measuring");
    let share = bench.run_directory().join("share-2");
    // The rank may just make a file there.
    eventually("the share is removed", || std::fs::remove_dir_all(&share).is_ok());
    let ended = running.finish(PATIENCE).expect(1);
    ended.complains_of(&["rank 1 (", "has failed", "share-2"]);
    let record = ended.record();
    assert_eq!(record.shares.len(), 1);
    let [failed] = record.lost_ranks.as_slice() else { panic!("{:?}", record.lost_ranks) };
    assert!(failed.number == 2 && failed.failed && failed.reason.contains("share-2"), "{failed:?}");
    let missing = finding(&record, ReasonKind::ShareMissing).unwrap();
    assert!(missing.evidence.contains("has failed") && missing.evidence.contains(&failed.reason), "{missing:?}");
}

/// All ranks wait for a server that takes connections and says nothing.
#[test]
#[cfg(feature = "nsq")]
fn rank_killed_in_preparation_is_named_and_ends_all() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let bench = Bench::new(&format!(
        "broker = {{ kind = \"nsq\", address = \"{}\" }}\nproducers.count = 3\nrun.messages = 30",
        server.local_addr().unwrap()
    ));
    let prepare = || {
        let running = Running::start(&mut mpirun(&bench, 3));
        let connections: Vec<_> = (0..3).map(|_| server.accept().unwrap()).collect();
        (running, connections)
    };
    let (running, connections) = prepare();
    let record = kill(&bench, running, "prepare");
    assert_eq!((record.status, record.counts.attempted), (Status::Failed, 0));
    assert!(record.error.as_ref().is_some_and(|error| error.contains("rank 1")), "{:?}", record.error);

    // Without rank 0, there is nothing to merge.
    drop(connections);
    let (running, _connections) = prepare();
    signal(&bench, 0, libc::SIGKILL);
    let ended = running.finish(PATIENCE);
    ended.complains_of(&["rank 0 was lost before this rank's load began, so it measured nothing"]);
    assert!(!ended.stderr.contains("brokermark merge"), "{}", ended.stderr);
}

#[test]
fn progress_has_the_latencies_of_all_ranks() {
    let bench = endless("0s");
    let mut running = Running::start(&mut mpirun(&bench, 2));
    running.await_stderr("response p50");
    signal(&bench, 0, libc::SIGINT);
    running.finish(PATIENCE);
}

#[test]
fn without_rank_0_the_others_keep_what_they_measured() {
    let bench = endless("0s");
    let mut running = Running::start(&mut mpirun(&bench, 3));
    running.await_stderr("measuring");
    signal(&bench, 0, libc::SIGKILL);
    running.finish(PATIENCE).complains_of(&["rank 0 was lost", "share-2", "share-3", "brokermark merge"]);
    let directory = bench.run_directory();
    let own: Vec<_> = (2..=3).map(|number| directory.join(format!("share-{number}"))).collect();
    let merged = crate::harness::shares::merge(&bench, &own, "merged").expect(130).record();
    assert_balanced(&merged);
    assert!(merged.counts.acknowledged > 0);
    let clocks: Vec<_> = merged.shares.iter().map(|of| (of.share.clock_shift_ns, of.share.clock_error_ns)).collect();
    assert_eq!(
        clocks,
        [(Some(0), Some(0)); 2],
        "they read rank 0's clock, and do not need to know how far that is off"
    );
}

/// What was known of its clock when the trial was ordered is in its own record.
#[test]
fn share_without_rank_0_has_its_clock_offset_and_bound() {
    let bench = endless("0s");
    let mut running = Running::start(&mut mpirun_with_clock_offset_and_recovery(&bench, "50ms"));
    running.await_stderr("measuring");
    signal(&bench, 0, libc::SIGKILL);
    running.finish(PATIENCE).complains_of(&["rank 0 was lost"]);
    let own = bench.run_directory().join("share-2");
    let merged = crate::harness::shares::merge(&bench, &[own], "merged").expect(130).record();
    let of = &merged.shares[0].share;
    let (shift_ns, error_ns) = (of.clock_shift_ns.unwrap(), of.clock_error_ns.unwrap());
    assert!(error_ns > 0 && shift_ns.abs_diff(-50_000_000) <= error_ns, "{of:?}");
    assert_eq!(of.boot_id.as_deref(), Some("rank 1"));
}

#[test]
fn a_signal_to_any_rank_ends_all_and_keeps_everything() {
    for rank in [0, 1] {
        let bench = endless("0s");
        let mut running = Running::start(&mut mpirun(&bench, 2));
        running.await_stderr("measuring");
        signal(&bench, rank, libc::SIGINT);
        let record = running.finish(PATIENCE).record();
        assert_eq!(record.status, Status::Interrupted);
        assert_eq!(record.shares.len(), 2);
        assert_eq!(record.lost_ranks.len(), 0);
        assert_balanced(&record);
    }
}

#[test]
fn a_signal_to_any_rank_ends_a_sweep() {
    for rank in [0, 1] {
        let bench = Bench::new(
            "broker.kind = \"null\"\nproducers.count = 4\nload.rate = \"400/s\"\nrun.duration = \"1h\"\nsweep.trials = 3",
        );
        let mut running = Running::start(&mut mpirun(&bench, 2));
        running.await_stderr("measuring");
        signal(&bench, rank, libc::SIGINT);
        let records = running.finish(PATIENCE).records();
        assert_eq!(records.iter().map(|record| record.status).collect::<Vec<_>>(), [Status::Interrupted]);
    }
}

/// The rank has no trial then.
#[test]
fn a_signal_to_a_rank_between_two_trials_ends_the_sweep() {
    let bench = Bench::new(
        "broker.kind = \"null\"\nproducers.count = 4\nrun.messages = 400\nsweep = { trials = 2, pause = \"1h\" }",
    );
    let mut running = Running::start(&mut mpirun(&bench, 2));
    running.await_stderr("pausing");
    signal(&bench, 1, libc::SIGINT);
    let records = running.finish(PATIENCE).records();
    assert_eq!(records.iter().map(|record| record.status).collect::<Vec<_>>(), [Status::Completed]);
}

#[test]
fn trials_end_at_all_ranks_once_the_metric_is_known() {
    let bench = Bench::new(
        "broker = { kind = \"null\", null.service_time = \"2ms\" }
        producers.count = 4
        load.rate = \"2k/s\"
        run.messages = 400
        sweep = { trials = 6, trials_at_most = 30, until = \"messages_per_second ± 50 %\" }",
    );
    let records = finish(&mut mpirun(&bench, 2)).expect(0).records();
    assert!((6..30).contains(&records.len()), "{} trials", records.len());
    assert_eq!(kept(&bench.run_directory()).len(), 2 * records.len());
}

#[test]
fn a_job_of_one_rank_runs_the_whole_scenario() {
    let bench = Bench::new("broker.kind = \"null\"\nrun.messages = 10");
    let record = finish(&mut mpirun_with_exit_code(&bench, 1)).expect(0).record();
    assert_acknowledged(&record, 10);
    assert!(record.share.is_none() && record.shares.is_empty());
}

/// As of a program that was built with another MPI than that of mpirun: each process is a job of its own to it.
#[test]
fn processes_that_mpi_does_not_join_are_refused() {
    let bench = Bench::new("broker.kind = \"null\"\nrun.messages = 10");
    let rank = [("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "0")];
    let refused = finish(bench.command().envs(rank)).expect(2);
    refused.complains_of(&["process 0 of 2", "MPI does not join them", "the MPI that it was built with"]);
    assert!(bench.run_directories().is_empty());
}

#[test]
fn what_ranks_cannot_run_is_refused_once() {
    let refused = |scenario: &str, arguments: &[&str], parts: &[&str]| {
        let bench = Bench::new(scenario);
        let ended = finish(mpirun_with_exit_code(&bench, 2).args(arguments)).expect(2);
        ended.complains_of(parts);
        assert_eq!(ended.stderr.matches(parts[0]).count(), 1, "{}", ended.stderr);
        assert!(bench.run_directories().is_empty());
    };
    let null = "broker.kind = \"null\"\nrun.messages = 10\n";
    refused(null, &[], &["producers.count"]);
    refused("broker.kind = \"nul\"", &[], &["broker.kind"]);
    refused(&format!("{null}producers.count = 2"), &["--ceiling"], &["--ceiling"]);
    let one_writer = format!("{null}distribution.writers = \"0\"");
    refused(&one_writer, &[], &["rank 1 of 2 would have nothing to do"]);
}
