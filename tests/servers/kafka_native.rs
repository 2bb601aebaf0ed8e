//! A real Kafka through `client = "native"`: whom it logs in as, and every compression and acknowledgement.

use brokermark::record::Record;

use crate::harness::kafka::{self, sasl, tls};
use crate::harness::scripted_issuer::Issuer;
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

/// A server ends a session with its token at the latest, so tokens of 6 s are wanted anew several times.
fn with_short_tokens(address: &str, login: &str) -> Record {
    let tables = format!(
        "[broker.security.sasl]\nmechanism = \"OAUTHBEARER\"\n{login}[load]\nrate = \"500/s\"\n[consumers]\n[run]\nduration = \"14s\"\n"
    );
    let text = format!("[broker]\nkind = \"kafka\"\nclient = \"native\"\naddresses = [\"{address}\"]\n{tables}");
    Bench::new(&text).run(&[]).expect(0).record()
}

#[test]
fn real_sessions_are_renewed_with_new_tokens_of_a_command_and_of_an_issuer() {
    let server = kafka::server_with("tokens", 19962, "connections.max.reauth.ms=60000");
    let address = format!("127.0.0.1:{}", server.port() + 2);
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    // The claims of `kafka::web_token`, made anew by each run.
    let script = format!(
        "echo >> {}; now=$(date +%s); claims=$(printf '{{\"sub\":\"load\",\"iat\":%d,\"exp\":%d}}' $((now - 60)) $((now + 6)) | base64 -w0 | tr '+/' '-_' \
         | tr -d =); printf '%s.%s.' \"$(printf '{{\"alg\":\"none\"}}' | base64 -w0 | tr -d =)\" \"$claims\"",
        runs.display()
    );
    let command = format!("token_command = [\"sh\", \"-c\", {script:?}]\n");
    let record = with_short_tokens(&address, &command);
    let issuer = Issuer::giving(5, |_| kafka::web_token(6));
    let oauth2 = format!(
        "oauth2 = {{ issuer_url = \"{}\", client_id = \"me\", client_secret = \"s&cret\", scope = \"kafka\" }}\n",
        issuer.url
    );
    for (record, asked) in [
        (record, std::fs::read_to_string(&runs).unwrap().lines().count()),
        (with_short_tokens(&address, &oauth2), issuer.forms().len()),
    ] {
        assert!(asked >= 3, "{asked} tokens");
        assert_eq!((&record.receive_errors, &record.conditions), (&vec![], &vec![]));
        assert_eq!((record.counts.failed, record.wire.unwrap().retried), (0, 0));
        assert!(record.counts.acknowledged > 0, "{:?}", record.counts);
    }
    assert_eq!(issuer.forms()[0], "grant_type=client_credentials&client_id=me&client_secret=s%26cret&scope=kafka");
}

#[test]
fn real_secured_listener_is_not_reached_without_a_token() {
    let address = variable("BROKERMARK_KAFKA_SASL");
    let with =
        |login: &str| run(&address, &format!("[broker.security.sasl]\nmechanism = \"OAUTHBEARER\"\n{login}")).expect(1);
    let failed = with("token_command = [\"sh\", \"-c\", \"printf hun; echo ter2; echo not logged in >&2; exit 1\"]\n");
    failed.complains_of(&["`token_command` (sh): it failed (exit status: 1): not logged in"]);
    let issuer = Issuer::start(60);
    let refused = with(&format!(
        "oauth2 = {{ token_url = \"{}/token\", client_id = \"me\", client_secret = \"hunter2\" }}\n",
        issuer.url
    ));
    refused.complains_of(&["OAuth 2.0", "/token", "401 (invalid_client)"]);
    // A number is a token for the issuer, not for Kafka.
    let number = with(&format!(
        "oauth2 = {{ token_url = \"{}/token\", client_id = \"me\", client_secret = \"s&cret\" }}\n",
        issuer.url
    ));
    number.complains_of(&[&address, "refused the credentials"]);
    for ended in [failed, refused, number] {
        assert!(!ended.stderr.contains("hunter2") && !ended.stdout.contains("hunter2"), "{}", ended.stderr);
    }
}

/// What a user of Kafka's own tools has in a file.
#[test]
fn real_secured_listener_is_reached_by_a_clients_file() {
    let (user, password) = (variable("BROKERMARK_KAFKA_USER"), variable("BROKERMARK_KAFKA_PASSWORD"));
    let file = format!(
        "bootstrap.servers={}\nsecurity.protocol = SASL_SSL\nsasl.mechanism: SCRAM-SHA-256\n\
         sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  username=\"{user}\" \\\n  \
         password=\"{password}\";\nssl.truststore.type=PEM\nssl.truststore.location={}\nacks=1\nclient.id=load\n",
        variable("BROKERMARK_KAFKA_SASL_TLS"),
        variable("BROKERMARK_KAFKA_CA"),
    );
    let text = scenario("", "").replace("addresses = [\"\"]\n", "");
    let bench = Bench::new(&text);
    let file = bench.write("client.properties", &file);
    let ended = bench.run(&["--properties", file.to_str().unwrap()]).expect(0);
    let record = ended.record();
    assert_delivered(&record, 1000, 1);
    assert_eq!(record.durability.settings["acks"], "1");
    let kept = std::fs::read_to_string(bench.run_directory().join("scenario.toml")).unwrap();
    assert!(kept.contains("`sasl.jaas.config` (line 4) sets broker.security.sasl.password"), "{kept}");
    assert!(kept.contains("`client.id` (line 10) - clients have names of their own"), "{kept}");
    assert!(!kept.contains(&password) && !ended.stderr.contains(&password), "{kept}");
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
