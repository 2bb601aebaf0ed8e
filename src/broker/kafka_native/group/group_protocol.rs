//! How a group shares partitions among its members, by the names that librdkafka's properties of consumers have.

use super::assignors::Strategy;

/// The properties of consumers that this client has.
pub const PROPERTIES: &[&str] = &[PROTOCOL, REMOTE_ASSIGNOR, STRATEGY];

const PROTOCOL: &str = "group.protocol";
const REMOTE_ASSIGNOR: &str = "group.remote.assignor";
const STRATEGY: &str = "partition.assignment.strategy";

/// How a group shares partitions among its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupProtocol {
    /// One of the members does, by a strategy that all of them offer. These are offered, best first.
    Classic(Vec<Strategy>),
    /// The server does (KIP-848), by the assignor of this name or by the one that it prefers.
    Server { assignor: Option<String> },
}

impl GroupProtocol {
    /// As `consumers.properties` ask for it.
    ///
    /// # Errors
    /// When a property or its value is unknown, or does not go with another one.
    pub fn read(properties: &[(String, String)]) -> Result<Self, String> {
        if let Some((key, _)) = properties.iter().find(|(key, _)| !PROPERTIES.contains(&key.as_str())) {
            return Err(format!(
                "`consumers.properties.\"{key}\"` is librdkafka's: remove it, or write `client = \"librdkafka\"`"
            ));
        }
        let value = |wanted| properties.iter().find(|(key, _)| key == wanted).map(|(_, value)| value.as_str());
        match value(PROTOCOL) {
            None | Some("classic") => {
                if value(REMOTE_ASSIGNOR).is_some() {
                    return Err(format!(
                        "`{REMOTE_ASSIGNOR}` goes with `\"{PROTOCOL}\" = \"consumer\"`: set both, or none"
                    ));
                }
                value(STRATEGY).map_or_else(|| Ok(Strategy::DEFAULT.to_vec()), strategies).map(GroupProtocol::Classic)
            }
            Some("consumer") => {
                if value(STRATEGY).is_some() {
                    return Err(format!(
                        "with `\"{PROTOCOL}\" = \"consumer\"`, the server shares partitions out: remove `{STRATEGY}`"
                    ));
                }
                Ok(GroupProtocol::Server { assignor: value(REMOTE_ASSIGNOR).map(str::to_owned) })
            }
            Some(other) => Err(format!("`{PROTOCOL}` is \"classic\" or \"consumer\", not \"{other}\"")),
        }
    }
}

/// From their names, with commas between them.
fn strategies(names: &str) -> Result<Vec<Strategy>, String> {
    let mut strategies = Vec::new();
    for name in names.split(',').map(str::trim) {
        let known = || Strategy::ALL.map(Strategy::name).join(", ");
        let strategy = Strategy::by_name(name);
        strategies.push(strategy.ok_or_else(|| format!("`{STRATEGY}` has \"{name}\", and can be {}", known()))?);
    }
    // Its members keep partitions while they join again, which those of the others do not.
    if strategies.contains(&Strategy::CooperativeSticky) && strategies.len() > 1 {
        let name = Strategy::CooperativeSticky.name();
        return Err(format!("`{STRATEGY}`: \"{name}\" does not go with other strategies, write it alone"));
    }
    Ok(strategies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(properties: &[(&str, &str)]) -> Result<GroupProtocol, String> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        GroupProtocol::read(&properties.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn properties_have_the_names_and_values_of_librdkafka() {
        let classic = |strategies: &[Strategy]| Ok(GroupProtocol::Classic(strategies.to_vec()));
        let server = |assignor: Option<&str>| Ok(GroupProtocol::Server { assignor: assignor.map(str::to_owned) });
        assert_eq!(read(&[]), classic(&[Strategy::Range, Strategy::RoundRobin]));
        assert_eq!(read(&[(STRATEGY, "roundrobin, range")]), classic(&[Strategy::RoundRobin, Strategy::Range]));
        assert_eq!(read(&[(STRATEGY, "cooperative-sticky")]), classic(&[Strategy::CooperativeSticky]));
        assert_eq!(read(&[(PROTOCOL, "consumer")]), server(None));
        assert_eq!(read(&[(PROTOCOL, "consumer"), (REMOTE_ASSIGNOR, "range")]), server(Some("range")));
    }

    #[test]
    fn what_is_unknown_or_does_not_go_together_is_refused() {
        for (properties, reason) in [
            (&[("fetch.min.bytes", "1")][..], "client = \"librdkafka\""),
            (&[(PROTOCOL, "streams")], "not \"streams\""),
            (&[(REMOTE_ASSIGNOR, "range")], "group.protocol"),
            (&[(PROTOCOL, "consumer"), (STRATEGY, "range")], "remove `partition.assignment.strategy`"),
            (&[(STRATEGY, "sticky")], "range, roundrobin, cooperative-sticky"),
            (&[(STRATEGY, "cooperative-sticky,range")], "alone"),
        ] {
            let error = read(properties).unwrap_err();
            assert!(error.contains(reason), "{properties:?}: {error}");
        }
    }
}
