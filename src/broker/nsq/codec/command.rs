//! Commands as a client sends them, appended to a buffer that is written in bulk.

use super::ID_BYTES;

/// Identifies the client and asks for features; `json` is nsqd's `identifyDataV2`.
pub fn identify(into: &mut Vec<u8>, json: &[u8]) {
    into.extend_from_slice(b"IDENTIFY\n");
    body(into, json);
}

/// Authenticates the client, where nsqd uses an authorisation server.
pub fn auth(into: &mut Vec<u8>, secret: &[u8]) {
    into.extend_from_slice(b"AUTH\n");
    body(into, secret);
}

/// Publishes one message.
#[inline]
pub fn publish(into: &mut Vec<u8>, topic: &str, message: &[u8]) {
    line(into, &[b"PUB", topic.as_bytes()]);
    body(into, message);
}

/// Publishes one message that is delivered only after a time.
pub fn publish_deferred(into: &mut Vec<u8>, topic: &str, defer_ms: u64, message: &[u8]) {
    line(into, &[b"DPUB", topic.as_bytes(), defer_ms.to_string().as_bytes()]);
    body(into, message);
}

/// Publishes several messages as one: nsqd takes all of them or none.
#[inline]
pub fn publish_many<'a>(into: &mut Vec<u8>, topic: &str, messages: impl ExactSizeIterator<Item = &'a [u8]> + Clone) {
    line(into, &[b"MPUB", topic.as_bytes()]);
    let bytes: usize = 4 + messages.clone().map(|message| 4 + message.len()).sum::<usize>();
    into.reserve(4 + bytes);
    into.extend_from_slice(&(bytes as u32).to_be_bytes());
    into.extend_from_slice(&(messages.len() as u32).to_be_bytes());
    for message in messages {
        body(into, message);
    }
}

/// Subscribes the connection to a channel, which is made if it does not exist.
pub fn subscribe(into: &mut Vec<u8>, topic: &str, channel: &str) {
    line(into, &[b"SUB", topic.as_bytes(), channel.as_bytes()]);
}

/// Sets how many messages nsqd may have in flight to this connection.
pub fn ready(into: &mut Vec<u8>, count: u64) {
    line(into, &[b"RDY", count.to_string().as_bytes()]);
}

/// A message is done with.
#[inline]
pub fn finish(into: &mut Vec<u8>, id: &[u8; ID_BYTES]) {
    // The hot one: a single copy of a fixed size.
    let mut command = *b"FIN 0123456789abcdef\n";
    command[4..4 + ID_BYTES].copy_from_slice(id);
    into.extend_from_slice(&command);
}

/// A message is to be delivered again, after a time.
pub fn requeue(into: &mut Vec<u8>, id: &[u8; ID_BYTES], defer_ms: u64) {
    line(into, &[b"REQ", id, defer_ms.to_string().as_bytes()]);
}

/// A message's time limit begins again.
pub fn touch(into: &mut Vec<u8>, id: &[u8; ID_BYTES]) {
    line(into, &[b"TOUCH", id]);
}

/// Does nothing: the response to a heartbeat.
pub fn nothing(into: &mut Vec<u8>) {
    into.extend_from_slice(b"NOP\n");
}

/// No more messages are wanted; those in flight may still be finished.
pub fn close(into: &mut Vec<u8>) {
    into.extend_from_slice(b"CLS\n");
}

#[inline]
fn line(into: &mut Vec<u8>, words: &[&[u8]]) {
    for (position, word) in words.iter().enumerate() {
        if position > 0 {
            into.push(b' ');
        }
        into.extend_from_slice(word);
    }
    into.push(b'\n');
}

#[inline]
fn body(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    into.extend_from_slice(bytes);
}
