//! `[broker]`: the kind of broker, its addresses and its settings.

use super::{Context, client, options, properties, security};
use crate::net::address;
use crate::scenario::fields::{Field, Fields};
use crate::scenario::suggestion::list;
use crate::scenario::{BrokerConfig, Descriptor, EMBEDDED};

/// Without the broker's own table, which is named as its kind.
pub(super) const KEYS: &[&str] =
    &["kind", "client", "address", "addresses", "connections", "properties", "security", "watch"];

pub(super) fn read<'a>(root: &Fields<'_>, context: &Context<'a>) -> Option<(BrokerConfig, &'a Descriptor)> {
    let field = root.require("broker", "say which broker to load, as in `[broker]` with `kind = \"kafka\"`")?;
    let known: Vec<&str> = KEYS.iter().copied().chain(context.kinds.names()).collect();
    let fields = field.fields(&known)?;
    let descriptor = client::read(&fields, root, kind(&fields, context)?, context)?;

    for other in context.kinds.names().into_iter().filter(|other| *other != descriptor.kind) {
        let reason = format!("`{}.{other}` does not apply to a broker of kind `{}`", fields.path, descriptor.kind);
        fields.forbid(other, &reason, &format!("remove it, or write `kind = \"{other}\"`"));
    }
    let connections = fields.get("connections").and_then(|field| field.amount(1, 100_000)).unwrap_or(1);
    if let Some(field) = fields.get("properties")
        && !descriptor.capabilities.properties
    {
        let message = format!("{} has no client library to pass properties to", descriptor.title());
        field.refuse(message, descriptor.advise(&format!("its own settings go into `[broker.{}]`", descriptor.kind)));
    }
    let config = BrokerConfig {
        kind: descriptor.kind.to_owned(),
        client: descriptor.client,
        addresses: addresses(&fields, descriptor),
        connections,
        properties: fields.get("properties").map(|field| properties::read(&field, context)).unwrap_or_default(),
        security: security::read(&fields, descriptor, context),
        options: options::read(&fields, descriptor, context),
    };
    client::check(&fields, descriptor, &config);
    Some((config, descriptor))
}

fn kind<'a>(fields: &Fields<'_>, context: &Context<'a>) -> Option<&'a Descriptor> {
    let field = fields.require("kind", &format!("it is one of {}", list(context.kinds.names())))?;
    let written = field.string()?;
    let descriptor = context.kinds.brokers.iter().find(|descriptor| descriptor.kind == written);
    if descriptor.is_none() {
        let advice = match context.kinds.broker(written) {
            Some(alias) => format!("write `kind = \"{}\"`", alias.kind),
            None => context.kinds.hint(written),
        };
        field.refuse(format!("unknown kind of broker \"{written}\""), advice);
    }
    descriptor
}

fn addresses(fields: &Fields<'_>, descriptor: &Descriptor) -> Vec<String> {
    let advice = "write `addresses = [\"host:port\"]`";
    fields.exclusive("address", "addresses", "keep one of them");
    let given: Vec<Field<'_>> = match (fields.get("address"), fields.get("addresses")) {
        (Some(field), _) => vec![field],
        (None, Some(field)) => field.elements(advice).unwrap_or_default(),
        (None, None) if fields.is_misspelt("address") || fields.is_misspelt("addresses") => return Vec::new(),
        (None, None) if descriptor.capabilities.addresses => {
            let embedded = if descriptor.capabilities.embedded { " or `address = \"embedded\"`" } else { "" };
            let message = format!("a broker of kind `{}` needs an address", descriptor.kind);
            fields.problems.value(fields.path.clone(), message, format!("{advice}{embedded}"));
            return Vec::new();
        }
        (None, None) => return Vec::new(),
    };
    let alone = given.len() == 1;
    given.iter().filter_map(|field| address(field, descriptor, alone)).collect()
}

fn address(field: &Field<'_>, descriptor: &Descriptor, alone: bool) -> Option<String> {
    let text = field.string()?;
    let capabilities = descriptor.capabilities;
    if text == EMBEDDED {
        if !capabilities.embedded {
            let message = format!("{} has no embedded endpoint", descriptor.title());
            let advice = if capabilities.addresses { "write `host:port`" } else { "remove the address" };
            field.refuse(message, descriptor.advise(advice));
        } else if !alone {
            field.refuse("the embedded endpoint goes with no other address", "keep only one kind of address");
        }
    } else if !capabilities.addresses {
        field.refuse(format!("a broker of kind `{}` has no address", descriptor.kind), "remove the address");
    } else if text.contains(',') && !text.contains('@') {
        let each: Vec<String> = text.split(',').map(|one| format!("{:?}", one.trim())).collect();
        field.refuse("an address is one `host:port`", format!("write `addresses = [{}]`", each.join(", ")));
    } else if let Some((scheme, rest)) = text.split_once("://") {
        let advice = format!("remove `{scheme}://`");
        let advice = if rest.contains('@') { advice } else { format!("{advice}: write \"{rest}\"") };
        let encrypts = ["ssl", "tls", "https"].iter().any(|end| scheme.to_ascii_lowercase().ends_with(end));
        let advice = if encrypts { format!("{advice}, and set `broker.security.tls = true`") } else { advice };
        field.refuse("an address has no scheme", advice);
    } else if let Err(reason) = address::check(text) {
        // The text may hold a password (`user:password@host`), so it is not repeated here.
        field.refuse(reason, "write `host:port`, as in \"127.0.0.1:9092\"");
    }
    Some(text.to_owned())
}
