//! Arbitrary bytes from the network: decoding must neither panic nor read beyond the bytes, and what is
//! decoded must encode to the same bytes again.
#![no_main]

use brokermark::broker::nsq::codec::decode;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    let mut again = Vec::new();
    while let Ok(Some((frame, length))) = decode(rest, 1 << 16) {
        again.clear();
        frame.encode(&mut again);
        assert_eq!(again, rest[..length]);
        rest = &rest[length..];
    }
});
