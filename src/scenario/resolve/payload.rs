//! `[payload]`: what messages carry.

use std::path::PathBuf;

use super::line_sizes::{LineSizes, POOL_BYTES, Sizes};
use super::{Reader, schema};
use crate::limits::MAX_POOL_BYTES;
use crate::scenario::tables::template::Template;
use crate::scenario::tables::{
    Content, DEFAULT_SIZE, Payload, PayloadKind as Kind, PayloadSize, PayloadTable, SCHEMA, Size, SizeDistribution,
    SizeTable, Topology, units,
};

const POOL: usize = 1024;
/// Logs per thread of the published benchmark: random suffixes lie below it.
const LOG_RANGE: u64 = 20_000_000;

/// Keys that only some kinds have, and how to say which.
const SPECIAL_KEYS: [(&str, &[Kind], &str); 7] = [
    (
        "size",
        &[Kind::Zeros, Kind::Random, Kind::MessagePack],
        "only `zeros`, `random` and `message-pack` payloads have a `size`",
    ),
    ("compressibility", &[Kind::Random], "only `random` payloads have a `compressibility`"),
    (
        "file",
        &[Kind::Lines, Kind::Files, Kind::Template],
        "only `lines`, `files` and `template` payloads come from a `file`",
    ),
    ("text", &[Kind::Template], "only `template` payloads have a `text`"),
    ("dimension", &[Kind::Vector], "only `vector` payloads have a `dimension`"),
    ("range", &[Kind::Log], "only `log` payloads have a `range`"),
    ("schema", &[Kind::Schema], "only `schema` payloads have a `schema`"),
];

pub(super) fn read(reader: &Reader<'_>, table: &PayloadTable, topology: &Topology) -> (Payload, Sizes) {
    let kind = table.kind;
    for (key, kinds, reason) in SPECIAL_KEYS {
        if !kinds.contains(&kind) {
            let advice = match (key, kind) {
                ("size", Kind::Vector) => "remove it: a vector has 4 bytes for each of its `dimension`s",
                ("size", _) => "remove it: the content decides the size",
                _ => "remove it, or choose another `payload.kind`",
            };
            reader.forbid(&format!("payload.{key}"), reason, advice);
        }
    }
    let seed = table.seed;
    let Some((content, sizes, pool)) = content(reader, table, topology) else {
        // What else is checked needs some size.
        let size = Size::Fixed(1);
        let sizes = Sizes { mean: Some(size.mean()), largest: Some(size.largest()) };
        return (Payload { content: Content::Zeros { size }, pool: 1, seed, tombstones: 0.0 }, sizes);
    };
    let pool = table.pool.map_or(pool, |pool| explicit_pool(reader, pool, sizes));
    let tombstones = table.tombstones;
    let sizes = Sizes { mean: sizes.mean.map(|mean| mean * (1.0 - tombstones)), ..sizes };
    (Payload { content, pool, seed, tombstones }, sizes)
}

/// The content, its sizes, and how many payloads the pool holds by default.
fn content(reader: &Reader<'_>, table: &PayloadTable, topology: &Topology) -> Option<(Content, Sizes, usize)> {
    let size = || size_of(reader, table.size.as_ref().unwrap_or(&DEFAULT_SIZE));
    let of_size = |size: &Size| Sizes { mean: Some(size.mean()), largest: Some(size.largest()) };
    Some(match table.kind {
        Kind::Zeros => {
            let size = size();
            let sizes = of_size(&size);
            // Zeros of one size are all the same.
            let pool = if matches!(size, Size::Fixed(_)) { 1 } else { default_pool(sizes) };
            (Content::Zeros { size }, sizes, pool)
        }
        Kind::Random => {
            let size = size();
            let sizes = of_size(&size);
            let compressibility = table.compressibility.unwrap_or(0.0);
            (Content::Random { size, compressibility }, sizes, default_pool(sizes))
        }
        Kind::MessagePack => {
            let size = size();
            let (mean, largest) = (size.mean(), size.largest());
            let head = message_pack_head;
            let sizes = Sizes { mean: Some(mean + head(mean as usize) as f64), largest: Some(largest + head(largest)) };
            (Content::MessagePack { size }, sizes, default_pool(sizes))
        }
        Kind::Vector => {
            reader.missing("payload", "dimension", "write how many floats a vector has, as in 512");
            let dimension = table.dimension?;
            let sizes = of_size(&Size::Fixed(dimension * 4));
            (Content::Vector { dimension }, sizes, default_pool(sizes))
        }
        Kind::Log => (Content::Log { range: table.range.unwrap_or(LOG_RANGE) }, Sizes::default(), POOL),
        Kind::Lines => {
            reader.missing("payload", "file", "name the file whose lines are sent");
            lines(reader, table.file.clone()?)?
        }
        Kind::Files => {
            reader.missing("payload", "file", "name the file that is sent, or a folder with a file for each message");
            let refuse = |reason: String| reader.refuse("payload.file", reason, "name files that are not empty");
            let (files, sizes) = LineSizes::of_files(table.file.as_ref()?).map_err(refuse).ok()?;
            (Content::Files { files }, sizes.sizes(), sizes.pool())
        }
        Kind::Schema => {
            reader.missing("payload", "schema", SCHEMA);
            let (content, sizes) = schema::read(reader, table.schema.as_ref()?, topology)?;
            let pool = sizes.map_or(POOL, |sizes| sizes.pool());
            (Content::Schema(content), sizes.map(LineSizes::sizes).unwrap_or_default(), pool)
        }
        Kind::Template => (Content::Template { template: template(reader, table)? }, Sizes::default(), POOL),
    })
}

/// Bytes that MessagePack puts before so many bytes of the type `bin`.
fn message_pack_head(bytes: usize) -> usize {
    match bytes {
        0..=0xff => 2,
        0x100..=0xffff => 3,
        _ => 5,
    }
}

fn lines(reader: &Reader<'_>, file: PathBuf) -> Option<(Content, Sizes, usize)> {
    let known = reader.context.line_files.borrow().get(&file).cloned();
    let lines = known.unwrap_or_else(|| {
        let lines = LineSizes::read(&file);
        reader.context.line_files.borrow_mut().insert(file.clone(), lines.clone());
        lines
    });
    let refuse = |reason: String| reader.refuse("payload.file", reason, "give a text file, one message to a line");
    let lines = lines.map_err(refuse).ok()?;
    Some((Content::Lines { file }, lines.sizes(), lines.pool()))
}

fn default_pool(sizes: Sizes) -> usize {
    (POOL_BYTES / sizes.largest.unwrap_or(1).max(1)).clamp(1, POOL)
}

fn explicit_pool(reader: &Reader<'_>, pool: usize, sizes: Sizes) -> usize {
    let largest = sizes.largest.unwrap_or(1).max(1);
    if pool.saturating_mul(largest) > MAX_POOL_BYTES {
        let message = format!("`payload.pool` would take {pool} × {}", units::format_size(largest as u64));
        reader.refuse("payload.pool", message, format!("at most {} fit into 4GiB", MAX_POOL_BYTES / largest));
    }
    pool
}

fn template(reader: &Reader<'_>, table: &PayloadTable) -> Option<Template> {
    reader.exclusive("payload", "text", "file", "keep one of them");
    let (key, text) = match (&table.text, &table.file) {
        (Some(text), _) => ("payload.text", text.clone()),
        (None, Some(file)) => {
            let refuse = |error: std::io::Error| {
                let message = format!("{} cannot be read: {error}", file.display());
                reader.refuse("payload.file", message, "give a text file");
            };
            ("payload.file", std::fs::read_to_string(file).map_err(refuse).ok()?)
        }
        (None, None) => {
            if !reader.has("payload.file") {
                let advice = "write the template itself, as in '{\"id\":${counter}}', or `file = \"…\"`";
                reader.missing("payload", "text", advice);
            }
            return None;
        }
    };
    if text.is_empty() {
        reader.refuse(key, format!("`{key}` is an empty template"), "write what messages carry");
    }
    Template::parse(&text).map_err(|error| reader.refuse(key, error.message, error.advice)).ok()
}

fn size_of(reader: &Reader<'_>, size: &SizeTable) -> Size {
    match size {
        SizeTable::Fixed(size) => Size::Fixed(size.bytes()),
        SizeTable::Drawn(SizeDistribution::Uniform([min, max])) => {
            let (min, max) = (min.bytes(), max.bytes());
            if min > max {
                let key = "payload.size.uniform";
                reader.refuse(key, format!("`{key}` ends below its beginning"), "write the smaller size first");
            }
            Size::Uniform { min, max }
        }
        SizeTable::Drawn(SizeDistribution::Normal(normal)) => {
            let (mean, deviation) = (normal.mean.bytes(), normal.deviation.bytes());
            let max = normal.max.map_or_else(|| mean.saturating_add(deviation.saturating_mul(4)), PayloadSize::bytes);
            if max < mean {
                let key = "payload.size.normal.max";
                reader.refuse(key, format!("`{key}` is below the mean"), "set it to the mean or more");
            }
            Size::Normal { mean: mean as f64, deviation: deviation as f64, max }
        }
        SizeTable::Drawn(SizeDistribution::Choices(choices)) => {
            Size::Choices(choices.iter().map(|(size, weight)| (size.bytes(), weight.0)).collect())
        }
    }
}
