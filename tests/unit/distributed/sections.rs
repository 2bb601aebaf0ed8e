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
