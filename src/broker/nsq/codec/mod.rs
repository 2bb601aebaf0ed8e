//! NSQ's TCP protocol V2, as <https://nsq.io/clients/tcp_protocol_spec.html> and nsqd 1.3.0's `protocol_v2.go` have it.
//!
//! Commands go out as lines of ASCII with, for some, a length-prefixed body behind ([`command`]). Responses and messages
//! arrive as length-prefixed frames ([`Frame`]), which are decoded in place. All numbers are big-endian.

pub mod command;
mod frame;

pub use frame::{Frame, HEARTBEAT, Malformed, Message, OK, decode};

/// What a client sends before anything else.
pub const MAGIC: &[u8; 4] = b"  V2";

/// Bytes of a message's identity, which are hexadecimal digits.
pub const ID_BYTES: usize = 16;

#[cfg(test)]
#[path = "../../../../tests/unit/broker/nsq/codec/mod.rs"]
mod tests;
