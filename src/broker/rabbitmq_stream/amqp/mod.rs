//! A general codec of AMQP 1.0 messages (OASIS, parts 1 and 3): all primitive types, lists, maps, arrays, described values,
//! and every section of a message.
//!
//! Bodies of stream messages use a small part of it. It is complete because it is the codec of the published benchmark,
//! which `benches/amqp.rs` measures beside another implementation and a fuzz target tests.
//!
//! Decoding copies neither strings nor binaries: a [`Value`] borrows them from the bytes it was read from, and
//! [`Sections`] goes through a message without allocating at all.
//!
//! ```
//! use brokermark::broker::rabbitmq_stream::amqp::{Value, decode, encode};
//!
//! let value = Value::Map(vec![(Value::String("small-list"), Value::List(vec![Value::Int(1), Value::Int(2)]))]);
//! let mut bytes = Vec::new();
//! encode(&value, &mut bytes)?;
//! assert_eq!(decode(&bytes)?, value);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decode;
mod encode;
mod message;
mod properties;
mod section;
#[cfg(test)]
mod tests;
mod value;

pub use decode::{DecodeError, decode};
pub use encode::{EncodeError, encode};
pub use message::{Body, Message};
pub use properties::Properties;
pub use section::{Section, SectionKind, Sections};
pub use value::Value;

/// The codes that begin a value, as part 1 of the specification lists them.
mod format {
    pub const DESCRIBED: u8 = 0x00;
    pub const NULL: u8 = 0x40;
    pub const TRUE: u8 = 0x41;
    pub const FALSE: u8 = 0x42;
    pub const UINT_0: u8 = 0x43;
    pub const ULONG_0: u8 = 0x44;
    pub const LIST_0: u8 = 0x45;
    pub const UBYTE: u8 = 0x50;
    pub const BYTE: u8 = 0x51;
    pub const SMALL_UINT: u8 = 0x52;
    pub const SMALL_ULONG: u8 = 0x53;
    pub const SMALL_INT: u8 = 0x54;
    pub const SMALL_LONG: u8 = 0x55;
    pub const BOOLEAN: u8 = 0x56;
    pub const USHORT: u8 = 0x60;
    pub const SHORT: u8 = 0x61;
    pub const UINT: u8 = 0x70;
    pub const INT: u8 = 0x71;
    pub const FLOAT: u8 = 0x72;
    pub const CHAR: u8 = 0x73;
    pub const DECIMAL_32: u8 = 0x74;
    pub const ULONG: u8 = 0x80;
    pub const LONG: u8 = 0x81;
    pub const DOUBLE: u8 = 0x82;
    pub const TIMESTAMP: u8 = 0x83;
    pub const DECIMAL_64: u8 = 0x84;
    pub const DECIMAL_128: u8 = 0x94;
    pub const UUID: u8 = 0x98;
    pub const BINARY_8: u8 = 0xa0;
    pub const STRING_8: u8 = 0xa1;
    pub const SYMBOL_8: u8 = 0xa3;
    pub const BINARY_32: u8 = 0xb0;
    pub const STRING_32: u8 = 0xb1;
    pub const SYMBOL_32: u8 = 0xb3;
    pub const LIST_8: u8 = 0xc0;
    pub const MAP_8: u8 = 0xc1;
    pub const LIST_32: u8 = 0xd0;
    pub const MAP_32: u8 = 0xd1;
    pub const ARRAY_8: u8 = 0xe0;
    pub const ARRAY_32: u8 = 0xf0;
}
