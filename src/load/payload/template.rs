//! Payloads from a template. Chance is drawn once for each payload of the pool; counter and time stay live.

use std::fmt::Write;

use rand::RngExt;

use crate::load::LoadError;
use crate::load::draft::Draft;
use crate::load::live::{Field, Slot};
use crate::load::random::{Generator, Purpose, generator};
use crate::scenario::template::Part;

pub(super) fn template(parts: &[Part], count: usize, seed: u64) -> Result<Draft, LoadError> {
    let mut generator = generator(seed, Purpose::Content, 0);
    let mut draft = Draft::default();
    let mut text = String::new();
    for _ in 0..count {
        text.clear();
        let first = draft.slots.len();
        for part in parts {
            write_part(part, &mut text, &mut draft.slots, &mut generator);
        }
        let slots = &draft.slots[first..];
        let start = draft.bytes.len();
        draft.bytes.extend_from_slice(text.as_bytes());
        for Slot { offset, field } in slots {
            let offset = start + offset;
            field.write(&mut draft.bytes[offset..offset + field.columns()], 0, 0);
        }
        draft.finish(start)?;
    }
    Ok(draft)
}

fn write_part(part: &Part, text: &mut String, slots: &mut Vec<Slot>, generator: &mut Generator) {
    let field = match part {
        Part::Literal(literal) => return text.push_str(literal),
        Part::Choice(choices) => return text.push_str(&choices[generator.random_range(0..choices.len())]),
        // Writing to a string cannot fail.
        Part::RandomInteger { low, high } => {
            let _ = write!(text, "{}", generator.random_range(*low..*high));
            return;
        }
        Part::RandomFloat { low, high } => {
            // Weighted ends rather than `low + share * (high - low)`, for a difference may be too large for an `f64`.
            let share: f64 = generator.random();
            let number = (low * (1.0 - share) + high * share).clamp(*low, high.next_down());
            let _ = write!(text, "{number}");
            return;
        }
        Part::Counter { width: 0 } => Field::Counter,
        Part::Counter { width } => Field::PaddedCounter(*width),
        Part::Timestamp => Field::Timestamp,
        Part::TimestampMilliseconds => Field::TimestampMs,
    };
    slots.push(Slot { offset: text.len(), field });
    text.extend(std::iter::repeat_n(' ', field.columns()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::template::Template;

    fn payloads(text: &str, count: usize) -> Vec<String> {
        let draft = template(&Template::parse(text).unwrap().parts, count, 1).unwrap();
        draft.ranges.into_iter().map(|range| String::from_utf8(draft.bytes[range].to_vec()).unwrap()).collect()
    }

    #[test]
    fn chance_is_drawn_for_each_payload_within_its_bounds() {
        let payloads = payloads(r#"{"n":${random:-2..3},"f":${random:0.0..100.0},"c":"${choice:red|green}"}"#, 200);
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
        assert_eq!(payloads(text, 2), [expected, expected]);
        assert!(serde_json::from_str::<serde_json::Value>(expected).is_ok());
    }

    #[test]
    fn the_widest_range_is_drawn_from() {
        for payload in payloads("${random:-1.7e308..1.7e308}", 10) {
            assert!(payload.parse::<f64>().unwrap().is_finite());
        }
    }
}
