//! What an `OK` of nsqd meant: its queue.

use crate::broker::{Durability, DurabilityLevel};

/// The options of nsqd that decide it, by the names that its HTTP interface knows (`GET /config/…`, nsqd's `doConfig`).
pub const OPTIONS: [&str; 3] = ["mem_queue_size", "sync_every", "sync_timeout"];

/// From the values of [`OPTIONS`], in their order, of the nsqd that answered; unknown where several differ.
///
/// A message waits in memory while fewer than `mem_queue_size` do, else in a file, which is synchronised after `sync_every`
/// messages (nsqd's `Topic.put` and go-diskqueue).
pub fn durability(nodes: &[Vec<String>], ephemeral: bool) -> Durability {
    let source = "nsqd's configuration";
    let alike = nodes.windows(2).all(|pair| pair[0] == pair[1]);
    let Some(values) = nodes.first().filter(|_| alike) else { return Durability::default() };
    let settings = OPTIONS.into_iter().zip(values.iter().cloned());
    let level = match values.as_slice() {
        [in_memory, ..] if ephemeral || in_memory != "0" => DurabilityLevel::Memory,
        [_, every, ..] if every == "1" => DurabilityLevel::Disk,
        _ => DurabilityLevel::PageCache,
    };
    Durability::new(level, Some(1), settings, source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_in_memory_comes_before_the_disk() {
        let of = |values: [&str; 3], ephemeral| durability(&[values.map(str::to_owned).to_vec()], ephemeral).level;
        assert_eq!(of(["10000", "1", "2s"], false), DurabilityLevel::Memory);
        assert_eq!(of(["0", "1", "2s"], false), DurabilityLevel::Disk);
        assert_eq!(of(["0", "2500", "2s"], false), DurabilityLevel::PageCache);
        assert_eq!(of(["0", "1", "2s"], true), DurabilityLevel::Memory);
        let differ = [vec!["0".to_owned()], vec!["1".to_owned()]];
        assert_eq!(durability(&differ, false), Durability::default());
    }
}
