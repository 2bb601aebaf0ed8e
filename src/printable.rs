//! Text of others on a terminal: brokers, records and files may hold characters that a terminal obeys.
//!
//! An escape sequence may set a window's title, hide lines or write to the clipboard; an override of the direction of text shows it in
//! another order than it is. Such characters become `�`. This module imports nothing.

use std::borrow::Cow;

/// The colours that [`Page`](crate::cli) paints with, and their end: bold, faint, red, green, yellow.
const PAINT: [&str; 6] = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"];

/// `text` without characters that a terminal obeys: C0 but line feed and tab, DEL, C1, and the embeddings, overrides and isolates of
/// Unicode's bidirectional algorithm (UAX #9).
pub fn printable(text: &str) -> Cow<'_, str> {
    match text.contains(is_obeyed) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(text.replace(is_obeyed, "\u{fffd}")),
    }
}

/// As [`printable`], for text that brokermark has painted.
pub fn printable_paint(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(place) = rest.find('\u{1b}') {
        cleaned.push_str(&printable(&rest[..place]));
        rest = &rest[place..];
        let paint = PAINT.into_iter().find(|paint| rest.starts_with(paint));
        cleaned.push_str(paint.unwrap_or("\u{fffd}"));
        rest = &rest[paint.map_or(1, str::len)..];
    }
    cleaned.push_str(&printable(rest));
    Cow::Owned(cleaned)
}

fn is_obeyed(character: char) -> bool {
    (character.is_control() && !matches!(character, '\n' | '\t'))
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_characters_that_a_terminal_obeys_are_replaced() {
        let obeyed = (0..=0x10_ffff).filter_map(char::from_u32).filter(|one| is_obeyed(*one)).collect::<String>();
        let expected = (0..0x20).filter(|code| ![9, 10].contains(code)).chain(0x7f..=0x9f);
        let expected = expected.chain(0x202a..=0x202e).chain(0x2066..=0x2069).filter_map(char::from_u32);
        assert_eq!(obeyed, expected.collect::<String>());
        assert_eq!(printable("Grüße,\n\t日本 ✓ ⣿"), "Grüße,\n\t日本 ✓ ⣿");
        assert_eq!(printable("\u{1b}]0;pwned\u{7}"), "\u{fffd}]0;pwned\u{fffd}");
    }

    #[test]
    fn paint_stays_and_other_sequences_do_not() {
        assert_eq!(printable_paint("\u{1b}[1m\u{1b}[32mok\u{1b}[0m"), "\u{1b}[1m\u{1b}[32mok\u{1b}[0m");
        let hidden = "\u{1b}[1ma\u{1b}[8mb\u{9b}31m\u{1b}";
        assert_eq!(printable_paint(hidden), "\u{1b}[1ma\u{fffd}[8mb\u{fffd}31m\u{fffd}");
    }
}
