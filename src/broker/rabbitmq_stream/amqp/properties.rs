//! The immutable properties of a message.

use super::Value;
use super::decode::DecodeError;

/// Part 3 of the specification, section 3.2.4. Ids and addresses may be of several types.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Properties<'a> {
    pub message_id: Option<Value<'a>>,
    pub user_id: Option<&'a [u8]>,
    pub to: Option<&'a str>,
    pub subject: Option<&'a str>,
    pub reply_to: Option<&'a str>,
    pub correlation_id: Option<Value<'a>>,
    pub content_type: Option<&'a str>,
    pub content_encoding: Option<&'a str>,
    /// Milliseconds since 1970, as the next.
    pub absolute_expiry_time: Option<i64>,
    pub creation_time: Option<i64>,
    pub group_id: Option<&'a str>,
    pub group_sequence: Option<u32>,
    pub reply_to_group_id: Option<&'a str>,
}

const ERROR: DecodeError = DecodeError::Senseless("list of properties");

impl<'a> Properties<'a> {
    /// # Errors
    /// When the value is not such a list.
    pub fn from_value(value: Value<'a>) -> Result<Self, DecodeError> {
        let Value::List(list) = value else { return Err(ERROR) };
        if list.len() > 13 {
            return Err(ERROR);
        }
        let mut fields = list.into_iter().map(|value| Some(value).filter(|value| *value != Value::Null));
        let mut next = || fields.next().flatten();
        Ok(Properties {
            message_id: next(),
            user_id: next().map(binary).transpose()?,
            to: next().map(string).transpose()?,
            subject: next().map(string).transpose()?,
            reply_to: next().map(string).transpose()?,
            correlation_id: next(),
            content_type: next().map(symbol).transpose()?,
            content_encoding: next().map(symbol).transpose()?,
            absolute_expiry_time: next().map(timestamp).transpose()?,
            creation_time: next().map(timestamp).transpose()?,
            group_id: next().map(string).transpose()?,
            group_sequence: next().map(number).transpose()?,
            reply_to_group_id: next().map(string).transpose()?,
        })
    }

    /// As a list that ends with the last property that is set.
    pub fn to_value(&self) -> Value<'a> {
        let fields = [
            self.message_id.clone(),
            self.user_id.map(Value::Binary),
            self.to.map(Value::String),
            self.subject.map(Value::String),
            self.reply_to.map(Value::String),
            self.correlation_id.clone(),
            self.content_type.map(Value::Symbol),
            self.content_encoding.map(Value::Symbol),
            self.absolute_expiry_time.map(Value::Timestamp),
            self.creation_time.map(Value::Timestamp),
            self.group_id.map(Value::String),
            self.group_sequence.map(Value::Uint),
            self.reply_to_group_id.map(Value::String),
        ];
        let set = fields.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        Value::List(fields.into_iter().take(set).map(|field| field.unwrap_or(Value::Null)).collect())
    }
}

fn binary(value: Value<'_>) -> Result<&[u8], DecodeError> {
    if let Value::Binary(bytes) = value { Ok(bytes) } else { Err(ERROR) }
}

fn string(value: Value<'_>) -> Result<&str, DecodeError> {
    if let Value::String(text) = value { Ok(text) } else { Err(ERROR) }
}

fn symbol(value: Value<'_>) -> Result<&str, DecodeError> {
    if let Value::Symbol(text) = value { Ok(text) } else { Err(ERROR) }
}

fn timestamp(value: Value<'_>) -> Result<i64, DecodeError> {
    if let Value::Timestamp(milliseconds) = value { Ok(milliseconds) } else { Err(ERROR) }
}

fn number(value: Value<'_>) -> Result<u32, DecodeError> {
    if let Value::Uint(number) = value { Ok(number) } else { Err(ERROR) }
}
