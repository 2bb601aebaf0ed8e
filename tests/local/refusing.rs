//! Producers that refuse everything: the load ends when they do so for good, and does not spin when they do not.

use brokermark::broker::FailureClass;
use brokermark::record::{ReasonKind, Record, Status};

use crate::harness::{Bench, assert_balanced, reasons};

/// The null broker with producers that refuse everything after 500 messages.
fn refusing(tables: &str, status: Status) -> Record {
    let bench = Bench::new(&format!("broker.kind = \"null\"\nbroker.null.producer_refuses_after = 500\n{tables}"));
    let record = bench.run(&[]).expect(i32::from(status != Status::Completed)).record();
    assert_balanced(&record);
    assert_eq!(record.status, status, "{tables}");
    assert!(record.counts.acknowledged >= 500, "{:?}", record.counts);
    record
}

#[test]
fn producer_that_can_send_no_more_ends_the_load() {
    let loads = [
        "run.messages = 100000000",
        "run.messages = 100000000\nproducers = { count = 2, round_barrier = true }",
        "load.rate = \"10k/s\"\nrun.duration = \"1h\"\nproducers = { count = 2, batch = 10 }",
    ];
    for load in loads {
        let record = refusing(&format!("broker.null.refusals_are_fatal = true\n{load}"), Status::Failed);
        let error = record.error.as_deref().unwrap_or_default();
        assert!(error.contains("could send nothing more") && error.contains("script"), "{load}: {error}");
        assert!(reasons(&record).contains(&ReasonKind::Failed));
        // One message of each producer at most: what comes after the refusal is not attempted.
        assert!((1..=2).contains(&record.counts.failed), "{load}: {:?}", record.counts);
        assert_eq!(record.errors[0].class, FailureClass::Injected);
    }
}

/// Pauses of 1, 2, 4, … 64 and then 100 ms leave time for 17 refusals in a second, however fast the machine is.
#[test]
fn a_closed_loop_pauses_while_everything_is_refused() {
    let record = refusing("run.duration = \"1s\"", Status::Completed);
    assert!((1..=20).contains(&record.counts.failed), "{:?}", record.counts);
}

#[test]
fn nothing_but_refusals_is_a_standstill() {
    refusing("run = { messages = 1000000, stall_deadline = \"1s\" }", Status::Stalled);
}
