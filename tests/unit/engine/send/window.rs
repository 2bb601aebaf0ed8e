use super::*;

/// Tokio's timer alone is late by a millisecond more often than not.
#[tokio::test]
async fn load_begins_at_its_time_not_at_the_next_timer_tick() {
    let mut late_ns = Vec::new();
    for _ in 0..20 {
        let acks = Acks::new(Clock::start(), 1, false);
        let load_start_ns = acks.clock().now_ns() + 5_000_000;
        let window = TrialWindow::new(acks, load_start_ns, Duration::ZERO, None, None);
        window.begun().await;
        late_ns.push(window.clock().now_ns().checked_sub(load_start_ns).unwrap());
    }
    late_ns.sort_unstable();
    assert!(late_ns[5] < 400_000, "{late_ns:?}");
}

#[test]
fn a_window_opens_by_messages_or_by_batches() {
    let by_message = WindowRule { in_flight: 100, batch: 10, confirm: Confirm::Message };
    assert_eq!(by_message.needed(0, 10), 0);
    assert_eq!(by_message.needed(100, 10), 10);
    assert_eq!(by_message.needed(105, 10), 15);
    let by_batch = WindowRule { in_flight: 15, batch: 10, confirm: Confirm::Batch };
    assert_eq!(by_batch.needed(0, 10), 0);
    assert_eq!(by_batch.needed(10, 10), 10, "5 would do by messages, the batch is only done with 10");
    assert_eq!(by_batch.needed(13, 10), 10);
}

#[test]
fn takers_get_exactly_the_limit() {
    let quota = Quota::new(&Stop { messages: Some(25), ..Stop::default() }, None);
    let taken: Vec<u64> = (0..4).map(|_| quota.take(10)).collect();
    assert_eq!(taken, [10, 10, 5, 0]);
}

#[test]
fn bytes_of_equal_payloads_are_messages_rounded_up_to_rounds() {
    let stop = Stop { payload_bytes: Some(1001), ..Stop::default() };
    assert_eq!(Quota::new(&stop, Some(100)).take(100), 11);
    assert_eq!(Quota::new(&stop, Some(100)).in_rounds_of(8).take(100), 16);
}

#[test]
fn bytes_of_unequal_payloads_end_the_load_once_spent() {
    let quota = Quota::new(&Stop { payload_bytes: Some(1000), ..Stop::default() }, None);
    assert_eq!(quota.take(10), 10);
    quota.spend(999);
    assert_eq!(quota.take(10), 10);
    assert!(!quota.is_used_up());
    quota.spend(1);
    assert_eq!(quota.take(10), 0);
    assert!(quota.is_used_up());
}

#[test]
fn no_limit_is_no_limit() {
    let quota = Quota::new(&Stop::default(), Some(1)).in_rounds_of(7);
    assert_eq!(quota.take(u64::MAX - 1), u64::MAX - 1);
    assert_eq!(quota.take(5), 5);
}
