//! Messages that a broker removes by its own rules before a slow group has read them: they are not lost, and the finding names the rule. With
//! the rule relaxed, as the finding advises, nothing is removed.

use crate::harness::record_of;
use brokermark::record::{ReasonKind, Record, RemovalCause, Verification};

/// 20k messages of 1 kB a second, of which a group reads 2k.
const SLOW_GROUP: &str = "
    [producers]
    count = 2
    batch = 50
    [payload]
    size = \"1kB\"
    [load]
    rate = \"20k/s\"
    [[consumers.group]]
    rate = \"2k/s\"
    [run]
    duration = \"6s\"
    drain_deadline = \"3s\"
    catch_up_deadline = \"5s\"";

fn has(record: &Record, kind: ReasonKind) -> bool {
    record.verdict.reasons.iter().any(|reason| reason.kind == kind)
}

/// Asserts that messages were removed by this rule, and not lost.
fn assert_removed(record: &Record, cause: RemovalCause, rule: &str) {
    let found: &Verification = record.verification.as_ref().unwrap();
    assert!(found.removed > 10_000 && found.lost == 0, "{found:?}");
    assert_eq!(found.removal_rules.iter().map(|rule| rule.cause).collect::<Vec<_>>(), [cause]);
    let removed = record.verdict.reasons.iter().find(|reason| reason.kind == ReasonKind::Removed).unwrap();
    assert!(removed.evidence.contains(rule), "{removed:?}");
    assert!(!has(record, ReasonKind::Losses), "{:?}", record.verdict);
}

fn assert_kept(record: &Record) {
    let found = record.verification.as_ref().unwrap();
    assert_eq!((found.removed, found.lost), (0, 0), "{found:?}");
    assert!(!has(record, ReasonKind::Removed), "{:?}", record.verdict);
}

#[cfg(feature = "rabbitmq-stream")]
#[test]
fn real_rabbitmq_stream_forgets_what_is_beyond_its_length() {
    let run = |length: &str| {
        let options = format!("max_length = \"{length}\"\nsegment_size = \"1MB\"");
        let address = crate::harness::rabbitmq::address();
        record_of(&format!(
            "[broker]\nkind = \"rabbitmq-stream\"\naddress = \"{address}\"\n[broker.rabbitmq-stream]\n{options}\n{SLOW_GROUP}"
        ))
    };
    assert_removed(&run("5MB"), RemovalCause::Retention, "retention (max-length-bytes = 5000000)");
    assert_kept(&run("5GB"));
}

#[cfg(feature = "rabbitmq")]
#[test]
fn real_rabbitmq_queues_remove_by_every_rule() {
    for queue in ["quorum", "classic"] {
        let run = |rule: &str| {
            let load = SLOW_GROUP.replace("20k/s", "10k/s").replace("\"6s\"", "\"3s\"").replace("\"5s\"", "\"2s\"");
            let address = crate::harness::rabbitmq::amqp();
            record_of(&format!(
                "[broker]\nkind = \"rabbitmq\"\naddress = \"{address}\"\n[broker.rabbitmq]\nqueue = \"{queue}\"\n{rule}\n{load}"
            ))
        };
        let (retention, age) = (RemovalCause::Retention, RemovalCause::TimeToLive);
        assert_removed(&run("message_ttl = \"500ms\""), age, "time to live (x-message-ttl = 500 ms)");
        assert_removed(&run("length_limit = 2000"), retention, "retention (x-max-length = 2000)");
        let bytes = run("length_limit_bytes = \"2MB\"");
        assert_removed(&bytes, retention, "retention (x-max-length-bytes = 2000000)");
        assert_kept(&run("length_limit = 1_000_000"));
    }
}

/// The server dies while it has messages that a late group has not read: transient ones are lost. What the finding advises keeps them.
#[cfg(feature = "rabbitmq")]
#[test]
fn real_rabbitmq_loses_transient_messages_and_no_persistent_ones() {
    use crate::harness::{Bench, PATIENCE, finding, rabbitmq, sums};

    let server = rabbitmq::server("amqp-transient", 16060);
    let run = |persistent: bool| {
        let bench = Bench::new(&format!(
            "broker = {{ kind = \"rabbitmq\", address = \"{}\", rabbitmq = {{ queue = \"classic\", persistent = {persistent} }} }}
            load.rate = \"200/s\"
            run = {{ duration = \"40s\", drain_deadline = \"10s\" }}
            [[consumers.group]]
            start_after = \"35s\"",
            rabbitmq::amqp_of(&server)
        ));
        let mut running = bench.start(&[]);
        (0..3).for_each(|_| running.await_stderr(" p99 "));
        server.kill();
        server.restart();
        running.finish(PATIENCE).expect(0).record()
    };
    let lost = run(false);
    assert!(sums(&lost).lost > 300, "{:?}", sums(&lost));
    let losses = finding(&lost, ReasonKind::Losses).unwrap();
    assert!(losses.advice.contains("whether messages are stored"), "{losses:?}");
    let kept = run(true);
    assert_eq!((sums(&kept).lost, finding(&kept, ReasonKind::Losses)), (0, None));
}

#[cfg(feature = "nats")]
#[test]
fn real_nats_stream_discards_what_is_beyond_its_size() {
    let run = |size: &str| {
        let address = crate::harness::nats::address();
        let options = format!("max_bytes = \"{size}\"\nstorage = \"memory\"");
        record_of(&format!(
            "[broker]\nkind = \"nats\"\naddress = \"{address}\"\n[broker.nats]\n{options}\n{SLOW_GROUP}"
        ))
    };
    assert_removed(&run("5MB"), RemovalCause::Retention, "retention (max_bytes = 5000000)");
    assert_kept(&run("1GB"));
}

/// Shares do not tell which of the missing messages were removed, but that some were, and by which rule.
#[cfg(feature = "nats")]
#[test]
fn real_messages_removed_under_shares_are_not_called_lost() {
    use crate::harness::shares::{merge, run_shares};
    use crate::harness::{Bench, finding, nats};

    let missing = |size: &str| {
        let options = format!("max_bytes = \"{size}\"\nstorage = \"memory\"");
        let bench = Bench::new(&format!(
            "thresholds.require = [\"lost = 0\"]\nbroker.kind = \"nats\"\nbroker.address = \"{}\"\n[broker.nats]\n{options}\n{SLOW_GROUP}",
            nats::address()
        ));
        let shares = run_shares(&bench, 2, 4);
        let merged = merge(&bench, &shares, "merged");
        let record = merged.record();
        let found = record.verification.clone().unwrap();
        (finding(&record, ReasonKind::Removed).map(|reason| reason.evidence.clone()), found, record.thresholds)
    };
    let (removed, found, thresholds) = missing("5MB");
    assert!(found.undecided > 10_000 && found.lost + found.unread == 0, "{found:?}");
    assert!(removed.unwrap().contains("retention (max_bytes = 5000000)"));
    assert!(thresholds[0].measured.is_none(), "{thresholds:?}");
    let (removed, found, thresholds) = missing("1GB");
    assert_eq!((removed, found.undecided, thresholds[0].measured), (None, 0, Some(0.0)), "{found:?}");
    assert!(found.unread > 0, "{found:?}");
}

/// The broker looks for expired messages every few minutes; here it is told to, until the last of them is old enough.
#[cfg(feature = "pulsar")]
#[test]
fn real_pulsar_expires_what_is_older_than_its_time_to_live() {
    use crate::harness::pulsar::{self, Namespace, request};
    use crate::harness::{Bench, PATIENCE, eventually};

    let namespace = Namespace::make(&format!("removal-{}", std::process::id()));
    let run = |topic: &str, expires: bool| {
        let (address, admin) = (pulsar::address(), pulsar::admin());
        let options = format!("admin = \"{admin}\"\nnamespace = \"{namespace}\"");
        let bench = Bench::new(&format!(
            "[broker]\nkind = \"pulsar\"\naddress = \"{address}\"\n[broker.pulsar]\n{options}\n[topology]\nname = \"{topic}\"\n{SLOW_GROUP}"
        ));
        let mut running = bench.start(&[]);
        running.await_stderr(" p99 ");
        if expires {
            let path = format!("persistent/{namespace}/{topic}");
            let stats = || request("GET", &format!("{path}/stats?getPreciseBacklog=true"), "").unwrap();
            eventually("all messages are stored", || stats().contains("\"msgInCounter\":120000"));
            eventually("messages expire", || {
                let _refused_without_a_backlog =
                    request("POST", &format!("{path}/all_subscription/expireMessages/1"), "");
                stats().contains("\"msgBacklog\":0")
            });
        }
        running.finish(PATIENCE).records().remove(0)
    };
    namespace.set("messageTTL", "1");
    assert_removed(&run("expiring", true), RemovalCause::TimeToLive, "time to live (message_ttl_in_seconds = 1)");
    namespace.set("messageTTL", "0");
    assert_kept(&run("kept", false));
    namespace.remove();
}

/// On a server of its own, which looks at backlogs every second.
#[cfg(feature = "pulsar")]
#[test]
fn real_pulsar_evicts_what_is_beyond_its_backlog_quota() {
    use crate::harness::pulsar::{self, request_at};
    use crate::harness::server::Server;

    let properties = "backlogQuotaCheckIntervalInSeconds=1\nmanagedLedgerMaxEntriesPerLedger=100\nmanagedLedgerMinLedgerRolloverTimeMinutes=0";
    let settings = [("BROKERMARK_PULSAR_WEB_PORT", "16962"), ("BROKERMARK_PULSAR_PROPERTIES", properties)];
    let server = Server::start("pulsar", "pulsar-quota", 16960, &settings);
    let (address, admin) = (server.address(), pulsar::admin_of(&server));
    let run = |bytes: u64| {
        let quota = format!("{{\"limitSize\":{bytes},\"limitTime\":-1,\"policy\":\"consumer_backlog_eviction\"}}");
        let path = "namespaces/public/default/backlogQuota?backlogQuotaType=destination_storage";
        assert!(request_at(&admin, "POST", path, &quota).is_some(), "{quota}");
        let pulsar = format!("[broker.pulsar]\nadmin = \"{admin}\"\n");
        record_of(&format!("[broker]\nkind = \"pulsar\"\naddress = \"{address}\"\n{pulsar}{SLOW_GROUP}"))
    };
    assert_removed(
        &run(5_000_000),
        RemovalCause::Eviction,
        "eviction of the backlog (consumer_backlog_eviction = 5000000 B)",
    );
    assert_kept(&run(5_000_000_000));
}

#[cfg(all(feature = "kafka", feature = "kafka-native"))]
mod kafka {
    use super::*;

    for_each_kafka_client! {
        real_kafka_retention_removes_what_a_slow_group_has_not_read,
        real_kafka_compaction_removes_all_but_the_latest_of_each_key,
    }

    fn broker(client: &str) -> String {
        let address = crate::harness::kafka::address();
        format!("broker = {{ kind = \"kafka\", client = \"{client}\", address = \"{address}\" }}\n")
    }

    fn real_kafka_retention_removes_what_a_slow_group_has_not_read(client: &str) {
        let run = |bytes: &str| {
            let config = format!("\"retention.bytes\" = {bytes}, \"segment.bytes\" = 1048576");
            record_of(&format!("{}topology.config = {{ {config} }}\n{SLOW_GROUP}", broker(client)))
        };
        assert_removed(&run("5000000"), RemovalCause::Retention, "retention (retention.bytes = 5000000)");
        assert_kept(&run("5000000000"));
    }

    /// The cleaner of the server looks every 15 s.
    fn real_kafka_compaction_removes_all_but_the_latest_of_each_key(client: &str) {
        let run = |policy: &str| {
            let config = "\"segment.bytes\" = 1048576, \"min.cleanable.dirty.ratio\" = 0.01";
            let late = SLOW_GROUP
                .replace("rate = \"2k/s\"", "start_after = \"25s\"")
                .replace("duration = \"6s\"", "duration = \"27s\"")
                .replace("\"20k/s\"", "\"2k/s\"")
                .replace("batch = 50", "batch = 50\nkeys = { kind = \"round-robin\", distinct = 10 }");
            let topic = format!("topology.config = {{ \"cleanup.policy\" = \"{policy}\", {config} }}");
            record_of(&format!("{}{topic}\n{late}", broker(client)))
        };
        assert_removed(&run("compact"), RemovalCause::Compaction, "compaction (cleanup.policy = compact)");
        assert_kept(&run("delete"));
    }
}
