use std::io;

use pulsar_rs::proto::ServerError;

use super::*;
use crate::scenario::Security;

fn refusal(options: &str, tls: Option<Tls>) -> Option<String> {
    let config = BrokerConfig {
        kind: "pulsar".to_owned(),
        client: Some(CLIENT),
        addresses: Vec::new(),
        connections: 1,
        properties: Vec::new(),
        security: Security { tls, ..Security::default() },
        options: toml::Table::new(),
    };
    PulsarCrateBroker::refusal(&config, &toml::from_str(options).unwrap())
}

#[test]
fn what_the_crate_cannot_do_is_refused_by_its_key() {
    for (options, key) in [
        ("batch_by_key = true", "broker.pulsar.batch_by_key"),
        ("compression = 'snappy'", "broker.pulsar.compression"),
        ("negative_acks = 0.1", "broker.pulsar.negative_acks"),
    ] {
        assert!(refusal(options, None).unwrap().contains(key), "{options}");
    }
    let tls = Tls { ca: None, certificate: None, key: None, verify_host: true };
    let own = Tls { certificate: Some("own.pem".into()), ..tls.clone() };
    assert!(refusal("", Some(own)).unwrap().contains("tls.certificate"));
    assert!(refusal("", Some(Tls { verify_host: false, ..tls.clone() })).unwrap().contains("verify_host"));
    assert_eq!(refusal("compression = 'zstd'\nlinger = '1ms'\nresend = true", Some(tls)), None);
}

#[test]
fn records_name_the_version_that_is_compiled() {
    let lock = include_str!("../../../../Cargo.lock");
    let (name, version) = CRATE.split_once(' ').unwrap();
    assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")));
}

#[test]
fn errors_of_the_crate_have_the_classes_of_our_own_client() {
    let class = |error: ConnectionError| ClientError::from(Error::Connection(error)).class;
    assert_eq!(class(io::Error::from(ErrorKind::TimedOut).into()), FailureClass::Timeout);
    assert_eq!(class(io::Error::from(ErrorKind::BrokenPipe).into()), FailureClass::ConnectionLost);
    assert_eq!(class(ConnectionError::SlowDown), FailureClass::QueueFull);
    let fenced = ConnectionError::PulsarError(Some(ServerError::ProducerFenced), Some("taken\n\tat java".to_owned()));
    let batch = ProducerError::Batch(Arc::new(Error::Producer(ProducerError::Connection(fenced))));
    assert_eq!(
        ClientError::from(Error::Producer(batch)),
        ClientError::lasting(FailureClass::Fenced, "ProducerFenced: taken")
    );
}
