//! Payload generators, one family a file: each turns its part of the scenario into the payloads of a pool.

mod lines;
mod log;
mod message_pack;
mod size;
mod template;
mod vector;
mod zeros_random;

use super::draft::Draft;
use super::error::LoadError;
use crate::scenario::{Content, Payload};

/// At least one payload; for the lines of a file at most, for all else exactly, as many as the pool asks for.
pub(super) fn generate(payload: &Payload) -> Result<Draft, LoadError> {
    let Payload { content, pool, seed, tombstones: _ } = payload;
    let (count, seed) = ((*pool).max(1), *seed);
    match content {
        Content::Zeros { size } => zeros_random::zeros(size, count, seed),
        Content::Random { size, compressibility } => zeros_random::random(size, *compressibility, count, seed),
        Content::Lines { file } => lines::lines(file, count),
        Content::Template { template } => template::template(&template.parts, count, seed),
        Content::Vector { dimension } => vector::vectors(*dimension, count, seed),
        Content::MessagePack { size } => message_pack::message_pack(size, count, seed),
        Content::Log { range } => log::logs(*range, count, seed),
    }
}
