//! `[thresholds]`: requirements, each as `metric comparison value`.

use crate::scenario::fields::{Field, Fields};
use crate::scenario::metric_name::metric;
use crate::scenario::units::{self, UnitError};
use crate::scenario::{Comparison, Metric, Threshold, WhenInvalid};

pub(super) const KEYS: &[&str] = &["require", "when_invalid"];

const ADVICE: &str = "write `metric comparison value`, as in \"p99 < 10ms\" or \"messages_per_second > 50k\"";

/// Two-character signs first, so that `<=` is not read as `<`.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("==", Comparison::Equal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

pub(super) fn read(root: &Fields<'_>) -> (Vec<Threshold>, WhenInvalid) {
    let Some(fields) = root.get("thresholds").and_then(|field| field.fields(KEYS)) else {
        return Default::default();
    };
    let words = [("fail", WhenInvalid::Fail), ("ignore", WhenInvalid::Ignore)];
    let when_invalid = fields.get("when_invalid").and_then(|field| field.one_of(&words)).unwrap_or_default();
    let require = match fields.has("when_invalid") {
        true => fields.require("require", "`when_invalid` does nothing without it: write `require = [\"p99 < 10ms\"]`"),
        false => fields.get("require"),
    };
    let Some(field) = require else { return (Vec::new(), when_invalid) };
    // A single one needs no list, which is handy on the command line.
    let single = field.value.is_str();
    let each = if single { vec![field] } else { field.elements(ADVICE).unwrap_or_default() };
    (each.iter().filter_map(threshold).collect(), when_invalid)
}

fn threshold(field: &Field<'_>) -> Option<Threshold> {
    let text = field.string()?;
    parse(text).map_err(|error| field.refuse(error.message, error.advice)).ok()
}

/// Reads one threshold.
fn parse(text: &str) -> Result<Threshold, UnitError> {
    let error = |message: String, advice: &str| UnitError { message, advice: advice.to_owned() };
    let (position, sign, comparison) = COMPARISONS
        .iter()
        .filter_map(|(sign, comparison)| Some((text.find(sign)?, *sign, *comparison)))
        .min_by_key(|(position, sign, _)| (*position, 2 - sign.len()))
        .ok_or_else(|| error(format!("\"{text}\" compares nothing"), ADVICE))?;
    let (name, value) = (text[..position].trim(), text[position + sign.len()..].trim());
    let metric = metric(name)?;
    let value = match metric {
        Metric::Latency(..) | Metric::CpuPerMessage => units::parse_duration(value)?.as_nanos() as f64,
        Metric::PayloadBytesPerSecond => units::parse_size(value.strip_suffix("/s").unwrap_or(value))? as f64,
        Metric::MessagesPerSecond | Metric::ConsumedPerSecond | Metric::WrittenPerSecond => {
            units::parse_count(value.strip_suffix("/s").unwrap_or(value))? as f64
        }
        _ => units::parse_count(value)? as f64,
    };
    Ok(Threshold { text: text.to_owned(), metric, comparison, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{LatencyKind, LatencyStatistic};

    fn parsed(text: &str) -> (Metric, Comparison, f64) {
        let threshold = parse(text).unwrap();
        (threshold.metric, threshold.comparison, threshold.value)
    }

    #[test]
    fn what_people_write() {
        use LatencyKind::{EndToEnd, Headline, Service};
        let quantile = |kind, share| Metric::Latency(kind, LatencyStatistic::Quantile(share));
        assert_eq!(parsed("p99 < 10ms"), (quantile(Headline, 0.99), Comparison::Less, 1e7));
        assert_eq!(parsed("messages_per_second > 50k"), (Metric::MessagesPerSecond, Comparison::Greater, 5e4));
        assert_eq!(parsed("messages_per_second>50k/s"), (Metric::MessagesPerSecond, Comparison::Greater, 5e4));
        assert_eq!(parsed("lost = 0"), (Metric::Lost, Comparison::Equal, 0.0));
        assert_eq!(parsed("lost == 0"), (Metric::Lost, Comparison::Equal, 0.0));
        assert_eq!(parsed("end_to_end.p50 <= 50ms"), (quantile(EndToEnd, 0.5), Comparison::LessOrEqual, 5e7));
        assert_eq!(parsed("p100>=1us"), (quantile(Headline, 1.0), Comparison::GreaterOrEqual, 1e3));
        let max = Metric::Latency(Service, LatencyStatistic::Max);
        assert_eq!(parsed("service.max < 1s"), (max, Comparison::Less, 1e9));
        assert_eq!(parsed("payload_bytes_per_second > 10MiB/s").2, 10_485_760.0);
    }

    #[test]
    fn what_is_refused_and_why() {
        let refusals = [
            "p99",
            "p101 < 1ms",
            "p0 < 1ms",
            "p99 < 10",
            "p99 < 10 parsecs",
            "messages_per_secnd > 5",
            "end_too_end.p99 < 1s",
            "speed > 5",
            "lost < many",
        ]
        .map(|text| parse(text).unwrap_err().to_string());
        insta::assert_snapshot!(refusals.join("\n"), @r##"
        "p99" compares nothing: write `metric comparison value`, as in "p99 < 10ms" or "messages_per_second > 50k"
        unknown percentile `p101`: percentiles lie above 0 and at most at 100, as in `p50` or `p99.9`
        unknown percentile `p0`: percentiles lie above 0 and at most at 100, as in `p50` or `p99.9`
        "10" is not a duration: the unit is missing: write a number and one of ns, us, ms, s, min, h, as in "30s"
        "10 parsecs" is not a duration: unknown unit `parsecs`: write a number and one of ns, us, ms, s, min, h, as in "30s"
        unknown metric `messages_per_secnd`: did you mean `messages_per_second`?
        unknown metric `end_too_end.p99`: did you mean `end_to_end.p99`? Any percentile, `mean` and `max` are possible
        unknown metric `speed`: latencies are p99 and other percentiles, `mean` and `max`, alone or after `response`, `service`, `schedule_delay` and `end_to_end` with a dot; other metrics are `messages_per_second`, `payload_bytes_per_second`, `consumed_per_second`, `written_per_second`, `consumer_lag`, `failed`, `unresolved`, `lost`, `unread`, `duplicated`, `reordered`, `corrupt` and `cpu_per_message`
        "many" is not a count: it does not begin with a number: write a whole number, or a number with k, M or G, as in "20M"
        "##);
    }
}
