//! TLS and credentials as librdkafka's properties.

use std::env;

use crate::scenario::{BrokerConfig, SaslMechanism};

/// SCRAM is salted hashing, which librdkafka leaves to OpenSSL; its OAUTHBEARER is built with it only.
pub const SASL_MECHANISMS: &[SaslMechanism] = if cfg!(feature = "kafka-tls") {
    &[SaslMechanism::ScramSha512, SaslMechanism::ScramSha256, SaslMechanism::Plain, SaslMechanism::OauthBearer]
} else {
    &[SaslMechanism::Plain]
};

/// The properties of a scenario's `[broker.security]`.
///
/// # Errors
/// When a secret cannot be read.
pub fn security(config: &BrokerConfig) -> Result<Vec<(String, String)>, String> {
    let security = &config.security;
    let protocol = match (&security.tls, security.sasl.is_some() || security.bearer.is_some()) {
        (None, false) => return Ok(Vec::new()),
        (Some(_), false) => "ssl",
        (None, true) => "sasl_plaintext",
        (Some(_), true) => "sasl_ssl",
    };
    let mut properties = vec![("security.protocol", protocol.to_owned())];
    if let Some(tls) = &security.tls {
        let authorities = tls.ca.as_ref().map_or_else(|| authorities(env::var), |file| file.display().to_string());
        properties.push(("ssl.ca.location", authorities));
        for (key, file) in [("ssl.certificate.location", &tls.certificate), ("ssl.key.location", &tls.key)] {
            if let Some(file) = file {
                properties.push((key, file.display().to_string()));
            }
        }
        let identification = if tls.verify_host { "https" } else { "none" };
        properties.push(("ssl.endpoint.identification.algorithm", identification.to_owned()));
    }
    if security.bearer.is_some() {
        properties.push(("sasl.mechanisms", SaslMechanism::OauthBearer.name().to_owned()));
    }
    if let Some(sasl) = &security.sasl {
        properties.push(("sasl.mechanisms", sasl.mechanism.name().to_owned()));
        properties.push(("sasl.username", sasl.username.clone()));
        properties.push(("sasl.password", sasl.password.reveal()?));
    }
    Ok(properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Where the authorities are that the system trusts: at the places that OpenSSL's two variables name, as for the brokers whose
/// TLS is rustls, else wherever librdkafka finds them. An OpenSSL that was compiled in looks for them in a folder of its own.
fn authorities(variable: impl Fn(&'static str) -> Result<String, env::VarError>) -> String {
    let mut named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().filter_map(|name| variable(name).ok());
    named.find(|path| !path.is_empty()).unwrap_or_else(|| "probe".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_authorities_are_where_its_variables_say_or_are_looked_for() {
        let with = |name: &'static str, value: &str| {
            let value = value.to_owned();
            authorities(move |asked| if asked == name { Ok(value.clone()) } else { Err(env::VarError::NotPresent) })
        };
        assert_eq!(with("SSL_CERT_FILE", "/ca.pem"), "/ca.pem");
        assert_eq!(with("SSL_CERT_DIR", "/certs"), "/certs");
        assert_eq!(with("SSL_CERT_FILE", ""), "probe");
        assert_eq!(with("HOME", "/root"), "probe");
    }
}
