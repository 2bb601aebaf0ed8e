//! A broker's URL in place of a scenario file: `kafka://10.0.0.5:9092/orders?acks=all` becomes the text of a scenario.
//!
//! ```text
//! kind[+tls]://[user:password@]host[:port][,host[:port]…][/topic][?key=value[&key=value…]]
//! ```
//!
//! `+tls` takes the kind's first client that has TLS in this build. A `key` without a dot is one of the broker's own table, one with a dot any key of the scenario language.

use percent_encoding::percent_decode_str;
use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::error::ScenarioError;
use super::{Descriptor, Kinds};

/// Endings of a scheme that ask for TLS: as Pulsar writes it, and as others do.
const TLS_ENDINGS: [&str; 2] = ["+ssl", "+tls"];

/// What a URL says.
#[derive(Debug, PartialEq, Eq)]
pub struct UrlScenario {
    /// The scenario as TOML.
    pub text: String,
    /// What its query sets, as `--set` takes it.
    pub overrides: Vec<String>,
}

/// Whether `text` is a URL and not the path of a file.
pub fn is_url(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    !scheme.is_empty() && scheme.chars().all(|character| character.is_ascii_alphanumeric() || "+-.".contains(character))
}

/// The scenario that a broker's URL stands for.
///
/// # Errors
/// When this build has no such kind of broker, or a part of the URL is wrong. The error does not repeat a password.
pub fn parse_url(url: &str, kinds: Kinds<'_>) -> Result<UrlScenario, ScenarioError> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let tls = TLS_ENDINGS.iter().find_map(|ending| scheme.strip_suffix(ending));
    let written = tls.unwrap_or(scheme);
    let Some(descriptor) = kinds.broker(written) else {
        return Err(refuse(format!("unknown kind of broker `{written}`"), &kinds.hint(written)));
    };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = authority.rsplit_once('@').map_or((None, authority), |(user, hosts)| (Some(user), hosts));
    let overrides = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, "true"));
        let key = if key.contains('.') { key.to_owned() } else { format!("broker.{}.{key}", descriptor.kind) };
        Ok(format!("{key}={}", decoded(value)?))
    });
    let overrides = overrides
        .collect::<Result<_, String>>()
        .map_err(|reason| refuse(reason, "write `?key=value&key=value`, with other characters as %XX"))?;

    let mut document = DocumentMut::new();
    document["name"] = value(descriptor.kind);
    document["broker"] = Item::Table(Table::new());
    document["broker"]["kind"] = value(descriptor.kind);
    let addresses: Array =
        hosts.split(',').filter(|host| !host.is_empty()).map(|host| address(host, descriptor)).collect();
    if addresses.is_empty() && descriptor.capabilities.addresses {
        let advice = format!("write its host, as in `{}://10.0.0.5`", descriptor.kind);
        return Err(refuse("the URL names no broker".to_owned(), &advice));
    }
    if !addresses.is_empty() {
        document["broker"]["addresses"] = value(addresses);
    }
    if let Some(user) = user {
        document["broker"]["security"]["sasl"] = value(sasl(user, descriptor)?);
    }
    if tls.is_some() {
        document["broker"]["security"]["tls"] = value(true);
        // Where the kind's first client has no TLS in this build, another one may.
        let able = kinds.brokers.iter().find(|other| other.kind == descriptor.kind && other.capabilities.tls);
        if let Some(client) = able.and_then(|other| other.client).filter(|_| !descriptor.capabilities.tls) {
            document["broker"]["client"] = value(client);
        }
    }
    if !path.is_empty() {
        document["topology"]["name"] = value(path.trim_end_matches('/'));
    }
    Ok(UrlScenario { text: document.to_string(), overrides })
}

fn refuse(message: String, advice: &str) -> ScenarioError {
    ScenarioError::single(format!("{message}\n   = {advice}\n"))
}

/// The login of `user[:password]`.
fn sasl(user: &str, descriptor: &Descriptor) -> Result<toml_edit::InlineTable, ScenarioError> {
    let (username, password) = user.split_once(':').unwrap_or((user, ""));
    let mechanism = descriptor.capabilities.sasl.iter().min_by_key(|mechanism| mechanism.name() != "PLAIN");
    let Some(mechanism) = mechanism else {
        let advice = "set its own keys instead, as `brokermark new` writes them";
        return Err(refuse(format!("a broker of kind `{}` takes no user in its URL", descriptor.kind), advice));
    };
    let as_text = |text: &str| decoded(text).map_err(|reason| refuse(reason, "write other characters as %XX"));
    let mut sasl = toml_edit::InlineTable::new();
    sasl.insert("mechanism", mechanism.name().into());
    sasl.insert("username", as_text(username)?.into());
    sasl.insert("password", as_text(password)?.into());
    Ok(sasl)
}

fn address(host: &str, descriptor: &Descriptor) -> String {
    let is_ipv6 = host.ends_with(']');
    let has_port = !is_ipv6 && host.contains(':');
    match descriptor.default_port {
        Some(port) if !has_port && host != "embedded" => format!("{host}:{port}"),
        _ => host.to_owned(),
    }
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| "a part of the URL is not UTF-8".to_owned())
}
