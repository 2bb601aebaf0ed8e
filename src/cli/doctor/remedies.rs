//! What helps where a broker refuses a login or a right, as a command of its own tools.

use crate::engine::Opened;
use crate::net::address;
use crate::scenario::{BrokerConfig, Descriptor};

/// What helps where a server cannot be reached though an address of the scenario accepts connections. `place` is an address, or
/// names the key that has it.
pub(super) fn connection(config: &BrokerConfig, place: &str) -> String {
    if let Some(key) = place.split('`').nth(1) {
        return format!("--set {key}=… with an address that answers");
    }
    if let Some((host, port)) = address::split(place).filter(|_| !config.addresses.iter().any(|one| one == place)) {
        return format!("nc -vz {host} {port}: the cluster names this address itself (Kafka: `advertised.listeners`)");
    }
    match config.security.tls {
        Some(_) => concat!(
            "with a certificate of your own authority, --set 'broker.security.tls={ ca = \"/path/to/ca.pem\" }'; ",
            "without TLS on this port, --set broker.security.tls=false"
        )
        .to_owned(),
        None => {
            format!("if the port wants TLS, --set broker.security.tls=true; else see whether it is {}'s", config.kind)
        }
    }
}

/// The keys of the login of a kind of broker.
pub(super) fn login(config: &BrokerConfig, descriptor: Option<&Descriptor>) -> String {
    let mechanisms = descriptor.map_or(&[][..], |descriptor| descriptor.capabilities.sasl);
    match mechanisms {
        [] => format!(
            "correct the login in [broker.{}] or [broker.security]: brokermark new {} shows its keys",
            config.kind, config.kind
        ),
        some => {
            let names: Vec<&str> = some.iter().map(|mechanism| mechanism.name()).collect();
            let plain = names.iter().find(|name| **name == "PLAIN").or(names.first()).copied().unwrap_or_default();
            format!(
                "export BROKER_PASSWORD=… and --set 'broker.security.sasl={{ mechanism = \"{plain}\", username = \"NAME\", \
                 password = {{ env = \"BROKER_PASSWORD\" }} }}' (mechanisms: {})",
                names.join(", ")
            )
        }
    }
}

/// How the user is given the right that the client of `opened` lacks.
pub(super) fn right(config: &BrokerConfig, opened: &Opened) -> String {
    let is_producer = opened.client == "producer";
    let address = config.addresses.first().map_or("HOST:PORT", String::as_str);
    let user = config.security.sasl.as_ref().map_or("NAME", |sasl| sasl.username.as_str());
    match config.kind.as_str() {
        "kafka" => {
            let rights = match is_producer {
                true => "--producer --topic brokermark- --resource-pattern-type prefixed",
                false => "--consumer --topic brokermark- --group brokermark- --resource-pattern-type prefixed",
            };
            format!("kafka-acls.sh --bootstrap-server {address} --add --allow-principal User:{user} {rights}")
        }
        "pulsar" => {
            let action = if is_producer { "produce" } else { "consume" };
            format!("pulsar-admin namespaces grant-permission public/default --role {user} --actions {action}")
        }
        "rabbitmq-stream" => format!("rabbitmqctl set_permissions {user} '.*' '.*' '.*'"),
        _ => format!("let the user open a {}: docs/brokers/{}.md", opened.client, config.kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse_for;

    #[test]
    fn a_right_is_given_by_the_brokers_own_tool() {
        let kinds = crate::engine::kinds();
        let remedy = |kind: &str, client| {
            let text = format!("broker = {{ kind = \"{kind}\", address = \"h:1\" }}\nrun.messages = 1\n");
            let plan = parse_for(kinds, &text, "a.toml", &[], std::path::Path::new("")).unwrap();
            right(&plan.trials[0].scenario.broker, &Opened { client, error: Some("no".to_owned()) })
        };
        if kinds.broker("kafka").is_some() {
            assert!(remedy("kafka", "consumer").starts_with("kafka-acls.sh --bootstrap-server h:1 --add"));
        }
        if kinds.broker("pulsar").is_some() {
            assert!(remedy("pulsar", "producer").ends_with("--role NAME --actions produce"));
        }
        if kinds.broker("rabbitmq-stream").is_some() {
            assert_eq!(remedy("rabbitmq-stream", "producer"), "rabbitmqctl set_permissions NAME '.*' '.*' '.*'");
        }
    }
}
