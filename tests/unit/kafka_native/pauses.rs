//! What is refused at once, again and again, is asked again after pauses that grow.
//!
//! The time is a lower bound: a slow machine makes it longer. It is the sum of the shortest pauses, which are a fifth shorter than the usual ones.

use std::time::{Duration, Instant};

use kafka_protocol::messages::ApiKey;

use super::bench::{Bench, one_message_a_batch};
use super::grouping::{self, next_join, refuse_join};
use super::scripted::Scripted;
use super::server_assigned::{self, next_beat, refuse, reply, response};
use crate::broker::Consumer;
use crate::broker::Offsets;
use crate::broker::kafka_options::Assignment;

const ILLEGAL_GENERATION: i16 = 22;
const UNKNOWN_MEMBER_ID: i16 = 25;
const REBALANCE_IN_PROGRESS: i16 = 27;
const MEMBER_ID_REQUIRED: i16 = 79;
const FENCED_MEMBER_EPOCH: i16 = 110;

/// Of 8 refusals: 5, 10, 20, 40, 80, 160 and 250 ms are between them.
const OF_MEMBERS: Duration = Duration::from_millis(452);

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_member_that_may_not_join_pauses() {
    for code in [ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED] {
        let mut broker = Scripted::start(1, 2).await;
        let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
        let _member = grouping::member(&bench, Assignment::Group).await;
        let (first, _) = next_join(&mut broker).await;
        let refused = Instant::now();
        refuse_join(&first, code, "m1");
        for _ in 0..7 {
            refuse_join(&next_join(&mut broker).await.0, code, "m1");
        }
        assert!(refused.elapsed() >= OF_MEMBERS, "{code}: {:?}", refused.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_member_that_is_let_in_and_fenced_at_once_pauses() {
    let mut broker = Scripted::start(1, 2).await;
    let bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    let mut member = server_assigned::member(&bench).await;
    let (asked, _) = next_beat(&mut broker).await;
    reply(&asked, &response(1));
    let (asked, _) = next_beat(&mut broker).await;
    let refused = Instant::now();
    refuse(&asked, FENCED_MEMBER_EPOCH);
    let refusing = async {
        for _ in 0..7 {
            reply(&next_beat(&mut broker).await.0, &response(1));
            refuse(&next_beat(&mut broker).await.0, FENCED_MEMBER_EPOCH);
        }
    };
    let returning = async {
        loop {
            member.ready().await.unwrap();
            let _ = member.take(|_| {});
            member.revoke().await;
        }
    };
    tokio::select! {
        () = refusing => {}
        () = returning => {}
    }
    assert!(refused.elapsed() >= OF_MEMBERS, "{:?}", refused.elapsed());
}

/// Which it answers who asks for its versions. The pauses between six ends are 50, 100, 200, 400 and 800 ms.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_ends_each_connection_is_connected_after_pauses() {
    let mut broker = Scripted::start(1, 1).await;
    let mut bench = Bench::new(broker.addresses(), one_message_a_batch()).await;
    bench.send(1).await;
    let first = broker.next_of(ApiKey::Produce).await;
    let ended = Instant::now();
    first.close();
    for _ in 0..5 {
        broker.next_of(ApiKey::Produce).await.close();
    }
    assert!(ended.elapsed() >= Duration::from_millis(1240), "{:?}", ended.elapsed());
    broker.next_of(ApiKey::Produce).await.answer(0);
    assert_eq!(bench.outcomes().await.measured.acknowledged, 1);
}
