//! `client.conf` of Pulsar's own tools, whose names the Java client shares.

use serde_json::Value as Json;

use super::properties::Property;
use super::{Mapped, find, path, secret_in_file};

const TLS: &str = "broker.security.tls";
const OWN: &str = "broker.pulsar";

/// Keys of Java's keystores, which count if `useKeyStoreTls` is set.
const KEYSTORES: [&str; 7] = [
    "tlsTrustStoreType",
    "tlsTrustStorePath",
    "tlsTrustStorePassword",
    "tlsKeyStoreType",
    "tlsKeyStorePath",
    "tlsKeyStorePassword",
    "webserviceTlsProvider",
];

pub(super) fn map(properties: &[Property], mapped: &mut Mapped) {
    let service = find(properties, &["brokerServiceUrl", "serviceUrl"]);
    let is_encrypted = service.is_some_and(|one| one.value.starts_with("pulsar+ssl://"));
    if let Some(service) = service.filter(|_| is_encrypted) {
        mapped.set(TLS, true, service);
    }
    for one in properties.iter().filter(|one| !one.value.is_empty()) {
        match (one.key.as_str(), one.value.as_str()) {
            ("brokerServiceUrl" | "serviceUrl", url) => addresses(one, url, mapped),
            ("webServiceUrl" | "adminUrl", url) => {
                mapped.set(&format!("{OWN}.admin"), url.trim_end_matches('/'), one);
            }
            ("authPlugin", plugin) => authentication(one, plugin, find(properties, &["authParams"]), mapped),
            ("authParams", _) if find(properties, &["authPlugin"]).is_some() => {}
            ("authParams", _) => mapped.leave_out(one, "`authPlugin` is not set"),
            ("tlsAllowInsecureConnection", _) => only_false(
                one,
                "certificates are always verified: write false, and name their authority with --set broker.security.tls.ca",
                mapped,
            ),
            ("useKeyStoreTls", _) => only_false(
                one,
                "Java's keystores are not read: export them as PEM, and name the files in `tlsTrustCertsFilePath`, `tlsCertificateFilePath` \
                 and `tlsKeyFilePath`",
                mapped,
            ),
            (key, _) if KEYSTORES.contains(&key) => mapped.leave_out(one, "no keystore is used"),
            (key, _) if key.starts_with("tls") && !is_encrypted => {
                mapped.leave_out(one, "the URL of the brokers is without TLS");
            }
            ("tlsEnableHostnameVerification", _) => {
                if let Some(is_verified) = mapped.boolean(one) {
                    mapped.set(&format!("{TLS}.verify_host"), is_verified, one);
                }
            }
            ("tlsTrustCertsFilePath", file) => mapped.set(&format!("{TLS}.ca"), path(file), one),
            ("tlsCertificateFilePath", file) => mapped.set(&format!("{TLS}.certificate"), path(file), one),
            ("tlsKeyFilePath", file) => mapped.set(&format!("{TLS}.key"), path(file), one),
            _ => mapped.refuse(one, "it has no counterpart in brokermark: remove it"),
        }
    }
}

/// A property that is refused, for this reason, if it is true.
fn only_false(one: &Property, reason: &str, mapped: &mut Mapped) {
    match mapped.boolean(one) {
        Some(true) => mapped.refuse(one, reason),
        Some(false) => mapped.leave_out(one, "so it is here"),
        None => {}
    }
}

fn addresses(one: &Property, url: &str, mapped: &mut Mapped) {
    let (hosts, port) = match url.split_once("://") {
        Some(("pulsar", hosts)) => (hosts, 6650),
        Some(("pulsar+ssl", hosts)) => (hosts, 6651),
        _ => return mapped.refuse(one, "it is not a URL as in pulsar://localhost:6650"),
    };
    mapped.set("broker.addresses", super::addresses(hosts.trim_end_matches('/').split(','), port), one);
}

/// The plugins of the Java client that brokermark has a counterpart of, by the last part of their names.
fn authentication(one: &Property, plugin: &str, parameters: Option<&Property>, mapped: &mut Mapped) {
    let Some(parameters) = parameters else {
        return mapped.refuse(one, "`authParams` is missing");
    };
    let json: Option<Json> = serde_json::from_str(&parameters.value).ok();
    let of_json = |key: &str| json.as_ref()?.get(key)?.as_str().map(str::to_owned);
    // `name:value,name:value`, as the Java client has it where it is not JSON.
    let of_pairs = |key: &str| {
        let mut pairs = parameters.value.split(',').filter_map(|pair| pair.split_once(':'));
        pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
    };
    let find = |key: &str| of_json(key).or_else(|| of_pairs(key));
    match plugin.rsplit('.').next().unwrap_or_default() {
        "AuthenticationToken" | "token" => {
            let key = format!("{OWN}.token");
            let written = of_json("token").unwrap_or_else(|| parameters.value.clone());
            let written = written.strip_prefix("token:").unwrap_or(&written);
            match file_of(written) {
                Some(file) => mapped.set(&key, secret_in_file(file), parameters),
                None => mapped.set(&key, written, parameters),
            }
        }
        "AuthenticationTls" | "tls" => match (find("tlsCertFile"), find("tlsKeyFile")) {
            (Some(certificate), Some(key)) => {
                mapped.set(&format!("{TLS}.certificate"), path(&certificate), parameters);
                mapped.set(&format!("{TLS}.key"), path(&key), parameters);
            }
            _ => mapped.refuse(parameters, "write tlsCertFile:PATH,tlsKeyFile:PATH"),
        },
        "AuthenticationOAuth2" => oauth2(parameters, &of_json, mapped),
        _ => mapped.refuse(
            one,
            "brokermark logs in by a token, by OAuth 2.0 or by a certificate: remove it, and set one, as in --set \
             'broker.pulsar.token_command=[\"program\"]'",
        ),
    }
}

fn oauth2(parameters: &Property, of_json: &dyn Fn(&str) -> Option<String>, mapped: &mut Mapped) {
    let (issuer, private_key) = (of_json("issuerUrl"), of_json("privateKey"));
    let file = private_key.as_deref().and_then(file_of);
    let (Some(issuer), Some(file)) = (issuer, file) else {
        let reason = "write JSON with an `issuerUrl` and a `privateKey` that begins with file://";
        return mapped.refuse(parameters, reason);
    };
    mapped.set(&format!("{OWN}.oauth2_issuer_url"), issuer, parameters);
    mapped.set(&format!("{OWN}.oauth2_private_key"), secret_in_file(file), parameters);
    for key in ["audience", "scope"] {
        if let Some(value) = of_json(key) {
            mapped.set(&format!("{OWN}.oauth2_{key}"), value, parameters);
        }
    }
}

/// The path of a URL `file:///path` or `file:/path`.
fn file_of(url: &str) -> Option<&str> {
    let path = url.strip_prefix("file:")?;
    Some(path.strip_prefix("//").unwrap_or(path))
}
