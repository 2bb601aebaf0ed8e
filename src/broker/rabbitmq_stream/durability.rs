//! What a confirm of RabbitMQ's streams meant: the members of the stream.

use crate::broker::{Durability, DurabilityLevel};

/// From the number of members of each stream. A confirm comes when a majority of them has the chunk; they do not synchronise
/// it (RabbitMQ's documentation, "Streams", section "Data Safety": the page cache is left to the operating system).
pub fn durability(members: impl IntoIterator<Item = usize>) -> Durability {
    let Some(members) = members.into_iter().min() else { return Durability::default() };
    let majority = u32::try_from(members / 2 + 1).ok();
    let settings = [("members", members.to_string())];
    Durability::new(DurabilityLevel::PageCache, majority, settings, "the streams' metadata")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_has_the_message() {
        assert_eq!(durability([3, 3]).copies, Some(2));
        assert_eq!(durability([1]).copies, Some(1));
        assert_eq!(durability([]), Durability::default());
    }
}
