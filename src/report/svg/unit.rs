//! How values are written: short at the ticks of an axis, with three digits beside a chart.

use crate::record::readable;

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Events per second.
    PerSecond,
    Nanoseconds,
    Count,
    Cores,
    Share,
    Bytes,
}

impl Unit {
    /// The name that the page's script knows it by.
    pub fn code(self) -> &'static str {
        match self {
            Unit::PerSecond => "rate",
            Unit::Nanoseconds => "ns",
            Unit::Count => "count",
            Unit::Cores => "cores",
            Unit::Share => "share",
            Unit::Bytes => "bytes",
        }
    }

    /// What an axis up to `highest` counts in, with its name: bytes are counted in what is near it.
    pub fn base(self, highest: f64) -> Option<(f64, &'static str)> {
        let units = ["KiB", "MiB", "GiB", "TiB"].into_iter().zip(1..);
        let sizes = units.map(|(name, power)| (1024f64.powi(power), name));
        (self == Unit::Bytes).then(|| sizes.filter(|size| size.0 <= highest).last().unwrap_or((1.0, "B")))
    }

    /// For a tick: "20k", "5 ms".
    pub fn short(self, value: f64) -> String {
        match self {
            Unit::PerSecond | Unit::Count => thousands(value),
            Unit::Nanoseconds => nanoseconds(value),
            Unit::Cores => plain(value),
            Unit::Share => format!("{} %", plain(value * 100.0)),
            Unit::Bytes => readable::bytes(value).replace(".0 ", " "),
        }
    }

    /// For a sentence or a table: "19,980/s", "3.61 ms".
    pub fn exact(self, value: f64) -> String {
        match self {
            Unit::PerSecond => format!("{}/s", readable::rate(value)),
            Unit::Nanoseconds => readable::duration(value),
            Unit::Count => readable::rate(value),
            Unit::Cores => format!("{value:.2}"),
            Unit::Share => readable::percent(value),
            Unit::Bytes => readable::bytes(value),
        }
    }
}

fn thousands(value: f64) -> String {
    match value.abs() {
        size if size >= 1e9 => format!("{}G", plain(value / 1e9)),
        size if size >= 1e6 => format!("{}M", plain(value / 1e6)),
        size if size >= 1e4 => format!("{}k", plain(value / 1e3)),
        size if size >= 1e3 => readable::count(value.round() as u64),
        _ => plain(value),
    }
}

fn nanoseconds(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 0.9995e3 => format!("{} ns", plain(value)),
        value if value < 0.9995e6 => format!("{} µs", plain(value / 1e3)),
        value if value < 0.9995e9 => format!("{} ms", plain(value / 1e6)),
        value => format!("{} s", plain(value / 1e9)),
    }
}

/// At most two digits after the point, without zeros at the end.
pub fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

/// A moment of a trial: "45 s", "1:30 min", "2:15 h".
pub fn moment(seconds: f64) -> String {
    if seconds < 120.0 {
        return format!("{} s", plain((seconds * 10.0).round() / 10.0));
    }
    let whole = seconds.round() as u64;
    if whole < 7200 {
        return format!("{}:{:02} min", whole / 60, whole % 60);
    }
    format!("{}:{:02} h", whole / 3600, whole / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short() {
        assert_eq!(
            [0.0, 500.0, 1500.0, 20e3, 2.5e6].map(|value| Unit::PerSecond.short(value)),
            ["0", "500", "1,500", "20k", "2.5M"]
        );
        assert_eq!([0.0, 5e5, 1e6, 2e9].map(|value| Unit::Nanoseconds.short(value)), ["0", "500 µs", "1 ms", "2 s"]);
        assert_eq!([0.5, 90.0, 150.0, 8100.0].map(moment), ["0.5 s", "90 s", "2:30 min", "2:15 h"]);
    }
}
