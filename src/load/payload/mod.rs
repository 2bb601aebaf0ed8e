//! Payload generators, one family a file: each turns its part of the scenario into the payloads of a pool.

mod binary;
pub(super) mod draft;
mod text;

use self::draft::Draft;
use super::LoadError;
use crate::scenario::{Content, Payload};

/// At least one payload; for the lines of a file at most, for all else exactly, as many as the pool asks for.
pub(super) fn generate(payload: &Payload) -> Result<Draft, LoadError> {
    let Payload { content, pool, seed, tombstones: _ } = payload;
    let (count, seed) = ((*pool).max(1), *seed);
    match content {
        Content::Zeros { size } => binary::zeros(size, count, seed),
        Content::Random { size, compressibility } => binary::random(size, *compressibility, count, seed),
        Content::Lines { file } => text::lines(file, count),
        Content::Template { template } => text::template(&template.parts, count, seed),
        Content::Vector { dimension } => binary::vectors(*dimension, count, seed),
        Content::MessagePack { size } => binary::message_pack(size, count, seed),
        Content::Log { range } => text::logs(*range, count, seed),
    }
}
