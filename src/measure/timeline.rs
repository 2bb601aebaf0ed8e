//! When messages were acknowledged: how many in each tenth of a second, the first and the last moment in it, and the slowest of them.
//! Outages are found in it, and how many events made a tail.

/// How long a bin is, in nanoseconds. A gap of this length or longer always lies between two bins, so that its begin and its end
/// are known exactly.
pub const BIN_NS: u64 = 100_000_000;

/// The longest latencies of measured messages, in nanoseconds: 0 without such messages. Rounded to 24 bits, which leaves each in its
/// bucket of a [`Distribution`](super::Distribution).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Slowest {
    pub response_ns: f32,
    pub service_ns: f32,
    pub schedule_delay_ns: f32,
    pub end_to_end_ns: f32,
}

impl Slowest {
    fn join(&mut self, other: Slowest) {
        self.response_ns = self.response_ns.max(other.response_ns);
        self.service_ns = self.service_ns.max(other.service_ns);
        self.schedule_delay_ns = self.schedule_delay_ns.max(other.schedule_delay_ns);
        self.end_to_end_ns = self.end_to_end_ns.max(other.end_to_end_ns);
    }
}

/// What was acknowledged, or received, within one bin of the trial's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// The first and the last moment at which messages were acknowledged, in nanoseconds since the trial's epoch.
    pub first_ns: u64,
    pub last_ns: u64,
    pub messages: u64,
    pub slowest: Slowest,
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
        self.slowest.join(other.slowest);
    }
}

/// The bins in which something was acknowledged, in their order: 40 bytes each, 35 MB after a day.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    bins: Vec<Bin>,
}

impl Timeline {
    /// `messages` were acknowledged at a moment, of which the measured ones took up to `slowest`.
    pub fn add(&mut self, at_ns: u64, messages: u64, slowest: Slowest) {
        self.insert(Bin { first_ns: at_ns, last_ns: at_ns, messages, slowest });
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
        moments.iter().for_each(|(at_ms, messages)| timeline.add(at_ms * 1_000_000, *messages, Slowest::default()));
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

    #[test]
    fn a_bin_has_the_slowest_messages_of_all_recorders() {
        let slowest = |response_ns, service_ns| Slowest { response_ns, service_ns, ..Slowest::default() };
        let (mut all, mut other) = (Timeline::default(), Timeline::default());
        all.add(10_000_000, 1, slowest(7.0, 2.0));
        other.add(20_000_000, 1, slowest(5.0, 4.0));
        other.add(BIN_NS, 1, slowest(9.0, 9.0));
        all.merge(&other);
        let found: Vec<Slowest> = all.bins().iter().map(|bin| bin.slowest).collect();
        assert_eq!(found, [slowest(7.0, 4.0), slowest(9.0, 9.0)]);
    }
}
