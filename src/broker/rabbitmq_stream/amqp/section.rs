//! A message's sections, gone through without looking into them.

use super::decode::{DecodeError, Decoder};
use super::{Value, format};

/// What a section is, in the order in which a message has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SectionKind {
    Header = 0x70,
    DeliveryAnnotations = 0x71,
    MessageAnnotations = 0x72,
    Properties = 0x73,
    ApplicationProperties = 0x74,
    Data = 0x75,
    Sequence = 0x76,
    Value = 0x77,
    Footer = 0x78,
}

impl SectionKind {
    const ALL: [(SectionKind, &'static str); 9] = [
        (SectionKind::Header, "amqp:header:list"),
        (SectionKind::DeliveryAnnotations, "amqp:delivery-annotations:map"),
        (SectionKind::MessageAnnotations, "amqp:message-annotations:map"),
        (SectionKind::Properties, "amqp:properties:list"),
        (SectionKind::ApplicationProperties, "amqp:application-properties:map"),
        (SectionKind::Data, "amqp:data:binary"),
        (SectionKind::Sequence, "amqp:amqp-sequence:list"),
        (SectionKind::Value, "amqp:amqp-value:*"),
        (SectionKind::Footer, "amqp:footer:map"),
    ];

    fn of(descriptor: &Value<'_>) -> Option<Self> {
        let kind = Self::ALL.iter().find(|(kind, name)| match descriptor {
            Value::Ulong(number) => *number == *kind as u64,
            Value::Symbol(symbol) => symbol == name,
            _ => false,
        });
        kind.map(|(kind, _)| *kind)
    }

    /// The bytes that begin it.
    pub(super) fn begin(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[format::DESCRIBED, format::SMALL_ULONG, self as u8]);
    }
}

/// One section: its kind, and the bytes of the value it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section<'a> {
    pub kind: SectionKind,
    pub value: &'a [u8],
}

impl<'a> Section<'a> {
    /// The value itself.
    ///
    /// # Errors
    /// When the bytes are not a value.
    pub fn decode(&self) -> Result<Value<'a>, DecodeError> {
        super::decode(self.value)
    }

    /// A binary, as a data section has it.
    ///
    /// # Errors
    /// When it is something else.
    #[inline]
    pub fn binary(&self) -> Result<&'a [u8], DecodeError> {
        match self.decode()? {
            Value::Binary(bytes) => Ok(bytes),
            _ => Err(DecodeError::Senseless("data section")),
        }
    }

    /// What a map has under the string or symbol `key`; the other values are passed over.
    ///
    /// # Errors
    /// When it is not a map.
    pub fn find(&self, key: &str) -> Result<Option<Value<'a>>, DecodeError> {
        let mut decoder = Decoder::new(self.value);
        let [code] = decoder.array()?;
        if code != format::MAP_8 && code != format::MAP_32 {
            return Err(DecodeError::Senseless("map"));
        }
        decoder.compound(code == format::MAP_8, |map, _| {
            let mut found = None;
            while !map.is_empty() {
                match map.value()? {
                    Value::String(name) | Value::Symbol(name) if name == key => found = Some(map.value()?),
                    _ => drop(map.skip()?),
                }
            }
            Ok(found)
        })
    }
}

/// The sections of a message.
#[derive(Debug, Clone)]
pub struct Sections<'a> {
    decoder: Decoder<'a>,
}

impl<'a> Sections<'a> {
    pub fn new(message: &'a [u8]) -> Self {
        Sections { decoder: Decoder::new(message) }
    }

    #[inline]
    fn read(&mut self) -> Result<Section<'a>, DecodeError> {
        // Nearly all of them are described by a small number.
        let kind = match self.decoder.array()? {
            [format::DESCRIBED] => SectionKind::of(&self.decoder.value()?),
            _ => None,
        };
        let kind = kind.ok_or(DecodeError::Senseless("message's section"))?;
        Ok(Section { kind, value: self.decoder.skip()? })
    }
}

impl<'a> Iterator for Sections<'a> {
    type Item = Result<Section<'a>, DecodeError>;

    /// After an error there are no more.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.decoder.is_empty() {
            return None;
        }
        let section = self.read();
        if section.is_err() {
            self.decoder = Decoder::new(&[]);
        }
        Some(section)
    }
}
