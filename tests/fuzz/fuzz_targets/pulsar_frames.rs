//! Arbitrary bytes from the network, read as frames, commands and messages: reading must not panic, and must hand over as many messages
//! as it says.
#![no_main]

use brokermark::broker::pulsar::codec::entry;
use brokermark::broker::pulsar::codec::frame::Frame;
use brokermark::broker::pulsar::codec::proto::FromBroker;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    let mut unpacked = Vec::new();
    while let Ok(Some((frame, length))) = Frame::first(rest, 1 << 16) {
        let _ = FromBroker::decode(frame.command);
        let mut handed_over = 0;
        let read = entry::read(frame.rest, 0, false, &mut unpacked, &mut |message| {
            handed_over += 1;
            let _ = (message.details.key(), message.details.headers(), message.details.timestamp_unix_ns());
        });
        assert!(read.is_err() || read == Ok(handed_over));
        rest = &rest[length..];
    }
});
