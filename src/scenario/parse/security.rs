//! `[broker.security]`: TLS and credentials.

use toml::Value;

use super::{Context, properties};
use crate::scenario::fields::{Field, Fields};
use crate::scenario::{Absent, Capabilities, Descriptor, Kinds, Sasl, SaslMechanism, Secret, Security, Tls};

pub(super) const KEYS: &[&str] = &["tls", "sasl"];
pub(super) const TLS_KEYS: &[&str] = &["ca", "certificate", "key", "verify_host"];
pub(super) const SASL_KEYS: &[&str] = &["mechanism", "username", "password", "token"];

const MECHANISMS: [SaslMechanism; 5] = [
    SaslMechanism::Plain,
    SaslMechanism::ScramSha256,
    SaslMechanism::ScramSha512,
    SaslMechanism::OauthBearer,
    SaslMechanism::External,
];

/// How a client proves who it is.
enum Credentials {
    Password(Sasl),
    Token(Secret),
}

pub(super) fn read(broker: &Fields<'_>, descriptor: &Descriptor, context: &Context<'_>) -> Security {
    let Some(fields) = broker.get("security").and_then(|field| field.fields(KEYS)) else {
        return Security::default();
    };
    let refuse = |field: &Field<'_>, what: &str, has: &dyn Fn(&Capabilities) -> bool| {
        let message = format!("this build cannot use {what} with {}", descriptor.title());
        field.refuse(message, advice(descriptor, context.kinds, has));
    };
    let tls = fields.get("tls").and_then(|field| {
        let tls = tls(&field, context)?;
        if !descriptor.capabilities.tls {
            refuse(&field, "TLS", &|other| other.tls);
        }
        Some(tls)
    });
    let credentials = fields.get("sasl").and_then(|field| {
        let known = descriptor.capabilities.sasl;
        if known.is_empty() {
            refuse(&field, "SASL", &|other| !other.sasl.is_empty());
        }
        let (mechanism, credentials) = sasl(&field, context)?;
        if !known.is_empty() && !known.contains(&mechanism) {
            refuse(&field, &format!("SASL {}", mechanism.name()), &|other| other.sasl.contains(&mechanism));
        }
        let has_certificate = tls.as_ref().is_some_and(|tls| tls.certificate.is_some());
        if mechanism == SaslMechanism::External && !has_certificate {
            let message = "SASL EXTERNAL logs in by a client's certificate, and the scenario names no certificate";
            field.refuse(message, "set `broker.security.tls.certificate` and its `key`");
        }
        Some(credentials)
    });
    let (sasl, bearer) = match credentials {
        Some(Credentials::Password(sasl)) => (Some(sasl), None),
        Some(Credentials::Token(token)) => (None, Some(token)),
        None => (None, None),
    };
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

fn tls(field: &Field<'_>, context: &Context<'_>) -> Option<Tls> {
    let plain = Tls { ca: None, certificate: None, key: None, verify_host: true };
    match field.value {
        Value::Boolean(true) => return Some(plain),
        Value::Boolean(false) => return None,
        _ => {}
    }
    let fields = field.fields(TLS_KEYS)?;
    for (one, other) in [("certificate", "key"), ("key", "certificate")] {
        if fields.has(one) && !fields.has(other) {
            fields.require(other, "a client proves who it is with both a `certificate` and its `key`");
        }
    }
    let file = |key: &str| fields.get(key).and_then(|field| context.existing_file(&field));
    Some(Tls {
        ca: file("ca"),
        certificate: file("certificate"),
        key: file("key"),
        verify_host: fields.get("verify_host").and_then(|field| field.boolean()).unwrap_or(true),
    })
}

fn sasl(field: &Field<'_>, context: &Context<'_>) -> Option<(SaslMechanism, Credentials)> {
    let fields = field.fields(SASL_KEYS)?;
    let mechanism = fields
        .require("mechanism", "it is one of `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER` and `EXTERNAL`")
        .and_then(|field| field.one_of(&MECHANISMS.map(|mechanism| (mechanism.name(), mechanism))));
    if mechanism == Some(SaslMechanism::OauthBearer) {
        for key in ["username", "password"] {
            fields.forbid(key, "`OAUTHBEARER` has a `token` instead", "remove it");
        }
        let token = secret(&fields, context, "token", "best from a file: `token = { file = \"token\" }`")?;
        return Some((SaslMechanism::OauthBearer, Credentials::Token(token)));
    }
    fields.forbid("token", "only `OAUTHBEARER` has a `token`", "remove it, or write `mechanism = \"OAUTHBEARER\"`");
    if mechanism == Some(SaslMechanism::External) {
        for key in ["username", "password"] {
            fields.forbid(key, "SASL EXTERNAL takes the name from the certificate", "remove it");
        }
        let (username, password) = (String::new(), Secret::Inline(String::new()));
        let external = Sasl { mechanism: SaslMechanism::External, username, password };
        return Some((SaslMechanism::External, Credentials::Password(external)));
    }
    let username = fields.require("username", "write the name to log in with").and_then(|field| field.string());
    let advice = "best from the environment: `password = { env = \"KAFKA_PASSWORD\" }`";
    let password = secret(&fields, context, "password", advice);
    let (mechanism, username) = (mechanism?, username?.to_owned());
    Some((mechanism, Credentials::Password(Sasl { mechanism, username, password: password? })))
}

/// A secret that must be there.
fn secret(fields: &Fields<'_>, context: &Context<'_>, key: &str, advice: &str) -> Option<Secret> {
    let field = fields.require(key, advice)?;
    let secret = properties::secret(&field, context)?;
    if matches!(&secret, Secret::Inline(text) if text.is_empty()) {
        field.refuse(format!("`{}` is empty", field.path), "write { env = \"NAME\" } or { file = \"path\" }");
    }
    Some(secret)
}
