//! Whatever somebody may have written to a stream: reading it as a value and as a message must neither panic nor take more
//! memory than the bytes can fill, and what is a value is the same value again when it has been written.
#![no_main]

use brokermark::broker::rabbitmq_stream::amqp::{Message, Sections, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for section in Sections::new(bytes).flatten() {
        let _ = section.find("brokermark");
        let _ = section.decode();
    }
    let mut again = Vec::new();
    if let Ok(message) = Message::decode(bytes)
        && message.encode(&mut again).is_ok()
    {
        // By their text: a number that is none is not equal to itself.
        assert_eq!(format!("{:?}", Message::decode(&again)), format!("{:?}", Ok::<_, ()>(&message)));
    }
    again.clear();
    if let Ok(value) = decode(bytes)
        && encode(&value, &mut again).is_ok()
    {
        assert_eq!(format!("{:?}", decode(&again)), format!("{:?}", Ok::<_, ()>(&value)));
    }
});
