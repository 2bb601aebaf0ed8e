//! What a finding advises makes it go: a scenario on the null broker that has the finding, and the same one with the advice.

use brokermark::record::{ReasonKind, Record};

use crate::harness::{Bench, finding, record_of};

/// Runs with the same advice, of which one has to be without the finding.
const ATTEMPTS: usize = 3;

/// The record of the scenario with these keys set.
fn run(scenario: &str, set: &[&str]) -> Record {
    let options: Vec<&str> = set.iter().flat_map(|key| ["--set", key]).collect();
    Bench::new(&format!("broker.kind = \"null\"\n{scenario}")).run(&options).expect(0).record()
}

/// Each piece of advice by the words in which it is given, and the keys that follow it.
fn assert_helps(kind: ReasonKind, scenario: &str, advised: &[(&str, &[&str])]) {
    let before = run(scenario, &[]);
    let found = finding(&before, kind).unwrap_or_else(|| panic!("no {kind:?} in {:?}", before.verdict));
    for (words, keys) in advised {
        assert!(found.advice.contains(words), "not '{words}' but: {}", found.advice);
        // A stall of the machine can bring a finding back.
        let mut verdicts = Vec::new();
        let helps = (0..ATTEMPTS).any(|_| {
            let after = run(scenario, keys);
            let is_gone = finding(&after, kind).is_none();
            verdicts.push(after.verdict);
            is_gone
        });
        assert!(helps, "{keys:?} does not help: {verdicts:?}");
    }
}

macro_rules! remedies {
    ($($name:ident: $kind:ident in $scenario:expr, $advised:expr;)*) => {$(
        #[test]
        fn $name() {
            assert_helps(ReasonKind::$kind, $scenario, &$advised);
        }
    )*};
}

remedies! {
    late_answers_are_waited_for: MissingMessages in
        "broker.null = { late = 0.01, late_by = \"1500ms\" }
        load.rate = \"1k/s\"
        run = { duration = \"1s\", drain_deadline = \"200ms\" }",
        [("raise `run.drain_deadline`", &["run.drain_deadline=10s"])];
    unsent_messages_have_room: MissingMessages in
        FULL_WINDOW, [("Lower the rate", &["load.rate=20/s"]), ("raise `producers.in_flight`", &["producers.in_flight=100"])];
    a_missed_rate_is_held: RateMissed in
        FULL_WINDOW, [("lower the rate", &["load.rate=20/s"]), ("raise `producers.in_flight`", &["producers.in_flight=100"])];
    unread_messages_are_read: Unread in
        "broker.null.groups = [{ rate = 200 }]
        producers.count = 4
        load.rate = \"500/s\"
        consumers.members = 1
        run = { duration = \"2s\", catch_up_deadline = \"500ms\" }",
        [
            ("Add members (each needs a partition", &["consumers.members=4", "topology.partitions=4"]),
            ("lower the load", &["load.rate=100/s"]),
            ("raise `run.drain_deadline` (without progress) or `run.catch_up_deadline`", &["run.catch_up_deadline=60s"]),
        ];
    consumers_keep_up: ConsumersBehind in
        SLOW_GROUP, [("add members (each needs", MORE_MEMBERS), ("lower the load", &["load.rate=300/s"])];
    lag_grows_no_more: LagGrew in
        SLOW_GROUP, [("Add members (each needs", MORE_MEMBERS), ("lower the load", &["load.rate=300/s"])];
    a_pipeline_keeps_up: FellBehind in
        "broker.null.groups = [{ rate = 500 }]
        topology.partitions = 4
        producers.count = 4
        load.rate = \"1k/s\"
        run.duration = \"3s\"
        [pipeline]
        parse = \"none\"
        instances = 1
        linger = \"10ms\"
        sinks = []",
        [
            ("Lower the rate", &["load.rate=300/s"]),
            ("give the bottleneck more resources", &["pipeline.instances=4"]),
        ];
    a_long_run_is_long_enough: TooShort in
        "load.rate = \"500/s\"\nrun.duration = \"1s\"", [("`run.duration`", &["run.duration=5s"])];
    a_warm_up_ends_a_cold_start: ColdStart in
        "broker.null.stalls = [{ at = \"0s\", for = \"500ms\" }]
        load.rate = \"500/s\"
        run.duration = \"6500ms\"",
        [("Set `run.warm_up` to a few seconds", &["run.warm_up=2s"])];
    a_measurement_after_a_standstill_is_steady: NotSteady in
        "broker.null.stalls = [{ at = \"500ms\", for = \"2500ms\" }]
        load.rate = \"1k/s\"
        producers.in_flight = 10_000
        run.duration = \"6s\"",
        [("warm up longer", &["run.warm_up=4s"])];
    a_warm_up_leaves_no_backlog: RatesDiffer in
        "broker.null.stalls = [{ at = \"0s\", for = \"1500ms\" }]
        load.rate = \"1k/s\"
        producers.in_flight = 10_000
        run = { warm_up = \"1s\", duration = \"5s\" }",
        [("warm up for longer", &["run.warm_up=4s"])];
}

/// 20 messages are answered in a tenth of a second, where 400 a second are due.
const FULL_WINDOW: &str = "
    broker.null.service_time = \"100ms\"
    load.rate = \"400/s\"
    producers.in_flight = 10
    run.duration = \"2s\"";

/// A member receives 700 messages a second at most.
const SLOW_GROUP: &str = "
    broker.null.groups = [{ rate = 700 }]
    producers.count = 4
    load.rate = \"1k/s\"
    consumers.members = 1
    run.duration = \"8s\"";

const MORE_MEMBERS: &[&str] = &["consumers.members=4", "topology.partitions=4"];

#[test]
fn a_full_window_that_is_larger_carries_more() {
    let scenario = "broker.null.service_time = \"20ms\"\nrun.duration = \"2s\"";
    let rate =
        |in_flight: &str| run(scenario, &[&format!("producers.in_flight={in_flight}")]).throughput.messages_per_second;
    let (before, after) = (rate("2"), rate("20"));
    assert!(after > 4.0 * before, "{before} {after}");
}

#[test]
fn verification_tells_lost_from_unread() {
    let scenario = "broker = { kind = \"null\", null = { lose = 0.01 } }
        load.rate = \"1k/s\"
        run = { messages = 1_000, drain_deadline = \"300ms\" }";
    let unknown = record_of(&format!("{scenario}\nconsumers.verify = false"));
    let advice = &finding(&unknown, ReasonKind::Unread).unwrap().advice;
    assert!(advice.contains("set `consumers.verify = true`"), "{advice}");
    let known = record_of(&format!("{scenario}\nconsumers.verify = true"));
    assert!(finding(&known, ReasonKind::Losses).is_some() && finding(&known, ReasonKind::Unread).is_none());
}
