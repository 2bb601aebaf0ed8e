use super::super::LoadShape;
use super::super::sound::judged;
use super::*;
use crate::record::{Counts, ErrorCount, LimitedBy, LoadModel, Record, SeriesRow};

fn limiter(spoil: impl FnOnce(&mut Record, &mut Vec<SeriesRow>, &mut LoadShape)) -> Limiter {
    judged(spoil).limited_by.limiter
}

fn closed(record: &mut Record) {
    record.load_model = LoadModel::Closed;
    record.throughput.target_per_second = None;
}

#[test]
fn a_kept_schedule_is_the_limit() {
    assert_eq!(limiter(|_, _, _| {}), Limiter::Schedule);
    assert_ne!(limiter(|record, _, _| record.throughput.sent_per_second = 1.0), Limiter::Schedule);
}

#[test]
fn a_schedule_whose_answers_do_not_come_is_not_the_limit() {
    let answered = |messages_per_second| {
        judged(move |record, _, _| record.throughput.messages_per_second = messages_per_second).limited_by
    };
    assert_eq!(answered(48_000.0).limiter, Limiter::Schedule);
    let behind = answered(40_000.0);
    assert_eq!(behind.limiter, Limiter::Broker);
    assert!(behind.evidence.contains("40,000/s were answered inside the window"), "{}", behind.evidence);
}

#[test]
fn messages_that_failed_are_not_answers_that_take_long() {
    let found = judged(|record, _, _| {
        record.throughput.messages_per_second = 40_000.0;
        record.counts.failed = (record.throughput.window_ns as f64 / 1e9 * 10_000.0) as u64;
        let first_message = "TopicAuthorizationFailed".to_owned();
        let (class, count) = (FailureClass::Authorisation, record.counts.failed);
        record.errors = vec![ErrorCount { class, count, first_message, first_at_ns: 0 }];
    });
    let LimitedBy { limiter, evidence } = found.limited_by;
    assert_eq!(limiter, Limiter::Broker, "{evidence}");
    assert!(evidence.contains("failed, most of them with: TopicAuthorizationFailed"), "{evidence}");
}

#[test]
fn messages_of_aborted_transactions_are_not_answers_that_take_long() {
    let with_a_fifth = |class| {
        judged(move |record, _, _| {
            record.throughput.messages_per_second *= 0.8;
            record.counts.failed = record.counts.attempted / 5;
            let (count, first_message) = (record.counts.failed, "as the scenario asks for".to_owned());
            record.errors = vec![ErrorCount { class, count, first_message, first_at_ns: 0 }];
        })
        .limited_by
        .limiter
    };
    assert_eq!(with_a_fifth(FailureClass::Aborted), Limiter::Schedule);
    assert_eq!(with_a_fifth(FailureClass::Refused), Limiter::Broker);
}

#[test]
fn a_rate_that_was_sent_late_is_told_where_no_limit_was_found() {
    let late = |sent_per_second| {
        judged(move |record, _, _| {
            record.latency.schedule_delay.as_mut().unwrap().p99_ns = Some(50_000_000);
            record.throughput.sent_per_second = sent_per_second;
        })
        .limited_by
    };
    assert_eq!(late(50_000.0).limiter, Limiter::Unknown);
    assert!(late(50_000.0).evidence.contains("but not in time"), "{}", late(50_000.0).evidence);
    assert!(!late(40_000.0).evidence.contains("but not in time"), "{}", late(40_000.0).evidence);
}

#[test]
fn other_programs_that_kept_the_client_waiting_are_named() {
    let found = |late_ns, waited, busy| {
        judged(move |record, _, _| {
            record.latency.schedule_delay.as_mut().unwrap().p99_ns = Some(late_ns);
            let load = record.host_load.as_mut().unwrap();
            (load.cpu_pressure_share, load.system_cpu_busy) = (Some(waited), busy);
            record.broker_usage = None;
        })
        .limited_by
    };
    let disturbed = found(50_000_000, 0.67, 0.79);
    assert_eq!(disturbed.limiter, Limiter::Machine, "{}", disturbed.evidence);
    assert!(disturbed.evidence.starts_with("Tasks waited for a core for 67 % of the time: other programs used"));
    // Held; not waited for; and mostly the client's own.
    assert_eq!(found(1, 0.67, 0.79).limiter, Limiter::Schedule);
    assert_eq!(found(50_000_000, 0.03, 0.79).limiter, Limiter::Unknown);
    assert_eq!(found(50_000_000, 0.67, 0.01).limiter, Limiter::Unknown);
}

#[test]
fn a_quota_that_was_used_up_is_named() {
    let found = |quota_refusals, cores_used| {
        judged(move |record, _, _| {
            closed(record);
            record.client.cores_used = cores_used;
            record.wire = Some(crate::record::Wire { requests: 1000, quota_refusals, ..Default::default() });
        })
        .limited_by
    };
    for (quota_refusals, cores_used, limiter, names_quota, names_cores) in [
        (9, 1.0, Limiter::Unknown, false, true),
        (10, 1.0, Limiter::Broker, true, false),
        (9, 4.0, Limiter::Client, false, true),
        (99, 4.0, Limiter::Client, true, true),
        (100, 4.0, Limiter::Broker, true, true),
    ] {
        let found = found(quota_refusals, cores_used);
        assert_eq!(found.limiter, limiter, "{quota_refusals} refused, {cores_used} cores: {}", found.evidence);
        let names = |word| found.evidence.contains(word);
        assert_eq!((names("quota"), names("cores")), (names_quota, names_cores), "{}", found.evidence);
    }
}

#[test]
fn consumer_quota_is_named_and_leaves_the_limit() {
    let found = |throttled_fetches| {
        judged(move |record, _, _| {
            record.wire = Some(crate::record::Wire { fetches: 1000, throttled_fetches, ..Default::default() });
        })
        .limited_by
    };
    for (throttled, is_named) in [(0, false), (9, false), (10, true), (1000, true)] {
        let found = found(throttled);
        assert_eq!(found.evidence.contains("quota of the consumers"), is_named, "{}", found.evidence);
        assert_eq!(found.limiter, Limiter::Schedule);
    }
}

#[test]
fn a_client_without_cpu_is_the_limit_before_all_else() {
    let found = limiter(|record, _, _| {
        closed(record);
        record.client.cores_used = 4.0;
        record.client.queue_full_ns = u64::MAX / 2;
    });
    assert_eq!(found, Limiter::Client);
}

/// No thread is full, and so is the window, because the answers of all connections wait for one task.
#[test]
fn a_task_that_is_always_busy_is_the_limit_before_a_full_window() {
    let with = |task: f64| {
        judged(move |record, _, _| {
            closed(record);
            hold(record, 4_000.0);
            (record.client.cores_used, record.client.busiest_thread_cores) = (1.2, Some(0.3));
            record.client.busiest_task_cores = Some(task);
            record.client.busiest_task = Some("producer 3".to_owned());
        })
        .limited_by
    };
    assert_eq!(with(0.9).limiter, Limiter::Window);
    let found = with(0.97);
    assert_eq!(found.limiter, Limiter::Client);
    assert!(found.evidence.contains("'producer 3'") && found.evidence.contains("97 %"), "{}", found.evidence);
}

/// The usual case: a broker on the same machine.
#[test]
fn a_full_machine_is_the_limit_before_broker_queue_and_window() {
    let with = |busy: f64, steal: f64, spoil: fn(&mut Record)| {
        judged(move |record, series, _| {
            record.host_load = Some(crate::record::HostLoad { system_cpu_busy: busy, steal, ..Default::default() });
            record.client.cores_used = 1.3;
            record.client.queue_full_ns = u64::MAX / 2;
            series.iter_mut().for_each(|row| row.in_flight = 4_000);
            spoil(record);
        })
        .limited_by
    };
    let missed = |record: &mut Record| record.throughput.sent_per_second = 1_000.0;
    for spoil in [closed, missed] {
        let found = with(0.97, 0.0, spoil);
        assert_eq!(found.limiter, Limiter::Machine, "{}", found.evidence);
        assert!(found.evidence.contains("97 % busy") && found.evidence.contains("1.30 of 4 cores"), "{found:?}");
        assert_eq!(with(0.95, 0.0, spoil).limiter, Limiter::Machine);
        assert_eq!(with(0.94, 0.0, spoil).limiter, Limiter::Broker);
        assert_eq!(with(0.80, 0.15, spoil).limiter, Limiter::Machine, "withheld cores are not idle");
    }
    assert_eq!(with(0.97, 0.0, |_| {}).limiter, Limiter::Schedule, "what was asked for was sent");
    let client = with(0.97, 0.0, |record| {
        closed(record);
        record.client.cores_used = 3.7;
    });
    assert_eq!(client.limiter, Limiter::Client, "{}", client.evidence);
}

#[test]
fn full_queue_with_an_idle_client_means_the_broker() {
    let with = |share: f64| {
        limiter(move |record, _, _| {
            closed(record);
            record.client.queue_full_ns = (record.throughput.window_ns as f64 * 4.0 * share) as u64 + 1;
        })
    };
    assert_eq!((with(0.1), with(0.099)), (Limiter::Broker, Limiter::Unknown));
}

/// A larger window would only wait for the same connections.
#[test]
fn full_connections_are_the_broker_before_a_full_window() {
    let with = |share: f64| {
        judged(move |record, _, _| {
            closed(record);
            hold(record, 4_000.0);
            record.client.connections_full_share = Some(share);
        })
        .limited_by
    };
    assert_eq!((with(0.5).limiter, with(0.49).limiter), (Limiter::Broker, Limiter::Window));
    let evidence = with(0.93).evidence;
    assert!(evidence.contains("93 %") && evidence.contains("`broker.connections`"), "{evidence}");
    assert!(!evidence.contains("producers.in_flight"), "{evidence}");
}

#[test]
fn a_full_window_is_the_limit_of_both_kinds_of_load() {
    let with = |in_flight: f64| {
        limiter(move |record, _, _| {
            closed(record);
            hold(record, in_flight);
        })
    };
    assert_eq!((with(2_000.0), with(1_999.0)), (Limiter::Window, Limiter::Unknown));
    let open = judged(|record, _, _| {
        record.throughput.sent_per_second = 1_000.0;
        hold(record, 4_000.0);
    });
    assert_eq!(open.limited_by.limiter, Limiter::Window);
    assert!(open.limited_by.evidence.contains("the schedule had to wait"), "{open:?}");
}

/// Lets so many messages be in flight by Little's law.
fn hold(record: &mut Record, in_flight: f64) {
    let service = record.latency.service.as_mut().unwrap();
    service.mean_ns = in_flight * 1e9 / record.throughput.messages_per_second;
}

/// A load that pulses once a second is always met in the same state at the seconds' ends.
#[test]
fn littles_law_decides_unless_messages_are_missing() {
    let with = |by_law: f64, counted: u64, failed: u64| {
        judged(move |record, series, _| {
            closed(record);
            hold(record, by_law);
            series.iter_mut().for_each(|row| row.in_flight = counted);
            record.counts.failed = failed;
            record.counts.acknowledged -= failed;
        })
        .limited_by
    };
    let full = with(3_000.0, 10, 0);
    assert_eq!(full.limiter, Limiter::Window);
    assert!(full.evidence.contains("3,000 by Little's law, 10 at the rows' ends"), "{}", full.evidence);
    assert_eq!(with(10.0, 3_000, 0).limiter, Limiter::Unknown);
    assert_eq!(with(10.0, 3_000, 1_000).limiter, Limiter::Window);
}

#[test]
fn broker_processes_are_named_where_they_may_limit() {
    let with = |is_closed: bool| {
        judged(move |record, _, _| {
            if is_closed {
                closed(record);
            }
            record.broker_usage =
                Some(BrokerUsage { cores_used: Some(1.9), cores_of_machine: Some(2), ..Default::default() });
        })
        .limited_by
    };
    let unknown = with(true);
    assert!(unknown.evidence.ends_with("The broker's processes used 1.90 of 2 cores."), "{unknown:?}");
    let kept = with(false);
    assert!(kept.limiter == Limiter::Schedule && !kept.evidence.contains("broker's"), "{kept:?}");
}

#[test]
fn without_measured_messages_the_limiter_is_unknown() {
    assert_eq!(limiter(|record, _, _| record.counts = Counts::default()), Limiter::Unknown);
}

fn outage(longest_gap_ns: u64) -> Outage {
    Outage {
        begin_ns: 3_000_000_000,
        longest_gap_ns,
        in_window_ns: longest_gap_ns,
        first_acknowledgement_ns: Some(longest_gap_ns),
        recovered_ns: Some(longest_gap_ns),
        expected_per_second: 50_000.0,
        client_paused_ns: 0,
        caused_by_client: false,
    }
}

fn no_replicas(in_window_ns: u64) -> Condition {
    use crate::measure::{ConditionKind, SubjectKind};
    Condition {
        kind: ConditionKind::NotEnoughReplicas,
        subject: SubjectKind::Partition,
        subjects_max: 3,
        subjects: Some(4),
        names: vec!["orders/0".to_owned(), "orders/1".to_owned(), "orders/2".to_owned()],
        words: "NotEnoughReplicas (error 19)".to_owned(),
        begin_ns: 5_000_000_000,
        end_ns: None,
        lasted_ns: in_window_ns,
        in_window_ns,
    }
}

/// What was held back is answered after the stop, so the mean rate is the wanted one.
#[test]
fn a_schedule_without_answers_for_a_good_part_was_not_held() {
    let found = |outage: Outage| judged(move |record, _, _| record.outages = vec![outage]).limited_by;
    assert_eq!(found(outage(900_000_000)).limiter, Limiter::Schedule, "of ten seconds");
    let stopped = found(outage(7_000_000_000));
    assert_eq!(stopped.limiter, Limiter::Broker);
    assert!(stopped.evidence.contains("No message was acknowledged for 7.00 s of the 10.0 s"), "{}", stopped.evidence);
    assert!(stopped.evidence.contains("That began at 3.00 s: the broker stopped"), "{}", stopped.evidence);
    let earlier = found(Outage { begin_ns: 0, ..outage(7_000_000_000) });
    assert!(earlier.evidence.contains("That began before the measured phase: "), "{}", earlier.evidence);
    let of_client = Outage { caused_by_client: true, ..outage(7_000_000_000) };
    assert_eq!(found(of_client).limiter, Limiter::Schedule);
    let mostly_outside = Outage { in_window_ns: 900_000_000, ..outage(7_000_000_000) };
    assert_eq!(found(mostly_outside).limiter, Limiter::Schedule, "of an outage, what lies in the window counts");
}

#[test]
fn a_condition_is_named_before_the_limit_is_unknown() {
    let found = |in_window_ns, stop_ns, messages_per_second| {
        judged(move |record, _, _| {
            record.throughput.messages_per_second = messages_per_second;
            record.outages = vec![outage(stop_ns)];
            record.conditions = vec![no_replicas(in_window_ns)];
        })
        .limited_by
    };
    let behind = found(4_000_000_000, 300_000_000, 30_000.0);
    assert_eq!(behind.limiter, Limiter::Broker);
    assert_eq!(
        behind.evidence,
        "3 of 4 partitions: not enough in-sync replicas, for 4.00 s of the 10.0 s that were measured. The broker said: \
         NotEnoughReplicas (error 19)."
    );
    let stopped = found(4_000_000_000, 4_000_000_000, 50_000.0);
    assert!(stopped.evidence.contains("not enough in-sync replicas"), "{}", stopped.evidence);
    let short = found(500_000_000, 300_000_000, 30_000.0);
    assert!(!short.evidence.contains("in-sync"), "{}", short.evidence);
    assert_eq!(found(4_000_000_000, 300_000_000, 50_000.0).limiter, Limiter::Schedule, "the rate was held");
}

/// A group that assigns its partitions anew holds no producer up.
#[test]
fn what_consumers_wait_for_does_not_limit_producers() {
    let found = judged(|record, _, _| {
        record.throughput.messages_per_second = 30_000.0;
        record.counts.failed = record.counts.acknowledged;
        let subject = crate::measure::SubjectKind::Group;
        record.conditions = vec![Condition { subject, ..no_replicas(4_000_000_000) }];
    });
    assert!(!found.limited_by.evidence.contains("in-sync"), "{:?}", found.limited_by);
    let missing =
        found.reasons.iter().find(|reason| reason.kind == crate::record::ReasonKind::MissingMessages).unwrap();
    assert!(!missing.evidence.contains("held them up"), "{missing:?}");
}

#[test]
fn where_nothing_was_acknowledged_the_condition_is_the_limit() {
    let found = judged(|record, _, _| {
        record.counts = Counts { attempted: 100, unresolved: 100, ..Counts::default() };
        record.conditions = vec![no_replicas(4_000_000_000)];
    });
    assert_eq!(found.limited_by.limiter, Limiter::Broker);
    let missing =
        found.reasons.iter().find(|reason| reason.kind == crate::record::ReasonKind::MissingMessages).unwrap();
    assert!(missing.evidence.contains("not enough in-sync replicas, for 4.00 s (5.00 s to the end)"), "{missing:?}");
    assert!(!missing.advice.contains("drain_deadline"), "{missing:?}");
}
