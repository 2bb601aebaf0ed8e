//! How batches are compressed, for the brokers that have the same codecs under the same numbers. Other brokers have lists of their own, so
//! that the compiler sees that each codec of a list is handled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Codecs by their numbers in the attributes of Kafka's record batches, and in RabbitMQ's sub-entries, which have the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    #[default]
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

impl Compression {
    /// As a scenario, and librdkafka, has it.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }

    /// The codec of a number; `None`: there is none.
    pub fn from_number(number: u8) -> Option<Self> {
        use Compression::{Gzip, Lz4, None as Plain, Snappy, Zstd};
        [Plain, Gzip, Snappy, Lz4, Zstd].get(usize::from(number)).copied()
    }
}
