//! What responses and messages of members look like, so that the lists which they announce are there before anything makes room.
//!
//! The crate `kafka-protocol` makes room for as many elements as a list announces. Here a message is walked through first.
//! Source: the definitions of messages in Kafka's `clients/src/main/resources/common/message`.

use super::Malformed;
use super::responses::Reader;

/// A message that has lists: its key, its oldest and newest version of that layout, and the layout. A digit stands for a number of so
/// many bytes, `s` for a text, `b` for bytes, and `[…]` for a list. In flexible versions (KIP-482), whose lengths are one more than what they
/// announce and take 7 bits a byte, `S` stands for a text, `{…}` for a list, `(…)` for what may be missing, and `t` for fields that are
/// optional.
type Row = (i16, i16, i16, &'static str);

const RESPONSES: [Row; 43] = [
    // ListOffsets
    (2, 1, 1, "[s[4288]]"),
    (2, 2, 3, "4[s[4288]]"),
    (2, 4, 5, "4[s[42884]]"),
    (2, 6, 10, "4{S{42884t}t}t"),
    // Metadata
    (3, 5, 6, "4[4s4s]s4[2s1[244[4][4][4]]]"),
    (3, 7, 7, "4[4s4s]s4[2s1[2444[4][4][4]]]"),
    (3, 8, 8, "4[4s4s]s4[2s1[2444[4][4][4]]4]4"),
    (3, 9, 9, "4{4S4St}S4{2S1{2444{4}{4}{4}t}4t}4t"),
    (3, 10, 10, "4{4S4St}S4{2S881{2444{4}{4}{4}t}4t}4t"),
    (3, 11, 12, "4{4S4St}S4{2S881{2444{4}{4}{4}t}4t}t"),
    (3, 13, 13, "4{4S4St}S4{2S881{2444{4}{4}{4}t}4t}2t"),
    // OffsetCommit
    (8, 2, 2, "[s[42]]"),
    (8, 3, 7, "4[s[42]]"),
    (8, 8, 9, "4{S{42t}t}t"),
    // OffsetFetch
    (9, 1, 1, "[s[48s2]]"),
    (9, 2, 2, "[s[48s2]]2"),
    (9, 3, 4, "4[s[48s2]]2"),
    (9, 5, 5, "4[s[484s2]]2"),
    (9, 6, 7, "4{S{484S2t}t}2t"),
    (9, 8, 9, "4{S{S{484S2t}t}2t}t"),
    // JoinGroup
    (11, 0, 1, "24sss[sb]"),
    (11, 2, 4, "424sss[sb]"),
    (11, 5, 5, "424sss[ssb]"),
    // SaslHandshake
    (17, 0, 1, "2[s]"),
    // CreateTopics
    (19, 2, 4, "4[s2s]"),
    (19, 5, 6, "4{S2S42{SS111t}t}t"),
    (19, 7, 7, "4{S882S42{SS111t}t}t"),
    // DeleteTopics
    (20, 1, 3, "4[s2]"),
    (20, 4, 4, "4{S2t}t"),
    (20, 5, 5, "4{S2St}t"),
    (20, 6, 6, "4{S882St}t"),
    // OffsetForLeaderEpoch
    (23, 2, 3, "4[s[2448]]"),
    (23, 4, 4, "4{S{2448t}t}t"),
    // AddPartitionsToTxn
    (24, 0, 2, "4[s[42]]"),
    (24, 3, 3, "4{S{42t}t}t"),
    // DescribeConfigs
    (32, 1, 2, "4[2s1s[ss111[ss1]]]"),
    (32, 3, 3, "4[2s1s[ss111[ss1]1s]]"),
    (32, 4, 4, "4{2S1S{SS111{SS1t}1St}t}t"),
    // DeleteGroups
    (42, 0, 1, "4[s2]"),
    // IncrementalAlterConfigs
    (44, 0, 0, "4[2s1s]"),
    (44, 1, 1, "4{2S1St}t"),
    // ConsumerGroupHeartbeat
    (68, 0, 1, "42SS44({88{4}t}t)t"),
    // ShareGroupHeartbeat
    (76, 1, 1, "42SS44({88{4}t}t)t"),
];

/// What a member of a group reads and owns, by versions from 0 on.
pub const SUBSCRIPTIONS: [&str; 4] = ["[s]b", "[s]b[s[4]]", "[s]b[s[4]]4", "[s]b[s[4]]4s"];

/// What it is assigned, in the oldest version.
pub const ASSIGNMENT: &str = "[s[4]]b";

/// The versions of a response with lists that can be walked through; `None`: it has no lists.
pub fn versions(key: i16) -> Option<(i16, i16)> {
    let of_key = || RESPONSES.iter().filter(|row| row.0 == key);
    Some((of_key().map(|row| row.1).min()?, of_key().map(|row| row.2).max()?))
}

/// Checks that all that a response announces is there.
///
/// # Errors
/// When something is missing.
pub fn check(body: &[u8], key: i16, version: i16) -> Result<(), Malformed> {
    let row = RESPONSES.iter().find(|row| row.0 == key && (row.1..=row.2).contains(&version));
    row.map_or(Ok(()), |row| walk(body, row.3))
}

/// Checks that all that a message of this layout announces is there.
///
/// # Errors
/// When something is missing.
pub fn walk(body: &[u8], layout: &str) -> Result<(), Malformed> {
    step(&mut Reader(body), layout.as_bytes())
}

fn step(rest: &mut Reader<'_>, mut layout: &[u8]) -> Result<(), Malformed> {
    while let [what, after @ ..] = layout {
        layout = after;
        match what {
            b'[' | b'{' | b'(' => {
                let (element, after) = list(after);
                let times = match what {
                    b'[' => rest.count()?,
                    b'{' => rest.compact_count()?,
                    // As `kafka-protocol` reads it.
                    _ => usize::from(rest.take(1)? == [1]),
                };
                for _ in 0..times {
                    step(rest, element)?;
                }
                layout = after;
            }
            b'S' => {
                let length = rest.compact_count()?;
                rest.take(length)?;
            }
            b't' => rest.skip_tags()?,
            b's' => _ = rest.text_bytes()?,
            b'b' => {
                let length = rest.count()?;
                rest.take(length)?;
            }
            digit => _ = rest.take(usize::from(digit - b'0'))?,
        }
    }
    Ok(())
}

/// The layout of a list's elements or of what may be missing, and what comes after it.
fn list(layout: &[u8]) -> (&[u8], &[u8]) {
    let mut depth = 1;
    let end = layout.iter().position(|what| {
        match what {
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    let end = end.unwrap_or(layout.len());
    (&layout[..end], layout.get(end + 1..).unwrap_or_default())
}

#[cfg(test)]
#[path = "../../../../tests/unit/broker/kafka_native/codec/layout.rs"]
mod tests;
