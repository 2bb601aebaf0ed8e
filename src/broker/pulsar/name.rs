//! Names of topics.

use std::sync::Arc;

use crate::broker::BrokerError;

/// A topic's full name: `persistent://tenant/namespace/name`, or `non-persistent://…`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicName {
    domain: &'static str,
    namespace: String,
    name: String,
}

impl TopicName {
    /// Of `name` in `namespace`, as `tenant/namespace`.
    pub fn new(namespace: &str, name: &str, persistent: bool) -> Self {
        let domain = if persistent { "persistent" } else { "non-persistent" };
        TopicName { domain, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Its partitions' full names, or its own where it has none (0).
    pub fn parts(&self, partitions: u32) -> Vec<Arc<str>> {
        let full = format!("{}://{}/{}", self.domain, self.namespace, self.name);
        match partitions {
            0 => vec![full.into()],
            _ => (0..partitions).map(|partition| format!("{full}-partition-{partition}").into()).collect(),
        }
    }

    /// Where the admin interface has it.
    pub fn admin_path(&self) -> String {
        format!("{}/{}/{}", self.domain, self.namespace, self.name)
    }

    /// Why it cannot be used.
    pub fn error(&self, action: &'static str, reason: String) -> BrokerError {
        BrokerError::Topic { topic: self.name.clone(), action, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_have_names_of_their_own() {
        let topic = TopicName::new("public/default", "orders", true);
        assert_eq!(topic.parts(0), [Arc::<str>::from("persistent://public/default/orders")]);
        assert_eq!(&*topic.parts(2)[1], "persistent://public/default/orders-partition-1");
        assert_eq!(topic.admin_path(), "persistent/public/default/orders");
        let passing = TopicName::new("public/default", "orders", false);
        assert_eq!(passing.parts(0), [Arc::<str>::from("non-persistent://public/default/orders")]);
        assert_eq!(passing.admin_path(), "non-persistent/public/default/orders");
    }
}
