//! What single consumers received, over all shares: each consumer ran in one of them.

use std::collections::BTreeMap;

use super::KeptShare;
use crate::evaluate::listed_consumers;
use crate::record::{ConsumerFigures, ConsumerSpread, Consumers, Extent};

/// `None`: no group had two of them.
pub(super) fn consumers(shares: &[KeptShare]) -> Option<Consumers> {
    let found = || shares.iter().filter_map(|share| share.record.consumers.as_ref());
    let mut groups: BTreeMap<usize, ConsumerSpread> = BTreeMap::new();
    for spread in found().flat_map(|consumers| &consumers.groups) {
        groups.entry(spread.group).and_modify(|sum| *sum = both(sum, spread)).or_insert_with(|| spread.clone());
    }
    groups.retain(|_, spread| spread.consumers > 1);
    let mut listed: Vec<ConsumerFigures> = found().flat_map(|consumers| consumers.listed.iter().cloned()).collect();
    listed.sort_by(|one, other| (one.group, &one.topic, one.member).cmp(&(other.group, &other.topic, other.member)));
    (!groups.is_empty()).then(|| Consumers { groups: groups.into_values().collect(), listed: listed_consumers(listed) })
}

fn both(one: &ConsumerSpread, other: &ConsumerSpread) -> ConsumerSpread {
    let known = |of: fn(&ConsumerSpread) -> Option<Extent>| Some(of(one)?.plus(of(other)?));
    ConsumerSpread {
        group: one.group,
        consumers: one.consumers.saturating_add(other.consumers),
        consumed: one.consumed.plus(other.consumed),
        end_to_end_p50_ns: known(|of| of.end_to_end_p50_ns),
        end_to_end_p99_ns: known(|of| of.end_to_end_p99_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::super::merge::made_up::share;
    use super::*;

    #[test]
    fn consumers_of_all_shares_stand_side_by_side() {
        let with = |number: usize, consumed: u64, p99_ns: Option<u64>| {
            let mut share = share(number, 3, 0, 1_000_000_000, 1.0);
            let extent = Extent { smallest: consumed, largest: consumed * 2 };
            let one = ConsumerFigures { member: 9 - number, consumed, ..ConsumerFigures::default() };
            let spread = ConsumerSpread {
                consumers: 2,
                consumed: extent,
                end_to_end_p50_ns: Some(extent),
                end_to_end_p99_ns: p99_ns.map(|ns| Extent { smallest: ns, largest: ns }),
                ..ConsumerSpread::default()
            };
            share.record.consumers = Some(Consumers { groups: vec![spread], listed: vec![one] });
            share
        };
        let mut shares = vec![with(1, 10, Some(1)), with(2, 40, None), share(3, 3, 0, 1_000_000_000, 1.0)];
        shares[2].record.consumers = None;
        let merged = consumers(&shares).unwrap();
        let [group] = merged.groups.as_slice() else { panic!("{merged:?}") };
        assert_eq!((group.consumers, group.consumed), (4, Extent { smallest: 10, largest: 80 }));
        assert_eq!(group.end_to_end_p50_ns, Some(Extent { smallest: 10, largest: 80 }));
        assert_eq!(group.end_to_end_p99_ns, None, "what is not known of one is not known of all");
        assert_eq!(merged.listed.iter().map(|of| of.member).collect::<Vec<_>>(), [7, 8]);
        assert_eq!(consumers(&shares[2..]), None);
    }
}
