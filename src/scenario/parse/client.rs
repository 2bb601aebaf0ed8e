//! `broker.client`: which of a kind's client libraries is measured.

use crate::scenario::BrokerConfig;
use crate::scenario::fields::Fields;
use crate::scenario::suggestion::{closest, list};
use crate::scenario::{ClientLibrary, Descriptor};

const KEY: &str = "client";

/// The library's name: the first one of the kind where the scenario names none.
pub(super) fn read(fields: &Fields<'_>, descriptor: &Descriptor) -> Option<&'static str> {
    if descriptor.clients.is_empty() {
        let reason = format!("a broker of kind `{}` has only one client", descriptor.kind);
        fields.forbid(KEY, &reason, "remove the key");
        return None;
    }
    let Some(field) = fields.get(KEY) else { return descriptor.clients.first().map(|client| client.name) };
    let written = field.string()?;
    let names = || descriptor.clients.iter().map(|client| client.name);
    match find(descriptor, written) {
        Some(ClientLibrary { missing_feature: Some(feature), .. }) => {
            let message = format!("this build does not have the client \"{written}\"");
            field.refuse(message, format!("build brokermark again with `--features {feature}`"));
        }
        Some(client) => return Some(client.name),
        None => {
            let advice = match closest(written, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("a broker of kind `{}` has {}", descriptor.kind, list(names())),
            };
            field.refuse(format!("unknown client \"{written}\""), advice);
        }
    }
    None
}

/// Refuses what the library cannot do.
pub(super) fn check(fields: &Fields<'_>, descriptor: &Descriptor, config: &BrokerConfig) {
    let Some(client) = config.client.and_then(|name| find(descriptor, name)) else { return };
    let Some(reason) = (client.refuses)(config) else { return };
    let others = descriptor.clients.iter().filter(|other| other.name != client.name && other.missing_feature.is_none());
    let others: Vec<String> = others.map(|other| format!("`{}`", other.name)).collect();
    let message = format!("the client \"{}\" cannot do that: {reason}", client.name);
    let advice = format!("leave it out, or let `{}.{KEY}` be {}", fields.path, others.join(" or "));
    let place = if fields.has(KEY) { fields.path.key(KEY) } else { fields.path.clone() };
    fields.problems.value(place, message, advice);
}

fn find<'a>(descriptor: &'a Descriptor, name: &str) -> Option<&'a ClientLibrary> {
    descriptor.clients.iter().find(|client| client.name == name)
}
