//! What decides what an acknowledgement meant and whether order is kept, by librdkafka's properties; and what an acknowledgement of the
//! embedded cluster meant.

use crate::broker::{Durability, DurabilityLevel};

/// The `acks` that librdkafka works with: the last that was set under one of its names. Its default is `all`.
pub fn acks<'a>(properties: impl Iterator<Item = (&'a str, &'a str)>) -> &'a str {
    let set = properties.filter(|(key, _)| matches!(*key, "acks" | "request.required.acks"));
    match set.last() {
        None | Some((_, "-1" | "all")) => "all",
        Some((_, acks)) => acks,
    }
}

/// Whether a batch that is sent again may come behind one that was in flight with it: by default, librdkafka does not number them, and has
/// many in flight.
pub fn may_reorder<'a>(properties: impl Iterator<Item = (&'a str, &'a str)>) -> bool {
    let (mut is_numbered, mut in_flight) = (false, "many");
    for (key, value) in properties {
        match key {
            "enable.idempotence" => is_numbered = value == "true",
            "transactional.id" => is_numbered = true,
            "max.in.flight" | "max.in.flight.requests.per.connection" => in_flight = value,
            _ => {}
        }
    }
    !is_numbered && in_flight != "1"
}

/// The embedded cluster.
pub fn of_the_embedded() -> Durability {
    Durability::new(DurabilityLevel::Memory, Some(1), [], "librdkafka's mock cluster keeps messages in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_without_numbers_may_change_their_order() {
        assert!(may_reorder([("linger.ms", "5")].into_iter()));
        assert!(!may_reorder([("enable.idempotence", "true")].into_iter()));
        assert!(!may_reorder([("max.in.flight", "5"), ("max.in.flight.requests.per.connection", "1")].into_iter()));
    }

    #[test]
    fn the_last_acks_counts_under_either_name() {
        assert_eq!(acks([("acks", "0"), ("request.required.acks", "-1")].into_iter()), "all");
        assert_eq!(acks([("acks", "all"), ("linger.ms", "5"), ("acks", "1")].into_iter()), "1");
        assert_eq!(acks([("linger.ms", "5")].into_iter()), "all");
    }
}
