//! `[broker.security]`: TLS and credentials.

use super::Reader;
use crate::scenario::tables::{SaslTable, SecurityTable, TlsFiles, TlsTable};
use crate::scenario::{Absent, Capabilities, Descriptor, Kinds, Sasl, SaslMechanism, Secret, Security, Tls};

const TLS: &str = "broker.security.tls";
const SASL: &str = "broker.security.sasl";

pub(super) fn read(table: &SecurityTable, reader: &Reader<'_>, descriptor: &Descriptor) -> Security {
    let refuse = |key: &str, what: &str, has: &dyn Fn(&Capabilities) -> bool| {
        let message = format!("this build cannot use {what} with {}", descriptor.title());
        reader.refuse(key, message, advice(descriptor, reader.context.kinds, has));
    };
    let tls = table.tls.as_ref().and_then(|table| tls(table, reader));
    if tls.is_some() && !descriptor.capabilities.tls {
        refuse(TLS, "TLS", &|other| other.tls);
    }
    let Some(table) = &table.sasl else { return Security { tls, ..Security::default() } };
    let known = descriptor.capabilities.sasl;
    let mechanism = table.mechanism;
    if known.is_empty() {
        refuse(SASL, "SASL", &|other| !other.sasl.is_empty());
    } else if !known.contains(&mechanism) {
        refuse(SASL, &format!("SASL {}", mechanism.name()), &|other| other.sasl.contains(&mechanism));
    }
    if mechanism == SaslMechanism::External && tls.as_ref().is_none_or(|tls| tls.certificate.is_none()) {
        let message = "SASL EXTERNAL logs in by a client's certificate, and the scenario names no certificate";
        reader.refuse(SASL, message, "set `broker.security.tls.certificate` and its `key`");
    }
    let (sasl, bearer) = credentials(table, reader);
    Security { tls, sasl, bearer }
}

/// Another client of the same kind, and another build, that may have what `descriptor` lacks.
fn advice(descriptor: &Descriptor, kinds: Kinds<'_>, has: &dyn Fn(&Capabilities) -> bool) -> String {
    let other = kinds.brokers.iter().find(|other| other.kind == descriptor.kind && has(&other.capabilities));
    let client = other
        .and_then(|other| other.client)
        .map(|client| format!("write `broker.client = \"{client}\"`, which has it"));
    let absent = kinds.absent.iter().find(|absent| absent.security && absent.kind == descriptor.kind);
    let rebuild = absent.filter(|absent| absent.client == descriptor.client).map(Absent::remedy);
    match client.into_iter().chain(rebuild).collect::<Vec<_>>() {
        some if some.is_empty() => "remove it: `brokermark brokers` lists what each kind of broker can do".to_owned(),
        some => some.join(", or "),
    }
}

fn tls(table: &TlsTable, reader: &Reader<'_>) -> Option<Tls> {
    let files = match table {
        TlsTable::IsOn(false) => return None,
        TlsTable::IsOn(true) => TlsFiles::default(),
        TlsTable::Files(files) => files.clone(),
    };
    for (one, other) in [("certificate", "key"), ("key", "certificate")] {
        if reader.has(&format!("{TLS}.{one}")) {
            reader.missing(TLS, other, "a client proves who it is with both a `certificate` and its `key`");
        }
    }
    let TlsFiles { ca, certificate, key, verify_host } = files;
    Some(Tls { ca, certificate, key, verify_host })
}

/// A name with its password, or a token.
fn credentials(table: &SaslTable, reader: &Reader<'_>) -> (Option<Sasl>, Option<Secret>) {
    let forbid = |keys: &[&str], reason: &str, advice: &str| {
        keys.iter().for_each(|key| reader.forbid(&format!("{SASL}.{key}"), reason, advice));
    };
    let mechanism = table.mechanism;
    if mechanism == SaslMechanism::OauthBearer {
        forbid(&["username", "password"], "`OAUTHBEARER` has a `token` instead", "remove it");
        let token = secret(table.token.as_ref(), "token", "best from a file: `token = { file = \"token\" }`", reader);
        return (None, token);
    }
    let advice = "remove it, or write `mechanism = \"OAUTHBEARER\"`";
    forbid(&["token"], "only `OAUTHBEARER` has a `token`", advice);
    if mechanism == SaslMechanism::External {
        forbid(&["username", "password"], "SASL EXTERNAL takes the name from the certificate", "remove it");
        let (username, password) = (String::new(), Secret::Inline(String::new()));
        return (Some(Sasl { mechanism, username, password }), None);
    }
    reader.missing(SASL, "username", "write the name to log in with");
    let advice = "best from the environment: `password = { env = \"KAFKA_PASSWORD\" }`";
    let password = secret(table.password.as_ref(), "password", advice, reader);
    let sasl = table.username.clone().zip(password);
    (sasl.map(|(username, password)| Sasl { mechanism, username, password }), None)
}

/// A secret that must be there.
fn secret(secret: Option<&Secret>, key: &str, advice: &str, reader: &Reader<'_>) -> Option<Secret> {
    reader.missing(SASL, key, advice);
    let path = format!("{SASL}.{key}");
    if matches!(secret, Some(Secret::Inline(text)) if text.is_empty()) {
        reader.refuse(&path, format!("`{path}` is empty"), "write { env = \"NAME\" } or { file = \"path\" }");
    }
    secret.cloned()
}
