//! Payloads from a template. Chance is drawn once for each payload of the pool; counter and time stay live.

use std::fmt::Write;

use rand::RngExt;

use crate::load::LoadError;
use crate::load::live::{Field, Slot};
use crate::load::pool::Draft;
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
        Part::RandomInteger { low: start, high: end } => {
            let _ = write!(text, "{}", generator.random_range(*start..*end));
            return;
        }
        Part::RandomFloat { low: start, high: end } => {
            let _ = write!(text, "{}", generator.random_range(*start..*end));
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
