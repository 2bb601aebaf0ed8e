use super::*;
use crate::scenario::template::Template;

const COUNT: usize = 20_000;

fn mean(sizes: &[usize]) -> f64 {
    total(sizes) as f64 / sizes.len() as f64
}

#[test]
fn uniform_sizes_reach_both_ends() {
    let sizes = draw_sizes(&Size::Uniform { min: 10, max: 20 }, COUNT, 1).unwrap();
    assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&10), Some(&20)));
    assert!((mean(&sizes) - 15.0).abs() < 0.1, "{}", mean(&sizes));
}

#[test]
fn normal_sizes_have_their_mean_and_deviation_and_are_cut_off() {
    let sizes = draw_sizes(&Size::Normal { mean: 1000.0, deviation: 100.0, max: 10_000 }, COUNT, 1).unwrap();
    let mean_size = mean(&sizes);
    let variance = sizes.iter().map(|size| (*size as f64 - mean_size).powi(2)).sum::<f64>() / COUNT as f64;
    assert!((mean_size - 1000.0).abs() < 5.0, "{mean_size}");
    assert!((variance.sqrt() - 100.0).abs() < 3.0, "{}", variance.sqrt());

    let sizes = draw_sizes(&Size::Normal { mean: 10.0, deviation: 100.0, max: 50 }, COUNT, 1).unwrap();
    assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&1), Some(&50)));
}

#[test]
fn choices_come_in_the_ratio_of_their_weights() {
    let sizes = draw_sizes(&Size::Choices(vec![(100, 3.0), (900, 1.0)]), COUNT, 1).unwrap();
    let small = sizes.iter().filter(|size| **size == 100).count();
    assert!((small as f64 / COUNT as f64 - 0.75).abs() < 0.01, "{small}");
}

#[test]
fn an_impossible_distribution_is_an_error() {
    let error = draw_sizes(&Size::Choices(vec![]), 1, 1).unwrap_err();
    assert!(error.to_string().contains("payload.size"), "{error}");
    assert!(draw_sizes(&Size::Normal { mean: f64::NAN, deviation: f64::NAN, max: 1 }, 1, 1).is_err());
    assert!(draw_sizes(&Size::Uniform { min: 2, max: 1 }, 1, 1).is_err());
}

#[test]
fn zeros_share_one_stretch() {
    let draft = zeros(&Size::Choices(vec![(10, 1.0), (1000, 1.0)]), 64, 1).unwrap();
    assert_eq!(draft.bytes, vec![0; 1000]);
    assert_eq!(draft.ranges.len(), 64);
}

#[test]
fn the_stated_share_of_every_payload_repeats_one_byte() {
    let draft = random(&Size::Fixed(1000), 0.75, 8, 1).unwrap();
    for range in draft.ranges {
        let payload = &draft.bytes[range];
        let last = payload[999];
        let run = payload.iter().rev().take_while(|byte| **byte == last).count();
        assert!((750..755).contains(&run), "{run}");
    }
}

#[test]
fn random_bytes_are_spread_evenly() {
    let draft = random(&Size::Fixed(256_000), 0.0, 1, 1).unwrap();
    let mut counts = [0_i64; 256];
    draft.bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    // Chi-squared with 255 degrees of freedom: beyond 330.5 with probability 0.001.
    let chi_squared: f64 = counts.iter().map(|count| ((count - 1000) * (count - 1000)) as f64 / 1000.0).sum();
    assert!(chi_squared < 330.5, "{chi_squared}");
}

#[test]
fn too_large_a_pool_is_refused_before_it_is_made() {
    for make in [zeros(&Size::Fixed(usize::MAX), 2, 1), random(&Size::Fixed(usize::MAX), 0.0, 2, 1)] {
        assert!(matches!(make, Err(LoadError::PoolTooLarge { .. })));
    }
    assert!(zeros(&Size::Fixed(1), usize::MAX, 1).is_err());
}

#[test]
fn floats_are_little_endian_and_uniform() {
    let draft = vectors(1 << 15, 2, 1).unwrap();
    assert_eq!(draft.ranges, [0..1 << 17, 1 << 17..1 << 18]);
    let floats = draft.bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    assert!(floats.clone().all(|float| (0.0..1.0).contains(&float)));
    let mean = floats.map(f64::from).sum::<f64>() / f64::from(1 << 16);
    // The mean of 65,536 has a standard deviation of 0.0011.
    assert!((mean - 0.5).abs() < 0.0045, "{mean}");
}

/// The heads of the MessagePack specification: `bin 8`, `bin 16` and `bin 32`, with big-endian lengths.
#[test]
fn each_payload_is_one_value_of_bytes() {
    for (size, head) in [(10, &[0xc4, 10][..]), (300, &[0xc5, 1, 44]), (70_000, &[0xc6, 0, 1, 0x11, 0x70])] {
        let draft = message_pack(&Size::Fixed(size), 4, 1).unwrap();
        let mut bodies = Vec::new();
        for range in draft.ranges {
            let body = draft.bytes[range].strip_prefix(head).expect("the head");
            assert_eq!(body.len(), size);
            bodies.push(body);
        }
        assert!(bodies.windows(2).all(|two| two[0] != two[1]), "random");
    }
}

fn payloads(text: &[u8], count: usize) -> Result<Vec<Vec<u8>>, LoadError> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("lines.txt");
    std::fs::write(&file, text).unwrap();
    let draft = lines(&file, count)?;
    Ok(draft.ranges.into_iter().map(|range| draft.bytes[range].to_vec()).collect())
}

#[test]
fn lines_lose_their_ends_and_empty_ones_are_passed_over() {
    assert_eq!(payloads(b"one\r\n\n\xff two\nthree", 10).unwrap(), [&b"one"[..], b"\xff two", b"three"]);
}

#[test]
fn no_more_lines_are_read_than_the_pool_takes() {
    assert_eq!(payloads(b"one\ntwo\nthree\n", 2).unwrap(), [b"one", b"two"]);
}

#[test]
fn files_are_sent_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let files = ["a", "b"].map(|name| directory.path().join(name));
    std::fs::write(&files[0], "one\n\ntwo\r\n").unwrap();
    std::fs::write(&files[1], [0, 255]).unwrap();
    for (count, sizes) in [(5, &[10, 2][..]), (1, &[10])] {
        let draft = whole(&files, count).unwrap();
        assert_eq!(draft.bytes, b"one\n\ntwo\r\n\0\xff"[..sizes.iter().sum()]);
        assert_eq!(draft.ranges.iter().map(ExactSizeIterator::len).collect::<Vec<_>>(), sizes);
    }
    std::fs::remove_file(&files[1]).unwrap();
    assert!(matches!(whole(&files, 2), Err(LoadError::Unreadable { file, .. }) if file == files[1]));
}

#[test]
fn a_file_without_payloads_is_an_error() {
    assert!(matches!(payloads(b"", 2), Err(LoadError::NoLines { .. })));
    assert!(matches!(payloads(b"\n\r\n", 2), Err(LoadError::NoLines { .. })));
    let error = lines(Path::new("/no/such/file"), 1).unwrap_err();
    assert!(error.to_string().contains("/no/such/file"), "{error}");
}

#[test]
fn all_fields_share_one_random_number() {
    let draft = logs(20_000_000, 100, 1).unwrap();
    for range in draft.ranges {
        let log: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&draft.bytes[range]).unwrap();
        assert_eq!(log.len(), 2 + KEYS);
        let first = log["content_key_1"].as_str().unwrap();
        let (_, random) = first.rsplit_once('_').unwrap();
        let random: u64 = random.parse().unwrap();
        assert!(random < 20_000_000);
        assert_eq!(log["__topic__"], format!("topic-{}", random % 5));
        assert_eq!(log["__source__"], format!("source-{}", random % 10));
        for key in 1..=KEYS {
            let value = format!("{key}abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*()_{random}");
            assert_eq!(log[&format!("content_key_{key}")], value);
        }
    }
}

fn rendered(text: &str, count: usize) -> Vec<String> {
    let draft = template(&Template::parse(text).unwrap().parts, count, 1).unwrap();
    draft.ranges.into_iter().map(|range| String::from_utf8(draft.bytes[range].to_vec()).unwrap()).collect()
}

#[test]
fn chance_is_drawn_for_each_payload_within_its_bounds() {
    let payloads = rendered(r#"{"n":${random:-2..3},"f":${random:0.0..100.0},"c":"${choice:red|green}"}"#, 200);
    let mut numbers = std::collections::BTreeSet::new();
    let mut colours = std::collections::BTreeSet::new();
    for payload in &payloads {
        let value: serde_json::Value = serde_json::from_str(payload).unwrap();
        numbers.insert(value["n"].as_i64().unwrap());
        colours.insert(value["c"].as_str().unwrap().to_owned());
        assert!((0.0..100.0).contains(&value["f"].as_f64().unwrap()), "{payload}");
    }
    assert!(numbers.into_iter().eq(-2..3));
    assert!(colours.into_iter().eq(["green", "red"]));
}

#[test]
fn live_fields_hold_counter_and_time_0_until_they_are_rendered() {
    let text = r#"{"a":${counter},"b":"${counter:4}","c":${timestamp},"d":${timestamp_ms},"e":"$$"}"#;
    let expected = r#"{"a":           0,"b":"0000","c":         0.000000,"d":            0,"e":"$"}"#;
    assert_eq!(rendered(text, 2), [expected, expected]);
    assert!(serde_json::from_str::<serde_json::Value>(expected).is_ok());
}

#[test]
fn the_widest_range_is_drawn_from() {
    for payload in rendered("${random:-1.7e308..1.7e308}", 10) {
        assert!(payload.parse::<f64>().unwrap().is_finite());
    }
}
