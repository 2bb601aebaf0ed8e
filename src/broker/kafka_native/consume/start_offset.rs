//! Where a member begins to read partitions: at its group's committed offsets, where others of the trial have left off, or at an end.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::config::Isolation;
use super::super::error::CallError;
use super::super::group::committed::Committed;
use super::super::net::admin::{Admin, End, EndsQuery};

/// The offset of the next message of each partition.
pub type Positions = BTreeMap<u32, i64>;

/// Where a member begins to read each partition.
pub struct StartOffsets {
    pub admin: Arc<Admin>,
    pub topic: String,
    /// Committed offsets of a group that commits.
    pub committed: Option<Arc<Committed>>,
    /// Positions of partitions without a committed offset: where the group began, or how far its members are, so that no message is received
    /// again when partitions move.
    pub left_off: Arc<Mutex<Positions>>,
    /// Start of partitions of which nothing is known.
    pub end: End,
}

impl StartOffsets {
    /// The positions of these partitions.
    ///
    /// # Errors
    /// When a leader or the group's coordinator does not answer, or refuses.
    pub async fn positions(&self, partitions: &[u32]) -> Result<Positions, CallError> {
        let mut positions = match &self.committed {
            Some(committed) => committed.read(partitions).await?,
            None => Positions::new(),
        };
        let left_off = self.left_off.lock().clone();
        for (partition, position) in left_off.into_iter().filter(|(partition, _)| partitions.contains(partition)) {
            positions.entry(partition).or_insert(position);
        }
        let unknown: Vec<u32> = partitions.iter().copied().filter(|one| !positions.contains_key(one)).collect();
        if !unknown.is_empty() {
            // Also where a transaction is open: what comes after the latest message is received once it ends.
            let isolation = Isolation::ReadUncommitted;
            let query = EndsQuery { topic: &self.topic, partitions: &unknown, end: self.end, isolation };
            positions.extend(self.admin.ends_in_time(&query).await?);
        }
        Ok(positions)
    }
}
