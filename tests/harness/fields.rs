//! An assertion that tells which fields of a struct differ.

/// Asserts what single fields of a struct are: `assert_fields!(record.counts, { attempted: 10, failed: 0 })`.
macro_rules! assert_fields {
    ($value:expr, { $($field:ident: $expected:expr),+ $(,)? } $(, $($message:tt)+)?) => {{
        let value = &$value;
        let mut different: Vec<String> = Vec::new();
        $(
            let expected = $expected;
            if value.$field != expected {
                different.push(format!("{} is {:?}, not {expected:?}", stringify!($field), value.$field));
            }
        )+
        $(different.extend((!different.is_empty()).then(|| format!($($message)+)));)?
        assert!(different.is_empty(), "{}", different.join("; "));
    }};
}
