//! JSON Schema. Records are checked by it, and sent as JSON without white space. Generated ones come from the part of the language that
//! describes values; a keyword that only restricts them in other ways is refused by its name.

use jsonschema::Validator;
use rand::{Rng, RngExt};
use serde_json::{Map, Value};

use super::{Encoder, values};

/// What no value is generated for.
const NOT_GENERATED: [&str; 14] = [
    "allOf",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "if",
    "multipleOf",
    "not",
    "pattern",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "uniqueItems",
    "$dynamicRef",
];

pub struct Json {
    schema: Value,
    validator: Validator,
}

impl Json {
    pub fn parse(text: &str) -> Result<Self, String> {
        let schema = serde_json::from_str(text).map_err(|error| format!("this is not JSON: {error}"))?;
        let validator =
            jsonschema::validator_for(&schema).map_err(|error| format!("this is not a JSON Schema: {error}"))?;
        Ok(Json { schema, validator })
    }

    fn value(&self, schema: &Value, random: &mut dyn Rng, depth: usize) -> Result<Value, String> {
        if depth > values::MAX_DEPTH {
            return Err("the schema contains itself without end".to_owned());
        }
        if let Some(keyword) = NOT_GENERATED.iter().find(|keyword| schema.get(**keyword).is_some()) {
            return Err(format!("no values are generated for the keyword `{keyword}`: give `records`"));
        }
        if let Some(pointer) = schema["$ref"].as_str() {
            let found = pointer.strip_prefix('#').and_then(|pointer| self.schema.pointer(pointer));
            return self.value(found.ok_or_else(|| format!("`$ref` to {pointer}: give `records`"))?, random, depth + 1);
        }
        if let Some(value) = schema.get("const") {
            return Ok(value.clone());
        }
        for keyword in ["enum", "oneOf", "anyOf"] {
            let Some(all) = schema[keyword].as_array().filter(|all| !all.is_empty()) else { continue };
            let chosen = &all[random.random_range(0..all.len())];
            return if keyword == "enum" { Ok(chosen.clone()) } else { self.value(chosen, random, depth + 1) };
        }
        let kind = match &schema["type"] {
            Value::String(kind) => kind.as_str(),
            Value::Array(all) if !all.is_empty() => all[random.random_range(0..all.len())].as_str().unwrap_or_default(),
            _ if schema.get("properties").is_some() => "object",
            _ => return Err("a part of the schema has no `type`: give `records`".to_owned()),
        };
        Ok(match kind {
            "null" => Value::Null,
            "boolean" => random.random::<bool>().into(),
            "integer" => integer(schema, random)?,
            "number" => number(schema, random)?,
            "string" => text(schema, random)?.into(),
            "array" => {
                let least = schema["minItems"].as_u64().unwrap_or(0) as usize;
                let most = schema["maxItems"].as_u64().map_or(usize::MAX, |most| most as usize);
                let usual = if depth < values::DEPTH { random.random_range(values::ITEMS) } else { 0 };
                let count = if schema.get("items").is_some() { usual.clamp(least, most.max(least)) } else { 0 };
                (0..count).map(|_| self.value(&schema["items"], random, depth + 1)).collect::<Result<_, _>>()?
            }
            "object" => self.object(schema, random, depth)?,
            other => return Err(format!("no values of the type `{other}` are generated")),
        })
    }

    /// Deep inside, only the properties that must be there.
    fn object(&self, schema: &Value, random: &mut dyn Rng, depth: usize) -> Result<Value, String> {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut object = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if depth < values::DEPTH || required.contains(&name.as_str()) {
                let value = self.value(property, random, depth + 1).map_err(|reason| format!("`{name}`: {reason}"))?;
                object.insert(name.clone(), value);
            }
        }
        Ok(Value::Object(object))
    }
}

impl Encoder for Json {
    fn encode(&self, record: &Value) -> Result<Vec<u8>, String> {
        self.validator.validate(record).map_err(|error| {
            let place = error.instance_path().to_string();
            if place.is_empty() { error.to_string() } else { format!("{place}: {error}") }
        })?;
        serde_json::to_vec(record).map_err(|error| error.to_string())
    }

    fn generate(&self, random: &mut dyn Rng) -> Result<Value, String> {
        self.value(&self.schema, random, 0)
    }
}

/// The least and the most that a number may be: as far apart as usual, where the schema does not limit it.
fn range(schema: &Value, usual: f64, step: f64) -> (f64, f64) {
    let bound = |name: &str, exclusive: &str, step: f64| {
        let open = schema[exclusive].as_f64().map(|bound| bound + step);
        schema[name].as_f64().or(open)
    };
    match (bound("minimum", "exclusiveMinimum", step), bound("maximum", "exclusiveMaximum", -step)) {
        (Some(least), Some(most)) => (least, most),
        (Some(least), None) => (least, least + usual),
        (None, Some(most)) => ((most - usual).max(0.0).min(most), most),
        (None, None) => (0.0, usual),
    }
}

fn integer(schema: &Value, random: &mut dyn Rng) -> Result<Value, String> {
    let (least, most) = range(schema, values::SMALL as f64, 1.0);
    let (least, most) = (least.ceil() as i64, most.floor() as i64);
    if least > most { Err(none_between(least, most)) } else { Ok(random.random_range(least..=most).into()) }
}

fn number(schema: &Value, random: &mut dyn Rng) -> Result<Value, String> {
    let (least, most) = range(schema, 1.0, f64::EPSILON);
    if least > most {
        return Err(none_between(least, most));
    }
    let share: f64 = random.random();
    Ok((least * (1.0 - share) + most * share).clamp(least, most).into())
}

fn none_between(least: impl std::fmt::Display, most: impl std::fmt::Display) -> String {
    format!("no number lies between {least} and {most}")
}

/// By the `format`, where there is one that is known, or of a length as the schema allows it.
fn text(schema: &Value, random: &mut dyn Rng) -> Result<String, String> {
    let name = values::text(random);
    Ok(match schema["format"].as_str() {
        Some("date-time") => values::date_time(random),
        Some("date") => values::date_time(random)[..10].to_owned(),
        Some("time") => values::date_time(random)[11..].to_owned(),
        Some("uuid") => values::uuid(random),
        Some("email") => format!("{name}@example.com"),
        Some("hostname") => format!("{name}.example.com"),
        Some("uri" | "url") => format!("https://example.com/{name}"),
        Some("ipv4") => format!("192.0.2.{}", random.random_range(1..=254)),
        Some(other) if schema.get("format").is_some_and(|_| !["byte", "binary", "password"].contains(&other)) => {
            return Err(format!("no values are generated for the format `{other}`: give `records`"));
        }
        _ => {
            let least = schema["minLength"].as_u64().unwrap_or(0) as usize;
            let most = schema["maxLength"].as_u64().map_or(usize::MAX, |most| most as usize).max(least);
            values::text_of(random, name.len().clamp(least, most))
        }
    })
}
