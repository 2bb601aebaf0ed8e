//! A node of the cluster, as one client sees it: where it is found, and the batches that are due for the partitions which it leads.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::partition::{Leader, Limits, Partition, Turn};
use super::pending::Pending;

/// Most bytes of the batches of a request, unless one has more: `max.request.size` of Kafka's own client.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// A node of the cluster.
pub struct Node {
    address: Mutex<String>,
    /// The partitions that it leads.
    pub schedule: Arc<Leader>,
}

impl Node {
    pub fn new(address: String) -> Self {
        Node { address: Mutex::new(address), schedule: Arc::default() }
    }

    pub fn address(&self) -> String {
        self.address.lock().clone()
    }

    /// The node may be found at another address than before.
    pub fn set_address(&self, address: String) {
        *self.address.lock() = address;
    }

    /// The next batches to send, one of a partition at most. Those that are too old for it are added to `expired`.
    pub fn gather(&self, limits: &Limits, expired: &mut Vec<Pending>) -> Vec<(Arc<Partition>, Pending)> {
        let now = Instant::now();
        for partition in self.schedule.take_lingered(now) {
            partition.stop_lingering(&self.schedule, limits.linger, now);
        }
        let (mut batches, mut more) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while bytes < MAX_REQUEST_BYTES {
            let Some(partition) = self.schedule.next() else { break };
            match partition.take(&self.schedule, limits, now, expired) {
                Turn::Batch(pending, has_more) => {
                    bytes += pending.batch.len();
                    if has_more {
                        more.push(partition.clone());
                    }
                    batches.push((partition, pending));
                }
                Turn::Nothing => {}
                Turn::Later(moment) => self.schedule.postpone(moment, partition),
                Turn::Elsewhere(leader) => leader.add(partition),
            }
        }
        self.schedule.add_again(more);
        batches
    }

    /// Hands partitions on that another node leads now.
    pub fn hand_on(&self) {
        for partition in self.schedule.take_all() {
            match partition.leader() {
                Some(leader) if !Arc::ptr_eq(&leader, &self.schedule) => leader.add(partition),
                _ => self.schedule.add_again([partition]),
            }
        }
    }
}
