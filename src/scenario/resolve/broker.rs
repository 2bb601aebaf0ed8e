//! `[broker]`: the kind of broker and which of its clients, its addresses, its settings, its own table, TLS and credentials.

use serde_json::Value as Schema;
use toml::{Table, Value};

use super::security::security;
use super::{Reader, path};
use crate::net::address;
use crate::scenario::advice::{closest, list};
use crate::scenario::check::Check;
use crate::scenario::kind::Descriptor;
use crate::scenario::path::KeyPath;
use crate::scenario::problem::{Problems, SourcePosition};
use crate::scenario::tables::{BrokerConfig, BrokerTable, EMBEDDED};
use crate::secrets::is_secret_name;

const CLIENT: &str = "broker.client";

/// `checked`: the scenario without what was refused in it.
pub(super) fn read<'a>(
    table: &BrokerTable,
    checked: &Table,
    reader: &Reader<'a>,
) -> Option<(BrokerConfig, &'a Descriptor)> {
    let kinds = reader.context.kinds;
    let descriptor = client(table, reader, kind(table, reader)?)?;
    for other in kinds.names().into_iter().filter(|other| *other != descriptor.kind) {
        let reason = format!("`broker.{other}` does not apply to a broker of kind `{}`", descriptor.kind);
        reader.forbid(&format!("broker.{other}"), &reason, &format!("remove it, or write `kind = \"{other}\"`"));
    }
    if reader.has("broker.properties") && !descriptor.capabilities.properties {
        let message = format!("{} has no client library to pass properties to", descriptor.title());
        let advice = descriptor.advise(&format!("its own settings go into `[broker.{}]`", descriptor.kind));
        reader.refuse("broker.properties", message, advice);
    }
    let config = BrokerConfig {
        kind: descriptor.kind.to_owned(),
        client: descriptor.client,
        addresses: addresses(table, reader, descriptor),
        connections: table.connections,
        properties: table.properties.0.clone(),
        security: security(&table.security, reader, descriptor),
        options: options(checked, reader, descriptor),
    };
    refuse_impossible(reader, descriptor, &config);
    Some((config, descriptor))
}

/// The kind; the schema has those that this build knows, and an unknown one gets better advice here.
fn kind<'a>(table: &BrokerTable, reader: &Reader<'a>) -> Option<&'a Descriptor> {
    let kinds = reader.context.kinds;
    let written = &table.kind;
    let descriptor = kinds.brokers.iter().find(|descriptor| descriptor.kind == written);
    if descriptor.is_none() {
        let advice = match kinds.broker(written) {
            Some(alias) => format!("write `kind = \"{}\"`", alias.kind),
            None => kinds.hint(written),
        };
        reader.refuse("broker.kind", format!("unknown kind of broker \"{written}\""), advice);
    }
    descriptor
}

fn addresses(table: &BrokerTable, reader: &Reader<'_>, descriptor: &Descriptor) -> Vec<String> {
    reader.exclusive("broker", "address", "addresses", "keep one of them");
    let place = path("broker");
    let is_written = ["address", "addresses"]
        .iter()
        .any(|key| reader.has(&format!("broker.{key}")) || reader.problems.is_misspelt(&place.key(key)));
    if !is_written && descriptor.capabilities.addresses {
        let embedded = if descriptor.capabilities.embedded { " or `address = \"embedded\"`" } else { "" };
        let message = format!("a broker of kind `{}` needs an address", descriptor.kind);
        reader.refuse("broker", message, format!("write `addresses = [\"host:port\"]`{embedded}"));
    }
    if let Some(address) = &table.address {
        check_address(address, &place.key("address"), reader.problems, descriptor, true);
        return vec![address.clone()];
    }
    let addresses = table.addresses.clone().unwrap_or_default();
    for (index, address) in addresses.iter().enumerate() {
        let place = place.key("addresses").index(index);
        check_address(address, &place, reader.problems, descriptor, addresses.len() == 1);
    }
    addresses
}

/// `alone`: it is the only one.
fn check_address(text: &str, place: &KeyPath, problems: &Problems, descriptor: &Descriptor, alone: bool) {
    let refuse = |message: String, advice: String| problems.value(place.clone(), message, advice);
    let capabilities = descriptor.capabilities;
    if text == EMBEDDED {
        if !capabilities.embedded {
            let advice = if capabilities.addresses { "write `host:port`" } else { "remove the address" };
            refuse(format!("{} has no embedded endpoint", descriptor.title()), descriptor.advise(advice));
        } else if !alone {
            let message = "the embedded endpoint goes with no other address".to_owned();
            refuse(message, "keep only one kind of address".to_owned());
        }
    } else if !capabilities.addresses {
        let message = format!("a broker of kind `{}` has no address", descriptor.kind);
        refuse(message, "remove the address".to_owned());
    } else if text.contains(',') && !text.contains('@') {
        let each: Vec<String> = text.split(',').map(|one| format!("{:?}", one.trim())).collect();
        refuse("an address is one `host:port`".to_owned(), format!("write `addresses = [{}]`", each.join(", ")));
    } else if let Some((scheme, rest)) = text.split_once("://") {
        let advice = format!("remove `{scheme}://`");
        let advice = if rest.contains('@') { advice } else { format!("{advice}: write \"{rest}\"") };
        let encrypts = ["ssl", "tls", "https"].iter().any(|end| scheme.to_ascii_lowercase().ends_with(end));
        let advice = if encrypts { format!("{advice}, and set `broker.security.tls = true`") } else { advice };
        refuse("an address has no scheme".to_owned(), advice);
    } else if let Err(reason) = address::check(text) {
        // The text may hold a password (`user:password@host`), so it is not repeated here.
        refuse(reason, "write `host:port`, as in \"127.0.0.1:9092\"".to_owned());
    }
}

/// The broker's own table.
fn options(checked: &Table, reader: &Reader<'_>, descriptor: &Descriptor) -> Table {
    let mut table = checked.get("broker").and_then(|broker| broker.get(descriptor.kind)).cloned();
    let Some(value) = &mut table else { return Table::new() };
    let place = path("broker").key(descriptor.kind);
    let name = format!("{}/{}", descriptor.kind, descriptor.client.unwrap_or_default());
    let schema = reader.context.own_schema(name, descriptor.options_schema);
    own_table(value, &place, &schema, reader, &|table| (descriptor.check_options)(table));
    value.as_table().cloned().unwrap_or_default()
}

/// Checks the own table of a broker or a sink against its schema, and then as it checks it itself.
pub(super) fn own_table(
    value: &mut Value,
    place: &KeyPath,
    schema: &Schema,
    reader: &Reader<'_>,
    check: &dyn Fn(Table) -> Result<(), toml::de::Error>,
) {
    let before = reader.problems.count();
    let problems = reader.problems;
    Check { files: &reader.context.files, problems, files_exist: false }.value(value, schema, place);
    let Some(table) = value.as_table().filter(|_| problems.count() == before) else { return };
    let Err(error) = check(table.clone()) else { return };
    let culprit = culprit(table, check, error.message());
    let place = culprit.map_or_else(|| place.clone(), |key| place.key(key));
    // Serde repeats the offending value.
    let shown = if culprit.is_some_and(is_secret_name) { "this value is not accepted" } else { error.message() };
    problems.add(SourcePosition::Value(place.clone()), format!("`{place}`: {}", shown.trim_end()), None);
}

/// The key without which there is no error, or another one: serde reports the error, but not the key.
fn culprit<'a>(
    table: &'a Table,
    check: &dyn Fn(Table) -> Result<(), toml::de::Error>,
    message: &str,
) -> Option<&'a str> {
    table.keys().map(String::as_str).find(|key| {
        let mut without = table.clone();
        without.remove(*key);
        match check(without) {
            Ok(()) => true,
            Err(error) => error.message() != message && !error.message().starts_with("missing field"),
        }
    })
}

/// The client that the scenario names, or the first of the kind that has what the rest of the scenario asks of a client; if none has it,
/// the kind's first, which is `default`.
fn client<'a>(table: &BrokerTable, reader: &Reader<'a>, default: &'a Descriptor) -> Option<&'a Descriptor> {
    let kinds = reader.context.kinds;
    let kind = default.kind;
    let of_kind = || kinds.brokers.iter().filter(move |descriptor| descriptor.kind == kind);
    let Some(written) = &table.client else {
        let needs = Needs::new(reader.table);
        return of_kind().find(|descriptor| needs.are_met_by(descriptor)).or(Some(default));
    };
    let absent = kinds.absent.iter().filter(|absent| absent.kind == kind && !absent.security);
    if let Some(absent) = absent.clone().find(|absent| absent.client == Some(written.as_str())) {
        reader.refuse(CLIENT, format!("this build does not have the client \"{written}\""), absent.remedy());
        return None;
    }
    if of_kind().count() + absent.count() == 1 {
        reader.refuse(CLIENT, format!("a broker of kind `{kind}` has only one client"), "remove the key");
        return None;
    }
    let found = of_kind().find(|descriptor| descriptor.client == Some(written.as_str()));
    if found.is_none() {
        let names = || of_kind().filter_map(|descriptor| descriptor.client);
        let advice = match closest(written, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("a broker of kind `{kind}` has {}", list(names())),
        };
        reader.refuse(CLIENT, format!("unknown client \"{written}\""), advice);
    }
    found
}

/// What only some clients of a kind have.
struct Needs<'a> {
    embedded: bool,
    properties: bool,
    tls: bool,
    /// The names of properties of consumers.
    of_consumers: Vec<&'a str>,
}

impl<'a> Needs<'a> {
    fn new(scenario: &'a Table) -> Self {
        let broker = |key: &str| scenario.get("broker").and_then(|broker| broker.get(key));
        let is_embedded = |value: &Value| match value {
            Value::Array(addresses) => addresses.iter().any(|address| address.as_str() == Some(EMBEDDED)),
            address => address.as_str() == Some(EMBEDDED),
        };
        let tls = broker("security").and_then(|security| security.get("tls"));
        let consumers = scenario.get("consumers");
        let groups = consumers.and_then(|consumers| consumers.get("group")).and_then(Value::as_array);
        let of_consumers = consumers.into_iter().chain(groups.into_iter().flatten()).flat_map(|table| {
            let properties = table.get("properties").and_then(Value::as_table);
            properties.into_iter().flat_map(Table::keys).map(String::as_str)
        });
        Needs {
            embedded: ["address", "addresses"].iter().filter_map(|key| broker(key)).any(is_embedded),
            properties: broker("properties").is_some(),
            tls: tls.is_some_and(|tls| tls.as_bool() != Some(false)),
            of_consumers: of_consumers.collect(),
        }
    }

    fn are_met_by(&self, descriptor: &Descriptor) -> bool {
        let has = &descriptor.capabilities;
        let knows = |property: &&str| has.properties || has.group_properties.contains(property);
        (has.embedded || !self.embedded)
            && (has.properties || !self.properties)
            && (has.tls || !self.tls)
            && self.of_consumers.iter().all(knows)
    }
}

/// Refuses what the client cannot do.
fn refuse_impossible(reader: &Reader<'_>, descriptor: &Descriptor, config: &BrokerConfig) {
    let Some(reason) = (descriptor.refuses)(config) else { return };
    let broker = if reader.has(CLIENT) { CLIENT } else { "broker" };
    let named = named_key(&reason);
    let is_property = named.as_ref().is_some_and(|key| key.keys().get(1).is_some_and(|table| *table == "properties"));
    let place = named.unwrap_or_else(|| path(broker));
    // Where another client may be chosen, the reason is about the one that was.
    let (message, advice) = match descriptor.alternative {
        Some(_) => (format!("{} cannot do that: {reason}", descriptor.title()), descriptor.advise("leave it out")),
        None if is_property => (reason, "leave it out".to_owned()),
        None => (reason, "change what it names".to_owned()),
    };
    reader.problems.value(place, message, advice);
}

/// The first key that a sentence names in backticks, if it is one of the broker's tables.
pub(super) fn named_key(sentence: &str) -> Option<KeyPath> {
    let path = KeyPath::parse(sentence.split('`').nth(1)?).ok()?;
    matches!(path.keys().as_slice(), ["broker", _, _, ..]).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_a_reason_names_is_pointed_at() {
        let found = |sentence: &str| named_key(sentence).map(|path| path.to_string());
        let property = found("librdkafka does not accept `broker.properties.max.poll.records`: no such `property`");
        assert_eq!(property.as_deref(), Some("broker.properties.\"max.poll.records\""));
        assert_eq!(found("its entries mix keys (`broker.pulsar.batch_by_key`)").unwrap(), "broker.pulsar.batch_by_key");
        assert_eq!([found("it takes no `broker.properties`"), found("`a b`"), found("no key")], [None, None, None]);
    }
}
