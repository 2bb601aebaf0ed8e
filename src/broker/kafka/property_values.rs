//! The words that librdkafka takes for properties that have few. Its refusals do not list them.

/// In the order of librdkafka's table of its properties (`CONFIGURATION.md`, column "Range").
const VALUES: [(&str, &[&str]); 16] = [
    ("metadata.recovery.strategy", &["none", "rebootstrap"]),
    ("broker.address.family", &["any", "v4", "v6"]),
    ("security.protocol", &["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]),
    ("ssl.endpoint.identification.algorithm", &["none", "https"]),
    ("sasl.oauthbearer.method", &["default", "oidc"]),
    ("sasl.oauthbearer.grant.type", &["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"]),
    ("sasl.oauthbearer.assertion.algorithm", &["RS256", "ES256"]),
    ("sasl.oauthbearer.metadata.authentication.type", &["none", "azure_imds"]),
    ("group.protocol", &["classic", "consumer"]),
    ("offset.store.method", &["none", "file", "broker"]),
    ("isolation.level", &["read_uncommitted", "read_committed"]),
    ("compression.codec", &["none", "gzip", "snappy", "lz4", "zstd"]),
    ("compression.type", &["none", "gzip", "snappy", "lz4", "zstd"]),
    ("client.dns.lookup", &["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]),
    ("queuing.strategy", &["fifo", "lifo"]),
    ("auto.offset.reset", &["smallest", "earliest", "beginning", "largest", "latest", "end", "error"]),
];

/// The words that the property takes, if they are few.
pub fn values(property: &str) -> Option<&'static [&'static str]> {
    VALUES.iter().find(|(name, _)| *name == property).map(|(_, values)| *values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::kafka::native::property_table;

    /// Its value is a list of such words.
    const LIST: &str = "debug";

    #[test]
    fn the_words_are_those_of_the_linked_librdkafka() {
        let table = property_table();
        let mut known = Vec::new();
        for line in table.lines() {
            let columns: Vec<&str> = line.split('|').map(str::trim).collect();
            let [property, _, range, ..] = columns.as_slice() else { continue };
            let words: Vec<&str> = range.split(", ").collect();
            let is_listed = words.len() > 1 && *range != "true, false" && *property != LIST;
            // A property of topics has the same name as one of clients, which comes first and decides.
            if is_listed && !known.contains(property) {
                known.push(*property);
                assert_eq!(values(property), Some(words.as_slice()), "{property}");
            }
        }
        assert!(known.contains(&"compression.type"), "{table}");
    }
}
