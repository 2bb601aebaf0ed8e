//! The key `acks` of `[broker.kafka]`, which both clients of Kafka have.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// Which acknowledgements a produce request waits for, by their numbers in it. Written as text or as a number: `"all"`, `"1"`, `1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredAcks {
    None = 0,
    Leader = 1,
    All = -1,
}

impl RequiredAcks {
    /// As a scenario has it.
    pub fn name(self) -> &'static str {
        match self {
            RequiredAcks::None => "0",
            RequiredAcks::Leader => "1",
            RequiredAcks::All => "all",
        }
    }
}

impl JsonSchema for RequiredAcks {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RequiredAcks".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [
            { "type": "string", "enum": ["all", "0", "1", "-1"] },
            { "type": "integer", "minimum": -1, "maximum": 1, "x-advice": "it is one of `0`, `1` and `\"all\"`" },
        ] })
    }
}

impl<'de> Deserialize<'de> for RequiredAcks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer)?.to_string().trim_matches('"') {
            "0" => Ok(RequiredAcks::None),
            "1" => Ok(RequiredAcks::Leader),
            "all" | "-1" => Ok(RequiredAcks::All),
            other => Err(D::Error::unknown_variant(other, &["0", "1", "all"])),
        }
    }
}
