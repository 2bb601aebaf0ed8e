use std::cell::Cell;

use super::*;
use crate::broker::Received;
use crate::measure::{
    Arrivals, FailureClass, NoDetails, Reception, SubscriptionIndex, TRACE_HEADER_BYTES, TraceHeader,
};
use crate::scenario::{Work, WorkLaw};

/// Fails `failures` times, then reports that it was called again.
struct Recovering {
    failures: usize,
    recovered: CancellationToken,
}

impl Consumer for Recovering {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        if self.failures > 0 {
            self.failures -= 1;
            return Err(ReceiveError { class: FailureClass::ConnectionLost, message: "the broker is gone".to_owned() });
        }
        self.recovered.cancel();
        std::future::pending().await
    }

    fn take_some(&mut self, _most: usize, _each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        Ok(0)
    }
}

#[tokio::test]
async fn errors_are_counted_and_survived() {
    let clock = Clock::start();
    let arrivals = Arrivals::new(clock, 0, 1, None);
    let stop = CancellationToken::new();
    let consumer = Recovering { failures: 6, recovered: stop.clone() };
    let errors = consume(consumer, arrivals.recorder(SubscriptionIndex { group: 0, topic: 0 }, 0), clock, stop).await;
    let [(class, tally)] = errors.iter().collect::<Vec<_>>()[..] else { panic!("{errors:?}") };
    assert_eq!((class, tally.count), (FailureClass::ConnectionLost, 6));
    assert_eq!(arrivals.progress()[0].errors, 6, "what was not received meanwhile may not have been offered");
    assert_eq!(tally.first.as_ref().map(|(_, message)| message.as_str()), Some("the broker is gone"));
}

/// Is connecting again. After two checks, it is told to end.
struct Reconnecting {
    checks: Cell<usize>,
    stop: CancellationToken,
}

impl Consumer for Reconnecting {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        std::future::pending().await
    }

    fn take_some(&mut self, _most: usize, _each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        Ok(0)
    }

    fn is_connected(&self) -> bool {
        self.checks.set(self.checks.get() + 1);
        if self.checks.get() == 2 {
            self.stop.cancel();
        }
        false
    }
}

#[tokio::test]
async fn a_consumer_that_connects_again_is_not_idle() {
    let clock = Clock::start();
    let arrivals = Arrivals::new(clock, 0, 1, None);
    let stop = CancellationToken::new();
    let consumer = Reconnecting { checks: Cell::new(0), stop: stop.clone() };
    let errors = consume(consumer, arrivals.recorder(SubscriptionIndex { group: 0, topic: 0 }, 0), clock, stop).await;
    assert_eq!(arrivals.progress()[0].errors, 2, "what it was not offered meanwhile may be there");
    assert_eq!(errors.iter().count(), 0, "it has reported the loss itself");
}

/// Always has a message when it is asked, which came while the thread was busy: each a millisecond after the one before.
struct Trickling {
    clock: Clock,
    came_ns: u64,
    sequence: u64,
    stop: CancellationToken,
}

impl Consumer for Trickling {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        while self.clock.now_ns() < self.came_ns + MS {}
        self.came_ns = self.clock.now_ns();
        Ok(())
    }

    fn take_some(&mut self, _most: usize, mut each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        let mut payload = [7; 100];
        let checksum = crc32fast::hash(&payload[TRACE_HEADER_BYTES..]);
        let intended_ns = self.came_ns - MS / 2;
        TraceHeader { run_tag: 7, producer: 0, measured: true, sequence: self.sequence, intended_ns }
            .seal(&mut payload, checksum);
        each(Received {
            payload: &payload,
            trace_header: None,
            partition: 0,
            offset: 0,
            redelivered: false,
            details: &NoDetails,
        });
        self.sequence += 1;
        if self.sequence == 20 {
            self.stop.cancel();
        }
        Ok(1)
    }
}

#[tokio::test]
async fn a_consumer_that_works_begins_with_no_message_before_it_came() {
    let clock = Clock::start();
    let arrivals = Arrivals::new(clock, 7, 1, None);
    let stop = CancellationToken::new();
    let consumer = Trickling { clock, came_ns: 0, sequence: 0, stop: stop.clone() };
    let work_times = Work { mean: Duration::from_micros(1), law: WorkLaw::Fixed, seed: 1 };
    let pace = Pace::new(Some(WorkTimes::new(&work_times, 0)), None);
    work(consumer, arrivals.recorder(SubscriptionIndex { group: 0, topic: 0 }, 0), clock, stop, pace).await;
    let mut reception = Reception::default();
    arrivals.collect(true, &mut reception, &mut Reception::default(), &mut []);
    let latencies = reception.end_to_end.histogram();
    assert!(latencies.len() >= 20);
    assert!(latencies.min() >= MS / 2 * 999 / 1000, "{} ns, of half a millisecond before it came", latencies.min());
}

const MS: u64 = 1_000_000;

fn fixed(mean_ms: u64) -> Option<WorkTimes> {
    let work = Work { mean: Duration::from_millis(mean_ms), law: WorkLaw::Fixed, seed: 1 };
    Some(WorkTimes::new(&work, 0))
}

fn begun(pace: &mut Pace, messages: usize) -> Vec<u64> {
    let mut beginning = pace.begin();
    (0..messages).map(|_| beginning.next_message() / MS).collect()
}

#[test]
fn work_follows_work_of_messages_that_are_there_in_time() {
    let mut pace = Pace::new(fixed(2), None);
    pace.found_at(10 * MS);
    assert_eq!((begun(&mut pace, 1), pace.next_ns()), (vec![10], 12 * MS));
    // Three messages are begun by then.
    pace.found_at(11 * MS);
    assert_eq!(pace.due_by(17 * MS), 3);
    assert_eq!((begun(&mut pace, 3), pace.next_ns()), (vec![12, 14, 16], 18 * MS));
}

#[test]
fn a_consumer_that_waited_for_a_message_makes_up_for_nothing() {
    let mut pace = Pace::new(fixed(2), None);
    pace.found_at(10 * MS);
    assert_eq!(begun(&mut pace, 1), [10]);
    pace.found_at(50 * MS);
    assert_eq!((pace.due_by(50 * MS), begun(&mut pace, 2)), (1, vec![50, 52]));
    // It comes while the consumer is at work.
    pace.found_at(51 * MS);
    assert_eq!(pace.next_ns(), 54 * MS);
}

#[test]
fn a_rate_is_shared_by_the_members_of_a_group_and_not_saved_up() {
    let limit = Arc::new(RateLimit::new(100.0));
    let mut members = [(); 2].map(|()| Pace::new(None, Some(limit.clone())));
    members.iter_mut().for_each(|member| member.found_at(1000 * MS));
    assert_eq!(begun(&mut members[0], 2), [1000, 1010]);
    assert_eq!(begun(&mut members[1], 2), [1020, 1030]);
    assert_eq!((members[0].next_ns(), members[0].due_by(1065 * MS)), (1040 * MS, 3));
    members[0].found_at(2000 * MS);
    assert_eq!(begun(&mut members[0], 2), [2000, 2010]);
}

#[test]
fn the_slower_of_work_and_rate_decides() {
    let mut pace = Pace::new(fixed(20), Some(Arc::new(RateLimit::new(100.0))));
    assert_eq!(begun(&mut pace, 3), [0, 20, 40]);
    let mut pace = Pace::new(fixed(2), Some(Arc::new(RateLimit::new(100.0))));
    assert_eq!(begun(&mut pace, 3), [0, 10, 20]);
}
