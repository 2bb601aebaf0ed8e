use std::sync::Arc;

use super::*;

#[test]
fn a_message_belongs_to_the_segment_in_which_it_was_intended() {
    let ends = SegmentEnds::new([(1_000_000, 0), (2_000_000, 1), (3_000_000, 0)].into_iter());
    let mut responses = SegmentResponses::default();
    // Intended at 0.5 ms, 1 ms (by a tick that was cut off), 1.5 ms, 2.5 ms and after the last segment.
    for (now_ns, response_ns) in
        [(5_000_000, 4_500_000), (5_000_000, 4_000_050), (5_000_000, 3_500_000), (6_000_000, 3_500_000)]
    {
        responses.record(&ends, now_ns, response_ns, 10);
    }
    responses.record(&ends, 9_000_000, 1_000_000, 10);
    let found: Vec<_> =
        responses.iter().map(|segment| (segment.result, segment.response.histogram().len(), segment.moments)).collect();
    assert_eq!(found, [(0, 30, 3), (1, 20, 1)]);
    let mut sum = responses.clone();
    sum.merge(&responses);
    assert_eq!(sum.iter().map(|segment| segment.response.histogram().len()).sum::<u64>(), 100);
    let mut none = SegmentResponses::default();
    none.record(&SegmentEnds::default(), 5, 1, 1);
    assert_eq!(none.iter().count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_never_misses_the_resolution_it_waits_for() {
    let window = Arc::new(Window::default());
    let stopped = Arc::new(AtomicBool::new(false));
    let resolver = {
        let window = window.clone();
        std::thread::spawn(move || {
            for _ in 0..100_000 {
                while window.in_flight() == 0 {
                    std::hint::spin_loop();
                }
                window.resolve(1);
            }
        })
    };
    for round in 1..=100_000 {
        window.submit(1);
        assert!(window.resolved_reaches(round, &stopped).await);
    }
    resolver.join().unwrap();
    assert_eq!(window.in_flight(), 0);
}

#[tokio::test]
async fn a_stop_ends_the_wait() {
    let window = Arc::new(Window::default());
    let stopped = Arc::new(AtomicBool::new(false));
    window.submit(1);
    let waiting = {
        let (window, stopped) = (window.clone(), stopped.clone());
        tokio::spawn(async move { window.resolved_reaches(1, &stopped).await })
    };
    tokio::task::yield_now().await;
    stopped.store(true, Ordering::SeqCst);
    window.wake();
    assert!(!waiting.await.unwrap());
    assert_eq!(window.in_flight(), 1);
}
