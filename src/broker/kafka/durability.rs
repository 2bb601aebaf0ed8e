//! What decides what an acknowledgement meant, by librdkafka's properties; and what one of the embedded cluster meant.

use crate::broker::{Durability, DurabilityLevel};

/// The `acks` that librdkafka works with: the last that was set under one of its names. Its default is `all`.
pub fn acks<'a>(properties: impl Iterator<Item = (&'a str, &'a str)>) -> &'a str {
    let set = properties.filter(|(key, _)| matches!(*key, "acks" | "request.required.acks"));
    match set.last() {
        None | Some((_, "-1" | "all")) => "all",
        Some((_, acks)) => acks,
    }
}

/// The embedded cluster.
pub fn of_the_embedded() -> Durability {
    Durability::new(DurabilityLevel::Memory, Some(1), [], "librdkafka's mock cluster keeps messages in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_acks_counts_under_either_name() {
        assert_eq!(acks([("acks", "0"), ("request.required.acks", "-1")].into_iter()), "all");
        assert_eq!(acks([("acks", "all"), ("linger.ms", "5"), ("acks", "1")].into_iter()), "1");
        assert_eq!(acks([("linger.ms", "5")].into_iter()), "all");
    }
}
