//! What holds messages up, as each client tells it: while it lasts, and in the record.

#[cfg(any(feature = "nats", feature = "rabbitmq", feature = "rabbitmq-stream", feature = "sls-emulator"))]
use crate::harness::{Bench, PATIENCE, assert_balanced};
#[cfg(any(feature = "nats", feature = "rabbitmq", feature = "rabbitmq-stream", feature = "sls-emulator"))]
use brokermark::measure::ConditionKind;

/// Runs a load that would take minutes, disturbs it after a line of progress with `before`, and ends it when the condition is told. The words
/// of the broker.
#[cfg(any(feature = "nats", feature = "rabbitmq", feature = "rabbitmq-stream", feature = "sls-emulator"))]
fn told(broker: &str, kind: ConditionKind, before: &str, disturb: impl FnOnce(), mend: impl FnOnce()) -> String {
    let load = "load.rate = \"500/s\"\nrun = { duration = \"300s\", drain_deadline = \"1s\" }\n";
    let bench = Bench::new(&format!("{load}{broker}"));
    let mut running = bench.start(&[]);
    running.await_stderr(before);
    disturb();
    running.await_stderr(kind.phrase());
    mend();
    running.signal(libc::SIGINT);
    let record = running.finish(PATIENCE).record();
    assert_balanced(&record);
    let found = record.conditions.iter().find(|condition| condition.kind == kind);
    found.unwrap_or_else(|| panic!("no {kind:?}: {:?}", record.conditions)).words.clone()
}

/// A line of progress with percentiles: messages have been acknowledged.
#[cfg(any(feature = "nats", feature = "rabbitmq-stream"))]
const ANSWERED: &str = " p99 ";

#[cfg(feature = "nats")]
mod nats {
    use super::*;
    use crate::harness::nats;
    use crate::harness::server::Server;

    fn broker(address: &str, options: &str) -> String {
        format!(
            "broker = {{ kind = \"nats\", address = \"{address}\", nats = {{ storage = \"memory\", {options} }} }}\n"
        )
    }

    #[test]
    fn real_stream_that_is_gone_is_told() {
        let name = format!("gone-{}", std::process::id());
        let delete = || drop(nats::command(&nats::address(), &["stream", "rm", "--force", &name]));
        let broker = broker(&nats::address(), "ack_timeout = \"2s\"") + &format!("topology.name = \"{name}\"\n");
        told(&broker, ConditionKind::TopicGone, ANSWERED, delete, || ());
    }

    #[test]
    fn real_stream_that_is_full_is_told() {
        let full = broker(&nats::address(), "discard = \"new\", max_bytes = \"50kB\"");
        let words = told(&full, ConditionKind::Refused, ANSWERED, || (), || ());
        assert!(words.contains("maximum bytes exceeded"), "{words}");
    }

    #[test]
    fn real_server_that_stands_still_is_told() {
        let server = Server::start("nats", "nats-still", 14302, &[]);
        let broker = broker(&server.address(), "ack_timeout = \"1s\"");
        let (stop, go_on) = (|| server.signal(libc::SIGSTOP), || server.signal(libc::SIGCONT));
        told(&broker, ConditionKind::Unanswered, ANSWERED, stop, go_on);
    }
}

#[cfg(feature = "rabbitmq-stream")]
#[test]
fn real_rabbitmq_stream_that_is_gone_is_told() {
    use crate::harness::rabbitmq::{self, Stranger};
    let name = format!("gone-{}", std::process::id());
    let address = rabbitmq::address();
    let broker =
        format!("broker = {{ kind = \"rabbitmq-stream\", address = \"{address}\" }}\ntopology.name = \"{name}\"\n");
    let delete = || Stranger::arrive().delete_stream(&name);
    told(&broker, ConditionKind::TopicGone, ANSWERED, delete, || ());
}

#[cfg(feature = "rabbitmq")]
#[test]
fn real_rabbitmq_queue_that_is_full_is_told() {
    let address = crate::harness::rabbitmq::amqp();
    let options = "length_limit = 100, overflow = \"reject-publish\"";
    let broker = format!("broker = {{ kind = \"rabbitmq\", address = \"{address}\", rabbitmq = {{ {options} }} }}\n");
    told(&broker, ConditionKind::Refused, "measuring", || (), || ());
}

/// Each request has the same fault.
#[cfg(feature = "sls-emulator")]
#[test]
fn log_service_tells_what_its_last_refusal_shows() {
    for (fault, kind) in [
        ("quota", ConditionKind::Throttled),
        ("unauthorized", ConditionKind::Denied),
        ("reset", ConditionKind::Connecting),
        ("busy", ConditionKind::Refused),
    ] {
        let emulator = format!("emulator = {{ faults = [{{ kind = \"{fault}\", share = 1.0 }}] }}");
        let options = format!("linger = \"5ms\", retries = 1000, {emulator}");
        let broker = format!("broker = {{ kind = \"sls\", address = \"embedded\", sls = {{ {options} }} }}\n");
        told(&broker, kind, "measuring", || (), || ());
    }
}
