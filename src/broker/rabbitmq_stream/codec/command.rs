//! Commands a client writes, appended to bytes on their way out.

use super::{FILTERED, VERSION, key};

/// Where a subscription begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offset {
    First,
    /// The last chunk there is.
    Last,
    Next,
    Absolute(u64),
    /// Milliseconds since 1970.
    Timestamp(i64),
}

/// A request: its key, and what follows the correlation id.
pub struct Request {
    pub key: u16,
    content: Vec<u8>,
}

impl Request {
    fn new(key: u16, write: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut content = Vec::new();
        write(&mut content);
        Request { key, content }
    }

    pub fn write(&self, out: &mut Vec<u8>, correlation: u32) {
        frame(out, self.key, |out| {
            out.extend_from_slice(&correlation.to_be_bytes());
            out.extend_from_slice(&self.content);
        });
    }

    pub fn peer_properties(properties: &[(&str, &str)]) -> Self {
        Request::new(key::PEER_PROPERTIES, |out| pairs(out, properties.iter().copied()))
    }

    pub fn sasl_handshake() -> Self {
        Request::new(key::SASL_HANDSHAKE, |_| {})
    }

    /// The certificate of the TLS connection has the name: there is no other authorisation identity (RFC 4422, appendix A).
    pub fn sasl_external() -> Self {
        Request::new(key::SASL_AUTHENTICATE, |out| {
            string(out, "EXTERNAL");
            out.extend_from_slice(&0u32.to_be_bytes());
        })
    }

    pub fn sasl_plain(username: &str, password: &str) -> Self {
        Request::new(key::SASL_AUTHENTICATE, |out| {
            string(out, "PLAIN");
            // RFC 4616: no authorisation identity, a zero before the name and before the password.
            let length = 2 + username.len() + password.len();
            out.extend_from_slice(&(length as u32).to_be_bytes());
            out.push(0);
            out.extend_from_slice(username.as_bytes());
            out.push(0);
            out.extend_from_slice(password.as_bytes());
        })
    }

    pub fn open(virtual_host: &str) -> Self {
        Request::new(key::OPEN, |out| string(out, virtual_host))
    }

    pub fn close(reason: &str) -> Self {
        Request::new(key::CLOSE, |out| {
            out.extend_from_slice(&super::code::OK.to_be_bytes());
            string(out, reason);
        })
    }

    pub fn declare_publisher(publisher: u8, reference: &str, stream: &str) -> Self {
        Request::new(key::DECLARE_PUBLISHER, |out| {
            out.push(publisher);
            string(out, reference);
            string(out, stream);
        })
    }

    pub fn query_publisher_sequence(reference: &str, stream: &str) -> Self {
        Request::new(key::QUERY_PUBLISHER_SEQUENCE, |out| {
            string(out, reference);
            string(out, stream);
        })
    }

    pub fn subscribe(
        subscription: u8,
        stream: &str,
        from: Offset,
        credit: u16,
        properties: &[(String, String)],
    ) -> Self {
        Request::new(key::SUBSCRIBE, |out| {
            out.push(subscription);
            string(out, stream);
            offset(out, from);
            out.extend_from_slice(&credit.to_be_bytes());
            pairs(out, properties.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        })
    }

    /// The offset that is stored for a group. The response's code is [`super::code::NO_OFFSET`] where no offset is stored.
    pub fn query_offset(group: &str, stream: &str) -> Self {
        Request::new(key::QUERY_OFFSET, |out| {
            string(out, group);
            string(out, stream);
        })
    }

    pub fn unsubscribe(subscription: u8) -> Self {
        Request::new(key::UNSUBSCRIBE, |out| out.push(subscription))
    }

    /// Names the versions of `Publish` that this client writes, and asks for those of the server.
    pub fn exchange_command_versions() -> Self {
        Request::new(key::EXCHANGE_COMMAND_VERSIONS, |out| {
            out.extend_from_slice(&1u32.to_be_bytes());
            [key::PUBLISH, VERSION, FILTERED].iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
        })
    }

    pub fn stream_stats(stream: &str) -> Self {
        Request::new(key::STREAM_STATS, |out| string(out, stream))
    }

    pub fn create(stream: &str, arguments: &[(&'static str, String)]) -> Self {
        Request::new(key::CREATE, |out| {
            string(out, stream);
            pairs(out, arguments.iter().map(|(key, value)| (*key, value.as_str())));
        })
    }

    pub fn delete(stream: &str) -> Self {
        Request::new(key::DELETE, |out| string(out, stream))
    }

    /// `partitions` are streams with the routing key each is bound by.
    pub fn create_super_stream(
        name: &str,
        partitions: &[(String, String)],
        arguments: &[(&'static str, String)],
    ) -> Self {
        Request::new(key::CREATE_SUPER_STREAM, |out| {
            string(out, name);
            strings(out, partitions.iter().map(|(partition, _)| partition.as_str()));
            strings(out, partitions.iter().map(|(_, routing_key)| routing_key.as_str()));
            pairs(out, arguments.iter().map(|(key, value)| (*key, value.as_str())));
        })
    }

    pub fn delete_super_stream(name: &str) -> Self {
        Request::new(key::DELETE_SUPER_STREAM, |out| string(out, name))
    }

    pub fn partitions(super_stream: &str) -> Self {
        Request::new(key::PARTITIONS, |out| string(out, super_stream))
    }

    pub fn metadata(streams: &[&str]) -> Self {
        Request::new(key::METADATA, |out| strings(out, streams.iter().copied()))
    }
}

/// Responds to the server's `Tune`, itself a request without a correlation and without a response.
pub fn tune(out: &mut Vec<u8>, frame_max: u32, heartbeat: u32) {
    frame(out, key::TUNE, |out| {
        out.extend_from_slice(&frame_max.to_be_bytes());
        out.extend_from_slice(&heartbeat.to_be_bytes());
    });
}

pub fn heartbeat(out: &mut Vec<u8>) {
    frame(out, key::HEARTBEAT, |_| {});
}

/// Lets the server send `chunks` more of a subscription.
pub fn credit(out: &mut Vec<u8>, subscription: u8, chunks: u16) {
    frame(out, key::CREDIT, |out| {
        out.push(subscription);
        out.extend_from_slice(&chunks.to_be_bytes());
    });
}

/// Stores the offset of the last message that a group has processed. There is no response.
pub fn store_offset(out: &mut Vec<u8>, group: &str, stream: &str, offset: u64) {
    frame(out, key::STORE_OFFSET, |out| {
        string(out, group);
        string(out, stream);
        out.extend_from_slice(&offset.to_be_bytes());
    });
}

/// Answers a `ConsumerUpdate`: where an active subscription begins. An inactive one has no offset.
pub fn consumer_update_response(out: &mut Vec<u8>, correlation: u32, from: Option<Offset>) {
    frame(out, key::RESPONSE | key::CONSUMER_UPDATE, |out| {
        out.extend_from_slice(&correlation.to_be_bytes());
        out.extend_from_slice(&super::code::OK.to_be_bytes());
        match from {
            Some(from) => offset(out, from),
            None => out.extend_from_slice(&0u16.to_be_bytes()),
        }
    });
}

/// Answers the server's `Close`.
pub fn close_response(out: &mut Vec<u8>, correlation: u32) {
    frame(out, key::RESPONSE | key::CLOSE, |out| {
        out.extend_from_slice(&correlation.to_be_bytes());
        out.extend_from_slice(&super::code::OK.to_be_bytes());
    });
}

fn frame(out: &mut Vec<u8>, key: u16, content: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&key.to_be_bytes());
    out.extend_from_slice(&VERSION.to_be_bytes());
    content(out);
    let size = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}

/// `OffsetSpecification`: its kind, and a value where the kind has one.
fn offset(out: &mut Vec<u8>, from: Offset) {
    let (kind, value) = match from {
        Offset::First => (1u16, None),
        Offset::Last => (2, None),
        Offset::Next => (3, None),
        Offset::Absolute(offset) => (4, Some(offset)),
        Offset::Timestamp(milliseconds) => (5, Some(milliseconds.cast_unsigned())),
    };
    out.extend_from_slice(&kind.to_be_bytes());
    if let Some(value) = value {
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Names and the like are checked to be short where they come from: see `config`.
fn string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn strings<'a>(out: &mut Vec<u8>, all: impl ExactSizeIterator<Item = &'a str>) {
    out.extend_from_slice(&(all.len() as u32).to_be_bytes());
    all.for_each(|one| string(out, one));
}

fn pairs<'a>(out: &mut Vec<u8>, all: impl ExactSizeIterator<Item = (&'a str, &'a str)>) {
    out.extend_from_slice(&(all.len() as u32).to_be_bytes());
    for (key, value) in all {
        string(out, key);
        string(out, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_holds_zeros_before_name_and_password() {
        let mut out = Vec::new();
        Request::sasl_plain("me", "it").write(&mut out, 3);
        let mut expected = vec![0, 0, 0, 25, 0, 0x13, 0, 1, 0, 0, 0, 3, 0, 5];
        expected.extend(b"PLAIN\0\0\0\x06\0me\0it");
        assert_eq!(out, expected);
    }
}
