//! What messages carry, as the scenario describes it: checked, with nothing generated yet.

use std::path::PathBuf;

use super::template::Template;
use crate::limits::TRACE_HEADER_BYTES;

/// What messages carry.
#[derive(Debug, Clone, PartialEq)]
pub struct Payload {
    pub content: Content,
    /// Ready-made payloads that the producers take in turn; at least 1.
    pub pool: usize,
    pub seed: u64,
    /// The share (0 to below 1) of the messages that have a null payload.
    pub tombstones: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Zeros {
        size: Size,
    },
    /// `compressibility` is the share (0 to 1) of every payload that repeats one byte; the rest is random.
    Random {
        size: Size,
        compressibility: f64,
    },
    /// One MessagePack value of the type `bin`, of that many random bytes.
    MessagePack {
        size: Size,
    },
    /// The lines of a text file, without their line ends; not empty.
    Lines {
        file: PathBuf,
    },
    /// Text with `${…}` placeholders: see `docs/SCENARIO.md`.
    Template {
        template: Template,
    },
    /// `dimension` little-endian 32-bit floats, uniform in [0, 1).
    Vector {
        dimension: usize,
    },
    /// The log lines of the published Aliyun benchmark: eight keys of which all values share one random suffix in [0, `range`).
    Log {
        range: u64,
    },
}

impl Payload {
    /// Whether every payload may carry the trace header of [`TRACE_HEADER_BYTES`] in itself. Otherwise a message header
    /// carries it, and a broker without headers is refused when the scenario is read. Payloads for other readers are
    /// never altered.
    pub fn fits_trace_header(&self) -> bool {
        match &self.content {
            Content::Zeros { size } | Content::Random { size, .. } => size.smallest() >= TRACE_HEADER_BYTES,
            Content::Vector { dimension } => dimension * 4 >= TRACE_HEADER_BYTES,
            Content::MessagePack { .. } | Content::Lines { .. } | Content::Template { .. } | Content::Log { .. } => {
                false
            }
        }
    }
}

impl Content {
    /// The expected size of a payload in bytes; `None` where that is only known when payloads are made.
    pub fn mean_bytes(&self) -> Option<f64> {
        match self {
            Content::Zeros { size } | Content::Random { size, .. } | Content::MessagePack { size } => Some(size.mean()),
            Content::Vector { dimension } => Some(*dimension as f64 * 4.0),
            Content::Lines { .. } | Content::Template { .. } | Content::Log { .. } => None,
        }
    }
}

/// Payload sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Size {
    Fixed(usize),
    Uniform {
        min: usize,
        max: usize,
    },
    /// Cut off below at 1 byte and above at `max`.
    Normal {
        mean: f64,
        deviation: f64,
        max: usize,
    },
    /// Sizes with their relative weights; not empty, weights > 0.
    Choices(Vec<(usize, f64)>),
}

impl Size {
    /// The least that can occur.
    pub fn smallest(&self) -> usize {
        match self {
            Size::Fixed(size) => *size,
            Size::Uniform { min, .. } => *min,
            Size::Normal { .. } => 1,
            Size::Choices(choices) => choices.iter().map(|(size, _)| *size).min().unwrap_or(0),
        }
    }

    /// The most that can occur.
    pub fn largest(&self) -> usize {
        match self {
            Size::Fixed(size) => *size,
            Size::Uniform { max, .. } | Size::Normal { max, .. } => *max,
            Size::Choices(choices) => choices.iter().map(|(size, _)| *size).max().unwrap_or(0),
        }
    }

    /// The expected size in bytes; of a normal distribution, as if it were not cut off.
    pub fn mean(&self) -> f64 {
        match self {
            Size::Fixed(size) => *size as f64,
            Size::Uniform { min, max } => (*min as f64 + *max as f64) / 2.0,
            Size::Normal { mean, .. } => *mean,
            Size::Choices(choices) => {
                let weights: f64 = choices.iter().map(|(_, weight)| weight).sum();
                choices.iter().map(|(size, weight)| *size as f64 * weight).sum::<f64>() / weights
            }
        }
    }
}
