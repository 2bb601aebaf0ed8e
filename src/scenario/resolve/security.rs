//! `[broker.security]`: TLS and credentials.

use super::Reader;
use crate::net::token::{ClientCredentials, Grant, IssuerUrl, TokenSource, problem_of_command, problem_of_url};
use crate::scenario::advice::list;
use crate::scenario::kind::{Absent, Capabilities, Descriptor, Kinds};
use crate::scenario::tables::{AwsTable, OAuth2Table, Sasl, SaslMechanism, SaslTable, Security, SecurityTable};
use crate::secrets::Secret;

const TLS: &str = "broker.security.tls";
const SASL: &str = "broker.security.sasl";

pub(super) fn security(table: &SecurityTable, reader: &Reader<'_>, descriptor: &Descriptor) -> Security {
    let refuse = |key: &str, what: &str, has: &dyn Fn(&Capabilities) -> bool| {
        let message = format!("this build cannot use {what} with {}", descriptor.title());
        reader.refuse(key, message, who_has(descriptor, reader.context.kinds, has));
    };
    let tls = table.tls.clone();
    if tls.is_some() && !descriptor.capabilities.tls {
        refuse(TLS, "TLS", &|other| other.tls);
    }
    both_parts_of_a_certificate(reader, TLS);
    let Some(table) = &table.sasl else { return Security { tls, ..Security::default() } };
    let known = descriptor.capabilities.sasl;
    match table.mechanism {
        _ if known.is_empty() => refuse(SASL, "SASL", &|other| !other.sasl.is_empty()),
        Some(mechanism) if !known.contains(&mechanism) => {
            refuse(SASL, &format!("SASL {}", mechanism.name()), &|other| other.sasl.contains(&mechanism));
        }
        _ => {}
    }
    if table.mechanism == Some(SaslMechanism::External) && tls.as_ref().is_none_or(|tls| tls.certificate.is_none()) {
        let message = "SASL EXTERNAL logs in by a client's certificate, and the scenario names no certificate";
        reader.refuse(SASL, message, "set `broker.security.tls.certificate` and its `key`");
    }
    let Login { sasl, bearer, aws } = login(table, reader);
    Security { tls, sasl, bearer, aws }
}

/// Refuses a certificate without its key, and a key without its certificate, in a table of TLS.
pub(super) fn both_parts_of_a_certificate(reader: &Reader<'_>, table: &str) {
    for (one, other) in [("certificate", "key"), ("key", "certificate")] {
        if reader.has(&format!("{table}.{one}")) {
            reader.missing(table, other, "a client proves who it is with both a `certificate` and its `key`");
        }
    }
}

/// Another client of the same kind, and another build, that may have what `descriptor` lacks.
fn who_has(descriptor: &Descriptor, kinds: Kinds<'_>, has: &dyn Fn(&Capabilities) -> bool) -> String {
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

/// With what a client logs in: a name with its password, a token, or credentials of AWS.
#[derive(Default)]
struct Login {
    sasl: Option<Sasl>,
    bearer: Option<TokenSource>,
    aws: Option<AwsTable>,
}

/// Keys of a token, of which a login has one.
const TOKENS: [&str; 3] = ["token", "token_command", "oauth2"];

fn login(table: &SaslTable, reader: &Reader<'_>) -> Login {
    let forbid = |keys: &[&str], reason: &str, advice: &str| {
        keys.iter().for_each(|key| reader.forbid(&format!("{SASL}.{key}"), reason, advice));
    };
    let Some(mechanism) = table.mechanism else {
        let names = SaslMechanism::ALL.map(SaslMechanism::name);
        reader.missing(SASL, "mechanism", &format!("it is one of {}", list(names)));
        // What else is wrong is told with it.
        if !TOKENS.iter().any(|key| reader.has(&format!("{SASL}.{key}"))) && table.aws.is_none() {
            name_and_password(table, reader);
        }
        return Login::default();
    };
    if mechanism != SaslMechanism::OauthBearer {
        let advice = "remove it, or write `mechanism = \"OAUTHBEARER\"`";
        TOKENS.iter().for_each(|key| forbid(&[key], &format!("only `OAUTHBEARER` has a `{key}`"), advice));
    }
    if mechanism != SaslMechanism::AwsMskIam {
        forbid(&["aws"], "only `AWS_MSK_IAM` has `aws`", "remove it, or write `mechanism = \"AWS_MSK_IAM\"`");
    }
    match mechanism {
        SaslMechanism::OauthBearer => {
            forbid(&["username", "password"], "`OAUTHBEARER` has a `token` instead", "remove it");
            Login { bearer: token(table, reader), ..Login::default() }
        }
        SaslMechanism::AwsMskIam => {
            forbid(&["username", "password"], "`AWS_MSK_IAM` has keys of AWS instead", "write them into `aws`");
            Login { aws: Some(aws(table.aws.clone().unwrap_or_default(), reader)), ..Login::default() }
        }
        SaslMechanism::External => {
            forbid(&["username", "password"], "SASL EXTERNAL takes the name from the certificate", "remove it");
            let (username, password) = (String::new(), Secret::Inline(String::new()));
            Login { sasl: Some(Sasl { mechanism, username, password }), ..Login::default() }
        }
        SaslMechanism::Plain | SaslMechanism::ScramSha256 | SaslMechanism::ScramSha512 => {
            let named = name_and_password(table, reader);
            let sasl = named.map(|(username, password)| Sasl { mechanism, username, password });
            Login { sasl, ..Login::default() }
        }
    }
}

fn token(table: &SaslTable, reader: &Reader<'_>) -> Option<TokenSource> {
    for (index, one) in TOKENS.iter().enumerate() {
        TOKENS[index + 1..].iter().for_each(|other| reader.exclusive(SASL, one, other, "keep one of them"));
    }
    if let Some(command) = &table.token_command {
        if let Some(problem) = problem_of_command(command) {
            reader.refuse(&format!("{SASL}.token_command"), problem, "name it");
        }
        return Some(TokenSource::Command(command.clone()));
    }
    if let Some(table) = &table.oauth2 {
        return grant(table, reader).map(Box::new).map(TokenSource::Issuer);
    }
    let advice = "best from a file, `token = { file = \"token\" }`; or say who gives one: `token_command` or `oauth2`";
    secret(table.token.as_ref(), "token", advice, reader).map(TokenSource::Secret)
}

fn grant(table: &OAuth2Table, reader: &Reader<'_>) -> Option<Grant> {
    const OAUTH2: &str = "broker.security.sasl.oauth2";
    reader.exclusive(OAUTH2, "issuer_url", "token_url", "keep one of them");
    for (key, url) in [("issuer_url", &table.issuer_url), ("token_url", &table.token_url)] {
        if let Some(problem) = url.as_ref().and_then(|url| problem_of_url(key, url)) {
            reader.refuse(&format!("{OAUTH2}.{key}"), problem, "write the whole URL");
        }
    }
    let issuer = match (&table.issuer_url, &table.token_url) {
        (Some(url), _) => IssuerUrl::Discovered(url.clone()),
        (None, Some(url)) => IssuerUrl::TokenEndpoint(url.clone()),
        (None, None) => {
            reader.missing(OAUTH2, "token_url", "name the token endpoint, or the issuer: `issuer_url`");
            return None;
        }
    };
    let client = ClientCredentials::Named { id: table.client_id.clone(), secret: table.client_secret.clone() };
    Some(Grant { issuer, client, audience: table.audience.clone(), scope: table.scope.clone() })
}

/// Half of a key would be completed by the environment's, which may be another one.
fn aws(table: AwsTable, reader: &Reader<'_>) -> AwsTable {
    const AWS: &str = "broker.security.sasl.aws";
    for (one, other) in [("access_key_id", "secret_access_key"), ("secret_access_key", "access_key_id")] {
        if reader.has(&format!("{AWS}.{one}")) {
            reader.missing(AWS, other, "a key has an `access_key_id` and a `secret_access_key`");
        }
    }
    if reader.has(&format!("{AWS}.session_token")) && table.secret_access_key.is_none() {
        reader.missing(AWS, "access_key_id", "a `session_token` goes with its key");
    }
    table
}

fn name_and_password(table: &SaslTable, reader: &Reader<'_>) -> Option<(String, Secret)> {
    reader.missing(SASL, "username", "write the name to log in with");
    let advice = "best from the environment: `password = { env = \"KAFKA_PASSWORD\" }`";
    let password = secret(table.password.as_ref(), "password", advice, reader);
    table.username.clone().zip(password)
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
