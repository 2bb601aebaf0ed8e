//! A value of AMQP's type system.

/// A value; strings and binaries are borrowed.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    Null,
    Boolean(bool),
    Ubyte(u8),
    Ushort(u16),
    Uint(u32),
    Ulong(u64),
    Byte(i8),
    Short(i16),
    Int(i32),
    Long(i64),
    Float(f32),
    Double(f64),
    /// IEEE 754 decimals, as their bytes: Rust has no type for them.
    Decimal32([u8; 4]),
    Decimal64([u8; 8]),
    Decimal128([u8; 16]),
    Char(char),
    /// Milliseconds since 1970.
    Timestamp(i64),
    Uuid([u8; 16]),
    Binary(&'a [u8]),
    String(&'a str),
    /// ASCII only.
    Symbol(&'a str),
    List(Vec<Value<'a>>),
    /// In the order in which it was written.
    Map(Vec<(Value<'a>, Value<'a>)>),
    /// All of one type.
    Array(Vec<Value<'a>>),
    /// A value and what describes it.
    Described(Box<(Value<'a>, Value<'a>)>),
}
