use super::*;
use crate::distributed::merge::made_up::share;

#[test]
fn rates_are_of_the_stretch_that_all_windows_cover() {
    let second = 1_000_000_000;
    let shares = [share(1, 2, 0, 10 * second, 1_000.0), share(2, 2, 2 * second, 10 * second, 3_000.0)];
    let counts = counts(&shares);
    let throughput = throughput(&shares, &counts);
    assert_eq!(throughput.window_ns, 12 * second);
    assert!((throughput.messages_per_second - 40_000.0 / 12.0).abs() < 1e-6, "{throughput:?}");
    assert_eq!(counts.acknowledged, 40_000);
    assert!(counts.balances());
}

#[test]
fn idle_connections_of_shares_are_added() {
    let mut shares = [share(1, 2, 0, 1, 1.0), share(2, 2, 0, 1, 1.0)];
    assert_eq!(idle_connections(&shares).unwrap(), None);
    let lost = |count, first_at_ns| ErrorCount {
        class: FailureClass::ConnectionLost,
        count,
        first_message: format!("after {first_at_ns}"),
        first_at_ns,
    };
    for (share, wanted) in shares.iter_mut().zip([100, 300]) {
        share.record.idle_connections = Some(IdleConnections {
            wanted,
            opened: wanted + 5,
            open_at_end: wanted - 2,
            replaced: 5,
            opened_per_second: wanted as f64,
            time_to_ready: share.record.latency.response.clone(),
            memory_bytes_each: Some(wanted),
            failed: Vec::new(),
            lost: vec![lost(2, wanted)],
        });
    }
    let values = shares[0].record.latency.response.as_ref().unwrap().count;
    let sum = idle_connections(&shares).unwrap().unwrap();
    assert_eq!((sum.wanted, sum.opened, sum.open_at_end, sum.replaced), (400, 410, 396, 10));
    assert_eq!((sum.opened_per_second, sum.memory_bytes_each), (400.0, Some((100 * 100 + 300 * 300) / 400)));
    assert_eq!(sum.time_to_ready.unwrap().count, 2 * values);
    assert_eq!(sum.lost, [lost(4, 100)]);
}

#[test]
fn loads_are_compared_by_how_late_their_first_messages_were() {
    let second = 1_000_000_000;
    let mut shares = [share(1, 3, second, second, 1.0), share(2, 3, second, second, 1.0), share(3, 3, 0, second, 0.0)];
    shares[2].record.share.as_mut().unwrap().producers = 0;
    let mut first = |index: usize, due_ns, sent_ns| {
        let share = shares[index].record.share.as_mut().unwrap();
        (share.first_due_unix_ns, share.first_sent_unix_ns) = (Some(due_ns), sent_ns);
        start_skew_ns(&shares)
    };
    assert_eq!(first(0, second, Some(second + 300)), Some(300));
    assert_eq!(first(1, second + 900, Some(second + 1_000)), Some(200), "due 900 ns later by its schedule");
    assert_eq!(first(1, second, None), None);
}

#[test]
fn a_share_that_only_consumes_does_not_stretch_the_window() {
    let second = 1_000_000_000;
    let mut shares = [share(1, 2, 0, 10 * second, 1_000.0), share(2, 2, 5 * second, 20 * second, 0.0)];
    shares[0].record.throughput.consumed_per_second = Some(0.0);
    shares[1].record.throughput.consumed_per_second = Some(500.0);
    shares[1].record.share.as_mut().unwrap().producers = 0;
    let throughput = throughput(&shares, &counts(&shares));
    assert_eq!(throughput.window_ns, 10 * second);
    assert_eq!((throughput.messages_per_second, throughput.consumed_per_second), (1_000.0, Some(500.0)));
}

#[test]
fn fairness_of_producers_follows_from_the_shares() {
    let mut shares = [share(1, 2, 0, 1, 1.0), share(2, 2, 0, 1, 1.0)];
    let messages: [&[u64]; 2] = [&[10, 20, 30], &[40, 5]];
    for (share, messages) in shares.iter_mut().zip(messages) {
        share.record.counts.attempted = messages.iter().sum();
        share.record.throughput.producer_shares = ProducerShares::from_counts(messages.iter().copied());
        share.record.share.as_mut().unwrap().producers = messages.len();
    }
    let merged = producer_shares(&shares).unwrap();
    let expected = ProducerShares::from_counts(messages.concat().into_iter()).unwrap();
    assert!((merged.jain_index - expected.jain_index).abs() < 1e-12, "{merged:?}");
    assert_eq!((merged.smallest_messages, merged.largest_messages), (5, 40));
}

#[test]
fn errors_of_a_class_are_one_with_the_message_of_the_first() {
    let second = 1_000_000_000;
    let mut shares = [share(1, 2, 3 * second, second, 1.0), share(2, 2, 0, second, 1.0)];
    let error = |count, first_at_ns, message: &str| ErrorCount {
        class: FailureClass::Timeout,
        count,
        first_message: message.to_owned(),
        first_at_ns,
    };
    shares[0].record.errors = vec![error(2, second, "later")];
    shares[1].record.errors = vec![error(3, 2 * second, "first")];
    assert_eq!(errors(&shares, |record| &record.errors), [error(5, 2 * second, "first")]);
}

#[test]
fn what_a_missing_share_may_have_received_is_not_lost() {
    let account = GroupAccount {
        lost: 3,
        unread: 2,
        removed: 1,
        undecided: 4,
        not_acknowledged_but_stored: 5,
        ..GroupAccount::default()
    };
    let received = GroupVerification { received: 9, catch_up_ns: Some(7), ..GroupVerification::default() };
    let counted_as = |account, are_all, is_decided| {
        let of = group(&[&received], &MergedGroup { account, repeated: 0 }, are_all, is_decided);
        ([of.lost, of.unread, of.removed, of.undecided, of.not_acknowledged_but_stored], of.catch_up_ns)
    };
    let counted = |account, are_all| counted_as(account, are_all, are_all);
    assert_eq!(counted(account, true), ([3, 2, 1, 4, 5], None));
    // The broker has removed some of them.
    assert_eq!(counted_as(account, true, false), ([0, 0, 1, 9, 5], None));
    assert_eq!(counted(account, false), ([0, 0, 1, 9, 0], None));
    let nothing = GroupAccount::default();
    assert_eq!([true, false].map(|are_all| counted(nothing, are_all).1), [Some(7), None]);
}
