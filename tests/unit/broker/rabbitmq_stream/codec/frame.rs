use proptest::prelude::*;

use super::*;

fn framed(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32).to_be_bytes(), content].concat()
}

#[test]
fn another_protocol_is_named() {
    for (bytes, words) in [(&b"HTTP/1.1 400"[..], "answers like HTTP"), (&[0x15, 3, 3, 0, 2, 2, 80], "speaks TLS")] {
        let error = decode(bytes, 512 << 20).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn confirms_and_errors_are_read() {
    let mut content = vec![0, 3, 0, 1, 7, 0, 0, 0, 2];
    content.extend(5u64.to_be_bytes());
    content.extend(9u64.to_be_bytes());
    let bytes = framed(&content);
    let (frame, length) = decode(&bytes, 100).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    let Frame::Confirm { publisher: 7, ids } = frame else { panic!("{frame:?}") };
    assert_eq!(ids.iter().collect::<Vec<_>>(), [5, 9]);

    let mut content = vec![0, 4, 0, 1, 7, 0, 0, 0, 1];
    content.extend(5u64.to_be_bytes());
    content.extend([0, 18]);
    let bytes = framed(&content);
    let Some((Frame::PublishError { errors, .. }, _)) = decode(&bytes, 100).unwrap() else { panic!() };
    assert_eq!(errors.iter().collect::<Vec<_>>(), [(5, code::PUBLISHER_DOES_NOT_EXIST)]);
}

#[test]
fn a_count_that_the_bytes_do_not_bear_out_is_refused() {
    let claimed = framed(&[0, 3, 0, 1, 7, 0xff, 0xff, 0xff, 0xff, 0, 0]);
    assert!(decode(&claimed, 100).is_err());
}

#[test]
fn a_frame_that_is_too_large_is_refused_before_it_is_there() {
    assert_eq!(decode(&[0, 0, 1, 0], 255), Err(Malformed::TooLarge { size: 256, most: 255 }));
    assert_eq!(decode(&[0, 0, 1, 0], 256), Ok(None));
}

proptest! {
    #[test]
    fn nothing_panics(key in prop_oneof![0u16..0x20, 0x8000u16..0x8020, any::<u16>()],
                      content in proptest::collection::vec(any::<u8>(), 0..200)) {
        let content = [&key.to_be_bytes()[..], &[0, 1], &content].concat();
        let bytes = framed(&content);
        if let Ok(found) = decode(&bytes, 1 << 20) {
            let (frame, length) = found.unwrap();
            prop_assert_eq!(length, bytes.len());
            match frame {
                Frame::Confirm { ids, .. } => prop_assert_eq!(ids.iter().count() * 8 + 9, content.len()),
                Frame::PublishError { errors, .. } => prop_assert_eq!(errors.iter().count() * 10 + 9, content.len()),
                _ => {}
            }
        }
        for end in 0..bytes.len() {
            prop_assert_eq!(decode(&bytes[..end], 1 << 20), Ok(None));
        }
    }
}

proptest! {
    #[test]
    fn reading_answers_never_panics(rest in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Metadata::read(&rest);
        let _ = read_strings(&rest);
        let _ = read_pairs(&rest);
        let _ = read_numbers(&rest);
        let _ = read_highest_version(&rest, 2);
    }
}
