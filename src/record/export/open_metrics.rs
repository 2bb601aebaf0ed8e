//! Figures in the text format of OpenMetrics 1.0 (prometheus.io, "OpenMetrics"), which Prometheus scrapes and `promtool` reads: of finished trials
//! from their records, and of a running one from what is counted so far.

use std::fmt::Write;

use hdrhistogram::Histogram;

use crate::record::schema::Record;

/// Upper ends of the buckets of latencies, in nanoseconds.
pub const BUCKETS_NS: [u64; 20] = [
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    20_000_000_000,
    60_000_000_000,
    120_000_000_000,
];

/// Values in buckets: how many are not above the upper end of each, and their sum.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Buckets {
    at_most: [u64; BUCKETS_NS.len()],
    count: u64,
    sum_ns: f64,
}

impl Buckets {
    /// Adds the values of a histogram of nanoseconds. `beyond_range` more are above all buckets; their sum is unknown.
    pub fn add(&mut self, histogram: &Histogram<u64>, beyond_range: u64) {
        for value in histogram.iter_recorded() {
            let (value_ns, count) = (value.value_iterated_to(), value.count_at_value());
            let first = BUCKETS_NS.partition_point(|end_ns| *end_ns < value_ns);
            self.at_most[first..].iter_mut().for_each(|at_most| *at_most += count);
            self.sum_ns += value_ns as f64 * count as f64;
        }
        self.count = self.count.saturating_add(histogram.len().saturating_add(beyond_range));
    }
}

/// Names and values that tell samples of one metric apart.
pub type Labels<'a> = [(&'a str, &'a str)];

/// The text in the making. All samples of a metric follow its metadata, as the format wants it.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// The metadata of a metric: `kind` is `counter`, `gauge`, `histogram` or `info`.
    pub fn metric(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        let _ = writeln!(self.0, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP {name} {help}");
    }

    /// A value of the metric that was named last. `suffix`: `_total` of a counter, `_info` of an info.
    pub fn sample(&mut self, name: &str, suffix: &str, labels: &Labels<'_>, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{suffix}{} {value}", within_braces(labels));
    }

    /// A figure of one trial by the name of its metric; nothing where it is not known.
    pub fn figure(&mut self, name: &str, labels: &Labels<'_>, value: Option<f64>) {
        let metric = METRICS.iter().find(|(known, ..)| *known == name);
        if let Some(((name, kind, unit, help, _), value)) = metric.zip(value) {
            self.metric(name, kind, unit, help);
            self.sample(name, suffix(kind), labels, value);
        }
    }

    /// A latency of one trial by its name in a record.
    pub fn latency(&mut self, latency: &str, labels: &Labels<'_>, buckets: &Buckets) {
        if let Some((_, name, help)) = LATENCIES.iter().find(|(known, ..)| *known == latency) {
            self.metric(name, "histogram", "seconds", help);
            self.buckets(name, labels, buckets);
        }
    }

    /// All samples of a histogram.
    fn buckets(&mut self, name: &str, labels: &Labels<'_>, buckets: &Buckets) {
        for (end_ns, at_most) in BUCKETS_NS.iter().zip(buckets.at_most) {
            let end = format!("{:?}", *end_ns as f64 / 1e9);
            self.sample(name, "_bucket", &[labels, &[("le", end.as_str())]].concat(), at_most);
        }
        self.sample(name, "_bucket", &[labels, &[("le", "+Inf")]].concat(), buckets.count);
        self.sample(name, "_count", labels, buckets.count);
        self.sample(name, "_sum", labels, buckets.sum_ns / 1e9);
    }

    /// The whole text with its mark of the end.
    pub fn finish(mut self) -> String {
        self.0.push_str("# EOF\n");
        self.0
    }
}

fn within_braces(labels: &Labels<'_>) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let each: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", each.join(","))
}

/// What is put behind the name of a metric in its samples.
fn suffix(kind: &str) -> &'static str {
    if kind == "counter" { "_total" } else { "" }
}

/// A metric of a trial: its name, kind and unit, what it is, and its value in a record where that has it; some only a running trial has.
type Metric = (&'static str, &'static str, &'static str, &'static str, fn(&Record) -> Option<f64>);

const METRICS: [Metric; 16] = [
    ("brokermark_messages_due", "counter", "", "Messages that the schedule had due.", |_| None),
    ("brokermark_messages_in_flight", "gauge", "", "Messages without an outcome.", |_| None),
    ("brokermark_broker_memory_bytes", "gauge", "", "Resident memory of the broker's processes.", |_| None),
    ("brokermark_messages_attempted", "counter", "", "Messages handed to the client.", |record| {
        Some(record.counts.attempted as f64)
    }),
    ("brokermark_messages_acknowledged", "counter", "", "Messages that the broker acknowledged.", |record| {
        Some(record.counts.acknowledged as f64)
    }),
    ("brokermark_messages_failed", "counter", "", "Messages that failed.", |record| Some(record.counts.failed as f64)),
    ("brokermark_messages_unresolved", "counter", "", "Messages without an outcome.", |record| {
        Some(record.counts.unresolved as f64)
    }),
    ("brokermark_messages_unsent", "counter", "", "Messages that were due and never sent.", |record| {
        Some(record.counts.unsent as f64)
    }),
    ("brokermark_messages_consumed", "counter", "", "Messages received.", |record| {
        record.counts.consumed.map(|consumed| consumed as f64)
    }),
    ("brokermark_messages_lost", "counter", "", "Messages acknowledged and never received.", |record| {
        record.verification.as_ref().map(|found| found.lost as f64)
    }),
    ("brokermark_payload_acknowledged_bytes", "counter", "bytes", "Payload of acknowledged messages.", |record| {
        Some(record.counts.payload_bytes_acknowledged as f64)
    }),
    ("brokermark_expected_messages_per_second", "gauge", "", "Rate that the schedule asked for.", |record| {
        record.throughput.target_per_second
    }),
    ("brokermark_achieved_messages_per_second", "gauge", "", "Messages acknowledged, per second.", |record| {
        Some(record.throughput.messages_per_second)
    }),
    ("brokermark_client_cores", "gauge", "", "Cores busy with the load generator.", |record| {
        Some(record.client.cores_used)
    }),
    ("brokermark_broker_cores", "gauge", "", "Cores busy with the broker's processes.", |record| {
        record.broker_usage.as_ref()?.cores_used
    }),
    ("brokermark_valid", "gauge", "", "1 if no reason speaks against the figures.", |record| {
        Some(if record.verdict.valid { 1.0 } else { 0.0 })
    }),
];

/// A latency's name in a record and in the metrics, and what it is.
const LATENCIES: [(&str, &str, &str); 4] = [
    ("response", "brokermark_response_seconds", "From when a message was due to its acknowledgement."),
    ("service", "brokermark_service_seconds", "From sending a message to its acknowledgement."),
    ("schedule_delay", "brokermark_schedule_delay_seconds", "From when a message was due to sending it."),
    ("end_to_end", "brokermark_end_to_end_seconds", "From when a message was due to its arrival at a consumer."),
];

/// The records' figures, each with the run, the point and the trial that it is of.
pub fn text(records: &[&Record]) -> String {
    let identities: Vec<[String; 4]> = records.iter().map(|record| identity(record)).collect();
    let labels = |index: usize| {
        let [scenario, run, point, trial] = &identities[index];
        [("scenario", scenario.as_str()), ("run", run), ("point", point), ("trial", trial)]
    };
    let mut text = Text::default();
    for (name, kind, unit, help, value) in METRICS {
        let values: Vec<(usize, f64)> =
            records.iter().enumerate().filter_map(|(index, record)| Some((index, value(record)?))).collect();
        if values.is_empty() {
            continue;
        }
        text.metric(name, kind, unit, help);
        values.into_iter().for_each(|(index, value)| text.sample(name, suffix(kind), &labels(index), value));
    }
    for (latency, name, help) in LATENCIES {
        let found: Vec<(usize, Option<&str>, Buckets)> = records
            .iter()
            .enumerate()
            .flat_map(|(index, record)| {
                record.latency.apart(latency).into_iter().map(move |(group, latency)| (index, group, latency))
            })
            .filter_map(|(index, group, latency)| {
                let latency = latency?;
                let mut buckets = Buckets::default();
                buckets.add(&latency.decode_histogram().ok()?, latency.beyond_range);
                Some((index, group, buckets))
            })
            .collect();
        if !found.is_empty() {
            text.metric(name, "histogram", "seconds", help);
        }
        for (index, group, buckets) in &found {
            let group = group.map(|group| ("group", group));
            let labels: Vec<(&str, &str)> = labels(*index).into_iter().chain(group).collect();
            text.buckets(name, &labels, buckets);
        }
    }
    text.finish()
}

fn identity(record: &Record) -> [String; 4] {
    [record.scenario_name.clone(), record.run_id.clone(), record.point_index.to_string(), record.trial.to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    /// What the specification asks of the order of lines: metadata first, then the metric's samples, each metric once.
    #[test]
    fn open_metrics_samples_follow_their_metadata() {
        let (one, two) = (sample::record(), Record { trial: 2, ..sample::record() });
        let text = text(&[&one, &two]);
        assert!(text.ends_with("# EOF\n"));
        let (mut metric, mut seen) = (String::new(), Vec::new());
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                metric = rest.split(' ').next().unwrap().to_owned();
                assert!(!seen.contains(&metric), "{metric} twice");
                seen.push(metric.clone());
            }
            assert!(line.starts_with(&metric) || line.starts_with("# ") && line.contains(&metric), "{line}");
        }
        assert_eq!(seen.len(), METRICS.len() - 3 + LATENCIES.len(), "{seen:?}");
        let labels =
            "{scenario=\"orders-sustained\",run=\"orders-sustained-20260301T120000Z-4f2a\",point=\"0\",trial=\"2\"}";
        assert!(text.contains(&format!("brokermark_messages_acknowledged_total{labels} 499996\n")), "{text}");
        assert!(text.contains("brokermark_expected_messages_per_second{"), "{text}");
    }

    #[test]
    fn buckets_count_what_is_not_above_their_end() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000_000_000, 3).unwrap();
        for (value_ns, count) in [(40_000, 1), (900_000, 2), (3_000_000, 4), (200_000_000_000, 8)] {
            histogram.record_n(value_ns, count).unwrap();
        }
        let mut buckets = Buckets::default();
        buckets.add(&histogram, 16);
        let mut text = Text::default();
        text.buckets("x", &[("a", "b\"c")], &buckets);
        let text = text.finish();
        for line in [
            "x_bucket{a=\"b\\\"c\",le=\"5e-5\"} 1",
            "x_bucket{a=\"b\\\"c\",le=\"0.001\"} 3",
            "x_bucket{a=\"b\\\"c\",le=\"0.005\"} 7",
            "x_bucket{a=\"b\\\"c\",le=\"120.0\"} 7",
            "x_bucket{a=\"b\\\"c\",le=\"+Inf\"} 31",
            "x_count{a=\"b\\\"c\"} 31",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
