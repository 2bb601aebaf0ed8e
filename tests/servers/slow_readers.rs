//! Readers that are slower than what is sent to them.

#![cfg(feature = "nsq")]

use crate::harness::nsq::Nsqd;
use crate::harness::{assert_delivered, record_of};

/// Two intervals of silence would end the connection, on both sides. What was read at once lasts for four.
#[test]
fn real_nsq_reader_working_past_heartbeats_stays_connected() {
    let nsqd = Nsqd::start(&[]);
    let record = record_of(&format!(
        "{}
        broker.nsq.heartbeat = \"1s\"
        [[consumers.group]]
        work = \"100ms\"
        [run]
        messages = 40",
        nsqd.broker()
    ));
    assert_delivered(&record, 40, 1);
    assert_eq!(record.receive_errors, []);
    assert!(record.latency.end_to_end.as_ref().unwrap().max_ns >= 3_500_000_000);
}
