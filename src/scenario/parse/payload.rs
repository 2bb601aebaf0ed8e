//! `[payload]`: what messages carry.

use std::path::Path;

use toml::Value;

use super::Context;
use crate::limits::MAX_POOL_BYTES;
use crate::scenario::fields::{Field, Fields};
use crate::scenario::template::Template;
use crate::scenario::{Content, Payload, Size, units};

pub(super) const KEYS: &[&str] =
    &["kind", "size", "compressibility", "file", "text", "dimension", "range", "pool", "seed", "tombstones"];

/// No broker takes messages beyond this.
const MAX: u64 = 1 << 30;
/// What a pool takes by default.
const POOL_BYTES: usize = 64 << 20;
const POOL: usize = 1024;
/// Logs per thread of the published benchmark: random suffixes lie below it.
const LOG_RANGE: u64 = 20_000_000;
const DEFAULT_SIZE: Size = Size::Fixed(100);

/// Payload sizes where they are known before anything is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Sizes {
    pub mean: Option<f64>,
    pub largest: Option<usize>,
}

/// What a file's lines come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LineSizes {
    count: usize,
    bytes: usize,
    longest: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Zeros,
    Random,
    MessagePack,
    Lines,
    Template,
    Vector,
    Log,
}

const KINDS: [(&str, Kind); 7] = [
    ("zeros", Kind::Zeros),
    ("random", Kind::Random),
    ("message-pack", Kind::MessagePack),
    ("lines", Kind::Lines),
    ("template", Kind::Template),
    ("vector", Kind::Vector),
    ("log", Kind::Log),
];

/// Keys that only some kinds have, and how to say which.
const SPECIAL_KEYS: [(&str, &[Kind], &str); 6] = [
    (
        "size",
        &[Kind::Zeros, Kind::Random, Kind::MessagePack],
        "only `zeros`, `random` and `message-pack` payloads have a `size`",
    ),
    ("compressibility", &[Kind::Random], "only `random` payloads have a `compressibility`"),
    ("file", &[Kind::Lines, Kind::Template], "only `lines` and `template` payloads come from a `file`"),
    ("text", &[Kind::Template], "only `template` payloads have a `text`"),
    ("dimension", &[Kind::Vector], "only `vector` payloads have a `dimension`"),
    ("range", &[Kind::Log], "only `log` payloads have a `range`"),
];

pub(super) fn read(root: &Fields<'_>, context: &Context<'_>) -> (Payload, Sizes) {
    let default = Payload { content: Content::Zeros { size: DEFAULT_SIZE }, pool: 1, seed: 1, tombstones: 0.0 };
    let default_sizes = Sizes { mean: Some(DEFAULT_SIZE.mean()), largest: Some(DEFAULT_SIZE.largest()) };
    let Some(fields) = root.get("payload").and_then(|field| field.fields(KEYS)) else {
        return (default, default_sizes);
    };
    let kind = fields.get("kind").map_or(Some(Kind::Zeros), |field| field.one_of(&KINDS));
    let Some(kind) = kind else { return (default, default_sizes) };
    for (key, kinds, reason) in SPECIAL_KEYS {
        if !kinds.contains(&kind) {
            let advice = match (key, kind) {
                ("size", Kind::Vector) => "remove it: a vector has 4 bytes for each of its `dimension`s",
                ("size", _) => "remove it: the content decides the size",
                _ => "remove it, or choose another `payload.kind`",
            };
            fields.forbid(key, reason, advice);
        }
    }
    let Some((content, sizes, pool)) = content(kind, &fields, context) else { return (default, default_sizes) };
    let pool = fields.get("pool").map_or(Some(pool), |field| explicit_pool(&field, sizes));
    let seed = fields.get("seed").and_then(|field| field.seed()).unwrap_or(default.seed);
    let tombstones = fields
        .get("tombstones")
        .and_then(|field| field.number(|share| (0.0..1.0).contains(&share), "it is a share from 0 to below 1"))
        .unwrap_or(default.tombstones);
    let sizes = Sizes { mean: sizes.mean.map(|mean| mean * (1.0 - tombstones)), ..sizes };
    (Payload { content, pool: pool.unwrap_or(1), seed, tombstones }, sizes)
}

/// The content, its sizes, and how many payloads the pool holds by default.
fn content(kind: Kind, fields: &Fields<'_>, context: &Context<'_>) -> Option<(Content, Sizes, usize)> {
    let size = || fields.get("size").map_or(Some(DEFAULT_SIZE), |field| size(&field));
    let of_size = |size: &Size| Sizes { mean: Some(size.mean()), largest: Some(size.largest()) };
    Some(match kind {
        Kind::Zeros => {
            let size = size()?;
            let sizes = of_size(&size);
            // Zeros of one size are all the same.
            let pool = if matches!(size, Size::Fixed(_)) { 1 } else { default_pool(sizes) };
            (Content::Zeros { size }, sizes, pool)
        }
        Kind::Random => {
            let size = size()?;
            let sizes = of_size(&size);
            let share = fields
                .get("compressibility")
                .map(|field| field.number(|share| (0.0..=1.0).contains(&share), "it is a share from 0 to 1"));
            (Content::Random { size, compressibility: share.unwrap_or(Some(0.0))? }, sizes, default_pool(sizes))
        }
        Kind::MessagePack => {
            let size = size()?;
            let (mean, largest) = (size.mean(), size.largest());
            let head = message_pack_head;
            let sizes = Sizes { mean: Some(mean + head(mean as usize) as f64), largest: Some(largest + head(largest)) };
            (Content::MessagePack { size }, sizes, default_pool(sizes))
        }
        Kind::Vector => {
            let most = usize::try_from(MAX / 4).unwrap_or(usize::MAX);
            let dimension =
                fields.require("dimension", "write how many floats a vector has, as in 512")?.amount(1, most)?;
            let sizes = of_size(&Size::Fixed(dimension * 4));
            (Content::Vector { dimension }, sizes, default_pool(sizes))
        }
        Kind::Log => {
            let range = fields.get("range").map_or(Some(LOG_RANGE), |field| field.count(1, u64::MAX))?;
            (Content::Log { range }, Sizes::default(), POOL)
        }
        Kind::Lines => lines(fields, context)?,
        Kind::Template => (Content::Template { template: template(fields, context)? }, Sizes::default(), POOL),
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

fn lines(fields: &Fields<'_>, context: &Context<'_>) -> Option<(Content, Sizes, usize)> {
    let field = fields.require("file", "name the file whose lines are sent")?;
    let file = context.payload_file(&field)?;
    let known = context.line_files.borrow().get(&file).cloned();
    let lines = known.unwrap_or_else(|| {
        let lines = line_sizes(&file);
        context.line_files.borrow_mut().insert(file.clone(), lines.clone());
        lines
    });
    let lines = lines.map_err(|reason| field.refuse(reason, "give a text file, one message to a line")).ok()?;
    let mean = lines.bytes as f64 / lines.count as f64;
    let pool = lines.count.min((POOL_BYTES as f64 / mean.max(1.0)) as usize).max(1);
    Some((Content::Lines { file }, Sizes { mean: Some(mean), largest: Some(lines.longest) }, pool))
}

fn default_pool(sizes: Sizes) -> usize {
    (POOL_BYTES / sizes.largest.unwrap_or(1).max(1)).clamp(1, POOL)
}

fn explicit_pool(field: &Field<'_>, sizes: Sizes) -> Option<usize> {
    let pool = field.amount(1, 10_000_000)?;
    let largest = sizes.largest.unwrap_or(1).max(1);
    if pool.saturating_mul(largest) > MAX_POOL_BYTES {
        let message = format!("`payload.pool` would take {pool} × {}", units::format_size(largest as u64));
        field.refuse(message, format!("at most {} fit into 4GiB", MAX_POOL_BYTES / largest));
    }
    Some(pool)
}

fn line_sizes(file: &Path) -> Result<LineSizes, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    let mut sizes = LineSizes { count: 0, bytes: 0, longest: 0 };
    for line in bytes.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        if !line.is_empty() {
            sizes.count += 1;
            sizes.bytes += line.len();
            sizes.longest = sizes.longest.max(line.len());
        }
    }
    if sizes.count == 0 { Err(format!("{} has no lines", file.display())) } else { Ok(sizes) }
}

fn template(fields: &Fields<'_>, context: &Context<'_>) -> Option<Template> {
    fields.exclusive("text", "file", "keep one of them");
    let (field, text) = match (fields.get("text"), fields.get("file")) {
        (Some(field), _) => {
            let text = field.string()?.to_owned();
            (field, text)
        }
        (None, Some(field)) => {
            let file = context.payload_file(&field)?;
            let text = std::fs::read_to_string(&file)
                .map_err(|error| {
                    field.refuse(format!("{} cannot be read: {error}", file.display()), "give a text file")
                })
                .ok()?;
            (field, text)
        }
        (None, None) => fields
            .require("text", "write the template itself, as in '{\"id\":${counter}}', or `file = \"…\"`")
            .map(|field| (field, String::new()))?,
    };
    if text.is_empty() {
        field.refuse(format!("`{}` is an empty template", field.path), "write what messages carry");
    }
    Template::parse(&text).map_err(|error| field.refuse(error.message, error.advice)).ok()
}

fn size(field: &Field<'_>) -> Option<Size> {
    const ADVICE: &str = "write it as in { uniform = [\"100B\", \"1KiB\"] }, \
        { normal = { mean = \"1KiB\", deviation = \"200B\" } } or { choices = [[\"100B\", 9], [\"10KiB\", 1]] }";
    if !matches!(field.value, Value::Table(_)) {
        return bytes(field).map(Size::Fixed);
    }
    let fields = field.fields(&["uniform", "normal", "choices"])?;
    let given: Vec<_> = ["uniform", "normal", "choices"].into_iter().filter_map(|key| fields.get(key)).collect();
    if given.len() != 1 {
        field.refuse(format!("`{}` needs one distribution, not {}", field.path, given.len()), ADVICE);
        return None;
    }
    if let Some(uniform) = fields.get("uniform") {
        let [min, max] = uniform.pair(ADVICE)?;
        let (min, max) = (bytes(&min)?, bytes(&max)?);
        if min > max {
            uniform.refuse(format!("`{}` ends below its beginning", uniform.path), "write the smaller size first");
        }
        return Some(Size::Uniform { min, max });
    }
    if let Some(normal) = fields.get("normal") {
        let normal = normal.fields(&["mean", "deviation", "max"])?;
        let mean = bytes(&normal.require("mean", ADVICE)?)?;
        let deviation = bytes(&normal.require("deviation", ADVICE)?)?;
        let max = match normal.get("max") {
            Some(field) => {
                let max = bytes(&field)?;
                if max < mean {
                    field.refuse(format!("`{}` is below the mean", field.path), "set it to the mean or more");
                }
                max
            }
            None => mean.saturating_add(deviation.saturating_mul(4)),
        };
        return Some(Size::Normal { mean: mean as f64, deviation: deviation as f64, max });
    }
    let choices = fields.get("choices")?.elements(ADVICE)?;
    let choices: Vec<Option<(usize, f64)>> = choices
        .iter()
        .map(|choice| {
            let [size, weight] = choice.pair(ADVICE)?;
            Some((bytes(&size)?, weight.number(|weight| weight > 0.0, "a weight is above 0")?))
        })
        .collect();
    choices.into_iter().collect::<Option<Vec<_>>>().map(Size::Choices)
}

fn bytes(field: &Field<'_>) -> Option<usize> {
    field.size(MAX).and_then(|bytes| usize::try_from(bytes).ok())
}
