use super::super::sound::{notes, reasons};
use super::*;
use crate::record::{HostLoad, Lateness};

#[test]
fn all_cores_at_the_boundary() {
    assert_eq!(reasons(|record, _, _| record.client.cores_used = 3.59), []);
    assert_eq!(reasons(|record, _, _| record.client.cores_used = 3.6), [ClientBound]);
}

#[test]
fn one_thread_at_the_boundary() {
    assert_eq!(reasons(|record, _, _| record.client.busiest_thread_cores = Some(0.94)), []);
    assert_eq!(reasons(|record, _, _| record.client.busiest_thread_cores = Some(0.95)), [ClientBound]);
}

#[test]
fn one_task_at_the_boundary_of_a_client_that_worked_so_much() {
    let with = |task: f64, worked: f64, busy: f64| {
        reasons(move |record, _, _| {
            let client = &mut record.client;
            (client.cores_used, client.busiest_thread_cores) = (worked, Some(0.3));
            (client.busiest_task_cores, client.busiest_task) = (Some(task), Some("producer 3".to_owned()));
            record.host_load = Some(HostLoad { system_cpu_busy: busy, ..HostLoad::default() });
        })
    };
    assert_eq!((with(0.95, 1.2, 0.5), with(0.94, 1.2, 0.5)), (vec![ClientBound], vec![]));
    assert_eq!((with(1.0, 0.95, 0.5), with(1.0, 0.94, 0.5)), (vec![ClientBound], vec![]), "it waited for its core");
    assert_eq!((with(1.0, 1.2, 0.94), with(1.0, 1.2, 0.95)), (vec![ClientBound], vec![]), "of a full machine");
}

#[test]
fn what_polls_could_have_worked() {
    let with = |polling: f64| {
        reasons(move |record, _, _| {
            (record.client.cpu_seconds, record.client.cores_used) = (40.0, 4.0);
            record.client.polling_cpu_seconds = Some(polling);
        })
    };
    assert_eq!(with(3.9), [ClientBound]);
    assert_eq!(with(4.1), []);
}

#[test]
fn late_timers_count_only_on_a_machine_full_with_the_client() {
    let with = |lateness: u64, busy: f64, cores: f64| {
        reasons(move |record, _, _| {
            record.client.timer_lateness = Some(Lateness { p99_ns: lateness, max_ns: lateness, ..Lateness::default() });
            record.latency.response.as_mut().unwrap().p99_ns = Some(1_000_000_000);
            record.host_load = Some(HostLoad { system_cpu_busy: busy, ..HostLoad::default() });
            record.client.cores_used = cores;
        })
    };
    assert_eq!(with(5_000_001, 0.95, 2.0), [ClientBound]);
    assert_eq!(with(5_000_000, 0.95, 2.0), []);
    assert_eq!(with(5_000_001, 0.94, 2.0), []);
    assert_eq!(with(5_000_001, 1.0, 2.0), [], "half of the load is not more than half");
}

#[test]
fn load_of_others_and_disk_waits_are_notes() {
    let with = |busy: f64, io: f64| {
        notes(move |record, _, _| {
            record.host_load =
                Some(HostLoad { system_cpu_busy: busy, io_pressure_share: Some(io), ..HostLoad::default() });
        })
    };
    assert_eq!((with(0.95, 0.0), with(0.94, 0.0)), (vec![HostContended], vec![]));
    assert_eq!((with(0.5, 0.11), with(0.5, 0.1)), (vec![HostContended], vec![]));
}

#[test]
fn time_that_was_withheld_is_a_reason_at_each_boundary() {
    type Change = fn(&mut HostLoad, f64);
    let with =
        |change: Change, share: f64| reasons(move |record, _, _| change(record.host_load.as_mut().unwrap(), share));
    let kinds: [(Change, f64); 3] = [
        (|load, share| load.steal = share, 0.02),
        (|load, share| load.cgroup_throttled_share = Some(share), 0.01),
        (|load, share| load.memory_pressure_share = Some(share), 0.01),
    ];
    for (change, limit) in kinds {
        assert_eq!((with(change, limit), with(change, limit + 0.001)), (vec![], vec![TimeWithheld]));
    }
    let pressed = with(|load, share| load.cpu_pressure_share = Some(share), 1.0);
    assert_eq!(pressed, [], "some thread always waits where there are more threads than cores");
}

#[test]
fn shared_hardware_threads_are_a_note_when_cores_are_busy() {
    let with = |busy: f64, physical| {
        notes(move |record, _, _| {
            record.environment.physical_cores = physical;
            record.host_load = Some(HostLoad { system_cpu_busy: busy, ..HostLoad::default() });
        })
    };
    assert_eq!((with(0.475, Some(2)), with(0.474, Some(2))), (vec![SharedCores], vec![]));
    assert_eq!((with(0.9, Some(4)), with(0.9, None)), (vec![], vec![]));
}

#[test]
fn a_part_of_a_core_that_a_quota_allows_is_not_rounded() {
    let with = |used: f64, quota: f64| {
        reasons(move |record, _, _| {
            (record.client.cores_used, record.client.cores_available) = (used, quota);
        })
    };
    assert_eq!((with(0.9, 1.5), with(1.35, 1.5)), (vec![], vec![ClientBound]));
    assert_eq!((with(0.45, 0.5), with(0.44, 0.5)), (vec![ClientBound], vec![]));
}

#[test]
fn a_broker_that_could_not_be_watched_is_a_note() {
    let with = |failures| {
        notes(move |record, _, _| {
            let source = crate::record::BrokerSource { failures, ..Default::default() };
            record.broker_usage = Some(crate::record::BrokerUsage { sources: vec![source], ..Default::default() });
        })
    };
    assert_eq!((with(0), with(1)), (vec![], vec![BrokerUnwatched]));
}

#[test]
fn a_full_queue_does_not_make_the_client_the_limit() {
    assert_eq!(reasons(|record, _, _| record.client.queue_full_ns = u64::MAX / 2), []);
}
