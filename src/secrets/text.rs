//! Secrets within a text that is not parsed: a scenario with a syntax error, a comment, a URL, an error message.

use std::ops::Range;

use super::{MASK, is_secret_name, mask_override};

/// A text's lines without their secrets.
pub struct MaskedText {
    pub lines: Vec<MaskedLine>,
}

/// A line without its secrets.
#[derive(Debug, Default)]
pub struct MaskedLine {
    pub text: String,
    /// Bytes of the original line that are hidden, in order.
    hidden: Vec<Range<usize>>,
}

impl MaskedText {
    pub fn new(text: &str) -> Self {
        let mut open = None;
        MaskedText { lines: text.lines().map(|line| MaskedLine::new(line, &mut open)).collect() }
    }
}

/// The text without its secrets.
pub fn mask_text(text: &str) -> String {
    MaskedText::new(text).lines.into_iter().map(|line| line.text).collect::<Vec<_>>().join("\n")
}

/// A URL without its user and without secrets of its query; `None`: the text does not begin with a scheme.
///
/// A password may hold any character: the last `@` divides it from the host. Where the host was left out, what stands for a port is not a
/// number, and nothing of the URL but its scheme is shown.
pub fn mask_url(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://").filter(|(scheme, _)| is_scheme(scheme))?;
    if !rest.contains('@') && lacks_host(rest) {
        return Some(format!("{scheme}://{MASK}"));
    }
    let (user, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("***@", rest));
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let query = query.map(|query| query.split('&').map(mask_override).collect::<Vec<_>>().join("&"));
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    Some(format!("{scheme}://{user}{rest}{query}"))
}

/// Whether what follows `://` may begin with a user and a password alone: one of its addresses has a port that is not a number.
fn lacks_host(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let has_other_port = |address: &str| {
        // The colons within brackets are of an IPv6 address.
        let behind = if address.starts_with('[') { address.rsplit(']').next().unwrap_or("") } else { address };
        behind.rsplit_once(':').is_some_and(|(_, port)| !port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    authority.split(',').map(str::trim).any(has_other_port)
}

/// Whether this may stand before `://`. An underscore is not allowed there, but in names that Kafka gives its listeners.
fn is_scheme(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_of_scheme)
}

fn is_of_scheme(character: char) -> bool {
    character.is_ascii_alphanumeric() || "+-._".contains(character)
}

/// The value of a key that is not secret, without secrets in URLs, in credentials and in `name=value` within it.
pub(super) fn mask_value(text: &str) -> String {
    if let Some(shown) = mask_url(text) {
        return shown;
    }
    let mut hidden = credentials(text);
    hidden.extend(user_of_address(text));
    assignments(text, 0, &['='], &[',', '}', '&', ';', ' ', '"', '\''], &mut hidden);
    MaskedLine::with(text, hidden).text
}

/// White space and comments between the values of a scenario, with the secrets of the comments masked.
pub(super) fn mask_comments(text: &str) -> String {
    let masked = text.split('\n').map(|line| MaskedLine::new(line, &mut None).text);
    masked.collect::<Vec<_>>().join("\n")
}

impl MaskedLine {
    /// `open` is the delimiter of a secret that began on an earlier line and has not ended yet.
    fn new(line: &str, open: &mut Option<&'static str>) -> Self {
        let mut hidden = credentials(line);
        hidden.extend(user_of_urls(line));
        // Of a line that is not right, the value may go on behind a quote.
        let value = line.split_once('=').map_or("", |(_, value)| value.trim_start_matches([' ', '"', '\'', '[']));
        hidden.extend(user_of_address(value).map(|user| {
            let begin = line.len() - value.len();
            begin..begin + user.end
        }));
        hidden.extend(strings(line).into_iter().filter_map(|string| {
            let user = user_of_address(&line[string.clone()])?;
            Some(string.start..string.start + user.end)
        }));
        let mut start = 0;
        if let Some(delimiter) = *open {
            let end = line.find(delimiter).unwrap_or(line.len());
            hidden.push(0..end);
            if end == line.len() {
                return MaskedLine::with(line, hidden);
            }
            *open = None;
            start = end + delimiter.len();
        }
        // Where a value ends that has no quotes is not known.
        *open = assignments(line, start, &['=', ':'], &[], &mut hidden);
        hidden.extend(comment(line));
        MaskedLine::with(line, hidden)
    }

    fn with(line: &str, mut hidden: Vec<Range<usize>>) -> Self {
        hidden.retain(|range| !range.is_empty());
        hidden.sort_unstable_by_key(|range| range.start);
        hidden.dedup_by(|next, range| {
            let overlaps = next.start <= range.end;
            range.end = if overlaps { range.end.max(next.end) } else { range.end };
            overlaps
        });
        let mut text = String::with_capacity(line.len());
        let mut shown = 0;
        for range in &hidden {
            text.push_str(&line[shown..range.start]);
            text.push_str(MASK);
            shown = range.end;
        }
        text.push_str(&line[shown..]);
        MaskedLine { text, hidden }
    }

    /// The offset in the masked line of byte `offset` of the original.
    pub fn shown_at(&self, offset: usize) -> usize {
        let mut shown = offset;
        for range in &self.hidden {
            if offset >= range.end {
                shown = shown + MASK.len() - range.len();
            } else if offset > range.start {
                shown -= offset - range.start;
            }
        }
        shown.min(self.text.len())
    }
}

/// Finds `name = value` with a secret name from `position` on. A value without quotes ends at one of `ends`. Returns the
/// delimiter of a secret that does not end on this line.
fn assignments(
    line: &str,
    mut position: usize,
    separators: &[char],
    ends: &[char],
    hidden: &mut Vec<Range<usize>>,
) -> Option<&'static str> {
    let mut open = None;
    while let Some(separator) = line[position..].find(separators).map(|offset| position + offset) {
        position = separator + 1;
        if is_secret_name(key_before(&line[..separator])) {
            let (secret, still_open) = secret_after(line, position, ends);
            position = secret.end.max(position);
            open = still_open;
            hidden.push(secret);
        }
    }
    open
}

/// Finds the user information of URLs and addresses, and what follows `Bearer` or `Basic` at the beginning of a value.
fn credentials(line: &str) -> Vec<Range<usize>> {
    let mut hidden = Vec::new();
    let is_boundary = |character: char| character.is_whitespace() || "\"'".contains(character);
    for (at, _) in line.match_indices('@') {
        let before = &line[..at];
        let of_url = before.rfind("://").map(|scheme| scheme + 3);
        let of_url = of_url.filter(|start| !before[*start..].contains(|next| is_boundary(next) || next == '/'));
        let ends_word = |next| is_boundary(next) || "=,[{(<".contains(next);
        let word = before.rmatch_indices(ends_word).next().map_or(0, |(end, found)| end + found.len());
        let is_address = before[word..].contains(':') && !before[word..].contains("://");
        let of_address = is_address.then_some(word);
        hidden.extend(of_url.or(of_address).map(|start| start..at));
    }
    let lower = line.to_ascii_lowercase();
    for scheme in ["bearer ", "basic "] {
        for (at, _) in lower.match_indices(scheme) {
            let before = line[..at].trim_end_matches([' ', '"', '\'']);
            let start = at + scheme.len();
            if before.is_empty() || before.ends_with(['=', ':', ',', '[']) {
                let end = line[start..].find(['"', '\'']).map_or(line.len(), |end| start + end);
                // `basic` may begin a sentence; credentials are one word.
                let is_sentence = scheme == "basic " && line[start..end].contains(' ');
                hidden.push(if is_sentence { start..start } else { start..end });
            }
        }
    }
    hidden
}

/// Finds the user information of all URLs of a line that is not parsed. A password may hold any character, also those that end a URL or a
/// string: what is between the first scheme and the last `@` is hidden.
fn user_of_urls(line: &str) -> Option<Range<usize>> {
    let is_url = |begin: &usize| line[..*begin].chars().next_back().is_some_and(is_of_scheme);
    let scheme = line.match_indices("://").map(|(begin, _)| begin).find(is_url)?;
    let (begin, end) = (scheme + 3, line.rfind('@')?);
    (begin < end).then_some(begin..end)
}

/// Finds `user:password` at the begin of an address. The last `@` divides it from the host.
fn user_of_address(text: &str) -> Option<Range<usize>> {
    let (user, rest) = text.split_once(':')?;
    let end = text.rfind('@').filter(|at| *at > user.len())?;
    let is_user = !user.is_empty() && user.chars().all(|character| is_of_scheme(character) || "@$".contains(character));
    (is_user && !rest.starts_with(|next: char| next.is_whitespace() || next == '/')).then_some(0..end)
}

/// The contents of the quoted strings of a line. One that does not end goes on to the line's end.
fn strings(line: &str) -> Vec<Range<usize>> {
    let mut strings = Vec::new();
    let mut open: Option<(usize, char)> = None;
    let mut escaped = false;
    for (position, character) in line.char_indices() {
        match open {
            None if "\"'".contains(character) => open = Some((position + 1, character)),
            Some((begin, quote)) if quote == character && !escaped => {
                strings.push(begin..position);
                open = None;
            }
            _ => {}
        }
        escaped = character == '\\' && !escaped && open.is_some_and(|(_, quote)| quote == '"');
    }
    strings.extend(open.map(|(begin, _)| begin..line.len()));
    strings
}

/// Finds the rest of a comment behind a colon, where a word before the colon is a secret's name: `the password was: …`.
fn comment(line: &str) -> Option<Range<usize>> {
    let begin = comment_begin(line)?;
    let is_key = |character: char| character.is_alphanumeric() || "_-.".contains(character);
    line[begin..].match_indices(':').map(|(offset, _)| begin + offset).find_map(|colon| {
        let value = line[colon + 1..].trim_start();
        let names_secret = line[begin..colon].split(|next| !is_key(next)).any(is_secret_name);
        let is_secret = names_secret && !value.is_empty() && !value.starts_with(['/', '{']);
        is_secret.then(|| line.len() - value.len()..line.len())
    })
}

fn comment_begin(line: &str) -> Option<usize> {
    let mut quote = None;
    for (position, character) in line.char_indices() {
        match (quote, character) {
            (None, '#') => return Some(position),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    None
}

/// The key, quotes and dots included, that ends where `text` does.
fn key_before(text: &str) -> &str {
    let text = text.trim_end();
    let is_key = |c: char| c.is_alphanumeric() || "_-.\"'".contains(c);
    let start = text.char_indices().rev().take_while(|(_, c)| is_key(*c)).last().map_or(text.len(), |(at, _)| at);
    text[start..].trim_matches(['"', '\''])
}

/// The secret that follows a separator, without its quotes, and the delimiter that it still lacks at the line's end.
fn secret_after(line: &str, position: usize, ends: &[char]) -> (Range<usize>, Option<&'static str>) {
    let value = line[position..].trim_start();
    let start = line.len() - value.len();
    for (delimiter, spans_lines) in [("\"\"\"", true), ("'''", true), ("\"", false), ("'", false), ("[", true)] {
        if let Some(content) = value.strip_prefix(delimiter) {
            let start = start + delimiter.len();
            let closing = if delimiter == "[" { "]" } else { delimiter };
            return match find_closing(content, closing) {
                Some(length) => (start..start + length, None),
                None => (start..line.len(), spans_lines.then_some(closing)),
            };
        }
    }
    if value.starts_with('{') {
        return (start..start, None);
    }
    let length = value.find(ends).unwrap_or(value.len());
    (start..start + length, None)
}

/// Whether a value may have ended before `rest`: where it has not, the quote is a part of it, in a line that is not right.
fn ends_value(rest: &str) -> bool {
    rest.trim_start().chars().next().is_none_or(|next| ",}]#;&\\\"'".contains(next))
}

fn find_closing(content: &str, closing: &str) -> Option<usize> {
    let mut escaped = false;
    for (position, character) in content.char_indices() {
        if !escaped && content[position..].starts_with(closing) && ends_value(&content[position + closing.len()..]) {
            return Some(position);
        }
        escaped = character == '\\' && !escaped && closing.starts_with('"');
    }
    None
}

#[cfg(test)]
#[path = "../../tests/unit/secrets/text.rs"]
mod tests;
