//! Protobuf. Records are written as its JSON mapping has them (Protocol Buffers documentation, "ProtoJSON Format").

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use protox::Compiler;
use rand::{Rng, RngExt};
use serde_json::{Map, Value, json};

use super::{Encoder, values};

/// The path of the types that come with Protobuf.
const GOOGLE: &str = "google/protobuf/";

pub struct Protobuf {
    message: MessageDescriptor,
    /// Which of the file's messages it is.
    index: Vec<u8>,
}

impl Protobuf {
    /// With the files of the user's own that the file imports, which lie in its folder.
    pub fn compile(file: &Path, message: Option<&str>) -> Result<(Self, Vec<String>), String> {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut compiler = Compiler::new([folder]).map_err(|error| error.to_string())?;
        compiler.open_file(file).map_err(|error| sentence(&error))?;
        let pool = compiler.descriptor_pool();
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let file = pool.get_file_by_name(name).ok_or("the compiler has lost it")?;
        let found = match message {
            None => file.messages().next().ok_or("it has no message")?,
            Some(name) => pool
                .get_message_by_name(name)
                .filter(|found| found.parent_file() == file)
                .ok_or_else(|| format!("it has no message `{name}`: write its whole name, as in `package.Message`"))?,
        };
        let imports = file.dependencies().map(|one| one.name().to_owned());
        let imports = imports.filter(|name| !name.starts_with(GOOGLE)).collect();
        Ok((Protobuf { index: message_index(found.path()), message: found }, imports))
    }
}

impl Encoder for Protobuf {
    fn encode(&self, record: &Value) -> Result<Vec<u8>, String> {
        let message = DynamicMessage::deserialize(self.message.clone(), record).map_err(|error| error.to_string())?;
        let mut bytes = self.index.clone();
        message.encode(&mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    fn generate(&self, random: &mut dyn Rng) -> Result<Value, String> {
        message(&self.message, random, 0)
    }
}

/// Which message of the file it is: how many indexes follow, and the index on each level, all as zigzag numbers of variable length; the first
/// message of the file is a single zero (Confluent Platform documentation, "Formats, Serializers, and Deserializers for Schema Registry",
/// section "Wire format"). `path`: as descriptors have it, the number of a field before each index.
fn message_index(path: &[i32]) -> Vec<u8> {
    let indexes: Vec<u64> = path.iter().skip(1).step_by(2).map(|index| *index as u64).collect();
    if indexes == [0] {
        return vec![0];
    }
    let mut bytes = Vec::new();
    for number in std::iter::once(indexes.len() as u64).chain(indexes) {
        // Zigzag: none is negative.
        let mut rest = number << 1;
        while rest >= 0x80 {
            bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }
    bytes
}

fn sentence(error: &protox::Error) -> String {
    // Where it is, and what: `Display` has the latter only.
    format!("{error:?}").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each field has a value, and of each `oneof` one field; deep inside, only fields that must be there.
fn message(descriptor: &MessageDescriptor, random: &mut dyn Rng, depth: usize) -> Result<Value, String> {
    if depth > values::MAX_DEPTH {
        return Err(format!("`{}` contains itself without end", descriptor.full_name()));
    }
    if let Some(name) = descriptor.full_name().strip_prefix("google.protobuf.") {
        return well_known(name, random);
    }
    // Which field of a `oneof` is there, by its name.
    let mut chosen = BTreeMap::new();
    for oneof in descriptor.oneofs().filter(|oneof| !oneof.is_synthetic()) {
        chosen.insert(oneof.name().to_owned(), random.random_range(0..oneof.fields().len()));
    }
    let mut object = Map::new();
    for field in descriptor.fields() {
        let is_other = field.containing_oneof().filter(|oneof| !oneof.is_synthetic()).is_some_and(|oneof| {
            let chosen = chosen.get(oneof.name()).and_then(|index| oneof.fields().nth(*index));
            chosen.is_none_or(|chosen| chosen.number() != field.number())
        });
        let is_cut_off = depth >= values::DEPTH && field.kind().as_message().is_some() && !field.is_required();
        if !is_other && !is_cut_off {
            object.insert(field.json_name().to_owned(), field_value(&field, random, depth + 1)?);
        }
    }
    Ok(Value::Object(object))
}

fn field_value(field: &FieldDescriptor, random: &mut dyn Rng, depth: usize) -> Result<Value, String> {
    match field.kind() {
        // Of several entries, the order in which they are encoded would be another one in each process.
        Kind::Message(entry) if field.is_map() => {
            let key = match value(&entry.map_entry_key_field().kind(), random, depth)? {
                Value::String(text) => text,
                other => other.to_string(),
            };
            Ok(json!({ (key): value(&entry.map_entry_value_field().kind(), random, depth)? }))
        }
        kind if field.is_list() => {
            let items = random.random_range(values::ITEMS);
            (0..items).map(|_| value(&kind, random, depth)).collect()
        }
        kind => value(&kind, random, depth),
    }
}

fn value(kind: &Kind, random: &mut dyn Rng, depth: usize) -> Result<Value, String> {
    Ok(match kind {
        Kind::Double => random.random::<f64>().into(),
        Kind::Float => f64::from(random.random::<f32>()).into(),
        Kind::Int32 | Kind::Uint32 | Kind::Sint32 | Kind::Fixed32 | Kind::Sfixed32 => {
            random.random_range(0..values::SMALL).into()
        }
        Kind::Int64 | Kind::Uint64 | Kind::Sint64 | Kind::Fixed64 | Kind::Sfixed64 => {
            random.random_range(0..values::LARGE).into()
        }
        Kind::Bool => random.random::<bool>().into(),
        Kind::String => values::text(random).into(),
        Kind::Bytes => STANDARD.encode(values::bytes(random, values::BYTES)).into(),
        Kind::Enum(of) => {
            let index = random.random_range(0..of.values().len());
            of.values().nth(index).map(|value| value.name().to_owned()).into()
        }
        Kind::Message(of) => message(of, random, depth)?,
    })
}

/// Types that come with Protobuf and have a JSON of their own.
fn well_known(name: &str, random: &mut dyn Rng) -> Result<Value, String> {
    Ok(match name {
        "Timestamp" => values::date_time(random).into(),
        "Duration" => format!("{}s", random.random_range(0..values::SMALL)).into(),
        "Empty" | "Struct" => json!({}),
        "ListValue" => json!([]),
        "Value" | "StringValue" => values::text(random).into(),
        "BoolValue" => value(&Kind::Bool, random, 0)?,
        "Int32Value" | "UInt32Value" => value(&Kind::Int32, random, 0)?,
        "Int64Value" | "UInt64Value" => value(&Kind::Int64, random, 0)?,
        "FloatValue" | "DoubleValue" => value(&Kind::Double, random, 0)?,
        "BytesValue" => value(&Kind::Bytes, random, 0)?,
        "FieldMask" => "".into(),
        other => return Err(format!("no values of google.protobuf.{other} are generated: give `records`")),
    })
}
