//! The client that is not brokermark's own: what it is called and cannot do.

use super::codec::compression::Compression;
use super::config::PulsarOptions;
use crate::scenario::BrokerConfig;

/// The crate `pulsar`, by the name of its repository.
pub const PULSAR_RS: &str = "pulsar-rs";

/// The crate as records name it: the version that Cargo.toml pins.
const CRATE: &str = "pulsar 6.9.1";

/// The client's name and version, for the record.
pub fn identity(config: &BrokerConfig) -> String {
    match config.client {
        Some(PULSAR_RS) => CRATE.to_owned(),
        _ => format!("brokermark {}", env!("CARGO_PKG_VERSION")),
    }
}

/// What version 6.9.1 of the crate cannot do, or does in a way of its own.
pub fn refused_by_the_crate(config: &BrokerConfig) -> Option<String> {
    if let Some(tls) = &config.security.tls {
        // Built with rustls, it has neither (src/connection.rs, `prepare_stream`).
        if tls.certificate.is_some() {
            return Some("it has no certificate of its own (`broker.security.tls.certificate`)".to_owned());
        }
        if !tls.verify_host {
            return Some("it always verifies the host (`broker.security.tls.verify_host`)".to_owned());
        }
    }
    // A table that cannot be read is refused for that.
    let options: PulsarOptions = config.options.clone().try_into().ok()?;
    let reason = if options.batch_by_key {
        "its entries mix keys (`broker.pulsar.batch_by_key`)"
    } else if options.compression == Compression::Snappy {
        // src/producer.rs, `compress_message`, uses `snap::write::FrameEncoder`; the Java client writes a raw block.
        "its snappy has a frame around it, which no other client of Pulsar reads (`broker.pulsar.compression`)"
    } else if options.negative_acks > 0.0 {
        // Its `Message` lacks the redelivery count.
        "it does not say which messages are delivered again (`broker.pulsar.negative_acks`)"
    } else {
        return None;
    };
    Some(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::tls::Tls;
    use crate::scenario::Security;

    fn refusal(options: &str, tls: Option<Tls>) -> Option<String> {
        let config = BrokerConfig {
            kind: "pulsar".to_owned(),
            client: Some(PULSAR_RS),
            addresses: Vec::new(),
            connections: 1,
            properties: Vec::new(),
            security: Security { tls, ..Security::default() },
            options: toml::from_str(options).unwrap(),
        };
        refused_by_the_crate(&config)
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
        let lock = include_str!("../../../Cargo.lock");
        let (name, version) = CRATE.split_once(' ').unwrap();
        assert!(lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"\n")));
    }
}
