//! Files of Kafka's and Pulsar's own clients, as their users have them.

use std::io::Write;

use super::super::{Plan, parse_url, parse_written};
use super::*;
use crate::engine::kinds;

/// What the file makes of a URL, with the settings of a command line.
fn added(url: &str, file: &str, options: &[&str]) -> Result<Written, String> {
    let mut at = tempfile::Builder::new().prefix("client").suffix(".properties").tempfile().unwrap();
    at.write_all(file.as_bytes()).unwrap();
    let read = parse_url(url, kinds(), false).unwrap();
    let options = options.iter().map(|one| Setting::set(one));
    let settings = [Setting::set("run.messages=1")].into_iter().chain(read.settings).chain(options).collect();
    let written = Written { text: read.text, origin: read.origin, settings, directory: "".into(), note: None };
    add(kinds(), at.path(), written)
        .map_err(|error| error.to_string().replace(&at.path().display().to_string(), "FILE"))
}

fn plan(url: &str, file: &str, options: &[&str]) -> Plan {
    let written = added(url, file, options).unwrap_or_else(|error| panic!("{error}"));
    parse_written(kinds(), &written).unwrap_or_else(|error| panic!("{error}"))
}

/// The scenario's `[broker]`, with what was masked.
fn broker(url: &str, file: &str, options: &[&str]) -> Table {
    let text: Table = plan(url, file, options).text.parse().unwrap();
    text["broker"].as_table().unwrap().clone()
}

fn is(found: &Table, expected: &str) {
    assert_eq!(*found, toml::from_str(expected).unwrap());
}

#[track_caller]
fn refused(file: &str, words: &[&str]) {
    let error = added("kafka://h", file, &[]).unwrap_err();
    assert!(words.iter().all(|word| error.contains(word)), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[cfg(feature = "kafka-native")]
#[test]
fn a_file_says_where_and_as_whom() {
    let file = "# As clouds print it\nbootstrap.servers=a:9093, b\nsecurity.protocol=SASL_SSL\nsasl.mechanism: SCRAM-SHA-512\n\
                sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  username=\"me\" \\\n  \
                password=\"hunter2\";\nssl.truststore.type=PEM\nssl.truststore.location=/ca.pem\nacks=all\nlinger.ms 10\n\
                client.id=x\nfetch.min.bytes=1\n";
    let expected = r#"
        kind = "kafka"
        addresses = ["a:9093", "b:9092"]
        security.tls.ca = "/ca.pem"
        security.sasl = { mechanism = "SCRAM-SHA-512", username = "me", password = "***" }
        kafka = { acks = "all", linger = "10ms" }
    "#;
    let written = added("kafka://", file, &[]).unwrap();
    let mut document = written.text.parse::<toml_edit::DocumentMut>().unwrap();
    for one in &written.settings {
        super::super::overrides::Override::parse(one).unwrap().apply(&mut document).unwrap();
    }
    let text = crate::secrets::mask_document(&mut document);
    is(text.parse::<Table>().unwrap()["broker"].as_table().unwrap(), expected);
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("- `client.id` (line 12) - clients have names of their own"), "{text}");
    assert!(text.contains("- `sasl.jaas.config` (line 5) sets broker.security.sasl.password\n"), "{text}");
    let note = written.note.unwrap();
    assert!(note.contains("`client.id`, `fetch.min.bytes`") && !note.contains("`acks`"), "{note}");
}

/// The URL and the options win, and a login is taken as a whole.
#[cfg(feature = "kafka-native")]
#[test]
fn the_scenario_wins_over_the_file() {
    let file = "bootstrap.servers=a\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=other\n\
                sasl.password=hunter2\nacks=1\ncompression.type=lz4\n";
    let found = broker("kafka://me:s3cret@h/t?acks=all", file, &["broker.kafka.compression=zstd"]);
    let expected = r#"
        kind = "kafka"
        addresses = ["h:9092"]
        security.tls = true
        security.sasl = { mechanism = "PLAIN", username = "me", password = "***" }
        kafka = { acks = "all", compression = "zstd" }
    "#;
    is(&found, expected);
    let written = added("kafka://me:s3cret@h/t?acks=all", file, &["broker.kafka.compression=zstd"]).unwrap();
    for line in [
        "- `bootstrap.servers` (line 1) - `broker.addresses` of the scenario wins over it",
        "- `sasl.username` (line 4) - `broker.security.sasl` of the scenario wins over it",
        "- `sasl.password` (line 5) - `broker.security.sasl` of the scenario wins over it",
        "- `acks` (line 6) - `?acks=all` wins over it",
        "- `compression.type` (line 7) - `--set broker.kafka.compression=zstd` wins over it",
    ] {
        assert!(written.text.contains(line), "{line}: {}", written.text);
    }
    let off = broker("kafka://h", "security.protocol=SSL\n", &["broker.security.tls=false"]);
    assert_eq!(off["security"]["tls"].as_bool(), Some(false));
}

#[cfg(feature = "kafka-native")]
#[test]
fn tokens_and_keys_of_clouds_are_logins() {
    let sasl = |file: &str| {
        broker("kafka://h", &format!("security.protocol=SASL_PLAINTEXT\n{file}"), &[])["security"]["sasl"].clone()
    };
    let expected = r#"mechanism = "OAUTHBEARER"
        oauth2 = { token_url = "https://issuer/token", client_id = "me", client_secret = "***", scope = "a b" }"#;
    let java = "sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=https://issuer/token\n\
                sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n\
                sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId=\"me\" \
                clientSecret=\"hunter2\" scope='a b';\n";
    is(sasl(java).as_table().unwrap(), expected);
    let librdkafka = "sasl.mechanisms=OAUTHBEARER\nsasl.oauthbearer.method=oidc\nsasl.oauthbearer.client.id=me\n\
                      sasl.oauthbearer.client.secret=hunter2\nsasl.oauthbearer.scope=a b\n\
                      sasl.oauthbearer.token.endpoint.url=https://issuer/token\n";
    is(sasl(librdkafka).as_table().unwrap(), expected);
    let iam = "sasl.mechanism=AWS_MSK_IAM\nsasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;\n\
               sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler\n";
    is(sasl(iam).as_table().unwrap(), "mechanism = \"AWS_MSK_IAM\"");
}

/// By Java's client in any case, by librdkafka as numbers too.
#[cfg(feature = "kafka-native")]
#[test]
fn booleans_are_read_as_kafkas_clients_read_them() {
    for (text, is_numbered) in [("True", true), ("t", true), ("1", true), ("FALSE", false), ("0", false)] {
        let found = broker("kafka://h", &format!("acks=all\nenable.idempotence={text}\n"), &[]);
        assert_eq!(found["kafka"]["idempotence"].as_bool(), Some(is_numbered), "{text}");
    }
    let without = "security.protocol=SSL\nssl.endpoint.identification.algorithm=None\n";
    assert_eq!(broker("kafka://h", without, &[])["security"]["tls"]["verify_host"].as_bool(), Some(false));
}

#[test]
fn what_has_no_counterpart_is_refused_with_its_line() {
    let ssl = |rest: &str| format!("security.protocol=SSL\n{rest}");
    let sasl = |rest: &str| format!("security.protocol=SASL_SSL\n{rest}");
    refused("acks=all\nsend.buffer.bytes=hunter2\n", &["FILE:2: `send.buffer.bytes`: it has no counterpart"]);
    refused("fetch.min.bytes=hunter2", &["FILE:1: `fetch.min.bytes`", "broker.client=librdkafka"]);
    refused("transactional.id=x", &["`transactional.id`", "broker.kafka.transactions"]);
    refused("a=\\uhunter2", &["FILE:1: `\\u` is followed by four"]);
    refused(&ssl("ssl.truststore.location=x.jks\nssl.truststore.password=hunter2"), &["FILE:2:", "FILE:3:", "keytool"]);
    refused(&ssl("ssl.key.password=hunter2"), &["FILE:2: `ssl.key.password`", "openssl pkey"]);
    refused(&ssl("enable.ssl.certificate.verification=false"), &["certificates are always verified"]);
    refused(&ssl("enable.ssl.certificate.verification=hunter2"), &["FILE:2:", "neither true nor false"]);
    refused("enable.idempotence=hunter2", &["FILE:1: `enable.idempotence`: it is neither true nor false"]);
    refused("security.protocol=hunter2", &["FILE:1:", "SASL_PLAINTEXT or SASL_SSL"]);
    refused(&sasl("sasl.mechanism=GSSAPI"), &["FILE:2: `sasl.mechanism`: Kerberos is not supported", "OAUTHBEARER"]);
    refused(&sasl(""), &["FILE:1: `security.protocol`: without `sasl.mechanism`, the mechanism is GSSAPI"]);
    let jaas = |mechanism: &str, text: &str| sasl(&format!("sasl.mechanism={mechanism}\nsasl.jaas.config={text}"));
    let module = "org.apache.kafka.common.security.plain.PlainLoginModule";
    refused(&jaas("PLAIN", &format!("{module} required password=\"hunter2")), &["FILE:3: `sasl.jaas.config`"]);
    refused(
        &jaas("PLAIN", &format!("{module} required other=hunter2;")),
        &["FILE:3:", "`other` of `PlainLoginModule`"],
    );
    refused(&jaas("OAUTHBEARER", &format!("{module} required;")), &["`PlainLoginModule` does not go with"]);
    refused(&jaas("PLAIN", "com.example.Own required;"), &["the login module `Own`"]);
    let handler = sasl("sasl.mechanism=OAUTHBEARER\nsasl.login.callback.handler.class=Custom");
    refused(&handler, &["FILE:3: `sasl.login.callback.handler.class`", "token_command"]);
    let error = added("null://", "a=b", &[]).unwrap_err();
    assert!(error.contains("of kind `null` has none"), "{error}");
}

#[cfg(feature = "pulsar")]
#[test]
fn a_file_of_pulsars_tools_is_read() {
    let file = "webServiceUrl=https://p:8443/\nbrokerServiceUrl=pulsar+ssl://p:6651/\ntlsEnableHostnameVerification=false\n\
                tlsAllowInsecureConnection=false\ntlsTrustStoreType=JKS\nauthPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken\n\
                authParams=token:hunter2\ntlsKeyFilePath=\n";
    let expected = r#"
        kind = "pulsar"
        addresses = ["p:6651"]
        security.tls = { verify_host = false }
        pulsar = { admin = "https://p:8443", token = "***" }
    "#;
    is(&broker("pulsar://", file, &[]), expected);
    let oauth2 = "authPlugin=org.apache.pulsar.client.impl.auth.oauth2.AuthenticationOAuth2\n\
                  authParams={\"privateKey\":\"file:///key.json\",\"issuerUrl\":\"https://issuer\",\"audience\":\"a\"}\n";
    let expected = r#"
        kind = "pulsar"
        addresses = ["h:6650"]
        pulsar = { oauth2_issuer_url = "https://issuer", oauth2_private_key = { file = "/key.json" }, oauth2_audience = "a" }
    "#;
    is(&broker("pulsar://h", oauth2, &[]), expected);
    let refused = |file: &str, words: &str| {
        let error = added("pulsar://h", file, &[]).unwrap_err();
        assert!(error.contains(words) && !error.contains("hunter2"), "{error}");
    };
    refused("useKeyStoreTls=TRUE", "FILE:1: `useKeyStoreTls`: Java's keystores are not read");
    refused("tlsAllowInsecureConnection=hunter2", "FILE:1: `tlsAllowInsecureConnection`: it is neither true nor false");
    let verified =
        |text: &str| format!("serviceUrl=pulsar+ssl://p\ntlsEnableHostnameVerification={text}\nuseKeyStoreTls=False\n");
    for (text, is_verified) in [("True", true), ("TRUE", true), ("False", false)] {
        let found = broker("pulsar://", &verified(text), &[]);
        assert_eq!(found["security"]["tls"]["verify_host"].as_bool(), Some(is_verified), "{text}");
    }
    refused(&verified("1"), "FILE:2: `tlsEnableHostnameVerification`: it is neither true nor false");
    refused("authPlugin=a.AuthenticationSasl\nauthParams=hunter2", "FILE:1: `authPlugin`");
    refused("other=hunter2", "FILE:1: `other`");
}

/// The lines of a scenario's own file stay where they are.
#[cfg(feature = "kafka-native")]
#[test]
fn a_scenario_of_a_file_is_completed() {
    let text = "[broker]\nkind = \"kafka\"\naddress = \"h:1\"\n[run]\nmessages = 1";
    let written = Written::in_file(text, "my.toml", &[], Path::new(""));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"bootstrap.servers=a\nacks=5\n").unwrap();
    let written = add(kinds(), file.path(), written).unwrap();
    assert!(written.text.starts_with(text));
    assert_eq!(written.origin, crate::scenario::Origin::File("my.toml".to_owned()));
    // What is wrong is shown where it was written.
    let error = parse_written(kinds(), &written).unwrap_err().to_string();
    assert!(error.contains(":2: `acks`") && error.contains("cannot be \"5\""), "{error}");
}
