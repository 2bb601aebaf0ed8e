//! A broker's URL in place of a scenario file: `kafka://10.0.0.5:9092/orders?acks=all` becomes the text of a scenario.
//!
//! ```text
//! kind[+tls]://[user:password@]host[:port][,host[:port]…][/[virtual-host/]topic][?key=value[&key=value…]]
//! ```
//!
//! A `key` without a dot is one of the broker's own table, one with a dot any key of the scenario language.

use percent_encoding::percent_decode_str;
use toml::Table as Scenario;
use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::overrides::{Origin, Setting};
use super::path::KeyPath;
use super::problem::{Refusal, ScenarioError};
use super::resolve::own_keys;
use super::{Descriptor, EMBEDDED, Kinds};
use crate::secrets::{mask_override, mask_url};

/// Endings of a scheme that ask for TLS: as Pulsar writes it, and as others do.
const TLS_ENDINGS: [&str; 2] = ["+ssl", "+tls"];

/// The key of a broker's own table for what comes before a topic's name.
const NAMESPACE: &str = "namespace";

/// The key of a broker's own table for what its users write before a topic's name, and alone where it is `/`.
const VIRTUAL_HOST: &str = "virtual_host";

/// What a URL says.
#[derive(Debug, PartialEq, Eq)]
pub struct UrlScenario {
    /// The scenario as TOML.
    pub text: String,
    /// The URL, without secrets.
    pub origin: Origin,
    /// What its query sets.
    pub settings: Vec<Setting>,
}

/// Whether `text` is a URL and not the path of a file.
pub fn is_url(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    !scheme.is_empty()
        && scheme.chars().all(|character| character.is_ascii_alphanumeric() || "+-._".contains(character))
}

/// The scenario that a broker's URL stands for. Beside a file that may name the hosts, it does not need any (`needs_hosts`).
///
/// # Errors
/// When this build has no such kind of broker, or a part of the URL is wrong. The error does not repeat a password.
pub fn parse_url(url: &str, kinds: Kinds<'_>, needs_hosts: bool) -> Result<UrlScenario, ScenarioError> {
    let shown = masked(url);
    let report =
        |Refusal { message, advice }: Refusal| ScenarioError::single(format!("{shown}: {message}\n   = {advice}\n"));
    let (text, settings) = read(url, kinds, needs_hosts).map_err(report)?;
    Ok(UrlScenario { text, origin: Origin::Made(shown), settings })
}

/// The URL without secrets.
fn masked(url: &str) -> String {
    mask_url(url).unwrap_or_default()
}

/// What of the URL names the user, and the rest behind it. The last `@` divides, because a password may hold any character.
fn user_and_rest(rest: &str) -> Result<(Option<&str>, &str), Refusal> {
    let Some((user, hosts)) = rest.rsplit_once('@') else { return Ok((None, rest)) };
    let authority = user.split(['/', '?']).next().unwrap_or(user);
    // An `@` of the path or the query: or is it of a password that begins like an address?
    let is_address = |host: &str| host.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_ok());
    if authority.len() < user.len() && authority.split(',').all(is_address) {
        let advice =
            "write an `@` behind the host as %40; in a user or a password, write / as %2F, ? as %3F and @ as %40";
        return Err(Refusal::new("where the user ends and the host begins cannot be told", advice));
    }
    Ok((Some(user), hosts))
}

/// The hosts of `nats://a:4222, nats://b:4222`, as users of NATS write them, have one scheme.
fn without_repeated_scheme(scheme: &str, rest: &str) -> Result<String, Refusal> {
    let repeated = format!("{scheme}://");
    let one = |part: &str| match part.trim_start().strip_prefix(&repeated) {
        Some(host) if host.contains('@') => {
            Err(Refusal::new("it names the user more than once", "name the user once, before the first host"))
        }
        Some(host) => Ok(host.to_owned()),
        None => Ok(part.to_owned()),
    };
    Ok(rest.split(',').map(one).collect::<Result<Vec<_>, _>>()?.join(","))
}

/// The text of the scenario, and what the query sets.
fn read(url: &str, kinds: Kinds<'_>, needs_hosts: bool) -> Result<(String, Vec<Setting>), Refusal> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let tls = TLS_ENDINGS.iter().find_map(|ending| scheme.strip_suffix(ending));
    let written = tls.unwrap_or(scheme);
    let of_tls = kinds.brokers.iter().find(|one| one.tls_scheme.is_some_and(|(name, _)| name == scheme));
    let Some(descriptor) = of_tls.or_else(|| kinds.broker(written)) else {
        return Err(Refusal::new(format!("unknown kind of broker `{written}`"), kinds.hint(written)));
    };
    let rest = &without_repeated_scheme(scheme, rest)?;
    let is_scheme =
        |text: &&str| !text.is_empty() && text.chars().all(|one| one.is_ascii_alphanumeric() || "+-_".contains(one));
    if let Some((inner, address)) = rest.split_once("://").filter(|(inner, _)| is_scheme(inner)) {
        let ending = if tls.is_some() || inner.ends_with(['s', 'S']) || inner.contains("SSL") { "+tls" } else { "" };
        let host = address.split(['/', '?']).next().unwrap_or_default();
        let advice = format!("write `{}{ending}://{}`", descriptor.kind, host.rsplit('@').next().unwrap_or_default());
        return Err(Refusal::new(format!("its address has a scheme of its own, `{inner}`"), advice));
    }
    let (user, rest) = user_and_rest(rest)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let settings = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| setting(pair, descriptor));
    let settings = settings.collect::<Result<Vec<_>, _>>()?;

    let mut document = DocumentMut::new();
    document["name"] = value(descriptor.kind);
    document["broker"] = Item::Table(Table::new());
    document["broker"]["kind"] = value(descriptor.kind);
    let port = of_tls.and_then(|descriptor| descriptor.tls_scheme).map(|(_, port)| port).or(descriptor.default_port);
    let addresses: Array =
        hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).map(|host| address(host, port)).collect();
    if addresses.is_empty() && descriptor.capabilities.addresses && needs_hosts {
        let advice = format!("write its host, as in `{}://10.0.0.5`", descriptor.kind);
        return Err(Refusal::new("the URL names no broker", advice));
    }
    if !addresses.is_empty() {
        document["broker"]["addresses"] = value(addresses);
    }
    if let Some(user) = user {
        document["broker"]["security"]["sasl"] = value(sasl(user, descriptor)?);
    }
    if tls.is_some() || of_tls.is_some() {
        document["broker"]["security"]["tls"] = value(true);
    }
    let path = path.trim_end_matches('/');
    let decode = |text: &str| decoded(text).map_err(|reason| Refusal::new(reason, "write other characters as %XX"));
    let (virtual_host, path) = virtual_host_and_topic(path, descriptor, kinds);
    if let Some(virtual_host) = virtual_host {
        document["broker"][descriptor.kind][VIRTUAL_HOST] = value(decode(virtual_host)?);
    }
    if !path.is_empty() {
        let name = topic(path, &masked(&format!("{scheme}://{hosts}")), descriptor, kinds)?;
        document["topology"]["name"] = value(decode(name)?);
    }
    let text = document.to_string();
    said_once(&settings, &text)?;
    Ok((text, settings))
}

/// Refuses an option that sets what another part of the URL, in `text`, or an option before it has set: one of both would be ignored. What
/// follows the URL on the command line may override it, as it may override a file.
fn said_once(settings: &[Setting], text: &str) -> Result<(), Refusal> {
    let scenario: Scenario =
        text.parse().map_err(|_| Refusal::new("it is not a scenario", "write the scenario in a file"))?;
    let mut before: Vec<(KeyPath, &str)> = Vec::new();
    // What is not a key is refused with the other settings.
    for (path, setting) in settings.iter().filter_map(|one| Some((KeyPath::parse(one.key()).ok()?, one))) {
        if let Some((_, other)) = before.iter().find(|(other, _)| path.starts_with(other) || other.starts_with(&path)) {
            return Err(Refusal::new(
                format!("`{other}` and `{}` set the same key", setting.typed),
                "write one of them",
            ));
        }
        let is_set = match path.keys().as_slice() {
            // `kafka+tls://` is completed by the keys of its table, and contradicted only by `false`.
            ["broker", "security", "tls"] => path.is_in(&scenario) && setting.assignment.ends_with("=false"),
            // The URL cannot name another one, and asks for this one only because it must ask for one.
            ["broker", "security", "sasl", "mechanism"] => false,
            ["broker", "address" | "addresses"] => KeyPath::from_keys(&["broker", "addresses"]).is_in(&scenario),
            _ => path.is_in(&scenario),
        };
        if is_set {
            let message = format!("`{}` sets `{path}`, which the URL itself says before its `?`", setting.typed);
            return Err(Refusal::new(message, "write it once: leave one of them out"));
        }
        before.push((path, &setting.typed));
    }
    Ok(())
}

/// What a part `key[=value]` of the query sets.
fn setting(pair: &str, descriptor: &Descriptor) -> Result<Setting, Refusal> {
    let (key, value) = pair.split_once('=').unwrap_or((pair, "true"));
    let value = decoded(value)
        .map_err(|reason| Refusal::new(reason, "write `?key=value&key=value`, with other characters as %XX"))?;
    let key = if key.contains('.') { key.to_owned() } else { format!("broker.{}.{key}", descriptor.kind) };
    Ok(Setting { assignment: format!("{key}={value}"), typed: format!("?{}", mask_override(pair)) })
}

/// Whether the broker's own table has this key.
fn has_own_key(key: &str, descriptor: &Descriptor, kinds: Kinds<'_>) -> bool {
    let kind = Scenario::from_iter([("kind".to_owned(), descriptor.kind.into())]);
    let own_keys = own_keys(&Scenario::from_iter([("broker".to_owned(), kind.into())]), kinds);
    own_keys.iter().any(|(own, _)| own == key)
}

/// A virtual host before the topic, as in `amqp://host/%2F/orders`. `/` alone does not name a topic.
fn virtual_host_and_topic<'a>(path: &'a str, descriptor: &Descriptor, kinds: Kinds<'_>) -> (Option<&'a str>, &'a str) {
    match path.split_once('/') {
        Some((virtual_host, name)) if has_own_key(VIRTUAL_HOST, descriptor, kinds) => (Some(virtual_host), name),
        None if path.eq_ignore_ascii_case("%2f") && has_own_key(VIRTUAL_HOST, descriptor, kinds) => (Some(path), ""),
        _ => (None, path),
    }
}

/// The name of the topic. A name with what comes before it, as Pulsar writes it, is refused with a URL that says the same.
fn topic<'a>(path: &'a str, server: &str, descriptor: &Descriptor, kinds: Kinds<'_>) -> Result<&'a str, Refusal> {
    let Some((before, name)) = path.rsplit_once('/') else { return Ok(path) };
    let before = before.split_once("://").map_or(before, |(_, before)| before);
    let query = match has_own_key(NAMESPACE, descriptor, kinds) {
        true if !before.is_empty() => format!("?{NAMESPACE}={before}"),
        _ => String::new(),
    };
    let advice = format!("write `{server}/{name}{query}`");
    Err(Refusal::new(format!("\"{path}\" cannot name a topic"), advice))
}

/// The login of `user[:password]`.
fn sasl(user: &str, descriptor: &Descriptor) -> Result<toml_edit::InlineTable, Refusal> {
    let (username, password) = match user.split_once(':') {
        Some((username, password)) => (username, Some(password)),
        None => (user, None),
    };
    let mechanism = descriptor.capabilities.sasl.iter().min_by_key(|mechanism| mechanism.name() != "PLAIN");
    let Some(mechanism) = mechanism else {
        let advice = "set its own keys instead, as `brokermark new` writes them";
        return Err(Refusal::new(format!("a broker of kind `{}` takes no user in its URL", descriptor.kind), advice));
    };
    let as_text = |text: &str| decoded(text).map_err(|reason| Refusal::new(reason, "write other characters as %XX"));
    let mut sasl = toml_edit::InlineTable::new();
    sasl.insert("mechanism", mechanism.name().into());
    sasl.insert("username", as_text(username)?.into());
    if let Some(password) = password {
        sasl.insert("password", as_text(password)?.into());
    }
    Ok(sasl)
}

fn address(host: &str, default_port: Option<u16>) -> String {
    let is_ipv6 = host.ends_with(']');
    let has_port = !is_ipv6 && host.contains(':');
    match default_port {
        Some(port) if !has_port && host != EMBEDDED => format!("{host}:{port}"),
        _ => host.to_owned(),
    }
}

fn decoded(text: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| "a part of the URL is not UTF-8".to_owned())
}

#[cfg(test)]
#[path = "../../tests/unit/scenario/url.rs"]
mod tests;
