//! Names that nsqd takes: 1 to 64 of `.a-zA-Z0-9_-`.

/// nsqd's limit for topics and channels (`internal/protocol/names.go`).
const MAX: usize = 64;

/// The end of the names of topics and channels that nsqd does not store (`internal/protocol/names.go`).
pub const EPHEMERAL: &str = "#ephemeral";

/// Hexadecimal digits of a name's hash.
const HASH_DIGITS: usize = 16;

/// `name` if it is short enough, else its beginning and a hash of all of it: the same for the same name, everywhere.
pub fn shorten(name: &str) -> String {
    shorten_to(name, MAX)
}

fn shorten_to(name: &str, most: usize) -> String {
    if name.len() <= most {
        return name.to_owned();
    }
    let mut cut = most - HASH_DIGITS - 1;
    while !name.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}-{:016x}", &name[..cut], fnv1a(name.as_bytes()))
}

/// FNV-1a of 64 bits, <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The topic of that name which nsqd does not store.
pub fn ephemeral(name: &str) -> String {
    match name.strip_suffix(EPHEMERAL) {
        Some(_) => name.to_owned(),
        None => format!("{}{EPHEMERAL}", shorten_to(name, MAX - EPHEMERAL.len())),
    }
}

/// The channel of group `number`.
pub fn channel(wanted: Option<&str>, group: &str, number: usize) -> String {
    match (wanted, number) {
        (None, _) => shorten(group),
        (Some(name), 0) => name.to_owned(),
        // nsqd knows an ephemeral channel by the end of its name.
        (Some(name), number) => match name.strip_suffix(EPHEMERAL) {
            Some(name) => format!("{name}{number}{EPHEMERAL}"),
            None => format!("{name}{number}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_stay_and_long_ones_stay_apart() {
        assert_eq!(shorten("orders"), "orders");
        let long = format!("{}-{}", "brokermark".repeat(8), 0);
        let other = format!("{}-{}", "brokermark".repeat(8), 1);
        assert_eq!((shorten(&long).len(), shorten(&long) == shorten(&other)), (64, false));
        assert_eq!(shorten(&long), shorten(&long));
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8, "the published test vector");
    }

    #[test]
    fn the_first_group_has_the_channel_as_named() {
        assert_eq!(channel(Some("ch"), "run-0", 0), "ch");
        assert_eq!(channel(Some("ch"), "run-2", 2), "ch2");
        assert_eq!(channel(None, "run-2", 2), "run-2");
        assert_eq!(channel(Some("ch#ephemeral"), "run-0", 0), "ch#ephemeral");
        assert_eq!(channel(Some("ch#ephemeral"), "run-1", 1), "ch1#ephemeral");
        assert_eq!(ephemeral("orders"), "orders#ephemeral");
        assert_eq!(ephemeral("orders#ephemeral"), "orders#ephemeral");
        assert_eq!(ephemeral(&"x".repeat(64)).len(), 64);
    }
}
