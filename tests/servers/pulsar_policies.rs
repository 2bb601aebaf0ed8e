//! A policy of a Pulsar namespace that holds producers up: told while it lasts, and named as the limit.
#![cfg(feature = "pulsar")]

use crate::harness::pulsar::{self, Namespace};
use crate::harness::{Bench, PATIENCE, record_of};
use brokermark::measure::ConditionKind;
use brokermark::record::Limiter;

/// The broker reads no faster than the namespace allows, and says nothing of it.
#[test]
fn real_publish_rate_is_told_as_a_throttle() {
    let namespace = Namespace::make(&format!("throttled-{}", std::process::id()));
    let scenario = format!(
        "[broker]\nkind = \"pulsar\"\naddress = \"{}\"\n[broker.pulsar]\nadmin = \"{}\"\nnamespace = \"{namespace}\"\n\
         send_timeout = \"5s\"\n[load]\nrate = \"500/s\"\n[run]\nduration = \"10s\"\ndrain_deadline = \"3s\"\n",
        pulsar::address(),
        pulsar::admin()
    );
    let rate = |messages: i64| {
        let rate = format!("{{\"publishThrottlingRateInMsg\":{messages},\"publishThrottlingRateInByte\":-1}}");
        namespace.set("publishRate", &rate);
    };
    rate(100);
    let bench = Bench::new(&scenario);
    let mut running = bench.start(&[]);
    running.await_stderr("throttled by a quota");
    let record = running.finish(PATIENCE).records().remove(0);
    let throttled = record.conditions.iter().find(|condition| condition.kind == ConditionKind::Throttled).unwrap();
    assert!(
        throttled.words.contains("publishMaxMessageRate") && throttled.words.contains("100 messages/s"),
        "{throttled:?}"
    );
    let limited_by = &record.verdict.limited_by;
    assert_eq!(limited_by.limiter, Limiter::Broker, "{limited_by:?}");
    assert!(limited_by.evidence.contains("100 messages/s"), "{limited_by:?}");
    // Without the limit, nothing is held up.
    rate(-1);
    let record = record_of(&scenario);
    assert!(
        record.conditions.iter().all(|condition| condition.kind != ConditionKind::Throttled),
        "{:?}",
        record.conditions
    );
    assert_eq!(record.counts.acknowledged, 5_000);
    namespace.remove();
}
