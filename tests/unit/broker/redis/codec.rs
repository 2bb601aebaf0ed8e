use proptest::prelude::*;

use super::*;

const MOST: usize = 1 << 20;

/// Of Redis 7.0.15.
const READ: &[u8] =
    b"*1\r\n*2\r\n$6\r\norders\r\n*1\r\n*2\r\n$15\r\n1732600000000-0\r\n*2\r\n$7\r\npayload\r\n$5\r\nhello\r\n";

#[test]
fn tokens_of_both_versions_are_read() {
    for (bytes, token) in [
        (&b"+OK\r\n"[..], Token::Simple(b"OK")),
        (b"-ERR no\r\n", Token::Error(b"ERR no")),
        (b"!6\r\nERR no\r\n", Token::Error(b"ERR no")),
        (b":-7\r\n", Token::Integer(-7)),
        (b"$0\r\n\r\n", Token::Bulk(b"")),
        (b"$4\r\na\r\nb\r\n", Token::Bulk(b"a\r\nb")),
        (b"=7\r\ntxt:yes\r\n", Token::Bulk(b"yes")),
        (b"$-1\r\n", Token::Null),
        (b"*-1\r\n", Token::Null),
        (b"_\r\n", Token::Null),
        (b"#t\r\n", Token::Simple(b"t")),
        (b"*2\r\n", Token::Array(2)),
        (b">3\r\n", Token::Array(3)),
        (b"%1\r\n", Token::Map(1)),
    ] {
        assert_eq!(decode(bytes, MOST), Ok(Some((token, bytes.len()))));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut], MOST), Ok(None), "{cut} of {token:?}");
        }
    }
}

#[test]
fn values_in_values_are_read_whole() {
    let (value, length) = value(READ, MOST).unwrap().unwrap();
    assert_eq!(length, READ.len());
    let Value::List(streams) = &value else { panic!("{value:?}") };
    let Value::List(stream) = &streams[0] else { panic!("{streams:?}") };
    assert_eq!(stream[0].text(), Some("orders"));
    for cut in 0..READ.len() {
        assert_eq!(super::value(&READ[..cut], MOST), Ok(None));
    }
}

#[test]
fn map_is_asked_by_name_in_both_versions() {
    for bytes in [&b"%2\r\n+lag\r\n:7\r\n+name\r\n+g\r\n"[..], b"*4\r\n$3\r\nlag\r\n:7\r\n$4\r\nname\r\n$1\r\ng\r\n"] {
        let (value, _) = value(bytes, MOST).unwrap().unwrap();
        assert_eq!(value.get("lag").and_then(Value::integer), Some(7));
        assert_eq!(value.get("name").and_then(Value::text), Some("g"));
        assert_eq!(value.get("pending"), None);
    }
}

#[test]
fn other_protocols_and_depths_are_refused() {
    let refused = |bytes: &[u8]| value(bytes, MOST).unwrap_err().0;
    assert!(refused(b"HTTP/1.1 400 Bad Request\r\n").contains("HTTP"));
    assert!(refused(&[0x15, 3, 1, 0, 2, 2, 80]).contains("TLS"));
    assert!(refused(b"SSH-2.0-OpenSSH\r\n").contains("not Redis: SSH-2.0"));
    assert!(refused(b"$99999999\r\n").contains("at most 1048576"));
    assert!(refused(&b"*1\r\n".repeat(50)).contains("too deep"));
}

#[test]
fn command_is_an_array_of_its_arguments() {
    let mut out = Vec::new();
    append_command(&mut out, &[b"AUTH", b"me", b"a\r\nb"]);
    assert_eq!(out, b"*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$4\r\na\r\nb\r\n");
}

proptest! {
    #[test]
    fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes, MOST);
        let _ = value(&bytes, MOST);
    }

    #[test]
    fn any_cut_of_a_reply_is_awaited(text in proptest::collection::vec(any::<u8>(), 0..100), cut in 0usize..100) {
        let mut bytes = Vec::new();
        append_command(&mut bytes, &[&text, b"x"]);
        let cut = cut.min(bytes.len() - 1);
        prop_assert_eq!(value(&bytes[..cut], MOST), Ok(None));
        let all = Value::List(vec![Value::Text(text), Value::Text(b"x".to_vec())]);
        prop_assert_eq!(value(&bytes, MOST), Ok(Some((all, bytes.len()))));
    }
}
