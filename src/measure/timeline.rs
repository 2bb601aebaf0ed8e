//! When messages were acknowledged: how many in each tenth of a second, and the first and the last moment in it. Outages are found
//! in it.

/// How long a bin is, in nanoseconds. A gap of this length or longer always lies between two bins, so that its begin and its end
/// are known exactly.
pub const BIN_NS: u64 = 100_000_000;

/// What was acknowledged within one bin of the trial's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bin {
    /// The first and the last moment at which messages were acknowledged, in nanoseconds since the trial's epoch.
    pub first_ns: u64,
    pub last_ns: u64,
    pub messages: u64,
}

impl Bin {
    /// Bins are counted from the trial's epoch.
    pub fn number(&self) -> u64 {
        self.first_ns / BIN_NS
    }

    fn join(&mut self, other: Bin) {
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
        self.messages += other.messages;
    }
}

/// The bins in which something was acknowledged, in their order: 24 bytes each, 20 MB after a day.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    bins: Vec<Bin>,
}

impl Timeline {
    /// `messages` were acknowledged at a moment.
    pub fn add(&mut self, at_ns: u64, messages: u64) {
        self.insert(Bin { first_ns: at_ns, last_ns: at_ns, messages });
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Timeline) {
        other.bins.iter().for_each(|bin| self.insert(*bin));
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.bins.clear();
    }

    pub fn bins(&self) -> &[Bin] {
        &self.bins
    }

    fn insert(&mut self, bin: Bin) {
        match self.bins.last_mut() {
            Some(last) if last.number() == bin.number() => last.join(bin),
            Some(last) if last.number() > bin.number() => self.insert_before_the_last(bin),
            _ => self.bins.push(bin),
        }
    }

    /// Other recorders have passed on what is later than this.
    fn insert_before_the_last(&mut self, bin: Bin) {
        match self.bins.binary_search_by_key(&bin.number(), Bin::number) {
            Ok(index) => self.bins[index].join(bin),
            Err(index) => self.bins.insert(index, bin),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(moments: &[(u64, u64)]) -> Timeline {
        let mut timeline = Timeline::default();
        moments.iter().for_each(|(at_ms, messages)| timeline.add(at_ms * 1_000_000, *messages));
        timeline
    }

    fn bins(timeline: &Timeline) -> Vec<(u64, u64, u64)> {
        timeline.bins().iter().map(|bin| (bin.first_ns / 1_000_000, bin.last_ns / 1_000_000, bin.messages)).collect()
    }

    #[test]
    fn a_bin_has_the_first_and_the_last_moment_and_all_messages() {
        assert_eq!(
            bins(&timeline(&[(210, 1), (250, 2), (299, 3), (300, 4), (900, 5)])),
            [(210, 299, 6), (300, 300, 4), (900, 900, 5)]
        );
    }

    #[test]
    fn what_recorders_saw_at_the_same_time_is_merged_in_order_of_time() {
        let mut all = timeline(&[(50, 1), (450, 1)]);
        all.merge(&timeline(&[(20, 1), (120, 1), (480, 1)]));
        all.merge(&timeline(&[(130, 1), (990, 1)]));
        assert_eq!(bins(&all), [(20, 50, 2), (120, 130, 2), (450, 480, 2), (990, 990, 1)]);
        all.clear();
        assert_eq!(bins(&all), []);
    }
}
