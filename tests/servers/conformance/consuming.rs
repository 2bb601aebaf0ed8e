//! Groups with settings of their own: what is sent before they begin is kept for them.

use super::Broker;
use crate::harness::{assert_delivered, record_of};

pub fn a_backlog_is_kept_for_every_group(broker: &Broker) {
    let record = record_of(&broker.scenario(
        "load.rate = \"1k/s\"
        producers.count = 2
        topology.partitions = 2
        run.messages = 1500
        [payload]
        kind = \"random\"
        size = \"100B\"
        [consumers]
        [[consumers.group]]
        [[consumers.group]]
        work = { kind = \"exponential\", mean = \"100us\" }
        [consumers.backlog]
        messages = 500",
    ));
    assert_delivered(&record, 1500, 2);
    let found = record.backlog.as_ref().unwrap();
    assert_eq!(found.build.consumed_per_second, 0.0, "{found:?}");
    // A broker that has just started may acknowledge nothing before the load ends, and to join a group may take as long.
    if let Some(messages) = found.messages {
        assert!((500..=1500).contains(&messages), "{found:?}");
        assert_eq!((found.payload_bytes, found.groups.len()), (Some(messages * 100), 2), "{found:?}");
        assert!(found.build.response.is_some() && found.drain.is_some(), "{found:?}");
        let drained = found.groups.iter().filter(|group| group.duration_ns.is_some());
        drained.for_each(|group| assert!(group.received + group.behind >= messages, "{found:?}"));
    }
    let groups = &record.verification.as_ref().unwrap().groups;
    assert_eq!((&groups[0].task, groups[1].task.as_ref().unwrap().work_mean_ns), (&None, Some(100_000)));
}

pub fn groups_work_and_begin_late(broker: &Broker) {
    let record = record_of(&broker.scenario(
        "load.rate = \"1k/s\"
        run.messages = 1000
        [consumers]
        [[consumers.group]]
        work = \"2ms\"
        [[consumers.group]]
        start_after = \"500ms\"
        rate = \"5k/s\"",
    ));
    assert_delivered(&record, 1000, 2);
    let longest_ns = record.latency.end_to_end.as_ref().unwrap().max_ns;
    assert!(longest_ns >= 995_000_000, "the last message is begun after 999 times 2 ms: {longest_ns}");
}

/// Batches of many messages come at once, and a quarter of what is sent is due: what is not due has not arrived, so that the lag and the time
/// to catch up are those of a program that works so fast.
pub fn a_limited_group_takes_what_is_due(broker: &Broker) {
    let record = record_of(&broker.scenario(
        "load.rate = \"2k/s\"
        producers.batch = 100
        producers.in_flight = 4000
        run.duration = \"2s\"
        [consumers]
        [[consumers.group]]
        rate = \"1k/s\"",
    ));
    assert_delivered(&record, 4000, 1);
    let group = &record.verification.as_ref().unwrap().groups[0];
    // Two thousand are due while the load lasts. What the broker has not acknowledged when it ends is not yet behind, so a lag may be small.
    assert!(group.consumer_lag_at_load_end.unwrap() <= 4000, "{group:?}");
    assert!(group.catch_up_ns.unwrap() >= 1_500_000_000, "{group:?}");
    let arrived: u64 = record.throughput.consumed_per_second.unwrap() as u64;
    assert!(arrived <= 1300, "{arrived}/s");
}
