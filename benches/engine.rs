//! The cost of a whole trial per message: producer tasks, windows, the null broker and all recording, from the first
//! measured message to the last acknowledgement.
//!
//! The null broker acknowledges at once, so this is the upper limit of the engine; a client library adds its own cost.

use std::path::Path;
use std::time::Duration;

use brokermark::engine::{Interruption, Observer, Phase, Second, TrialIdentity, kinds, run_scenario};
use brokermark::measure::{Interval, Reception};
use brokermark::scenario;
use criterion::{Criterion, criterion_group, criterion_main};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Watches nothing.
struct Unobserved;

impl Observer for Unobserved {
    fn phase(&mut self, _: Phase) {}
    fn second(&mut self, _: &Second, _: &Interval, _: &Reception) {}
}

/// Every sample is one trial of its own, so it takes a while even for few messages: connecting, and the time between
/// starting the tasks and the first message.
const MIN_MESSAGES: u64 = 1_000_000;

/// How long `messages` messages take.
fn trial(runtime: &Runtime, text: &str, messages: u64) -> Duration {
    let sent = messages.max(MIN_MESSAGES);
    let plan = scenario::parse_for(kinds(), text, "bench.toml", &[format!("run.messages={sent}")], Path::new("."))
        .expect("the benchmark's scenarios are right");
    let identity = TrialIdentity::alone("bench".into(), 1);
    let (_signals, interrupted) = watch::channel(0);
    let interruption = Interruption::new(interrupted);
    let mut observer = Unobserved;
    let trial = run_scenario(&plan.trials[0].scenario, &identity, &interruption, &mut observer);
    let outcome = runtime.block_on(trial).expect("a trial");
    assert_eq!(outcome.ledger.measured.acknowledged, sent);
    let nanoseconds = outcome.totals.outcomes.last_acknowledged_ns - outcome.times.measure_start_ns;
    Duration::from_nanos((nanoseconds as f64 * messages as f64 / sent as f64) as u64)
}

fn null(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("null broker, per message");
    for (name, text) in [
        ("closed loop, 1 producer, batches of 1", "producers = { count = 1 }"),
        ("closed loop, 1 producer, batches of 100", "producers = { count = 1, batch = 100 }"),
        ("closed loop, 4 producers, batches of 100", "producers = { count = 4, batch = 100 }"),
        (
            "closed loop, 4 producers, batches of 100, consumed and verified",
            "producers = { count = 4, batch = 100 }\nconsumers = {}",
        ),
    ] {
        let text = format!("broker.kind = \"null\"\n{text}\npayload.size = \"100B\"\n");
        group.bench_function(name, |bencher| bencher.iter_custom(|messages| trial(&runtime, &text, messages)));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = null
}
criterion_main!(benches);
