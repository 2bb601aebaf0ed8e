//! RabbitMQ's queues as brokermark meets them: the server of `scripts/test`, and some that block, die or come back.
#![cfg(feature = "rabbitmq")]

use std::time::Duration;

use crate::harness::rabbitmq::{self, rabbitmqctl};
use crate::harness::server::variable;
use crate::harness::{Bench, PATIENCE, assert_balanced, assert_delivered, eventually, record_of, sums};
use brokermark::measure::ConditionKind;
use brokermark::record::{Limiter, ReasonKind, Record, Status};
use lapin::options::{BasicGetOptions, BasicNackOptions, ExchangeDeleteOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

const LOAD: &str = "producers = { count = 2, batch = 20 }\npayload.size = \"100B\"\nrun.messages = \"10k\"\n";

fn broker(address: &str) -> String {
    format!("broker.kind = \"rabbitmq\"\nbroker.address = \"{address}\"\n")
}

/// With keys of `[broker.rabbitmq]` at the server that `scripts/test` starts.
fn with(options: &str) -> String {
    format!("{}broker.rabbitmq = {{ {options} }}\n", broker(&rabbitmq::amqp()))
}

/// Runs a scenario that cannot begin, and returns the error in its record.
fn refused(scenario: &str) -> String {
    let record = Bench::new(scenario).run(&[]).expect(1).record();
    assert_eq!(record.status, Status::Failed);
    record.error.unwrap()
}

fn control(arguments: &[&str]) -> String {
    rabbitmqctl(&variable("BROKERMARK_RABBITMQ_CTL"), arguments)
}

/// What another client does on a channel of its own.
fn as_another_client<T>(work: impl AsyncFnOnce(Channel) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let uri = format!("amqp://guest:guest@{}/%2f", rabbitmq::amqp());
        let connection = Connection::connect(&uri, ConnectionProperties::default()).await.unwrap();
        work(connection.create_channel().await.unwrap()).await
    })
}

/// Makes a classic queue with these arguments.
fn declare(queue: &str, arguments: &[(&str, i32)]) {
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        table.insert((*name).into(), AMQPValue::LongInt(*value));
    }
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    as_another_client(async |channel| channel.queue_declare(queue.into(), durable, table).await.unwrap());
}

/// The properties of the messages in a queue, in the order in which the server delivers them.
fn messages(queue: &str) -> Vec<BasicProperties> {
    as_another_client(async |channel| {
        let mut messages = Vec::new();
        while let Some(message) = channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap() {
            messages.push(message.delivery.properties);
        }
        messages
    })
}

/// How many messages a queue has.
fn length(queue: &str) -> usize {
    let list = control(&["list_queues", "--quiet", "--no-table-headers", "name", "messages"]);
    let of_queue = list.lines().find_map(|line| line.strip_prefix(queue)?.strip_prefix('\t'));
    of_queue.unwrap().parse().unwrap()
}

fn errors(record: &Record) -> String {
    serde_json::to_string(&record.errors).unwrap()
}

#[test]
fn real_exchanges_of_every_kind_deliver_to_every_group() {
    for (exchange, groups) in [("direct", 1), ("fanout", 2), ("topic", 2), ("headers", 2)] {
        let options = format!("queue = \"classic\", exchange = \"{exchange}\", persistent = false");
        let record = record_of(&format!("{}{LOAD}consumers.groups = {groups}\n", with(&options)));
        assert_delivered(&record, 10_000, groups);
        assert_eq!(serde_json::to_value(&record.durability).unwrap()["level"], "memory", "{exchange}");
    }
    let record = record_of(&format!("{}{LOAD}", with("queue = \"quorum\"")));
    assert_eq!(serde_json::to_value(&record.durability).unwrap()["level"], "disk");
    assert!(record.environment.broker.as_ref().unwrap().starts_with("RabbitMQ 4."), "{:?}", record.environment);
}

#[test]
fn real_consumers_acknowledge_in_every_way() {
    for options in [
        "acknowledge = \"each\", prefetch = 50",
        "acknowledge = \"multiple\", prefetch = 50",
        "acknowledge_every = 30, prefetch = 50",
        "acknowledge = \"automatic\"",
        "single_active_consumer = true",
    ] {
        let name = format!("acknowledged-{}", std::process::id());
        let topology = format!("topology = {{ name = \"{name}\", keep = true }}\n");
        let record = record_of(&format!("{}{topology}{LOAD}consumers.members = 2\n", with(options)));
        assert_delivered(&record, 10_000, 1);
        let found = sums(&record);
        assert_eq!(found.redelivered, 0, "{options}: {found:?}");
        // The last ones as well, which are less than one command acknowledges.
        eventually("the queue has nothing left", || length(&name) == 0);
        control(&["delete_queue", &name]);
    }
}

#[test]
fn real_consumer_that_works_longer_than_heartbeats_stays() {
    let group = "consumers.group = [{ work = \"4s\" }]\nrun = { messages = 3, catch_up_deadline = \"60s\" }\n";
    let record = record_of(&format!("{}{group}", with("heartbeat = \"1s\"")));
    assert_delivered(&record, 3, 1);
    assert_eq!(sums(&record).redelivered, 0);
}

#[test]
fn real_messages_larger_than_frames_arrive_whole() {
    let load = "payload.size = \"300KB\"\nrun.messages = 200\nconsumers.members = 1\n";
    assert_delivered(&record_of(&format!("{}{load}", with("prefetch = 7"))), 200, 1);
}

#[test]
fn real_requeued_messages_are_redeliveries_and_no_duplicates() {
    let record = record_of(&format!("{}{LOAD}consumers.members = 1\n", with("requeue = 0.1")));
    assert_balanced(&record);
    let found = sums(&record);
    assert_fields!(found, { lost: 0, duplicated: 0, unread: 0 }, "{found:?}");
    // A tenth, except for those that come back after the last message was received for the first time.
    assert!((200..=1_000).contains(&found.redelivered), "{found:?}");
}

#[test]
fn real_messages_without_confirms_are_nowhere_when_acknowledged() {
    let record = record_of(&format!("{}{LOAD}consumers.members = 1\n", with("confirms = false")));
    assert_delivered(&record, 10_000, 1);
    assert_eq!(serde_json::to_value(&record.durability).unwrap()["level"], "nowhere");
}

#[test]
fn real_full_queue_refuses_what_is_too_much() {
    let options = "length_limit = 100, overflow = \"reject-publish\"";
    let record = record_of(&format!("{}load.rate = \"1k/s\"\nrun.messages = 2000\n", with(options)));
    assert_balanced(&record);
    // A quorum queue may be over its limit by what was on its way.
    assert!((100..1_900).contains(&record.counts.acknowledged), "{:?}", record.counts);
    assert!(errors(&record).contains("\"full\""), "{}", errors(&record));
}

#[test]
fn real_messages_that_no_queue_takes_are_returned_and_fail() {
    let name = format!("unbound-{}", std::process::id());
    let bench = Bench::new(&format!(
        "{}topology.name = \"{name}\"\nload.rate = \"500/s\"\nrun.duration = \"300s\"\nrun.drain_deadline = \"2s\"\n",
        with("reconnect = \"1s\"")
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    control(&["delete_queue", &name]);
    // A channel that publishes to a queue that is just deleted may end its connection before (RabbitMQ 4.0.5).
    running.await_stderr("the topic does not exist");
    running.signal(libc::SIGINT);
    let record = running.finish(PATIENCE).expect(130).record();
    assert_balanced(&record);
    assert!(record.counts.acknowledged > 0 && record.counts.failed > 0, "{:?}", record.counts);
    assert!(errors(&record).contains("unknown-topic") && errors(&record).contains("NO_ROUTE"), "{}", errors(&record));
    let gone = record.conditions.iter().any(|condition| condition.kind == ConditionKind::TopicGone);
    assert!(gone, "{:?}", record.conditions);
}

#[test]
fn real_returned_messages_fail_among_others_that_are_stored() {
    let name = format!("divided-{}", std::process::id());
    let bench = Bench::new(&format!(
        "{}topology.name = \"{name}\"\nload.rate = \"5k/s\"\nconsumers.members = 1\nrun.duration = \"300s\"\n\
         run.catch_up_deadline = \"20s\"\n",
        with("exchange = \"direct\"")
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    // The queue stays, and its exchange does not take messages to it for a while.
    let resource = |kind: &str| format!("{{resource, <<\"/\">>, {kind}, <<\"{name}\">>}}");
    let binding =
        format!("{{binding, {}, <<\"{name}\">>, {}, []}}, <<\"test\">>", resource("exchange"), resource("queue"));
    for _ in 0..3 {
        control(&["eval", &format!("rabbit_binding:remove({binding}).")]);
        running.await_stderr("failed");
        control(&["eval", &format!("rabbit_binding:add({binding}).")]);
        running.await_stderr(" p99 ");
    }
    running.signal(libc::SIGINT);
    let record = running.finish(PATIENCE).expect(130).record();
    assert_balanced(&record);
    assert!(record.counts.acknowledged > 0 && record.counts.failed > 0, "{:?}", record.counts);
    let found = sums(&record);
    // Exactly those that were returned have failed.
    assert_fields!(found, { lost: 0, unread: 0, not_acknowledged_but_stored: 0 }, "{found:?}");
}

#[test]
fn real_messages_of_a_higher_priority_come_first() {
    let name = format!("priorities-{}", std::process::id());
    declare(&name, &[("x-max-priority", 5)]);
    for priority in [1, 5] {
        let options = with(&format!("queue = \"classic\", priority = {priority}"));
        record_of(&format!("{options}topology = {{ name = \"{name}\", existing = true }}\nrun.messages = 50\n"));
    }
    let priorities: Vec<_> = messages(&name).iter().map(|properties| properties.priority().unwrap()).collect();
    control(&["delete_queue", &name]);
    assert_eq!(priorities, [[5; 50], [1; 50]].concat());
}

#[test]
fn real_dead_letters_go_to_their_queue_with_their_reason() {
    for (reason, rule, expected) in
        [("expired", "message_ttl = \"100ms\"", 500), ("maxlen", "length_limit = 10, queue = \"classic\"", 490)]
    {
        let (name, dead) =
            (format!("{reason}-{}", std::process::id()), format!("dead-{reason}-{}", std::process::id()));
        declare(&dead, &[]);
        let options = with(&format!("{rule}, dead_letter_exchange = \"\", dead_letter_routing_key = \"{dead}\""));
        record_of(&format!("{options}topology = {{ name = \"{name}\", keep = true }}\nrun.messages = 500\n"));
        eventually("the queue removes messages", || length(&dead) == expected);
        let reasons = messages(&dead).into_iter().map(|properties| {
            let headers = properties.headers().clone().unwrap();
            headers.inner()["x-first-death-reason"].clone()
        });
        assert!(reasons.into_iter().all(|found| found == AMQPValue::LongString(reason.into())), "{reason}");
        assert_eq!(length(&name), 500 - expected);
        control(&["delete_queue", &name]);
        control(&["delete_queue", &dead]);
    }
}

#[test]
fn real_message_delivered_too_often_is_removed() {
    let name = format!("delivered-{}", std::process::id());
    let bench = Bench::new(&format!(
        "{}topology.name = \"{name}\"\nload.rate = \"100/s\"\nconsumers.group = [{{ start_after = \"15s\" }}]\n\
         run = {{ duration = \"20s\", drain_deadline = \"2s\", catch_up_deadline = \"2s\" }}\n",
        with("delivery_limit = 1")
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    // Another client gives messages back, each twice.
    as_another_client(async |channel| {
        let mut given_back = 0;
        while given_back < 200 {
            if let Some(message) = channel.basic_get((&*name).into(), BasicGetOptions::default()).await.unwrap() {
                let back = BasicNackOptions { multiple: false, requeue: true };
                channel.basic_nack(message.delivery.delivery_tag, back).await.unwrap();
                given_back += 1;
            }
        }
    });
    let record = running.finish(PATIENCE).records().remove(0);
    let found = sums(&record);
    assert!(found.removed > 50 && found.lost == 0, "{found:?}");
    let removed = record.verdict.reasons.iter().find(|reason| reason.kind == ReasonKind::Removed).unwrap();
    assert!(removed.evidence.contains("delivery limit (x-delivery-limit = 1)"), "{removed:?}");
}

#[test]
fn real_queue_deleted_under_its_consumer_ends_the_run_in_time() {
    let name = format!("deleted-{}", std::process::id());
    let bench = Bench::new(&format!(
        "{}topology.name = \"{name}\"\nload.rate = \"500/s\"\nconsumers.members = 1\nrun.duration = \"12s\"\n\
         run.drain_deadline = \"2s\"\nrun.catch_up_deadline = \"2s\"\n",
        with("reconnect = \"1s\"")
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    control(&["delete_queue", &name]);
    let record = running.finish(PATIENCE).records().remove(0);
    assert_balanced(&record);
    assert!(record.counts.failed > 0, "{:?}", record.counts);
    assert!(serde_json::to_string(&record).unwrap().contains("cancelled the consumer"), "{:?}", record.verification);
}

#[test]
fn real_declaration_that_differs_is_refused_with_both_values() {
    let name = format!("declared-{}", std::process::id());
    let topology = format!("topology = {{ name = \"{name}\", keep = true }}\n");
    record_of(&format!("{}{topology}{LOAD}", with("queue = \"classic\"")));
    let error = refused(&format!("{}{topology}{LOAD}", with("queue = \"quorum\"")));
    control(&["delete_queue", &name]);
    for word in [&*name, "x-queue-type", "quorum", "classic", "PRECONDITION_FAILED"] {
        assert!(error.contains(word), "{word}: {error}");
    }
}

#[test]
fn real_queues_and_exchanges_that_existed_stay_and_others_are_deleted() {
    let name = format!("existed-{}", std::process::id());
    let run = |exchange: &str, keys: &str| {
        let options = with(&format!("queue = \"classic\"{exchange}"));
        record_of(&format!("{options}topology.name = \"{name}\"\n{keys}{LOAD}"))
    };
    let left = |kind: &str| {
        let list = control(&[kind, "--quiet", "--no-table-headers", "name"]);
        list.lines().filter(|line| line.starts_with(&name)).map(str::to_owned).collect::<Vec<_>>()
    };
    let (exchange, keep) = (", exchange = \"direct\"", "topology.keep = true\n");
    run("", keep);
    // The exchange is new, and the queue is bound to it.
    run(exchange, "");
    assert_eq!((left("list_queues"), left("list_exchanges")), (vec![name.clone()], vec![]));
    eventually("the queue has the messages of both", || length(&name) == 20_000);
    control(&["delete_queue", &name]);
    run(exchange, keep);
    control(&["delete_queue", &name]);
    // The queues are new, and bound to the exchange that was left.
    for groups in [1, 2] {
        assert_delivered(&run(exchange, &format!("consumers.groups = {groups}\n")), 10_000, groups);
        assert_eq!((left("list_queues"), left("list_exchanges")), (vec![], vec![name.clone()]));
    }
    as_another_client(async |channel| {
        channel.exchange_delete((&*name).into(), ExchangeDeleteOptions::default()).await.unwrap();
    });
}

#[test]
fn real_missing_server_wrong_login_and_virtual_host_are_told() {
    let error = refused(&format!("{}{LOAD}", broker("127.0.0.1:1")));
    assert!(error.contains("127.0.0.1:1") && error.contains("refused"), "{error}");
    let sasl = "broker.security.sasl = { mechanism = \"PLAIN\", username = \"guest\", password = \"zebra\" }\n";
    let error = refused(&format!("{}{sasl}{LOAD}", broker(&rabbitmq::amqp())));
    assert!(error.contains("refused the credentials") && !error.contains("zebra"), "{error}");
    let error = refused(&format!("{}{LOAD}", with("virtual_host = \"elsewhere\"")));
    assert!(error.contains("elsewhere") && error.contains("not found"), "{error}");
    // The port of streams.
    let error = refused(&format!("{}{LOAD}", broker(&rabbitmq::address())));
    assert!(error.contains(&rabbitmq::address()), "{error}");
}

#[test]
fn real_tls_and_a_certificate_as_login_carry_messages() {
    let file = |name: &str| format!("{:?}", variable(&format!("BROKERMARK_RABBITMQ_{name}")));
    let ca = format!("ca = {}", file("CA"));
    let own = format!("{ca}, certificate = {}, key = {}", file("CERTIFICATE"), file("KEY"));
    let address = variable("BROKERMARK_RABBITMQ_AMQPS");
    for (tls, sasl) in [(ca.as_str(), ""), (&own, "sasl = { mechanism = \"EXTERNAL\" }, ")] {
        let security = format!("broker.security = {{ {sasl}tls = {{ {tls} }} }}\n");
        let record = record_of(&format!("{}{security}{LOAD}consumers.members = 1\n", broker(&address)));
        assert_delivered(&record, 10_000, 1);
    }
}

#[test]
fn real_alarm_is_told_as_a_blocked_connection() {
    let server = rabbitmq::server("amqp-alarm", 16010);
    let command = server.variable("BROKERMARK_RABBITMQ_CTL");
    let bench = Bench::new(&format!(
        "{}load.rate = \"1k/s\"\nproducers.in_flight = 20_000\nrun.duration = \"12s\"\n",
        broker(&rabbitmq::amqp_of(&server))
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    rabbitmqctl(&command, &["set_vm_memory_high_watermark", "0.000001"]);
    // A line a second: long enough to be what limited the load.
    (0..5).for_each(|_| running.await_stderr("blocked by the broker"));
    rabbitmqctl(&command, &["set_vm_memory_high_watermark", "0.8"]);
    let record = running.finish(PATIENCE).records().remove(0);
    assert_balanced(&record);
    assert_eq!(record.counts.unresolved, 0, "{:?}", record.counts);
    let blocked = record.conditions.iter().find(|condition| condition.kind == ConditionKind::Blocked).unwrap();
    assert!(blocked.words.contains("memory") && blocked.end_ns.is_some(), "{blocked:?}");
    let limited_by = &record.verdict.limited_by;
    assert_eq!(limited_by.limiter, Limiter::Broker, "{limited_by:?}");
    assert!(limited_by.evidence.contains("blocked"), "{limited_by:?}");
}

#[test]
fn real_alarm_to_the_end_leaves_messages_unresolved() {
    let server = rabbitmq::server("amqp-blocked", 16020);
    let command = server.variable("BROKERMARK_RABBITMQ_CTL");
    let bench = Bench::new(&format!(
        "{}load.rate = \"1k/s\"\nproducers.in_flight = 20_000\nrun.duration = \"300s\"\nrun.drain_deadline = \"2s\"\n",
        broker(&rabbitmq::amqp_of(&server))
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    rabbitmqctl(&command, &["set_vm_memory_high_watermark", "0.000001"]);
    running.await_stderr("blocked by the broker");
    running.signal(libc::SIGINT);
    let record = running.finish(PATIENCE).expect(130).record();
    assert_balanced(&record);
    assert!(record.counts.unresolved > 0, "{:?}", record.counts);
    let blocked = record.conditions.iter().find(|condition| condition.kind == ConditionKind::Blocked).unwrap();
    assert_eq!(blocked.end_ns, None, "{blocked:?}");
}

#[test]
fn real_killed_server_loses_nothing_confirmed() {
    let server = rabbitmq::server("amqp-killed", 16030);
    let bench = Bench::new(&format!(
        "{}load.rate = \"2k/s\"\nproducers.in_flight = 50_000\nrun.duration = \"20s\"\nconsumers.members = 1\n",
        broker(&rabbitmq::amqp_of(&server))
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    server.kill();
    running.await_stderr("connecting");
    server.restart();
    let record = running.finish(PATIENCE).records().remove(0);
    assert_balanced(&record);
    let found = sums(&record);
    assert_eq!((found.lost, found.duplicated), (0, 0), "{found:?}");
    // What was due while it was away waited for it. What was in flight when it died has failed.
    assert!(record.counts.acknowledged > 30_000, "{:?}", record.counts);
    let connecting = record.conditions.iter().any(|condition| condition.kind == ConditionKind::Connecting);
    assert!(connecting, "{:?}", record.conditions);
}

#[test]
fn real_server_that_falls_silent_is_left_by_its_heartbeat() {
    let server = rabbitmq::server("amqp-silent", 16040);
    let options = "broker.rabbitmq = { heartbeat = \"1s\", reconnect = \"1s\" }\n";
    let bench = Bench::new(&format!(
        "{}{options}load.rate = \"1k/s\"\nconsumers.members = 1\nrun.duration = \"10s\"\nrun.drain_deadline = \"5s\"\n",
        broker(&rabbitmq::amqp_of(&server))
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    server.stall(Duration::from_secs(6));
    let record = running.finish(PATIENCE).records().remove(0);
    assert_balanced(&record);
    assert!(errors(&record).contains("no sign of life"), "{}", errors(&record));
    let received = serde_json::to_string(&record.receive_errors).unwrap();
    assert!(received.contains("no sign of life"), "{received}");
    assert!(record.counts.acknowledged > 1_000, "{:?}", record.counts);
}

#[test]
fn real_frozen_server_shows_in_the_response_time() {
    let server = rabbitmq::server("amqp-frozen", 16050);
    let bench = Bench::new(&format!(
        "{}load.rate = \"1k/s\"\nproducers.in_flight = 10_000\nrun = {{ warm_up = \"1s\", duration = \"6s\" }}\n",
        broker(&rabbitmq::amqp_of(&server))
    ));
    let mut running = bench.start(&[]);
    running.await_stderr(" p99 ");
    server.stall(Duration::from_millis(1500));
    let record = running.finish(PATIENCE).records().remove(0);
    assert_balanced(&record);
    // A quarter of the messages were due while it stood still: the 99th percentile is near the whole pause.
    let p99_ns = record.latency.response.as_ref().and_then(|latency| latency.p99_ns).unwrap();
    assert!(p99_ns > 1_000_000_000, "{p99_ns}");
}
