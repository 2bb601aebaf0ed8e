//! A real Kafka through `client = "native"`: whom it logs in as, and every compression and acknowledgement.

use crate::harness::kafka;
use crate::harness::server::variable;
use crate::harness::{Bench, Finished, PATIENCE, Running, assert_delivered, record_of};

/// A thousand messages that are verified, with these tables besides.
fn scenario(address: &str, tables: &str) -> String {
    let broker = format!("[broker]\nkind = \"kafka\"\nclient = \"native\"\naddresses = [\"{address}\"]\n{tables}");
    format!(
        "{broker}\n[payload]\nkind = \"zeros\"\nsize = \"64B\"\n[consumers]\nverify = true\n[run]\nmessages = 1000\n"
    )
}

fn run(address: &str, tables: &str) -> Finished {
    Bench::new(&scenario(address, tables)).run(&[])
}

fn sasl(mechanism: &str, password: &str) -> String {
    let user = variable("BROKERMARK_KAFKA_USER");
    format!(
        "[broker.security.sasl]\nmechanism = \"{mechanism}\"\nusername = \"{user}\"\npassword = {{ env = \"{password}\" }}\n"
    )
}

fn tls() -> String {
    format!("[broker.security.tls]\nca = \"{}\"\n", variable("BROKERMARK_KAFKA_CA"))
}

#[test]
fn real_secured_listeners_accept_every_way_to_authenticate() {
    let password = "BROKERMARK_KAFKA_PASSWORD";
    let plain = variable("BROKERMARK_KAFKA_SASL");
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        assert_delivered(&run(&plain, &sasl(mechanism, password)).expect(0).record(), 1000, 1);
    }
    assert_delivered(&run(&variable("BROKERMARK_KAFKA_TLS"), &tls()).expect(0).record(), 1000, 1);
    let both = format!("{}{}", tls(), sasl("SCRAM-SHA-256", password));
    assert_delivered(&run(&variable("BROKERMARK_KAFKA_SASL_TLS"), &both).expect(0).record(), 1000, 1);
}

/// What the errors advise is what [`real_secured_listeners_accept_every_way_to_authenticate`] does.
#[test]
fn real_listener_that_expects_another_login_is_named() {
    let (plain, secured, encrypted) =
        (kafka::address(), variable("BROKERMARK_KAFKA_SASL"), variable("BROKERMARK_KAFKA_TLS"));
    let clients: &[&str] = if cfg!(feature = "kafka") { &["native", "librdkafka"] } else { &["native"] };
    for client in clients {
        let refused = |address: &str, tables: &str, parts: &[&str]| {
            let text = scenario(address, tables).replace("\"native\"", &format!("{client:?}"));
            let refused = Bench::new(&text).run(&[]).expect(1);
            refused.complains_of(&[address]);
            refused.complains_of(parts);
        };
        refused(&secured, "", &["wants a login", "[broker.security.sasl]"]);
        let login = sasl("PLAIN", "BROKERMARK_KAFKA_PASSWORD");
        refused(&plain, &login, &["no mechanism at this listener", "remove `broker.security.sasl`"]);
        refused(&encrypted, "", &["this port speaks TLS", "[broker.security.tls]"]);
        refused(&plain, &tls(), &["port is without TLS", "leave out `broker.security.tls`"]);
    }
}

#[test]
fn real_secured_listener_refuses_a_wrong_password_unprinted() {
    let address = variable("BROKERMARK_KAFKA_SASL");
    for mechanism in ["PLAIN", "SCRAM-SHA-512"] {
        let bench = Bench::new(&scenario(&address, &sasl(mechanism, "WRONG_PASSWORD")));
        let mut command = bench.command();
        command.arg("--quiet").env("WRONG_PASSWORD", "hunter2-is-wrong");
        let refused = Running::start(&mut command).finish(PATIENCE).expect(1);
        refused.complains_of(&[&address, "refused the credentials"]);
        assert!(!refused.stderr.contains("hunter2") && !refused.stdout.contains("hunter2"), "{}", refused.stderr);
    }
}

/// Producers, consumers and the administrator each show the token.
#[test]
fn real_secured_listener_refuses_an_expired_token() {
    let address = variable("BROKERMARK_KAFKA_SASL");
    let security = "[broker.security.sasl]\nmechanism = \"OAUTHBEARER\"\ntoken = { file = \"token\" }\n";
    let with = |token: &str| {
        let bench = Bench::new(&scenario(&address, security));
        bench.write("token", token);
        bench.run(&[])
    };
    assert_delivered(&with(&kafka::web_token(3600)).expect(0).record(), 1000, 1);
    for refused in [kafka::web_token(-3600), "opaque".to_owned()] {
        let ended = with(&refused).expect(1);
        ended.complains_of(&[&address, "refused the credentials"]);
        assert!(!ended.stderr.contains(&refused) && !ended.stdout.contains(&refused), "{}", ended.stderr);
    }
}

#[test]
fn real_mtls_listener_refuses_client_without_certificate() {
    let address = variable("BROKERMARK_KAFKA_MTLS");
    let (certificate, key) = (variable("BROKERMARK_KAFKA_CERTIFICATE"), variable("BROKERMARK_KAFKA_KEY"));
    let with_certificate = format!("{}certificate = \"{certificate}\"\nkey = \"{key}\"\n", tls());
    assert_delivered(&run(&address, &with_certificate).expect(0).record(), 1000, 1);
    run(&address, &tls()).expect(1).complains_of(&[
        &address,
        "asks for a certificate",
        "broker.security.tls.certificate",
    ]);
}

#[test]
fn real_kafka_takes_every_compression_and_acknowledgement() {
    let address = kafka::address();
    for keys in [
        "acks = \"0\"",
        "acks = \"1\"\ncompression = \"gzip\"",
        "idempotence = true\ncompression = \"snappy\"",
        "compression = \"lz4\"\nlinger = \"0s\"",
        "compression = \"zstd\"\npartitioner = \"murmur2_random\"",
    ] {
        let tables = format!("[broker.kafka]\n{keys}\n[topology]\npartitions = 3\n[producers]\ncount = 3\nbatch = 7");
        assert_delivered(&record_of(&scenario(&address, &tables)), 1000, 1);
    }
}
