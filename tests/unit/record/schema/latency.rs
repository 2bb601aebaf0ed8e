use hdrhistogram::serialization::V2Serializer;

use super::*;

#[test]
fn percentiles_and_the_payload_come_from_the_same_histogram() {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000_000, 3).unwrap();
    for value in 1..=10_000u64 {
        histogram.record(value * 1_000).unwrap();
    }
    let latency = Latency::from_histogram(&histogram, 2, None).unwrap();
    assert_eq!(latency.count, 10_000);
    assert_eq!(latency.beyond_range, 2);
    assert!(latency.p50_ns.abs_diff(5_000_000) <= 5_000, "{}", latency.p50_ns);
    assert!(latency.p99_ns.unwrap().abs_diff(9_900_000) <= 9_900, "{latency:?}");
    assert_eq!(latency.decode_histogram().unwrap(), histogram);
}

#[test]
fn a_percentile_needs_ten_independent_values_beyond_it() {
    assert_eq!([0.5, 0.99, 0.999, 0.9999].map(independent_values_needed), [20, 1_000, 10_000, 100_000]);
    assert_eq!(independent_values_needed(1.0), u64::MAX, "nothing lies beyond the maximum");
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000_000, 3).unwrap();
    histogram.record_n(1_000_000, 200_000).unwrap();
    let stated = |independent| {
        let latency = Latency::from_histogram(&histogram, 0, independent).unwrap();
        [latency.p99_ns, latency.p99_9_ns, latency.p99_99_ns].map(|value| value.is_some())
    };
    assert_eq!(stated(None), [true, true, true]);
    assert_eq!(stated(Some(100_000)), [true, true, true]);
    assert_eq!(stated(Some(99_999)), [true, true, false]);
    assert_eq!(stated(Some(9_999)), [true, false, false]);
    assert_eq!(stated(Some(999)), [false, false, false]);
}

#[test]
fn latency_of_values_beyond_the_range_exists() {
    let empty = Histogram::<u64>::new_with_bounds(1, 1_000_000, 3).unwrap();
    assert_eq!(Latency::from_histogram(&empty, 0, None), None);
    let beyond = Latency::from_histogram(&empty, 1, None).unwrap();
    assert_eq!((beyond.count, beyond.beyond_range), (0, 1));
    assert!(beyond.mean_ns.is_finite() && beyond.stddev_ns.is_finite());
    let crafted = Latency { count: u64::MAX, ..beyond };
    assert_eq!(crafted.independent_values(), u64::MAX);
}

fn histogram(values: &[u64]) -> Histogram<u64> {
    let mut histogram = crate::measure::Distribution::new();
    values.iter().for_each(|value| histogram.record(*value));
    histogram.histogram().clone()
}

fn slowest(tenths: &[u64], seconds: &[u64]) -> SlowestMessages {
    SlowestMessages::new(&histogram(tenths), &histogram(seconds))
}

#[test]
fn values_in_the_bucket_of_a_percentile_count_as_beyond_it() {
    let slowest = slowest(&[1_000_000, 5_000_000, 90_000_000], &[5_000_000, 90_000_000]);
    // A percentile is the upper end of its bucket.
    let p99 = histogram(&[5_000_000]).value_at_quantile(0.99);
    assert!(p99 > 5_000_000);
    assert_eq!(slowest.exceedances(p99), Ok(Exceedances { tenths: 2, seconds: 2 }));
    assert_eq!(slowest.exceedances(100_000_000), Ok(Exceedances { tenths: 0, seconds: 0 }));
}

#[test]
fn ten_tenths_in_three_seconds_are_enough() {
    let enough = |tenths, seconds| Exceedances { tenths, seconds }.are_enough();
    assert!(enough(10, 3) && !enough(9, 3) && !enough(10, 2));
}

#[test]
fn an_event_that_many_shares_saw_is_one() {
    let stall = 90_000_000;
    let shares: Vec<SlowestMessages> =
        (0..100).map(|share| slowest(&[stall, 1_000_000 + share, 1_000_000], &[stall])).collect();
    let all = SlowestMessages::merged(&shares.iter().collect::<Vec<_>>()).unwrap().unwrap();
    assert_eq!(all.exceedances(stall), Ok(Exceedances { tenths: 1, seconds: 1 }));
    assert_eq!(all.exceedances(1_000_000), Ok(Exceedances { tenths: 3, seconds: 1 }));
    let other = slowest(&[stall, stall, 50], &[stall, stall]);
    let all = SlowestMessages::merged(&[&shares[0], &other]).unwrap().unwrap();
    assert_eq!(all.exceedances(stall), Ok(Exceedances { tenths: 2, seconds: 2 }), "the share that saw the most");
    assert_eq!(SlowestMessages::merged(&[]), Ok(None));
}

fn filled() -> Histogram<u64> {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 600_000_000_000, 3).unwrap();
    (1..=10_000u64).for_each(|value| histogram.record(value * 1_000).unwrap());
    histogram
}

fn head(announced: u32, digits: u32, highest: u64) -> Vec<u8> {
    let words = [announced, 0, digits].map(u32::to_be_bytes).concat();
    let values = [1, highest, 1f64.to_bits()].map(u64::to_be_bytes).concat();
    [&PLAIN[..], &words, &values].concat()
}

#[test]
fn both_encodings_are_read_as_they_were_written() {
    assert_eq!(decode_histogram(&encode_histogram(&filled())).unwrap(), filled());
    let mut plain = Vec::new();
    V2Serializer::new().serialize(&filled(), &mut plain).unwrap();
    assert_eq!(decode_histogram(&format!("{}\n", STANDARD.encode(plain))).unwrap(), filled());
    let widest = Histogram::<u64>::new_with_bounds(1, i64::MAX as u64, MAX_DIGITS).unwrap();
    assert_eq!(decode_histogram(&encode_histogram(&widest)).unwrap(), widest);
}

#[test]
fn a_head_that_announces_more_than_there_is_takes_no_memory() {
    for bytes in [head(u32::MAX, 3, 3_600_000_000_000), head(0, 5, i64::MAX as u64)] {
        let text = decode_histogram(&STANDARD.encode(&bytes)).unwrap_err().to_string();
        assert!(text.contains("announces 4294967295 bytes, and has 0") || text.contains("5 significant"), "{text}");
        let mut packed = [&COMPRESSED[..], &[0xff; 4]].concat();
        let mut encoder = flate2::read::ZlibEncoder::new(bytes.as_slice(), flate2::Compression::fast());
        encoder.read_to_end(&mut packed).unwrap();
        assert!(decode_histogram(&STANDARD.encode(packed)).is_err());
    }
    for cut in 0..HEAD_BYTES {
        assert!(decode_histogram(&STANDARD.encode(&head(0, 3, 1_000)[..cut])).is_err());
    }
}

/// A gigabyte of zeros takes a megabyte when it is packed.
#[test]
fn a_packed_histogram_is_unpacked_up_to_a_limit() {
    let mut packed = [&COMPRESSED[..], &[0xff; 4]].concat();
    let bomb = head(64 << 20, 3, 1_000).into_iter().chain(std::iter::repeat_n(0, 64 << 20)).collect::<Vec<u8>>();
    flate2::read::ZlibEncoder::new(bomb.as_slice(), flate2::Compression::fast()).read_to_end(&mut packed).unwrap();
    let error = decode_histogram(&STANDARD.encode(packed)).unwrap_err().to_string();
    assert!(error.contains("announces 67108864 bytes, and has 1048576"), "{error}");
}
