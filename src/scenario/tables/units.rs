//! Quantities as people write them: `64KiB`, `30s`, `100k/s`, `20M`.
//!
//! A quantity is a decimal number directly followed by its unit. Sizes, durations and counts are computed with integers,
//! so that `1.1GB` is exactly 1,100,000,000 bytes and `0.3B` is refused instead of being rounded.

use std::fmt;
use std::time::Duration;

use crate::scenario::problem::Refusal;

/// How often something happens: messages, or bytes of payload, per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rate {
    MessagesPerSecond(f64),
    BytesPerSecond(f64),
}

/// A kind of quantity: its name, its units with their factors, and how to write it.
struct Quantity {
    name: &'static str,
    units: &'static [(&'static str, u64)],
    /// Units as others write them, in lower case, and ours.
    otherwise: &'static [(&'static str, &'static str)],
    /// What a value has to be a whole one of.
    smallest: &'static str,
    advice: &'static str,
}

const SIZE: Quantity = Quantity {
    name: "size",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("KB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
        ("TB", 1_000_000_000_000),
        ("TiB", 1 << 40),
    ],
    otherwise: &[
        ("byte", "B"),
        ("bytes", "B"),
        ("k", "KiB"),
        ("kb", "kB"),
        ("kib", "KiB"),
        ("m", "MiB"),
        ("mb", "MB"),
        ("mib", "MiB"),
        ("g", "GiB"),
        ("gb", "GB"),
        ("gib", "GiB"),
    ],
    smallest: "number of bytes",
    advice: "write a number and one of B, kB, KiB, MB, MiB, GB, GiB, as in \"64KiB\"",
};

const DURATION: Quantity = Quantity {
    name: "duration",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
    otherwise: &[
        ("msec", "ms"),
        ("sec", "s"),
        ("secs", "s"),
        ("second", "s"),
        ("seconds", "s"),
        ("mins", "min"),
        ("minute", "min"),
        ("minutes", "min"),
        ("hour", "h"),
        ("hours", "h"),
    ],
    smallest: "number of nanoseconds",
    advice: "write a number and one of ns, us, ms, s, min, h, as in \"30s\"",
};

const COUNT: Quantity = Quantity {
    name: "count",
    units: &[("", 1), ("k", 1_000), ("K", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)],
    otherwise: &[("m", "M"), ("g", "G")],
    smallest: "number",
    advice: "write a whole number, or a number with k, M or G, as in \"20M\"",
};

const RATE_ADVICE: &str =
    "write messages per second as in \"500/s\", \"100k/s\" or \"1.5M/s\", or bytes per second as in \"10MiB/s\"";

impl Quantity {
    fn parse(&self, text: &str) -> Result<u64, Refusal> {
        let trimmed = text.trim();
        let (number, unit) = split(trimmed);
        let factor = self.factor(trimmed, number, unit)?;
        let (digits, decimals) = decimal(number).ok_or_else(|| self.error(trimmed, "that is not a number"))?;
        let too_large = || self.error(trimmed, "that is too large");
        let scaled = digits.checked_mul(u128::from(factor)).ok_or_else(too_large)?;
        let divisor = 10u128.checked_pow(decimals).ok_or_else(too_large)?;
        if !scaled.is_multiple_of(divisor) {
            return Err(self.error(trimmed, &format!("it is not a whole {}", self.smallest)));
        }
        u64::try_from(scaled / divisor).map_err(|_| too_large())
    }

    fn factor(&self, text: &str, number: &str, unit: &str) -> Result<u64, Refusal> {
        if number.is_empty() {
            return Err(self.error(text, "it does not begin with a number"));
        }
        match self.units.iter().find(|(name, _)| *name == unit) {
            Some((_, factor)) => Ok(*factor),
            None if unit.is_empty() => Err(self.error(text, "the unit is missing")),
            None => {
                let error = self.error(text, &format!("unknown unit `{unit}`"));
                let near = self.otherwise.iter().find(|(other, _)| *other == unit.to_lowercase());
                let advice = near.map(|(_, ours)| format!("did you mean \"{number}{ours}\"?"));
                Err(Refusal { advice: advice.unwrap_or(error.advice), ..error })
            }
        }
    }

    fn error(&self, text: &str, reason: &str) -> Refusal {
        Refusal::new(format!("\"{text}\" is not a {}: {reason}", self.name), self.advice)
    }
}

/// Bytes: `100B`, `1.5KiB`, `2GB`.
///
/// # Errors
/// On an unknown or missing unit, and when the value is not a whole number of bytes below 2^64.
pub fn parse_size(text: &str) -> Result<u64, Refusal> {
    SIZE.parse(text)
}

/// A span of time: `250ms`, `1.5s`, `10min`.
///
/// # Errors
/// On an unknown or missing unit, and when the value is not a whole number of nanoseconds below 2^64.
pub fn parse_duration(text: &str) -> Result<Duration, Refusal> {
    DURATION.parse(text).map(Duration::from_nanos)
}

/// A number of things: `20M`, `1_000_000`, `1.5k`.
///
/// # Errors
/// On an unknown unit, and when the value is not a whole number below 2^64.
pub fn parse_count(text: &str) -> Result<u64, Refusal> {
    COUNT.parse(text)
}

/// A rate: `100k/s` is messages, `10MiB/s` is bytes. Never zero.
///
/// # Errors
/// When `/s` is missing, on an unknown unit, and when the rate is zero.
pub fn parse_rate(text: &str) -> Result<Rate, Refusal> {
    match parse_rate_or_rest(text)? {
        Rate::MessagesPerSecond(0.0) | Rate::BytesPerSecond(0.0) => {
            Err(rate_error(text.trim(), "it is zero, so nothing would ever be sent"))
        }
        rate => Ok(rate),
    }
}

fn rate_error(text: &str, reason: &str) -> Refusal {
    Refusal::new(format!("\"{text}\" is not a rate: {reason}"), RATE_ADVICE)
}

/// A rate that may be zero: of a part of a schedule in which nothing is sent.
///
/// # Errors
/// When `/s` is missing, and on an unknown unit.
pub fn parse_rate_or_rest(text: &str) -> Result<Rate, Refusal> {
    let trimmed = text.trim();
    let error = |reason: &str| rate_error(trimmed, reason);
    let Some(amount) = trimmed.strip_suffix("/s") else {
        return Err(near_rate(trimmed, error("it does not end with `/s`")));
    };
    let (number, unit) = split(amount.trim_end());
    if number.is_empty() {
        return Err(error("it does not begin with a number"));
    }
    let find = |quantity: &Quantity| quantity.units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let number = decimal(number)
        .map(|(digits, decimals)| digits as f64 / 10f64.powi(decimals as i32))
        .ok_or_else(|| error("that is not a number"))?;
    match (find(&COUNT), find(&SIZE)) {
        (Some(factor), _) => Ok(Rate::MessagesPerSecond(number * factor as f64)),
        (None, Some(factor)) => Ok(Rate::BytesPerSecond(number * factor as f64)),
        (None, None) => Err(near_rate(trimmed, error(&format!("unknown unit `{unit}`")))),
    }
}

/// The error, with the rate in our words where `text` has it in others': `10k`, `10k msg/s`, `10MB/sec`.
fn near_rate(text: &str, error: Refusal) -> Refusal {
    let lower = text.to_ascii_lowercase();
    let (amount, time) = lower.split_once('/').unwrap_or((&lower, "s"));
    // Of another time, the same number is another rate.
    if !["", "s", "sec", "second"].contains(&time.trim()) {
        return error;
    }
    let amount = ["messages", "message", "msgs", "msg", "records", "rps", "mps", "qps"]
        .iter()
        .find_map(|word| amount.trim_end().strip_suffix(word))
        .unwrap_or(amount);
    let meant = format!("{}/s", text.get(..amount.trim_end().len()).unwrap_or_default());
    match meant != text && parse_rate(&meant).is_ok() {
        true => Refusal { advice: format!("did you mean \"{meant}\"?"), ..error },
        false => error,
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::MessagesPerSecond(rate) => write!(formatter, "{rate}/s"),
            Rate::BytesPerSecond(rate) => write!(formatter, "{rate}B/s"),
        }
    }
}

/// The shortest way to write a duration without rounding, in minutes at most: `90s`, `5min`, `200us`.
pub fn format_duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    let units = [("min", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    match units.iter().find(|(_, factor)| nanoseconds != 0 && nanoseconds.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", nanoseconds / factor),
        None if nanoseconds == 0 => "0s".to_owned(),
        None => format!("{nanoseconds}ns"),
    }
}

/// The shortest way to write a number of bytes without rounding: `65536` is `64KiB`.
pub fn format_size(bytes: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, factor)| bytes != 0 && bytes.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

/// The number and what follows it: `1.5KiB` is (`1.5`, `KiB`).
pub(in crate::scenario) fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start())
}

/// `12.50` is (1250, 2): the digits as a whole number and how many of them are decimals.
fn decimal(text: &str) -> Option<(u128, u32)> {
    let clean: String = text.chars().filter(|c| *c != '_').collect();
    let (whole, fraction) = clean.split_once('.').unwrap_or((&clean, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') || text.starts_with('_') {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, u32::try_from(fraction.len()).ok()?))
}

#[cfg(test)]
#[path = "../../../tests/unit/scenario/tables/units.rs"]
mod tests;
