//! `broker.client`: which of a kind's clients is measured.

use toml::{Table, Value};

use super::{Reader, path};
use crate::scenario::path::KeyPath;
use crate::scenario::suggestion::{closest, list};
use crate::scenario::tables::BrokerTable;
use crate::scenario::{BrokerConfig, Descriptor, EMBEDDED};

const KEY: &str = "broker.client";

/// The client that the scenario names, or the first of the kind that has what the rest of the scenario asks of a client; if none has it,
/// the kind's first, which is `default`.
pub(super) fn read<'a>(table: &BrokerTable, reader: &Reader<'a>, default: &'a Descriptor) -> Option<&'a Descriptor> {
    let kinds = reader.context.kinds;
    let kind = default.kind;
    let of_kind = || kinds.brokers.iter().filter(move |descriptor| descriptor.kind == kind);
    let Some(written) = &table.client else {
        let needs = Needs::of(reader.table);
        return of_kind().find(|descriptor| needs.are_met_by(descriptor)).or(Some(default));
    };
    let absent = kinds.absent.iter().filter(|absent| absent.kind == kind && !absent.security);
    if let Some(absent) = absent.clone().find(|absent| absent.client == Some(written.as_str())) {
        reader.refuse(KEY, format!("this build does not have the client \"{written}\""), absent.remedy());
        return None;
    }
    if of_kind().count() + absent.count() == 1 {
        reader.refuse(KEY, format!("a broker of kind `{kind}` has only one client"), "remove the key");
        return None;
    }
    let found = of_kind().find(|descriptor| descriptor.client == Some(written.as_str()));
    if found.is_none() {
        let names = || of_kind().filter_map(|descriptor| descriptor.client);
        let advice = match closest(written, names()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("a broker of kind `{kind}` has {}", list(names())),
        };
        reader.refuse(KEY, format!("unknown client \"{written}\""), advice);
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
    fn of(scenario: &'a Table) -> Self {
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
pub(super) fn check(reader: &Reader<'_>, descriptor: &Descriptor, config: &BrokerConfig) {
    let Some(reason) = (descriptor.refuses)(config) else { return };
    let broker = if reader.has(KEY) { KEY } else { "broker" };
    let place = named_key(&reason).unwrap_or_else(|| path(broker));
    // Where another client may be chosen, the reason is about the one that was.
    let message = match descriptor.alternative {
        Some(_) => format!("{} cannot do that: {reason}", descriptor.title()),
        None => reason,
    };
    reader.problems.value(place, message, descriptor.advise("leave it out"));
}

/// The first key that a sentence names in backticks, if it is one of the broker's tables.
fn named_key(sentence: &str) -> Option<KeyPath> {
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
