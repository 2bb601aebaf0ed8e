//! The names of log stores, which have stricter rules than those of topics.

use md5::{Digest, Md5};

use super::sign::hex;

/// Letters of a log store's name.
const MAX_NAME_LETTERS: usize = 63;

/// The store of a topic. Names that brokermark chose begin with the run's id and are changed to fit the service's rules. A
/// name that the scenario gives is never changed.
pub fn store_name(topic: &str, run_id: &str) -> String {
    if !topic.starts_with(run_id) || is_store_name(topic) {
        return topic.to_owned();
    }
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let name: String = topic.chars().map(plain).collect();
    if name.len() <= MAX_NAME_LETTERS && is_store_name(&name) {
        return name;
    }
    // The end of the name distinguishes topics of one run.
    let digest = hex(&Md5::digest(topic)[..8]);
    let kept: String = name.chars().filter(char::is_ascii).take(MAX_NAME_LETTERS - digest.len() - 3).collect();
    format!("b-{}-{digest}", kept.trim_matches('-'))
}

/// Whether the service accepts the name.
pub fn is_store_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (2..=MAX_NAME_LETTERS).contains(&name.len())
        && name.bytes().all(|byte| plain(byte) || byte == b'-' || byte == b'_')
        && name.bytes().next().is_some_and(plain)
        && name.bytes().last().is_some_and(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_run_are_made_to_fit_and_given_ones_are_not() {
        let run = "Seeds.sls_io-20261121T063926Z";
        let (first, second) = (store_name(&format!("{run}-0"), run), store_name(&format!("{run}-1"), run));
        assert_eq!(first, "seeds-sls-io-20261121t063926z-0");
        assert!(is_store_name(&first) && is_store_name(&second) && first != second);
        let long = "x".repeat(100);
        let names = [store_name(&format!("{long}-0"), &long), store_name(&format!("{long}-1"), &long)];
        assert!(names.iter().all(|name| is_store_name(name)) && names[0] != names[1], "{names:?}");
        assert_eq!(store_name("Mine", run), "Mine");
        let accepted =
            ["orders0", "Orders1", "o", &format!("{run}-0")].map(|topic| is_store_name(&store_name(topic, run)));
        assert_eq!(accepted, [true, false, false, true]);
    }
}
