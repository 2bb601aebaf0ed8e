use super::*;
use crate::scenario::template::Template;

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
