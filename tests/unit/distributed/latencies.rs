use hdrhistogram::Histogram;
use proptest::prelude::*;

use super::*;
use crate::distributed::merge::made_up::share;

fn histogram() -> Histogram<u64> {
    // As the recorders have it.
    crate::measure::Distribution::default().histogram().clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// What the record states of all shares is what it would state of one histogram of all values.
    #[test]
    fn merged_quantiles_are_those_of_one_histogram_of_all_values(
        shares in proptest::collection::vec(
            proptest::collection::vec((1..400_000_000_000u64, 1..5_000u64), 0..40), 1..6),
        beyond in 0..3u64,
    ) {
        let mut whole = histogram();
        let mut latencies = Vec::new();
        for values in &shares {
            let mut of_share = histogram();
            for (value, count) in values {
                whole.record_n(*value, *count).unwrap();
                of_share.record_n(*value, *count).unwrap();
            }
            latencies.extend(Latency::from_histogram(&of_share, beyond, Some(values.len() as u64)));
        }
        let named: Vec<(&str, &Latency)> = latencies.iter().map(|latency| ("share", latency)).collect();
        let merged = sum(&named).unwrap();
        let values = shares.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let expected = Latency::from_histogram(&whole, beyond * latencies.len() as u64, Some(values));
        prop_assert_eq!(merged, expected);
    }
}

#[test]
fn merged_moments_of_100_shares_are_those_of_one() {
    let mut of_share = histogram();
    of_share.record_n(1_000_000, 50_000).unwrap();
    let merged = |moments: [Option<u64>; 2]| {
        let of_moments = |moments| Latency::from_histogram(&of_share, 0, moments).unwrap();
        let [most, other] = moments.map(of_moments);
        let named: Vec<(&str, &Latency)> =
            (0..100).map(|rank| ("share", if rank == 7 { &most } else { &other })).collect();
        sum(&named).unwrap().unwrap()
    };
    // 100 shares saw the same 900 answers of the broker.
    let latency = merged([Some(900), Some(900)]);
    assert_fields!(latency, { count: 5_000_000, independent: Some(900), p99_ns: None });
    let latency = merged([Some(1_000), Some(900)]);
    assert!(latency.p99_ns.is_some() && latency.p99_9_ns.is_none(), "{latency:?}");
    assert_eq!(merged([None, Some(900)]).independent, Some(900), "one share did not count its moments");
    assert_eq!(merged([None, None]).independent, None);
}

#[test]
fn a_damaged_histogram_is_named() {
    let latency = Latency::from_histogram(
        &{
            let mut one = histogram();
            one.record(5).unwrap();
            one
        },
        0,
        None,
    )
    .unwrap();
    let damaged = Latency { histogram: "AAAA".to_owned(), ..latency.clone() };
    let error = sum(&[("a", &latency), ("b", &damaged)]).unwrap_err();
    assert!(error.to_string().starts_with("b: "), "{error}");
}

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
