//! Figures as people read them: "12.3 ms", "1,571,234/s", "149.9 MiB".
//!
//! Records keep plain numbers in base units; only sentences and the terminal use these.

use std::fmt::Display;

use serde_json::Value;

const NANOSECONDS_PER_SECOND: f64 = 1e9;

/// What a long pause of the load generator is, in sentences about one: no more is known of its other threads.
pub const SLEEPER: &str = "a thread of the load generator that only sleeps was not woken";

/// A duration given in nanoseconds, with three significant digits and a unit from ns to h.
///
/// ```
/// use brokermark::record::readable::duration;
/// assert_eq!(duration(1_234_567.0), "1.23 ms");
/// assert_eq!(duration(95e9), "1m 35s");
/// ```
pub fn duration(nanoseconds: f64) -> String {
    let seconds = nanoseconds / NANOSECONDS_PER_SECOND;
    if seconds >= 59.95 {
        let whole = seconds.round() as u64;
        return match (whole / 3600, whole / 60 % 60, whole % 60) {
            (0, minutes, seconds) => format!("{minutes}m {seconds:02}s"),
            (hours, minutes, _) => format!("{hours}h {minutes:02}m"),
        };
    }
    // The steps lie where rounding to three digits would otherwise give 1000 of the smaller unit.
    let (value, unit) = match nanoseconds {
        value if value < 999.5 => return format!("{value:.0} ns"),
        value if value < 999.5e3 => (value / 1e3, "µs"),
        value if value < 999.5e6 => (value / 1e6, "ms"),
        value => (value / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// The same, cut off instead of rounded: what lies below a limit is not shown as the limit.
pub fn duration_at_least(nanoseconds: f64) -> String {
    let digits = nanoseconds.max(1.0).log10().floor();
    let unit = 10f64.powf((digits - 2.0).max(0.0));
    duration((nanoseconds / unit).floor() * unit)
}

/// Cores, of which a quota may allow a part: with two digits after the point at most.
pub fn cores(cores: f64) -> String {
    format!("{cores:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A count with its thousands apart: "1,571,234".
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A rate per second without its unit: whole above 100, else with three significant digits.
pub fn rate(per_second: f64) -> String {
    if per_second >= 99.95 { count(per_second.round() as u64) } else { three_digits(per_second) }
}

/// An amount of bytes in binary units: "143.1 MiB".
pub fn bytes(amount: f64) -> String {
    let mut value = amount;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        // Where rounding to one digit would give 1024.0 of the smaller unit.
        if value < 1023.95 {
            return if unit == "B" { format!("{value:.0} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// A share from 0 to 1 in per cent, with as many digits as a small one needs to be seen, and one that is nearly all to be told from all.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value {
        _ if value == 0.0 => "0 %".to_owned(),
        _ if (99.5..99.999_9).contains(&value) => {
            let digits = (1..4).find(|digits| value < 100.0 - 0.5 / 10f64.powi(*digits)).unwrap_or(4) as usize;
            format!("{value:.digits$} %")
        }
        _ if value.abs() >= 9.95 => format!("{value:.0} %"),
        _ if value.abs() >= 0.095 => format!("{value:.1} %"),
        _ if value.abs() >= 0.009_5 => format!("{value:.3} %"),
        _ if value.abs() >= 0.000_1 => format!("{value:.4} %"),
        _ => "under 0.0001 %".to_owned(),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        _ if value >= 99.95 => format!("{value:.0}"),
        _ if value >= 9.995 => format!("{value:.1}"),
        // One message in five minutes is not none.
        _ if value > 1e-9 && value < 0.009_5 => {
            let digits = (1 - value.log10().floor() as i32) as usize;
            format!("{value:.digits$}")
        }
        _ => format!("{value:.2}"),
    }
}

/// A JSON value without the quotation marks of a text.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Keys with their values: "acks = all, min.insync.replicas = 2".
pub fn settings<K: Display, V: Display>(settings: impl IntoIterator<Item = (K, V)>) -> String {
    settings.into_iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ")
}

/// With a capital letter at its begin.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_have_two_digits_after_the_point_at_most() {
        let texts = [0.0, 4.0, 10.0, 1.5, 0.333_333_333, 2.999_999].map(cores);
        assert_eq!(texts, ["0", "4", "10", "1.5", "0.33", "3"]);
    }

    #[test]
    fn durations_change_unit_without_four_digits() {
        let texts =
            [0.0, 999.4, 999.6, 12_345.0, 999_499.0, 999_501.0, 5e6, 1.5e9, 59.9e9, 59.96e9, 3725e9].map(duration);
        assert_eq!(
            texts,
            [
                "0 ns", "999 ns", "1.00 µs", "12.3 µs", "999 µs", "1.00 ms", "5.00 ms", "1.50 s", "59.9 s", "1m 00s",
                "1h 02m"
            ]
        );
    }

    #[test]
    fn what_lies_below_a_limit_is_not_shown_as_the_limit() {
        let texts = [4_999_999_999.0, 5e9, 999_999.0, 12.0, 0.0, 3_599_999_999_999.0].map(duration_at_least);
        assert_eq!(texts, ["4.99 s", "5.00 s", "999 µs", "12 ns", "0 ns", "59m 50s"]);
    }

    #[test]
    fn counts_rates_bytes_and_shares() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.5, 12.34, 99.96, 1_571_234.4].map(rate), ["0.50", "12.3", "100", "1,571,234"]);
        assert_eq!([0.0, 0.001, 0.003_33, 0.01].map(rate), ["0.00", "0.0010", "0.0033", "0.01"]);
        assert_eq!([0.0, 1023.0, 1024.0, 1.5e9].map(bytes), ["0 B", "1023 B", "1.0 KiB", "1.4 GiB"]);
        assert_eq!(
            [0.0, 0.5, 0.0123, 0.000_12, 1e-9].map(percent),
            ["0 %", "50 %", "1.2 %", "0.012 %", "under 0.0001 %"]
        );
        assert_eq!(
            [0.994, 0.998, 0.999_6, 0.999_99, 0.999_999_999, 1.0].map(percent),
            ["99 %", "99.8 %", "99.96 %", "99.999 %", "100 %", "100 %"],
            "nearly all is not all"
        );
    }
}
