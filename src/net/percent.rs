//! Percent-encoding of values in addresses and forms.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// What is encoded: all but the unreserved characters of RFC 3986, section 2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A value as it stands in an address or a form: everything but unreserved characters as `%` and two digits.
pub fn percent_encoded(value: &str) -> PercentEncode<'_> {
    utf8_percent_encode(value, RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoded_keeps_unreserved_characters() {
        assert_eq!(percent_encoded("a-Z.9_~").to_string(), "a-Z.9_~");
        assert_eq!(percent_encoded("https://x/?ü=").to_string(), "https%3A%2F%2Fx%2F%3F%C3%BC%3D");
        assert_eq!(percent_encoded("orders-1.a_b#ephemeral").to_string(), "orders-1.a_b%23ephemeral");
    }
}
