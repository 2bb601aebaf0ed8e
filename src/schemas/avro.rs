//! Avro (Apache Avro 1.12 specification). Records are written as its JSON encoding has them; a value of a union may also be written without
//! the name of its type, and a field that has a default may be left out.

use apache_avro::schema::{
    DecimalSchema, InnerDecimalSchema, NamesRef, RecordSchema, ResolvedSchema, UnionSchema, UuidSchema,
};
use apache_avro::types::Value as Datum;
use apache_avro::writer::datum::GenericDatumWriter;
use apache_avro::{Decimal, Duration, Schema, Uuid};
use rand::{Rng, RngExt};
use serde_json::{Map, Value, json};

use super::{Encoder, values};

pub struct Avro {
    schema: Schema,
}

impl Avro {
    pub fn parse(text: &str) -> Result<Self, String> {
        let schema = Schema::parse_str(text).map_err(|error| format!("this is not an Avro schema: {error}"))?;
        ResolvedSchema::new(&schema).map_err(|error| error.to_string())?;
        Ok(Avro { schema })
    }
}

impl Encoder for Avro {
    fn encode(&self, record: &Value) -> Result<Vec<u8>, String> {
        let resolved = ResolvedSchema::new(&self.schema).map_err(|error| error.to_string())?;
        let value = Reading { names: resolved.get_names() }.value(&self.schema, record)?;
        let writer = GenericDatumWriter::builder(&self.schema).resolved_schemata(resolved).build();
        writer.and_then(|writer| writer.write_value_to_vec(value)).map_err(|error| error.to_string())
    }

    fn generate(&self, random: &mut dyn Rng) -> Result<Value, String> {
        let resolved = ResolvedSchema::new(&self.schema).map_err(|error| error.to_string())?;
        Generating { names: resolved.get_names(), random }.value(&self.schema, 0)
    }
}

/// Turns JSON into what the schema says that it is.
struct Reading<'a> {
    names: &'a NamesRef<'a>,
}

impl Reading<'_> {
    fn value(&self, schema: &Schema, json: &Value) -> Result<Datum, String> {
        let misfit = || format!("{} is not {}", shown(json), name_of(schema));
        let whole = || json.as_i64().ok_or_else(misfit);
        let small = || i32::try_from(whole()?).map_err(|_| misfit());
        let text = || json.as_str().ok_or_else(misfit);
        let bytes = || bytes_of(text()?).ok_or_else(misfit);
        let fixed = |size: usize| bytes().and_then(|bytes| if bytes.len() == size { Ok(bytes) } else { Err(misfit()) });
        Ok(match schema {
            Schema::Null => json.is_null().then_some(Datum::Null).ok_or_else(misfit)?,
            Schema::Boolean => Datum::Boolean(json.as_bool().ok_or_else(misfit)?),
            Schema::Int => Datum::Int(small()?),
            Schema::Date => Datum::Date(small()?),
            Schema::TimeMillis => Datum::TimeMillis(small()?),
            Schema::Long => Datum::Long(whole()?),
            Schema::TimeMicros => Datum::TimeMicros(whole()?),
            Schema::TimestampMillis => Datum::TimestampMillis(whole()?),
            Schema::TimestampMicros => Datum::TimestampMicros(whole()?),
            Schema::TimestampNanos => Datum::TimestampNanos(whole()?),
            Schema::LocalTimestampMillis => Datum::LocalTimestampMillis(whole()?),
            Schema::LocalTimestampMicros => Datum::LocalTimestampMicros(whole()?),
            Schema::LocalTimestampNanos => Datum::LocalTimestampNanos(whole()?),
            Schema::Float => Datum::Float(json.as_f64().ok_or_else(misfit)? as f32),
            Schema::Double => Datum::Double(json.as_f64().ok_or_else(misfit)?),
            Schema::Bytes => Datum::Bytes(bytes()?),
            Schema::String => Datum::String(text()?.to_owned()),
            Schema::Fixed(of) => Datum::Fixed(of.size, fixed(of.size)?),
            Schema::Decimal(DecimalSchema { inner: InnerDecimalSchema::Fixed(of), .. }) => {
                Datum::Decimal(Decimal::from(fixed(of.size)?))
            }
            Schema::Decimal(DecimalSchema { inner: InnerDecimalSchema::Bytes, .. }) => {
                Datum::Decimal(Decimal::from(bytes()?))
            }
            Schema::Uuid(_) => Datum::Uuid(Uuid::parse_str(text()?).map_err(|_| misfit())?),
            Schema::Duration(_) => {
                Datum::Duration(Duration::from(<[u8; 12]>::try_from(bytes()?).map_err(|_| misfit())?))
            }
            Schema::BigDecimal => return Err(BIG_DECIMAL.to_owned()),
            Schema::Enum(of) => {
                let symbol = text()?;
                let index = of.symbols.iter().position(|one| one == symbol).ok_or_else(|| {
                    format!("{} is not one of the symbols {} of `{}`", shown(json), of.symbols.join(", "), of.name)
                })?;
                Datum::Enum(index as u32, symbol.to_owned())
            }
            Schema::Array(of) => {
                let all = json.as_array().ok_or_else(misfit)?.iter();
                Datum::Array(all.map(|item| self.value(&of.items, item)).collect::<Result<_, _>>()?)
            }
            Schema::Map(of) => {
                let all = json.as_object().ok_or_else(misfit)?.iter();
                let entry =
                    |(key, value): (&String, &Value)| Ok((key.clone(), within(key, self.value(&of.types, value))?));
                Datum::Map(all.map(entry).collect::<Result<_, String>>()?)
            }
            Schema::Union(of) => self.union(of, json)?,
            Schema::Record(of) => self.record(of, json.as_object().ok_or_else(misfit)?)?,
            Schema::Ref { name } => self.value(named(self.names, name)?, json)?,
        })
    }

    /// With the name of its type (Avro specification, "JSON Encoding"), or as the first type that the value fits.
    fn union(&self, union: &UnionSchema, json: &Value) -> Result<Datum, String> {
        let boxed = |index: usize, value| Datum::Union(index as u32, Box::new(value));
        let tagged = json.as_object().filter(|object| object.len() == 1).and_then(|object| object.iter().next());
        if let Some((tag, value)) = tagged {
            let variant = union.variants().iter().position(|one| name_of(one) == *tag);
            if let Some(index) = variant {
                return Ok(boxed(index, within(tag, self.value(&union.variants()[index], value))?));
            }
        }
        let mut reasons = Vec::new();
        for (index, variant) in union.variants().iter().enumerate() {
            match self.value(variant, json) {
                Ok(value) => return Ok(boxed(index, value)),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(format!("no type of the union fits: {}", reasons.join("; ")))
    }

    fn record(&self, record: &RecordSchema, json: &Map<String, Value>) -> Result<Datum, String> {
        if let Some(unknown) = json.keys().find(|key| !record.lookup.contains_key(*key)) {
            return Err(format!("`{}` has no field `{unknown}`", record.name));
        }
        let fields = record.fields.iter().map(|field| {
            let value = json.get(&field.name).or(field.default.as_ref());
            let value = value.ok_or_else(|| format!("`{}` of `{}` is missing", field.name, record.name))?;
            Ok((field.name.clone(), within(&field.name, self.value(&field.schema, value))?))
        });
        Ok(Datum::Record(fields.collect::<Result<_, String>>()?))
    }
}

/// Makes JSON as [`Reading`] takes it.
struct Generating<'a> {
    names: &'a NamesRef<'a>,
    random: &'a mut dyn Rng,
}

impl Generating<'_> {
    fn value(&mut self, schema: &Schema, depth: usize) -> Result<Value, String> {
        if depth > values::MAX_DEPTH {
            return Err(format!("{} contains itself without end", name_of(schema)));
        }
        let random = &mut *self.random;
        let time = |unit: i64, random: &mut dyn Rng| values::seconds(random) * unit;
        Ok(match schema {
            Schema::Null => Value::Null,
            Schema::Boolean => random.random::<bool>().into(),
            Schema::Int => random.random_range(0..values::SMALL).into(),
            Schema::Long => random.random_range(0..values::LARGE).into(),
            Schema::Date => (values::seconds(random) / (24 * 3600)).into(),
            Schema::TimeMillis => random.random_range(0..24 * 3600 * 1_000).into(),
            Schema::TimeMicros => random.random_range(0..24 * 3600 * 1_000_000_i64).into(),
            Schema::TimestampMillis | Schema::LocalTimestampMillis => time(1_000, random).into(),
            Schema::TimestampMicros | Schema::LocalTimestampMicros => time(1_000_000, random).into(),
            Schema::TimestampNanos | Schema::LocalTimestampNanos => time(1_000_000_000, random).into(),
            Schema::Float => f64::from(random.random::<f32>()).into(),
            Schema::Double => random.random::<f64>().into(),
            Schema::Bytes => text_of(&values::bytes(random, values::BYTES)).into(),
            Schema::String => values::text(random).into(),
            Schema::Fixed(of) => text_of(&values::bytes(random, of.size)).into(),
            Schema::Duration(_) => text_of(&values::bytes(random, 12)).into(),
            Schema::Decimal(of) => decimal(of, random).into(),
            Schema::Uuid(_) => values::uuid(random).into(),
            Schema::BigDecimal => return Err(BIG_DECIMAL.to_owned()),
            Schema::Enum(of) if of.symbols.is_empty() => return Err(format!("the enum `{}` has no symbols", of.name)),
            Schema::Union(of) if of.variants().is_empty() => return Err("a union has no types".to_owned()),
            Schema::Enum(of) => of.symbols[random.random_range(0..of.symbols.len())].clone().into(),
            Schema::Array(of) => {
                let items = if depth < values::DEPTH { random.random_range(values::ITEMS) } else { 0 };
                (0..items).map(|_| self.value(&of.items, depth + 1)).collect::<Result<_, _>>()?
            }
            // Of several, the order in which they are encoded would be another one in each process.
            Schema::Map(of) if depth < values::DEPTH => {
                json!({ (values::text(random)): self.value(&of.types, depth + 1)? })
            }
            Schema::Map(_) => json!({}),
            Schema::Union(of) => {
                let all = of.variants();
                let null = all.iter().position(|one| *one == Schema::Null).filter(|_| depth >= values::DEPTH);
                let chosen = &all[null.unwrap_or_else(|| random.random_range(0..all.len()))];
                match self.value(chosen, depth)? {
                    Value::Null => Value::Null,
                    value => json!({ (name_of(chosen)): value }),
                }
            }
            Schema::Record(of) => {
                let fields =
                    of.fields.iter().map(|field| Ok((field.name.clone(), self.value(&field.schema, depth + 1)?)));
                Value::Object(fields.collect::<Result<_, String>>()?)
            }
            Schema::Ref { name } => self.value(named(self.names, name)?, depth)?,
        })
    }
}

const BIG_DECIMAL: &str = "the logical type `big-decimal` is not supported";

/// Some number with fewer digits than the precision, so that it fits: its unscaled value in two's complement, most significant byte first.
fn decimal(schema: &DecimalSchema, random: &mut dyn Rng) -> String {
    let digits = (schema.precision as u32).saturating_sub(1).min(18);
    let unscaled = random.random_range(0..10_i64.pow(digits)).to_be_bytes();
    match &schema.inner {
        // As few as its sign allows.
        InnerDecimalSchema::Bytes => {
            let spare = unscaled.windows(2).take_while(|pair| pair[0] == 0 && pair[1] < 0x80).count();
            text_of(&unscaled[spare..])
        }
        InnerDecimalSchema::Fixed(of) if of.size >= unscaled.len() => {
            text_of(&[vec![0; of.size - unscaled.len()], unscaled.to_vec()].concat())
        }
        InnerDecimalSchema::Fixed(of) => text_of(&unscaled[unscaled.len() - of.size..]),
    }
}

fn named<'a>(names: &NamesRef<'a>, name: &apache_avro::schema::Name) -> Result<&'a Schema, String> {
    names.get(name).copied().ok_or_else(|| format!("the type `{name}` is not defined"))
}

/// The name of a type, as values of unions have it in JSON: for a logical type, that of the type below it.
fn name_of(schema: &Schema) -> String {
    let name = match schema {
        Schema::Null => "null",
        Schema::Boolean => "boolean",
        Schema::Int | Schema::Date | Schema::TimeMillis => "int",
        Schema::Float => "float",
        Schema::Double => "double",
        Schema::String => "string",
        Schema::Array(_) => "array",
        Schema::Map(_) => "map",
        Schema::Union(_) => "union",
        Schema::Bytes | Schema::BigDecimal => "bytes",
        Schema::Record(of) => return of.name.to_string(),
        Schema::Enum(of) => return of.name.to_string(),
        Schema::Fixed(of) | Schema::Duration(of) => return of.name.to_string(),
        Schema::Ref { name } => return name.to_string(),
        Schema::Decimal(of) => match &of.inner {
            InnerDecimalSchema::Fixed(of) => return of.name.to_string(),
            InnerDecimalSchema::Bytes => "bytes",
        },
        Schema::Uuid(UuidSchema::Fixed(of)) => return of.name.to_string(),
        Schema::Uuid(UuidSchema::String) => "string",
        Schema::Uuid(UuidSchema::Bytes) => "bytes",
        _ => "long",
    };
    name.to_owned()
}

/// Bytes as the JSON encoding has them: each is the character of the same number. `None`: a character is above 255.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
}

fn text_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// Says in which field the value is.
fn within<T>(field: &str, value: Result<T, String>) -> Result<T, String> {
    value.map_err(|reason| format!("`{field}`: {reason}"))
}

/// The beginning of a value, for a sentence.
fn shown(json: &Value) -> String {
    const CHARACTERS: usize = 40;
    let text = json.to_string();
    match text.char_indices().nth(CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
