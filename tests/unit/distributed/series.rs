use super::*;
use crate::distributed::merge::made_up;
use crate::record::{HlogInterval, HlogLines};

const SECOND: u64 = 1_000_000_000;

/// A share whose every row has these values, in nanoseconds.
fn share(number: usize, began_ns: u64, values: &[u64]) -> KeptShare {
    let mut share = made_up::share(number, 2, began_ns, 10 * SECOND, 1.0);
    let mut histogram = crate::measure::Distribution::default();
    values.iter().for_each(|value| histogram.record(*value));
    let histogram = histogram.histogram();
    let mut lines = HlogLines::default();
    for row in &mut share.series {
        (row.p50_ns, row.p99_ns) = (Some(histogram.value_at_quantile(0.5)), Some(histogram.value_at_quantile(0.99)));
        let (tag, started) = (&share.record.headline.to_string(), share.record.started_at);
        let length = std::time::Duration::from_secs(1);
        lines.push(&HlogInterval { tag, started, length, histogram }).unwrap();
    }
    share.interval_log = String::from_utf8(lines.text().to_vec()).unwrap();
    share
}

#[test]
fn rows_of_one_second_merge_counts_and_quantiles() {
    let (low, high) = ([1_000_000, 2_000_000, 3_000_000, 4_000_000], [8_000_000, 9_000_000]);
    let shares = [share(1, 0, &low), share(2, 1_000, &high)];
    let merged = merged_series(&shares);
    assert_eq!(merged.len(), shares[0].series.len());
    let mut all = crate::measure::Distribution::default();
    low.iter().chain(&high).for_each(|value| all.record(*value));
    for (row, (one, other)) in merged.iter().zip(shares[0].series.iter().zip(&shares[1].series)) {
        assert_eq!(row.acknowledged, one.acknowledged + other.acknowledged);
        assert_fields!(row, { second: one.second, phase: one.phase, full: one.full });
        assert_eq!(row.p50_ns, Some(all.histogram().value_at_quantile(0.5)));
        assert_eq!(row.p99_ns, Some(all.histogram().value_at_quantile(0.99)));
    }
}

#[test]
fn a_share_that_began_later_has_its_rows_later_and_none_is_lost() {
    let shares = [share(1, 0, &[1_000]), share(2, 2 * SECOND + 40_000_000, &[1_000])];
    let merged = merged_series(&shares);
    let sum = |rows: &[SeriesRow]| rows.iter().map(|row| row.acknowledged).sum::<u64>();
    assert_eq!(sum(&merged), sum(&shares[0].series) + sum(&shares[1].series));
    assert!(!merged[0].full && merged[0].second == 0, "only one share had begun");
    let last = shares[1].series.last().unwrap().second + 2;
    assert_eq!(merged.iter().map(|row| row.second).max(), Some(last));
}

#[test]
fn lags_of_shares_add_up_also_after_one_has_ended() {
    let mut shares = [share(1, 0, &[1_000]), share(2, 0, &[1_000])];
    let group = |consumer_lag, end_to_end_p50_ns| GroupRow {
        group: 0,
        consumed: 7,
        consumer_lag,
        end_to_end_p50_ns,
        end_to_end_p99_ns: end_to_end_p50_ns,
    };
    // One sends, the other receives, and ends later.
    shares[0].series.iter_mut().for_each(|row| row.groups = vec![group(Some(90_000), None)]);
    shares[1].series.iter_mut().for_each(|row| row.groups = vec![group(Some(-89_000), Some(5))]);
    shares[0].series.truncate(4);
    let rows = merged_series(&shares);
    assert_eq!(rows[0].groups, [GroupRow { consumed: 14, ..group(Some(1_000), Some(5)) }]);
    assert_eq!(rows.last().unwrap().groups, [group(Some(1_000), Some(5))]);
    shares[0].series.iter_mut().for_each(|row| row.groups = vec![group(None, Some(4))]);
    assert_eq!(merged_series(&shares)[0].groups, [GroupRow { consumed: 14, ..group(None, None) }]);
}

#[test]
fn without_its_histograms_the_quantiles_of_a_row_are_not_known() {
    let mut shares = [share(1, 0, &[1_000]), share(2, 0, &[2_000])];
    shares[1].interval_log.clear();
    assert!(merged_series(&shares).iter().all(|row| row.p50_ns.is_none() && row.p99_ns.is_none()));
}
