//! A whole message.

use super::decode::DecodeError;
use super::encode::{EncodeError, binary_head, encode};
use super::{Properties, SectionKind, Sections, Value};

/// A message with all its sections; strings and binaries are borrowed.
#[derive(Debug, Clone, PartialEq)]
pub struct Message<'a> {
    /// A list: durable, priority, time to live, first acquirer, delivery count.
    pub header: Option<Value<'a>>,
    pub delivery_annotations: Option<Value<'a>>,
    pub message_annotations: Option<Value<'a>>,
    pub properties: Option<Properties<'a>>,
    pub application_properties: Option<Vec<(Value<'a>, Value<'a>)>>,
    pub body: Body<'a>,
    pub footer: Option<Value<'a>>,
}

/// What a message is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Body<'a> {
    /// One or more sections of bytes.
    Data(Vec<&'a [u8]>),
    /// One or more lists.
    Sequence(Vec<Vec<Value<'a>>>),
    Value(Value<'a>),
}

impl<'a> Message<'a> {
    /// A message with a body and nothing else.
    pub fn new(body: Body<'a>) -> Self {
        Message {
            header: None,
            delivery_annotations: None,
            message_annotations: None,
            properties: None,
            application_properties: None,
            body,
            footer: None,
        }
    }

    /// # Errors
    /// When the bytes are not a message.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let twofold = DecodeError::Senseless("message with several bodies");
        let mut message = Message::new(Body::Value(Value::Null));
        let mut body = None;
        for section in Sections::new(bytes) {
            let section = section?;
            match section.kind {
                SectionKind::Header => message.header = Some(section.decode()?),
                SectionKind::DeliveryAnnotations => message.delivery_annotations = Some(section.decode()?),
                SectionKind::MessageAnnotations => message.message_annotations = Some(section.decode()?),
                SectionKind::Properties => {
                    message.properties = Some(Properties::from_value(section.decode()?)?);
                }
                SectionKind::ApplicationProperties => match section.decode()? {
                    Value::Map(map) => message.application_properties = Some(map),
                    _ => return Err(DecodeError::Senseless("map of application properties")),
                },
                SectionKind::Data => match body.get_or_insert_with(|| Body::Data(Vec::with_capacity(1))) {
                    Body::Data(sections) => sections.push(section.binary()?),
                    _ => return Err(twofold),
                },
                SectionKind::Sequence => {
                    let Value::List(list) = section.decode()? else {
                        return Err(DecodeError::Senseless("sequence section"));
                    };
                    match body.get_or_insert_with(|| Body::Sequence(Vec::with_capacity(1))) {
                        Body::Sequence(lists) => lists.push(list),
                        _ => return Err(twofold),
                    }
                }
                SectionKind::Value => {
                    if body.is_some() {
                        return Err(twofold);
                    }
                    body = Some(Body::Value(section.decode()?));
                }
                SectionKind::Footer => message.footer = Some(section.decode()?),
            }
        }
        message.body = body.ok_or(DecodeError::Senseless("message without a body"))?;
        Ok(message)
    }

    /// Appends the message to `out`. After an error `out` may hold a part of it.
    ///
    /// # Errors
    /// When a value cannot be written as AMQP.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let section = |kind: SectionKind, value: &Value<'_>, out: &mut Vec<u8>| {
            kind.begin(out);
            encode(value, out)
        };
        if let Some(header) = &self.header {
            section(SectionKind::Header, header, out)?;
        }
        if let Some(annotations) = &self.delivery_annotations {
            section(SectionKind::DeliveryAnnotations, annotations, out)?;
        }
        if let Some(annotations) = &self.message_annotations {
            section(SectionKind::MessageAnnotations, annotations, out)?;
        }
        if let Some(properties) = &self.properties {
            section(SectionKind::Properties, &properties.to_value(), out)?;
        }
        if let Some(map) = &self.application_properties {
            SectionKind::ApplicationProperties.begin(out);
            super::encode::map(map, out)?;
        }
        match &self.body {
            Body::Data(sections) => {
                for bytes in sections {
                    u32::try_from(bytes.len()).map_err(|_| EncodeError::TooLarge)?;
                    SectionKind::Data.begin(out);
                    binary_head(bytes.len(), out);
                    out.extend_from_slice(bytes);
                }
            }
            Body::Sequence(lists) => {
                for list in lists {
                    SectionKind::Sequence.begin(out);
                    super::encode::list(list, out)?;
                }
            }
            Body::Value(value) => section(SectionKind::Value, value, out)?,
        }
        match &self.footer {
            Some(footer) => section(SectionKind::Footer, footer, out),
            None => Ok(()),
        }
    }
}
