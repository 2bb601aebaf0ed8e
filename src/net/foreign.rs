//! What answers at a port that is not the protocol's own. Frames of brokers begin with their size: bytes of another protocol look like a
//! size that no broker sends.

/// What a frame's size says of the port, if it is the beginning of another protocol.
pub fn protocol_of_size(size: u32) -> Option<&'static str> {
    match size.to_be_bytes() {
        [b'H', b'T', b'T', b'P'] => Some("this port answers like HTTP: name the port of the broker's own protocol"),
        // An alert or a handshake (RFC 8446, section 5.1).
        [0x15 | 0x16, 3, ..] => Some("this port speaks TLS: set `[broker.security.tls]`"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_protocols_are_known_by_their_first_bytes() {
        let of = |bytes: &[u8; 4]| protocol_of_size(u32::from_be_bytes(*bytes));
        assert!(of(b"HTTP").unwrap().contains("HTTP"));
        // The alert of a server that was sent something else than TLS.
        assert!(of(&[0x15, 3, 3, 0]).unwrap().contains("broker.security.tls"));
        assert_eq!([of(&[0, 0, 0, 6]), of(b"SSH-")], [None, None]);
    }
}
