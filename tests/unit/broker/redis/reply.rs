use super::*;

const MOST: usize = 1 << 20;

fn messages(left: usize) -> Head {
    Head::Messages(Messages { left, redelivered: false, behind: false })
}

fn read(bytes: &[u8], expected: Expected) -> (Head, usize) {
    for cut in 0..bytes.len() {
        let partly = head(&bytes[..cut], MOST, expected);
        assert!(partly == Ok(None) || cut >= head(bytes, MOST, expected).unwrap().unwrap().1, "{cut}");
    }
    head(bytes, MOST, expected).unwrap().unwrap()
}

/// Of Redis 7.0.15.
const ENTRY: &[u8] =
    b"*2\r\n$15\r\n1732600000000-3\r\n*4\r\n$7\r\npayload\r\n$5\r\nhello\r\n$6\r\nregion\r\n$2\r\neu\r\n";

#[test]
fn heads_of_replies_tell_how_many_messages_follow() {
    let resp2 = [b"*1\r\n*2\r\n$6\r\norders\r\n*1\r\n", ENTRY].concat();
    assert_eq!(read(&resp2, Expected::Messages), (messages(1), resp2.len() - ENTRY.len()));
    let resp3 = [b"%1\r\n$6\r\norders\r\n*1\r\n", ENTRY].concat();
    assert_eq!(read(&resp3, Expected::Messages), (messages(1), resp3.len() - ENTRY.len()));
    for none in [&b"*-1\r\n"[..], b"_\r\n"] {
        assert_eq!(read(none, Expected::Messages), (Head::Done, none.len()));
    }
    assert_eq!(read(b":3\r\n", Expected::Done), (Head::Done, 4));
    let claimed = b"*3\r\n$3\r\n0-0\r\n*0\r\n*0\r\n";
    let head = Head::Messages(Messages { left: 0, redelivered: true, behind: true });
    assert_eq!(read(claimed, Expected::Claimed), (head, claimed.len() - 4));
    let again = Head::Messages(Messages { left: 1, redelivered: true, behind: false });
    assert_eq!(read(&resp2, Expected::Pending), (again, resp2.len() - ENTRY.len()));
    let (refused, _) = read(b"-NOGROUP No such key 'orders'\r\n", Expected::Messages);
    assert!(matches!(refused, Head::Refused(error) if error.message.starts_with("NOGROUP")));
}

#[test]
fn heads_of_lists_are_those_of_their_commands() {
    let popped = b"*2\r\n$6\r\norders\r\n$5\r\nhello\r\n";
    assert_eq!(read(popped, Expected::Messages), (messages(1), popped.len() - 11));
    let several = b"*2\r\n$6\r\norders\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n";
    assert_eq!(read(several, Expected::Messages), (messages(2), several.len() - 14));
    // The moved message is the whole reply.
    assert_eq!(read(b"$1\r\na\r\n", Expected::Messages), (messages(1), 0));
}

#[test]
fn entry_has_payload_headers_and_a_growing_offset() {
    let (entry, length) = Entry::decode(ENTRY, MOST).unwrap().unwrap();
    assert_eq!(length, ENTRY.len());
    assert_eq!(entry.payload(), b"hello");
    assert_eq!(entry.headers(), [("region".to_owned(), b"eu".to_vec())]);
    assert_eq!(entry.timestamp_unix_ns(), Some(1_732_600_000_000_000_000));
    assert_eq!(offset(entry.id), Some((1_732_600_000_000 << 20) + 3));
    assert!(offset(b"1732600000001-0") > offset(b"1732600000000-1048575"));
    for cut in 0..ENTRY.len() {
        assert_eq!(Entry::decode(&ENTRY[..cut], MOST), Ok(None));
    }
    let foreign = b"*2\r\n$3\r\n1-0\r\n*2\r\n$4\r\nname\r\n$3\r\nBob\r\n";
    assert_eq!(Entry::decode(foreign, MOST).unwrap().unwrap().0.payload(), b"Bob");
    let deleted = b"*2\r\n$3\r\n1-0\r\n*-1\r\n";
    let (gone, length) = Entry::decode(deleted, MOST).unwrap().unwrap();
    assert_eq!((gone.id, gone.is_deleted(), length), (&b"1-0"[..], true, deleted.len()));
    assert!(!entry.is_deleted());
}

#[test]
fn channels_have_messages_and_other_replies() {
    for (bytes, payload) in [
        (&b"*3\r\n$7\r\nmessage\r\n$6\r\norders\r\n$5\r\nhello\r\n"[..], Some(&b"hello"[..])),
        (b">3\r\n$7\r\nmessage\r\n$6\r\norders\r\n$5\r\nhello\r\n", Some(b"hello")),
        (b"*4\r\n$8\r\npmessage\r\n$2\r\no*\r\n$6\r\norders\r\n$5\r\nhello\r\n", Some(b"hello")),
        (b"*3\r\n$9\r\nsubscribe\r\n$6\r\norders\r\n:1\r\n", None),
        (b"*2\r\n$4\r\npong\r\n$0\r\n\r\n", None),
        (b"+PONG\r\n", None),
    ] {
        assert_eq!(published(bytes, MOST), Ok(Some((payload, bytes.len()))));
        for cut in 0..bytes.len() {
            assert_eq!(published(&bytes[..cut], MOST), Ok(None));
        }
    }
}
