//! "Did you mean …?": finds the known word nearest to an unknown one.

/// The word that `written` most probably stands for, if one is near enough to be worth proposing: about one slip in
/// three letters.
pub(super) fn closest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase().replace('-', "_");
    known
        .into_iter()
        // Between single characters everything is near.
        .filter(|word| word.len() > 1)
        .map(|word| (strsim::damerau_levenshtein(&written, &word.to_lowercase().replace('-', "_")), word))
        .filter(|(distance, word)| *distance <= (word.chars().count().max(3)) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// `a`, `b` and `c`, for a sentence.
pub(super) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut words: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.pop() {
        None => "none".to_owned(),
        Some(only) if words.is_empty() => only,
        Some(last) => format!("{} and {last}", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_strangers_are_not() {
        let known = ["count", "placement", "in_flight", "round-robin"];
        assert_eq!(closest("cuont", known), Some("count"));
        assert_eq!(closest("in-flight", known), Some("in_flight"));
        assert_eq!(closest("round_robin", known), Some("round-robin"));
        assert_eq!(closest("potato", known), None);
    }

    #[test]
    fn lists_read_as_prose() {
        assert_eq!(list(["a", "b", "c"]), "`a`, `b` and `c`");
        assert_eq!(list(["a"]), "`a`");
    }
}
