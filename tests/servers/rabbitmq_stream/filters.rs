//! Messages that the server filters by their keys.

use super::{broker, confirmed, real, refused};
use crate::harness::scripted_rabbitmq::{Scripted, Tuning};
use crate::harness::{Bench, assert_acknowledged, record_of};

/// Nine keys in turn, `key-000000` to `key-000008`.
const KEYED: &str = "[producers]\nbatch = 90\nin_flight = 900\nkeys = { kind = \"round-robin\", distinct = 9 }\n[run]\nmessages = 9000\ndrain_deadline = \"5s\"\n";

#[test]
fn real_filtered_consumers_receive_their_keys_only() {
    let consumers = "[consumers]\nverify = false\n";
    let all = record_of(&format!("{}{KEYED}{consumers}", real("filter = \"key\"")));
    assert_acknowledged(&all, 9000);
    assert_eq!(all.counts.consumed, Some(9000));
    let received = |filters: &str| {
        let record = record_of(&format!("{}{KEYED}{consumers}", real(&format!("filter = \"key\"\n{filters}"))));
        assert_acknowledged(&record, 9000);
        record.counts.consumed
    };
    // Each chunk has messages of all keys: the server lets them all through.
    assert_eq!(received("filters = [\"key-000002\", \"key-000005\"]"), Some(2000));
    assert_eq!(received("filters = [\"none of them\"]\nmatch_unfiltered = true"), Some(0));
}

#[test]
fn real_filtered_messages_cannot_be_verified_and_need_keys() {
    let error = refused(&format!("{}{KEYED}[consumers]\n", real("filters = [\"key-000002\"]")));
    assert!(error.contains("consumers.verify = false"), "{error}");
    let keyless = format!("{}[run]\nmessages = 10\n", real("filter = \"key\""));
    let record = Bench::new(&keyless).run(&[]).expect(1).record();
    assert_eq!(record.counts.failed, 10);
    assert!(record.errors[0].first_message.contains("producers.keys"), "{:?}", record.errors);
}

#[test]
fn server_without_filters_or_single_active_is_refused() {
    let server = Scripted::tuned(Tuning { is_old: true, ..Tuning::default() }, confirmed);
    let error = refused(&format!("{}{KEYED}", broker(server.address(), "filter = \"key\"")));
    assert!(error.contains("cannot filter") && error.contains("3.13"), "{error}");
    let error = refused(&format!("{}{KEYED}", broker(server.address(), "single_active_consumer = true")));
    assert!(error.contains("single active") && error.contains("3.11"), "{error}");
}
