//! The log lines of the Aliyun log service's producer benchmark, as one JSON object each for brokers without fields.

use std::fmt::Write;

use rand::RngExt;

use crate::load::LoadError;
use crate::load::draft::Draft;
use crate::load::random::{Purpose, generator};

const KEYS: usize = 8;
const BODY: &str = "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*()";

/// Topic, source and all eight values come from one random number below `range`: independent ones would change how far
/// a log compresses.
pub(super) fn logs(range: u64, count: usize, seed: u64) -> Result<Draft, LoadError> {
    let mut generator = generator(seed, Purpose::Content, 0);
    let mut draft = Draft::default();
    let mut text = String::new();
    for _ in 0..count {
        text.clear();
        write_log(&mut text, generator.random_range(0..range.max(1)));
        draft.push(|bytes| bytes.extend_from_slice(text.as_bytes()))?;
    }
    Ok(draft)
}

fn write_log(text: &mut String, random: u64) {
    // Writing to a string cannot fail, so neither can this; and no character of the body needs escaping in JSON.
    let _ = write!(text, r#"{{"__topic__":"topic-{}","__source__":"source-{}""#, random % 5, random % 10);
    for key in 1..=KEYS {
        let _ = write!(text, r#","content_key_{key}":"{key}{BODY}_{random}""#);
    }
    text.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
